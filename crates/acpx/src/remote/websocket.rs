//! A client on a WebSocket: one message a text frame, in both directions.
//!
//! Whoever does not read, and whoever is not there any more, is dropped. What it missed it finds by its cursor.

use std::sync::Arc;
use std::time::Duration;

use acpx_core::wire::{Incoming, Message, Peer};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Utf8Bytes};

use super::events::Reply;
use super::filter::{self, Allowance, Verdict};
use super::refusal::Refusal;
use super::server::{Joined, Server};
use super::{CONNECTION, as_line, longest_line};

/// How often a client is asked whether it is there.
const PING: Duration = Duration::from_secs(20);
/// How long nothing may come from it, its answers to that included.
const SILENCE: Duration = Duration::from_mins(1);
/// How long it may leave what it is told unread.
const SLOW: Duration = Duration::from_secs(30);
/// How long the last words may take.
const FAREWELL: Duration = Duration::from_secs(2);
/// How many refusals wait to be told.
const REFUSALS: usize = 16;

type Socket<S> = WebSocketStream<S>;

/// Whether a request wants to become a WebSocket.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(header::UPGRADE).and_then(|value| value.to_str().ok());
    upgrade.is_some_and(|upgrade| upgrade.eq_ignore_ascii_case("websocket"))
}

/// Makes a WebSocket of a request, and serves it.
pub(super) fn upgrade<B: Send + 'static>(
    server: &Arc<Server>,
    token: Option<String>,
    request: Request<B>,
) -> Result<Response<Reply>, Refusal> {
    let response = create_response_with_body(&request, || Reply::text(""));
    let mut response = response.map_err(|error| Refusal::WebSocket(error.to_string()))?;
    let joined = server.join().ok_or(Refusal::Full)?;
    let id = HeaderValue::from_str(&uuid::Uuid::now_v7().to_string()).expect("a UUID is ASCII");
    response.headers_mut().insert(CONNECTION, id);
    let server = Arc::clone(server);
    tokio::spawn(async move {
        let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
        let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config()));
        serve(socket.await, joined, &server, token.as_deref()).await;
    });
    Ok(response)
}

/// The bounds of a WebSocket: a message is a line, and a line may be in one frame.
pub(super) fn config() -> WebSocketConfig {
    let longest = Some(longest_line());
    WebSocketConfig::default().max_message_size(longest).max_frame_size(longest)
}

async fn serve<S>(socket: Socket<S>, joined: Joined, server: &Server, token: Option<&str>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let Joined { peer, incoming, place: _place } = joined;
    let (mut sink, source) = socket.split();
    let (refuse, refusals) = mpsc::channel(REFUSALS);
    let why = tokio::select! {
        why = hear(source, &peer, &refuse, server.allowance) => why,
        why = tell(&mut sink, incoming, refusals) => why,
        () = server.unwelcome(token) => Why::Unwelcome,
    };
    let Some((code, reason)) = why.words() else { return };
    let close = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
    // It may be gone by now.
    drop(timeout(FAREWELL, sink.send(tungstenite::Message::Close(Some(close)))).await);
}

/// Why a client is served no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// It is gone, or cannot be talked to.
    Gone,
    Silent,
    Slow,
    Unwelcome,
    /// The bridge has ended: there is no host, and cannot be.
    NoHost,
}

impl Why {
    fn words(self) -> Option<(CloseCode, &'static str)> {
        match self {
            Self::Gone => None,
            Self::Silent => Some((CloseCode::Policy, "nothing was heard for too long")),
            Self::Slow => Some((CloseCode::Policy, "what was told was not read")),
            Self::Unwelcome => Some((CloseCode::Away, "the server stops, or the token was revoked")),
            Self::NoHost => Some((CloseCode::Error, "the host cannot be reached")),
        }
    }
}

/// Passes on what the client says.
async fn hear<S>(
    mut source: SplitStream<Socket<S>>,
    peer: &Peer,
    refuse: &mpsc::Sender<String>,
    allowance: Allowance,
) -> Why
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let frame = match timeout(SILENCE, source.next()).await {
            Err(_) => return Why::Silent,
            Ok(None | Some(Err(_))) => return Why::Gone,
            Ok(Some(Ok(frame))) => frame,
        };
        let line = match frame {
            tungstenite::Message::Text(text) => as_line(&text),
            tungstenite::Message::Close(_) => return Why::Gone,
            _ => continue,
        };
        let verdict = match Message::parse(line.as_str()) {
            Ok(message) => filter::judge(&message, allowance),
            // What is no message is none to the bridge either, which counts it and says what there is to say.
            Err(_) => Verdict::Passes(line),
        };
        let passed = match verdict {
            Verdict::Passes(line) => peer.send(line).await.is_ok(),
            Verdict::Refused(_, answer) => refuse.send(answer).await.is_ok(),
            Verdict::Dropped => true,
        };
        if !passed {
            return Why::NoHost;
        }
    }
}

/// Tells the client what the host says.
async fn tell<S>(
    sink: &mut SplitSink<Socket<S>, tungstenite::Message>,
    mut incoming: Incoming,
    mut refusals: mpsc::Receiver<String>,
) -> Why
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut pings = interval_at(Instant::now() + PING, PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let frame = tokio::select! {
            inbound = incoming.recv() => match inbound {
                Some(inbound) => tungstenite::Message::text(inbound.message().line().as_ref()),
                None => return Why::NoHost,
            },
            Some(answer) = refusals.recv() => tungstenite::Message::text(answer),
            _ = pings.tick() => tungstenite::Message::Ping(bytes::Bytes::new()),
        };
        match timeout(SLOW, sink.send(frame)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Why::Gone,
            Err(_) => return Why::Slow,
        }
    }
}

#[cfg(test)]
mod tests {
    use acpx_core::wire::{Limits, memory};

    use super::*;

    /// A server's end and the far end of its stream.
    async fn socket() -> (Socket<tokio::io::DuplexStream>, tokio::io::DuplexStream) {
        let (near, far) = tokio::io::duplex(1024);
        (WebSocketStream::from_raw_socket(near, Role::Server, Some(config())).await, far)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_dropped() {
        let (socket, _unread) = socket().await;
        let (mut sink, _source) = socket.split();
        let ((host, _), (_, incoming)) = memory(Limits::default());
        let telling = tokio::spawn(async move {
            let line = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, "x".repeat(4096));
            while host.send(line.clone()).await.is_ok() {}
        });
        let (_refuse, refusals) = mpsc::channel(REFUSALS);
        assert_eq!(tell(&mut sink, incoming, refusals).await, Why::Slow);
        telling.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_and_answers_nothing_is_dropped() {
        let (socket, _silent) = socket().await;
        let (_sink, source) = socket.split();
        let ((host, _incoming), _other) = memory(Limits::default());
        let (refuse, _refusals) = mpsc::channel(REFUSALS);
        let began = Instant::now();
        assert_eq!(hear(source, &host, &refuse, Allowance::default()).await, Why::Silent);
        assert_eq!(began.elapsed(), SILENCE);
    }
}
