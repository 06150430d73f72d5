//! Sends and receives lines as WebSocket text frames; used by both the server and the client.
//!
//! Each side pings the other periodically and closes a connection that stays silent. Partial progress of a long message
//! counts as activity.

use std::sync::Arc;
use std::time::Duration;

use acpx_core::wire::InboundStream;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::limits::ReceiveBudget;
use super::observed_stream::ObservedStream;
use super::{as_line, longest_line};

/// Interval of pings.
const PING: Duration = Duration::from_secs(20);
/// How long nothing may arrive, not even a pong.
pub(crate) const SILENCE: Duration = Duration::from_mins(1);
/// How long a write may make no progress. A slow reader of a long message makes progress.
const SLOW: Duration = Duration::from_secs(30);
/// Overhead of a short frame from a client: header and mask.
pub(crate) const FROM_CLIENT: usize = 6;
/// Overhead of a short frame from a server, which has no mask.
pub(crate) const FROM_SERVER: usize = 2;

/// A WebSocket whose bytes are counted.
pub(crate) type Socket<S> = WebSocketStream<ObservedStream<S, Arc<ReceiveBudget>>>;

/// The next event of a WebSocket.
#[derive(Debug)]
pub(crate) enum FrameEvent {
    /// A message.
    Line(String),
    /// The other side sent a close frame.
    Closed(Option<CloseFrame>),
    /// A binary frame.
    Binary,
    /// Nothing arrived for too long.
    Silence,
    /// A protocol or I/O error; `None` if the stream ended.
    Broken(Option<Error>),
}

/// Why sending ended.
#[derive(Debug)]
pub(crate) enum FrameSendError {
    /// There is nothing more to send.
    Over,
    /// The other side does not read.
    Slow,
    /// The other side disconnected.
    Gone(Error),
}

/// WebSocket limits: a message is at most one line long, and may be a single frame.
pub(crate) fn config() -> WebSocketConfig {
    let longest = Some(longest_line());
    WebSocketConfig::default().max_message_size(longest).max_frame_size(longest)
}

/// Waits for the next event. `head` is the frame overhead of the other side's short frames.
///
/// Pings and pongs may arrive between the fragments of a message, so only their own bytes are returned to the budget.
pub(crate) async fn receive<S>(
    source: &mut SplitStream<Socket<S>>,
    load: &ReceiveBudget,
    head: usize,
) -> FrameEvent
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let due = load.received_at() + SILENCE;
        // Data that is ready to be read counts as activity, even if it is read late.
        let frame = tokio::select! {
            biased;
            frame = source.next() => frame,
            () = sleep_until(due) => {
                if load.received_at() + SILENCE <= Instant::now() {
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
            // Raw frames are never returned by a read.
            Some(Ok(Message::Frame(_))) => {}
            Some(Err(error)) => return FrameEvent::Broken(Some(error)),
            None => return FrameEvent::Broken(None),
        }
    }
}

/// Sends all incoming messages, and pings between them, until there are none left.
pub(crate) async fn send_all<S>(
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

/// Sends a frame; `None` if writing makes no progress for too long.
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
        // A ping waits behind a long frame, so progress on the frame counts as a sign of life.
        is_long |= sent.is_err();
        if is_long && load.written() > written {
            load.note_activity();
        }
        match sent {
            Ok(sent) => return Some(sent),
            Err(_) if load.written() == written => return None,
            Err(_) => {}
        }
    }
}
