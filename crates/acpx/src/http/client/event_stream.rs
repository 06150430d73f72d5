//! Events of a response body. The parser buffers an event until it is complete, so its length is bounded here.

use std::error::Error;
use std::io;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http_body_util::BodyExt;
use hyper::body::Body;
use sse_stream::{Sse, SseStream};

/// Why an event stream ended.
pub(crate) type EventError = sse_stream::Error;

/// An event is longer than any message may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is too long")]
pub(crate) struct EventTooLong;

/// The events of a body. One with more bytes than `longest` is an error.
pub(crate) fn events<B>(body: B, longest: usize) -> impl Stream<Item = Result<Sse, EventError>>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut length = EventLength::default();
    let bytes = body.into_data_stream().map(move |chunk| {
        let chunk = chunk.map_err(io::Error::other)?;
        if length.add(&chunk) > longest {
            return Err(io::Error::other(EventTooLong));
        }
        Ok(chunk)
    });
    SseStream::from_bytes_stream(bytes)
}

/// The error of the body, or of its length, behind an error of the stream.
pub(crate) fn body_error(error: &EventError) -> Option<&(dyn Error + Send + Sync + 'static)> {
    let EventError::Body(error) = error else { return None };
    error.downcast_ref::<io::Error>()?.get_ref()
}

/// Number of bytes in the current event.
#[derive(Default)]
struct EventLength {
    event: usize,
    line: usize,
}

impl EventLength {
    /// Counts bytes; returns the length of the longest event that is incomplete after any of them.
    fn add(&mut self, bytes: &[u8]) -> usize {
        let mut longest = 0;
        for byte in bytes {
            match byte {
                b'\r' => {}
                b'\n' if self.line == 0 => self.event = 0,
                b'\n' => self.line = 0,
                _ => {
                    self.line += 1;
                    self.event += 1;
                    longest = longest.max(self.event);
                }
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    /// The data of the events in these chunks, and the error that ended them.
    async fn read(chunks: Vec<&[u8]>, longest: usize) -> (Vec<String>, Option<String>) {
        let chunks =
            chunks.into_iter().map(|chunk| Ok::<_, io::Error>(Frame::data(Bytes::copy_from_slice(chunk))));
        let mut events = std::pin::pin!(events(StreamBody::new(futures_util::stream::iter(chunks)), longest));
        let mut data = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => data.extend(event.data),
                Err(error) => return (data, Some(error.to_string())),
            }
        }
        (data, None)
    }

    #[tokio::test]
    async fn events_are_whole_however_their_bytes_come() {
        let stream = b"data: {\"a\":1}\n\n:\n\nevent: message\r\ndata:{\ndata: }\r\nid: 7\r\n\r\ndata: half";
        for size in 1..stream.len() {
            let read = read(stream.chunks(size).collect(), 100).await;
            assert_eq!(read, (vec!["{\"a\":1}".to_owned(), "{\n}".to_owned()], None), "{size}");
        }
    }

    #[tokio::test]
    async fn invalid_utf8_or_endless_event_is_an_error() {
        let (events, error) = read(vec![b"data: a\n\n", b"data: \xff\n\n"], 100).await;
        assert!(events == ["a"] && error.as_ref().is_some_and(|error| error.contains("utf8")), "{error:?}");
        let line = [b"data: ".as_slice(), &[b'x'; 45]].concat();
        let (events, error) = read(vec![b"data: a\n\n", &line, b"\n", &line], 100).await;
        assert_eq!(events, ["a"]);
        assert_eq!(error.as_deref(), Some("body error: an event is too long"));
    }

    #[test]
    fn events_are_bounded_one_by_one() {
        let mut length = EventLength::default();
        for _ in 0..4 {
            assert_eq!(length.add(&[b'x'; 51]), 51);
            assert_eq!(length.add(b"\r\n\r\n"), 0);
        }
        assert_eq!(length.add(&[b'x'; 51]), 51);
        assert_eq!(length.add(b"\n"), 0, "a line is not an event");
        assert_eq!(length.add(&[b'x'; 51]), 102);
    }
}
