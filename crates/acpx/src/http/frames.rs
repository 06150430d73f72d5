//! Lines as the frames of a WebSocket, one message a text frame: what both ends of one have in common.
//!
//! Each end asks the other from time to time whether it is there, and takes one for gone that says nothing for long.
//! A long message that comes slowly is no silence.

use std::time::Duration;

use acpx_core::wire::InboundStream;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::bounds::{MeteredStream, ReceiveBudget};
use super::{as_line, longest_line};

/// How often the other end is asked whether it is there.
const PING: Duration = Duration::from_secs(20);
/// How long nothing may come from it, its answers to that included.
pub(crate) const SILENCE: Duration = Duration::from_mins(1);
/// How long it may leave what it is told unread. Whoever reads a long message slowly reads.
const SLOW: Duration = Duration::from_secs(30);
/// How long a frame of a client is beside its payload, if it is a short one: its head and its mask.
pub(crate) const FROM_CLIENT: usize = 6;
/// And one of a server, which has no mask.
pub(crate) const FROM_SERVER: usize = 2;

/// A WebSocket whose bytes are counted.
pub(crate) type Socket<S> = WebSocketStream<MeteredStream<S>>;

/// What came next.
#[derive(Debug)]
pub(crate) enum FrameEvent {
    /// A message.
    Line(String),
    /// The other end says that it goes.
    Closed(Option<CloseFrame>),
    /// A frame that is no text.
    Binary,
    /// Nothing, for too long.
    Silence,
    /// Something that is no frame; nothing, if the other end is gone.
    Broken(Option<Error>),
}

/// Why no more is said.
#[derive(Debug)]
pub(crate) enum FrameSendError {
    /// There is no more.
    Over,
    /// The other end does not read.
    Slow,
    /// The other end is gone.
    Gone(Error),
}

/// The bounds of a WebSocket: a message is a line, and a line may be in one frame.
pub(crate) fn config() -> WebSocketConfig {
    let longest = Some(longest_line());
    WebSocketConfig::default().max_message_size(longest).max_frame_size(longest)
}

/// Waits for what comes next from the other end, whose short frames are so much longer than their payload.
///
/// The frames that only say that it is there may come between the pieces of a message, so no more than their own bytes
/// is taken off the load.
pub(crate) async fn hear<S>(
    source: &mut SplitStream<Socket<S>>,
    load: &ReceiveBudget,
    head: usize,
) -> FrameEvent
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let due = load.heard() + SILENCE;
        // What waits to be read is no silence, however late it is read.
        let frame = tokio::select! {
            biased;
            frame = source.next() => frame,
            () = sleep_until(due) => {
                if load.heard() + SILENCE <= Instant::now() {
                    return FrameEvent::Silence;
                }
                continue;
            }
        };
        match frame {
            Some(Ok(Message::Text(text))) => return FrameEvent::Line(as_line(&text)),
            Some(Ok(Message::Binary(_))) => return FrameEvent::Binary,
            Some(Ok(Message::Close(close))) => return FrameEvent::Closed(close),
            Some(Ok(Message::Ping(payload) | Message::Pong(payload))) => load.remove(payload.len() + head),
            // A frame as such is never heard: it is a part of a message.
            Some(Ok(Message::Frame(_))) => {}
            Some(Err(error)) => return FrameEvent::Broken(Some(error)),
            None => return FrameEvent::Broken(None),
        }
    }
}

/// Says what comes in, to its end.
pub(crate) async fn say<S>(
    sink: &mut SplitSink<Socket<S>, Message>,
    incoming: &mut InboundStream,
    load: &ReceiveBudget,
) -> FrameSendError
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut pings = interval_at(Instant::now() + PING, PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let frame = tokio::select! {
            inbound = incoming.recv() => match inbound {
                Some(inbound) => Message::text(inbound.message().line().as_ref()),
                None => return FrameSendError::Over,
            },
            _ = pings.tick() => Message::Ping(bytes::Bytes::new()),
        };
        match send(sink, frame, load).await {
            Some(Ok(())) => {}
            Some(Err(error)) => return FrameSendError::Gone(error),
            None => return FrameSendError::Slow,
        }
    }
}

/// Sends a frame, however long that takes; `None` if nothing more of it can be written.
async fn send<S>(
    sink: &mut SplitSink<Socket<S>, Message>,
    frame: Message,
    load: &ReceiveBudget,
) -> Option<Result<(), Error>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut sending = std::pin::pin!(sink.send(frame));
    let mut is_long = false;
    loop {
        let written = load.written();
        let sent = timeout(SLOW, &mut sending).await;
        // The question whether the other end is there waits behind a long frame; who reads the frame is.
        is_long |= sent.is_err();
        if is_long && load.written() > written {
            load.is_there();
        }
        match sent {
            Ok(sent) => return Some(sent),
            Err(_) if load.written() == written => return None,
            Err(_) => {}
        }
    }
}
