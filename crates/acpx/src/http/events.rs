//! Response bodies: a complete text, or an event stream that lasts as long as its connection.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::streams::SessionStreamReader;

/// Interval of keep-alive comments on an idle stream, which keep proxies from closing it and reveal dead clients.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The body of a response.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    /// The complete text, sent once.
    Whole(Option<Bytes>),
    /// One event for each line.
    Events(SessionStreamReader, Interval),
}

impl ResponseBody {
    /// A body with this text.
    pub(crate) fn text(text: impl Into<Bytes>) -> Self {
        Self::Whole(Some(text.into()).filter(|text: &Bytes| !text.is_empty()))
    }

    /// A body that sends the lines of a stream as events.
    pub(crate) fn events(reader: SessionStreamReader) -> Self {
        let mut silence = interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        silence.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self::Events(reader, silence)
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = |bytes: Bytes| Ok(Frame::data(bytes));
        match &mut *self {
            Self::Whole(text) => Poll::Ready(text.take().map(frame)),
            Self::Events(reader, silence) => {
                if let Poll::Ready(line) = reader.poll(context) {
                    silence.reset();
                    return Poll::Ready(line.map(|line| frame(format!("data: {line}\n\n").into())));
                }
                silence.poll_tick(context).map(|_| Some(frame(Bytes::from_static(b":\n\n"))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            Self::Events(..) => SizeHint::default(),
        }
    }
}
