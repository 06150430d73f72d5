//! A client that speaks HTTP, between its requests: what the host says to it waits in its streams.
//!
//! It is over when its client ends it, does not read it, or is gone for a while; when its token holds no longer; and
//! when the server stops.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use acpx_core::wire::{InboundStream, Peer, RpcMessage};
use hyper::header::HeaderValue;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::server::{Admission, HttpServer};
use super::streams::ConnectionStreams;

/// How long a client may leave a full stream unread.
const SLOW: Duration = Duration::from_secs(30);
/// How long a connection stays that nobody reads and nobody uses.
const IDLE: Duration = Duration::from_mins(2);
/// How long one stays whose client has sent `initialize` and nothing else.
const UNUSED: Duration = Duration::from_secs(15);

/// A connection of a client that speaks HTTP.
pub(crate) struct HttpConnection {
    id: String,
    /// Who may use it.
    token: Option<String>,
    pub(crate) peer: Peer,
    streams: Mutex<ConnectionStreams>,
    /// When it was last used, and how long it stays after that.
    used: watch::Sender<(Instant, Duration)>,
    ended: watch::Sender<bool>,
}

impl HttpConnection {
    /// Begins a connection whose first request was answered: from now on, what the host says goes into its streams,
    /// beginning with what it said early.
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
            begun.see_through(&serving, incoming, early).await;
            serving.connections().remove(&begun.id);
            begun.over();
            drop(admission);
        });
        connection
    }

    fn new(token: Option<String>, peer: Peer) -> Self {
        Self {
            id: acpx_core::wire::new_uuid().to_string(),
            token,
            peer,
            streams: Mutex::default(),
            used: watch::Sender::new((Instant::now(), UNUSED)),
            ended: watch::Sender::default(),
        }
    }

    /// Its id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Whether it was begun with this token, or without one.
    pub(crate) fn is_of(&self, token: Option<&str>) -> bool {
        self.token.as_deref() == token
    }

    /// Somebody has used it.
    pub(crate) fn touch(&self) {
        self.used.send_replace((Instant::now(), IDLE));
    }

    /// Ends it.
    pub(crate) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Puts what the host says into its streams, until the connection is over for whatever reason.
    async fn see_through(&self, server: &HttpServer, mut incoming: InboundStream, early: Vec<RpcMessage>) {
        let told = async {
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
            () = told => {}
            _ = ended.wait_for(|ended| *ended) => {}
            () = server.unwelcome(self.token.as_deref()) => {}
            () = self.idle() => {}
        }
    }

    /// Puts a line into its stream; whether there was room for it in time.
    async fn pass(&self, message: &RpcMessage) -> bool {
        let (mailbox, line) = self.streams().route(message);
        timeout(SLOW, mailbox.put(line)).await.is_ok()
    }

    /// Waits until nobody has read or used it for a while.
    async fn idle(&self) {
        loop {
            let due = || {
                let (used, patience) = *self.used.borrow();
                used + patience
            };
            tokio::time::sleep_until(due()).await;
            if self.streams().has_reader() {
                self.touch();
            } else if due() <= Instant::now() {
                return;
            }
        }
    }

    /// Ends its streams: whoever reads them reads what is left, and then their end.
    fn over(&self) {
        *self.streams() = ConnectionStreams::default();
    }

    /// Its streams.
    pub(crate) fn streams(&self) -> MutexGuard<'_, ConnectionStreams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its id, as a header has it.
    pub(crate) fn header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.id).expect("a UUID is ASCII")
    }
}

#[cfg(test)]
mod tests {
    use acpx_core::wire::{WireLimits, memory};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_once_nobody_has_read_or_used_it_for_a_while() {
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
    async fn a_connection_that_is_not_used_after_initialize_goes_soon() {
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
