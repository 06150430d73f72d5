//! Deadlines of a socket: for the client's first bytes, and for stalled writes.
//!
//! hyper bounds neither: it runs no timer until it knows the HTTP version, and it waits for a blocked response without
//! limit.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use super::observed_stream::StreamObserver;

/// Number of bytes that decide the HTTP version.
const FIRST_BYTES: usize = 24;

/// The deadlines of a stream.
pub(crate) struct StreamDeadlines {
    limit: Duration,
    /// How many of the first bytes are missing, and their deadline.
    first: Option<(usize, Pin<Box<Sleep>>)>,
    /// Deadline of a blocked write.
    stall: Option<Pin<Box<Sleep>>>,
}

impl StreamDeadlines {
    /// `limit` bounds the wait for the first bytes and each stalled write.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, first: Some((FIRST_BYTES, Box::pin(sleep(limit)))), stall: None }
    }
}

impl StreamObserver for StreamDeadlines {
    fn on_read(
        &mut self,
        read: Poll<io::Result<()>>,
        bytes: usize,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let Some((missing, due)) = &mut self.first else { return read };
        if read.is_pending() {
            ready!(due.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        *missing = missing.saturating_sub(bytes);
        if *missing == 0 {
            self.first = None;
        }
        read
    }

    fn on_write(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stall = None;
            return written;
        }
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(self.limit)));
        ready!(stall.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::super::observed_stream::ObservedStream;
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn client_that_sends_too_few_first_bytes_times_out() {
        for sent in ["", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n"] {
            let (near, mut far) = duplex(1024);
            let mut near = ObservedStream::new(near, StreamDeadlines::new(LIMIT));
            far.write_all(sent.as_bytes()).await.unwrap();
            let began = Instant::now();
            let mut received = Vec::new();
            let error = near.read_to_end(&mut received).await.unwrap_err();
            assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, LIMIT), "{sent}");
            assert_eq!(received, sent.as_bytes());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn client_may_be_silent_after_its_first_bytes() {
        let (near, mut far) = duplex(1024);
        let mut near = ObservedStream::new(near, StreamDeadlines::new(LIMIT));
        far.write_all(&[b'x'; FIRST_BYTES]).await.unwrap();
        near.read_exact(&mut [0; FIRST_BYTES]).await.unwrap();
        let silence = tokio::time::timeout(LIMIT * 10, near.read_u8()).await;
        assert!(silence.is_err(), "{silence:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_write_times_out_and_a_late_reader_does_not() {
        let (near, mut far) = duplex(8);
        let mut near = ObservedStream::new(near, StreamDeadlines::new(LIMIT));
        near.write_all(&[0; 8]).await.unwrap();
        let late = async {
            tokio::time::sleep(LIMIT / 2).await;
            far.read_exact(&mut [0; 8]).await.unwrap();
        };
        let (written, ()) = tokio::join!(near.write_all(&[0; 8]), late);
        written.unwrap();
        let began = Instant::now();
        let error = near.write_all(&[0; 8]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, LIMIT));
    }
}
