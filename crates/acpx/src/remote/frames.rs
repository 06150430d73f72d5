//! Lines as the frames of a WebSocket, one message a text frame: what both ends of one have in common.
//!
//! Each end asks the other from time to time whether it is there, and takes one for gone that says nothing for long.
//! A long message that comes slowly is no silence.

use std::time::Duration;

use acpx_core::wire::Incoming;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::bounds::{Load, Weighed};
use super::{as_line, longest_line};

/// How often the other end is asked whether it is there.
const PING: Duration = Duration::from_secs(20);
/// How long nothing may come from it, its answers to that included.
pub(crate) const SILENCE: Duration = Duration::from_mins(1);
/// How long it may leave what it is told unread.
const SLOW: Duration = Duration::from_secs(30);

/// A WebSocket whose bytes are counted.
pub(crate) type Socket<S> = WebSocketStream<Weighed<S>>;

/// What came next.
#[derive(Debug)]
pub(crate) enum Heard {
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
pub(crate) enum Unsaid {
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

/// Waits for what comes next.
pub(crate) async fn hear<S>(source: &mut SplitStream<Socket<S>>, load: &Load) -> Heard
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let due = load.heard() + SILENCE;
        let frame = tokio::select! {
            frame = source.next() => frame,
            () = sleep_until(due) => {
                if load.heard() + SILENCE <= Instant::now() {
                    return Heard::Silence;
                }
                continue;
            }
        };
        match frame {
            Some(Ok(Message::Text(text))) => return Heard::Line(as_line(&text)),
            Some(Ok(Message::Binary(_))) => return Heard::Binary,
            Some(Ok(Message::Close(close))) => return Heard::Closed(close),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => load.clear(),
            Some(Err(error)) => return Heard::Broken(Some(error)),
            None => return Heard::Broken(None),
        }
    }
}

/// Says what comes in, to its end.
pub(crate) async fn say<S>(sink: &mut SplitSink<Socket<S>, Message>, incoming: &mut Incoming) -> Unsaid
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut pings = interval_at(Instant::now() + PING, PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let frame = tokio::select! {
            inbound = incoming.recv() => match inbound {
                Some(inbound) => Message::text(inbound.message().line().as_ref()),
                None => return Unsaid::Over,
            },
            _ = pings.tick() => Message::Ping(bytes::Bytes::new()),
        };
        match timeout(SLOW, sink.send(frame)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Unsaid::Gone(error),
            Err(_) => return Unsaid::Slow,
        }
    }
}
