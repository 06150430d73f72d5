//! A client's connection over HTTP, which outlives single requests: messages of the host wait in its streams.
//!
//! It ends when the client deletes it, stops reading it or leaves it idle, when its token is revoked, and when the
//! server stops.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use acpx_core::sync::Lock;
use acpx_core::wire::{InboundStream, Peer, RpcMessage};
use hyper::header::HeaderValue;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::server::{Admission, HttpServer};
use super::streams::ConnectionStreams;

/// How long a full stream may stay unread.
const SLOW: Duration = Duration::from_secs(30);
/// How long a connection without readers and requests is kept.
const IDLE: Duration = Duration::from_mins(2);
/// How long a connection is kept whose client has sent only `initialize`.
const UNUSED: Duration = Duration::from_secs(15);

/// A client's connection over HTTP.
pub(crate) struct HttpConnection {
    pub(crate) id: String,
    /// The token it was created with; requests must present the same one.
    token: Option<String>,
    pub(crate) peer: Peer,
    streams: Lock<ConnectionStreams>,
    /// Time of the last use, and how long the connection is kept after it.
    used: watch::Sender<(Instant, Duration)>,
    ended: watch::Sender<bool>,
}

impl HttpConnection {
    /// Registers a connection after a successful `initialize` and routes the host's messages into its streams, starting
    /// with those in `early`.
    pub(crate) fn begin(
        server: &Arc<HttpServer>,
        token: Option<String>,
        peer: Peer,
        (incoming, early): (InboundStream, Vec<RpcMessage>),
        admission: Admission,
    ) -> Arc<Self> {
        let connection = Arc::new(Self::new(token, peer));
        server.connections().insert(connection.id.clone(), Arc::clone(&connection));
        let (begun, serving) = (Arc::clone(&connection), Arc::clone(server));
        server.spawn(async move {
            begun.forward_messages(&serving, incoming, early).await;
            serving.connections().remove(&begun.id);
            // Readers receive the queued lines and then the end.
            *begun.streams() = ConnectionStreams::default();
            drop(admission);
        });
        connection
    }

    fn new(token: Option<String>, peer: Peer) -> Self {
        Self {
            id: acpx_core::wire::new_uuid().to_string(),
            token,
            peer,
            streams: Lock::default(),
            used: watch::Sender::new((Instant::now(), UNUSED)),
            ended: watch::Sender::default(),
        }
    }

    /// Whether it was created with this token, or without one.
    pub(crate) fn is_of(&self, token: Option<&str>) -> bool {
        self.token.as_deref() == token
    }

    /// Records a use, which restarts the idle timeout.
    pub(crate) fn touch(&self) {
        self.used.send_replace((Instant::now(), IDLE));
    }

    /// Ends the connection.
    pub(crate) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Routes the host's messages into the streams until the connection ends.
    async fn forward_messages(
        &self,
        server: &HttpServer,
        mut incoming: InboundStream,
        early: Vec<RpcMessage>,
    ) {
        let forwarding = async {
            for message in early {
                if !self.pass(&message).await {
                    return;
                }
            }
            while let Some(inbound) = incoming.recv().await {
                if !self.pass(inbound.message()).await {
                    return;
                }
            }
        };
        let mut ended = self.ended.subscribe();
        tokio::select! {
            () = forwarding => {}
            _ = ended.wait_for(|ended| *ended) => {}
            _ = server.must_disconnect(self.token.as_deref()) => {}
            () = self.idle() => {}
        }
    }

    /// Queues a line in its stream; false if the stream stayed full for too long.
    async fn pass(&self, message: &RpcMessage) -> bool {
        let (mailbox, line) = self.streams().route(message);
        timeout(SLOW, mailbox.put(line)).await.is_ok()
    }

    /// Waits until the idle timeout passes without readers or requests.
    async fn idle(&self) {
        loop {
            let due = || {
                let (used, idle_limit) = *self.used.borrow();
                used + idle_limit
            };
            tokio::time::sleep_until(due()).await;
            if self.streams().has_reader() {
                self.touch();
            } else if due() <= Instant::now() {
                return;
            }
        }
    }

    /// The streams of this connection.
    pub(crate) fn streams(&self) -> MutexGuard<'_, ConnectionStreams> {
        self.streams.lock()
    }

    /// The connection id as a header value.
    pub(crate) fn header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.id).expect("a UUID is ASCII")
    }
}

#[cfg(test)]
mod tests {
    use acpx_core::wire::{WireLimits, memory};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn connection_is_idle_without_readers_and_requests() {
        let ((peer, _incoming), _host) = memory(WireLimits::default());
        let connection = HttpConnection::new(None, peer);
        let reader = connection.streams().open(None).unwrap();
        assert!(timeout(IDLE * 10, connection.idle()).await.is_err());
        drop(reader);
        connection.touch();
        let began = Instant::now();
        connection.idle().await;
        assert!((IDLE..=IDLE * 2).contains(&began.elapsed()), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn connection_unused_after_initialize_is_closed_soon() {
        let ((peer, _incoming), _host) = memory(WireLimits::default());
        let connection = HttpConnection::new(None, peer);
        let began = Instant::now();
        connection.idle().await;
        assert!((UNUSED..UNUSED * 2).contains(&began.elapsed()), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_stays_full_ends_its_connection() {
        let ((peer, _incoming), _host) = memory(WireLimits::default());
        let connection = HttpConnection::new(None, peer);
        let line = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, "x".repeat(1 << 20));
        let message = RpcMessage::parse(line).unwrap();
        let mut held = 0;
        while connection.pass(&message).await {
            held += 1;
        }
        assert_eq!(held, 3);
    }
}
