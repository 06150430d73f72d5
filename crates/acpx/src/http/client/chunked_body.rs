//! A request body that is handed out in chunks, so that progress is observable. A long message may take long on a slow
//! connection; only one without progress is given up.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::timeout;

/// Size of a chunk.
const PIECE: usize = 16 * 1024;
/// Size of the write buffer behind the body.
pub(super) const WAITING: usize = 64 * 1024;

/// A body that is handed out in chunks.
#[derive(Debug)]
pub(super) struct ChunkedBody {
    left: Bytes,
    taken: BodyProgress,
}

/// How much of a body was consumed.
#[derive(Debug, Clone, Default)]
pub(super) struct BodyProgress(Arc<AtomicU64>);

impl ChunkedBody {
    pub(super) fn new(body: impl Into<Bytes>) -> Self {
        Self { left: body.into(), taken: BodyProgress::default() }
    }

    pub(super) fn taken(&self) -> BodyProgress {
        self.taken.clone()
    }
}

impl BodyProgress {
    /// Awaits `work`; `None` if for `limit` it neither completes nor consumes more of the body.
    pub(super) async fn while_moving<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            let before = self.0.load(Ordering::Relaxed);
            match timeout(limit, &mut work).await {
                Ok(done) => return Some(done),
                Err(_) if self.0.load(Ordering::Relaxed) > before => {}
                Err(_) => return None,
            }
        }
    }
}

impl Body for ChunkedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.left.len().min(PIECE);
        let piece = self.left.split_to(length);
        self.taken.0.fetch_add(length as u64, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn chunked_body_is_complete_and_has_its_length() {
        for length in [0, 1, PIECE, 2 * PIECE + 1] {
            let body = ChunkedBody::new(vec![b'x'; length]);
            assert_eq!(body.size_hint().exact(), Some(length as u64));
            let taken = body.taken();
            assert_eq!(body.collect().await.unwrap().to_bytes(), vec![b'x'; length]);
            assert_eq!(taken.0.load(Ordering::Relaxed), length as u64);
        }
    }
}
