//! Server side of ACP over a WebSocket: one message per text frame, in both directions.
//!
//! A client that does not read or stays silent is disconnected with a close frame that gives the reason. It catches up
//! from its cursor when it reconnects.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use acpx_core::wire::Peer;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::response::Response;
use futures_util::stream::SplitStream;
use futures_util::{SinkExt, StreamExt};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::CONNECTION;
use super::frames::{self, FROM_CLIENT, FrameEvent, FrameSendError, Socket, config};
use super::limits::ReceiveBudget;
use super::observed_stream::ObservedStream;
use super::refusal::HttpRefusal;
use super::server::{Caller, Disconnect, HostLink, HttpServer};
use super::subprotocol::{self, ACP_V1};

/// Timeout of sending the close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether a request asks for an upgrade to a WebSocket.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(header::UPGRADE).and_then(|value| value.to_str().ok());
    upgrade.is_some_and(|upgrade| upgrade.eq_ignore_ascii_case("websocket"))
}

/// Upgrades a request to a WebSocket and spawns a task that serves it.
///
/// tungstenite checks the handshake. axum's own extractor hides the byte stream, so that the bytes of unfinished messages
/// could not be counted, and the kind of an error, which decides the close code.
pub(crate) async fn upgrade(
    server: &Arc<HttpServer>,
    caller: Caller,
    request: Request,
) -> Result<Response, HttpRefusal> {
    let response = create_response_with_body(&request, Body::empty);
    let mut response = response.map_err(|error| HttpRefusal::WebSocket(error.to_string()))?;
    let link = server.join(&caller).await?;
    let id = HeaderValue::from_str(&acpx_core::wire::new_uuid().to_string()).expect("a UUID is ASCII");
    response.headers_mut().insert(CONNECTION, id);
    if subprotocol::offers_acp(request.headers()) {
        let selected = HeaderValue::from_static(ACP_V1);
        response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, selected);
    }
    let serving = Arc::clone(server);
    server.spawn(async move {
        let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
        let load = serving.load();
        let stream = ObservedStream::new(TokioIo::new(upgraded), Arc::clone(&load));
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config())).await;
        serve(socket, &load, link, &serving, caller.token.as_deref()).await;
    });
    Ok(response)
}

async fn serve<S>(
    socket: Socket<S>,
    load: &ReceiveBudget,
    link: HostLink,
    server: &HttpServer,
    token: Option<&str>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let HostLink { peer, mut incoming, admission: _admission } = link;
    let (mut sink, source) = socket.split();
    let note_use = || token.into_iter().for_each(|token| server.note_use(token));
    let why = tokio::select! {
        why = forward(source, &peer, load, note_use) => why,
        send_error = frames::send_all(&mut sink, &mut incoming, load) => match send_error {
            FrameSendError::Over => CloseReason::NoHost,
            FrameSendError::Slow => CloseReason::Slow,
            FrameSendError::Gone(_) => CloseReason::Gone,
        },
        why = server.must_disconnect(token) => match why {
            Disconnect::ServerStops => CloseReason::ServerStops,
            Disconnect::SignedOut => CloseReason::SignedOut,
        },
    };
    let closing = async {
        match why.words() {
            Some((code, reason)) => {
                let close = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
                sink.send(Message::Close(Some(close))).await
            }
            // tungstenite has queued the reply to the client's close frame; flush it.
            None => sink.flush().await,
        }
    };
    // The client may be unreachable by now.
    drop(timeout(CLOSE_TIMEOUT, closing).await);
}

/// Why the server stops serving a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CloseReason {
    /// It disconnected or cannot be reached.
    Gone,
    Silent,
    Slow,
    ServerStops,
    /// Its token was revoked, or it has none and now needs one.
    SignedOut,
    /// The bridge has ended because no host could be reached.
    NoHost,
    /// It sent invalid frames.
    NoFrames,
    NoText,
    BadText,
    TooLong,
    /// The server's receive budget is exhausted.
    Full,
}

impl CloseReason {
    /// The reason that fits an error of the WebSocket.
    fn of(error: &Error) -> Self {
        match error {
            Error::Utf8(_) => Self::BadText,
            Error::Capacity(_) => Self::TooLong,
            Error::Protocol(_) => Self::NoFrames,
            Error::Io(error) if error.kind() == io::ErrorKind::OutOfMemory => Self::Full,
            _ => Self::Gone,
        }
    }

    fn words(self) -> Option<(CloseCode, &'static str)> {
        match self {
            Self::Gone => None,
            Self::Silent => Some((CloseCode::Policy, "nothing was received for too long")),
            Self::Slow => Some((CloseCode::Policy, "the client does not read")),
            Self::ServerStops => Some((CloseCode::Away, "the server stops")),
            Self::SignedOut => Some((CloseCode::Policy, "signed out")),
            Self::NoHost => Some((CloseCode::Error, "the host cannot be reached")),
            Self::NoFrames => Some((CloseCode::Protocol, "invalid frame")),
            Self::NoText => Some((CloseCode::Unsupported, "messages are text")),
            Self::BadText => Some((CloseCode::Invalid, "invalid UTF-8")),
            Self::TooLong => Some((CloseCode::Size, "the message is too long")),
            Self::Full => Some((CloseCode::Again, "there is no room for the message now")),
        }
    }
}

/// Forwards the client's messages. Malformed ones are forwarded too; the bridge counts them and replies.
async fn forward<S>(
    mut source: SplitStream<Socket<S>>,
    peer: &Peer,
    load: &ReceiveBudget,
    on_line: impl Fn(),
) -> CloseReason
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let line = match frames::receive(&mut source, load, FROM_CLIENT).await {
            FrameEvent::Line(line) => line,
            FrameEvent::Silence => return CloseReason::Silent,
            FrameEvent::Binary => return CloseReason::NoText,
            FrameEvent::Closed(_) | FrameEvent::Broken(None) => return CloseReason::Gone,
            FrameEvent::Broken(Some(error)) => return CloseReason::of(&error),
        };
        on_line();
        if peer.send(line).await.is_err() {
            return CloseReason::NoHost;
        }
        load.clear();
    }
}

#[cfg(test)]
mod tests {
    use acpx_core::wire::{WireLimits, memory};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Semaphore;
    use tokio::time::Instant;

    use super::super::frames::SILENCE;
    use super::*;

    /// The server's end of a socket with this receive budget, and the other end of its stream.
    async fn socket(
        room: usize,
    ) -> (Socket<tokio::io::DuplexStream>, Arc<ReceiveBudget>, tokio::io::DuplexStream) {
        let (near, far) = tokio::io::duplex(1024);
        let load = ReceiveBudget::new(Arc::new(Semaphore::new(room)));
        let stream = ObservedStream::new(near, Arc::clone(&load));
        (WebSocketStream::from_raw_socket(stream, Role::Server, Some(config())).await, load, far)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_dropped() {
        let (socket, load, _unread) = socket(1024).await;
        let (mut sink, _source) = socket.split();
        let ((host, _), (_, mut incoming)) = memory(WireLimits::default());
        let sending = tokio::spawn(async move {
            let line = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, "x".repeat(4096));
            while host.send(line.clone()).await.is_ok() {}
        });
        assert!(matches!(frames::send_all(&mut sink, &mut incoming, &load).await, FrameSendError::Slow));
        drop(incoming);
        sending.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn slow_reader_receives_all_of_a_long_message() {
        let (socket, load, mut far) = socket(1024).await;
        let (mut sink, source) = socket.split();
        let ((host, _), (near, mut incoming)) = memory(WireLimits::default());
        let line = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, "x".repeat(16 * 1024));
        host.send(line.clone()).await.unwrap();
        let reading = async {
            let mut read = vec![0; line.len() + 4];
            for piece in read.chunks_mut(512) {
                tokio::time::sleep(SILENCE / 3).await;
                far.read_exact(piece).await.unwrap();
            }
            read
        };
        let read = tokio::select! {
            read = reading => read,
            send_error = frames::send_all(&mut sink, &mut incoming, &load) => panic!("{send_error:?}"),
            why = forward(source, &near, &load, || {}) => panic!("{why:?}"),
        };
        assert_eq!(&read[4..], line.as_bytes());
    }

    #[tokio::test]
    async fn ping_inside_a_message_releases_only_its_own_bytes() {
        let room = Arc::new(Semaphore::new(1024));
        let (near, mut far) = tokio::io::duplex(1024);
        let load = ReceiveBudget::new(Arc::clone(&room));
        let stream = ObservedStream::new(near, Arc::clone(&load));
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config())).await;
        let (_sink, mut source) = socket.split();
        let piece = [&[0x01, 0x80 | 0x64, 0, 0, 0, 0][..], &[b'x'; 100]].concat();
        let ping = [&[0x89, 0x80 | 7, 0, 0, 0, 0][..], &[b'p'; 7]].concat();
        far.write_all(&[&piece[..], &ping].concat()).await.unwrap();
        {
            let mut receiving = std::pin::pin!(frames::receive(&mut source, &load, FROM_CLIENT));
            let received = futures_util::poll!(&mut receiving);
            assert!(received.is_pending(), "{received:?}");
        }
        assert_eq!(1024 - room.available_permits(), piece.len());
        far.write_all(&[0x80, 0x81, 0, 0, 0, 0, b'y']).await.unwrap();
        let FrameEvent::Line(line) = frames::receive(&mut source, &load, FROM_CLIENT).await else {
            panic!("no line")
        };
        assert_eq!(line, format!("{}y", "x".repeat(100)));
    }

    #[tokio::test(start_paused = true)]
    async fn queued_frame_is_not_silence_after_a_slow_host() {
        for _ in 0..20 {
            let (socket, load, mut far) = socket(1024).await;
            let (_sink, mut source) = socket.split();
            far.write_all(&[0x81, 0x81, 0, 0, 0, 0, b'y']).await.unwrap();
            // The host was slow to accept the previous message.
            tokio::time::advance(SILENCE * 2).await;
            let received = frames::receive(&mut source, &load, FROM_CLIENT).await;
            assert!(matches!(received, FrameEvent::Line(_)), "{received:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_client_is_dropped_and_a_slow_sender_is_not() {
        let (socket, load, mut far) = socket(1024).await;
        let (_sink, source) = socket.split();
        let ((host, _incoming), _other) = memory(WireLimits::default());
        let began = Instant::now();
        let slow = async {
            // A frame announces two bytes, and the second never arrives.
            for byte in [0x81, 0x82, 0, 0, 0] {
                tokio::time::sleep(SILENCE / 2).await;
                far.write_all(&[byte]).await.unwrap();
            }
        };
        let (why, ()) = tokio::join!(forward(source, &host, &load, || {}), slow);
        assert_eq!((why, began.elapsed()), (CloseReason::Silent, SILENCE / 2 * 5 + SILENCE));
    }

    #[tokio::test]
    async fn invalid_frame_closes_with_the_protocols_close_code() {
        let long = [&[0x81, 0xff][..], &u64::MAX.to_be_bytes(), &[0; 4]].concat();
        let cases: [(&str, &[u8], usize, CloseCode); 6] = [
            ("a reserved bit", &[0xc1, 0x80, 0, 0, 0, 0], 1024, CloseCode::Protocol),
            ("not masked", &[0x81, 0x01, b'x'], 1024, CloseCode::Protocol),
            ("no text", &[0x82, 0x80, 0, 0, 0, 0], 1024, CloseCode::Unsupported),
            ("bad text", &[0x81, 0x81, 0, 0, 0, 0, 0xff], 1024, CloseCode::Invalid),
            ("too long", &long, 1024, CloseCode::Size),
            ("no room", &[0x81, 0x80, 0, 0, 0, 0], 5, CloseCode::Again),
        ];
        for (case, bytes, room, code) in cases {
            let (socket, load, mut far) = socket(room).await;
            let (_sink, source) = socket.split();
            let ((host, _incoming), _other) = memory(WireLimits::default());
            far.write_all(bytes).await.unwrap();
            let why = forward(source, &host, &load, || {}).await;
            assert_eq!(why.words().map(|(code, _)| code), Some(code), "{case}");
        }
    }
}
