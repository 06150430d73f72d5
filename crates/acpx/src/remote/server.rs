//! The server: a listener, what all its connections have in common, and its bounds.
//!
//! A connection of a client is joined to the home's host by a bridge of its own. It ends when its client goes, when
//! its token is revoked, when it does not read, or when the server stops; its sessions go on in any case.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use acpx_core::host::Bridge;
use acpx_core::wire::{self, Incoming, Peer};
use hyper::rt::{Read, Write};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::connection::HttpConnection;
use super::filter::Allowance;
use super::guard::Guard;
use super::http;
use super::limits;
use super::tokens::Tokens;
use crate::output;

/// How many sockets are open at once. Others wait at the door.
const SOCKETS: usize = 512;
/// How many clients are joined to the host at once.
const CLIENTS: usize = 64;
/// How much a client and its bridge have in flight.
const PIPE: usize = 64 * 1024;
/// How long a handshake or the head of a request may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest head of a request.
const HEAD: usize = 64 * 1024;
/// How many requests one socket may have under way, each stream of events being one.
const REQUESTS: u32 = 512;
/// How often the tokens of open connections are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long nobody is let in after that has failed, which is for want of files or memory.
const REST: Duration = Duration::from_millis(50);
/// How long clients have to hear that the server stops.
const FAREWELL: Duration = Duration::from_secs(2);

/// What all connections of a server have in common.
pub(crate) struct Server {
    pub(crate) guard: Guard,
    pub(crate) tokens: Tokens,
    pub(crate) allowance: Allowance,
    bridge: Arc<Bridge>,
    clients: Arc<Semaphore>,
    http: Mutex<HashMap<String, Arc<HttpConnection>>>,
    /// What the tokens were when they were last looked at.
    known: watch::Sender<Known>,
    stopping: watch::Sender<bool>,
}

/// What is known of the tokens.
#[derive(Debug, Default)]
struct Known {
    /// Whether nobody comes in without one.
    are_needed: bool,
    /// The ids of those that hold.
    holding: HashSet<String>,
}

/// One client's way to the host. Dropped, it ends.
pub(crate) struct Joined {
    pub(crate) peer: Peer,
    pub(crate) incoming: Incoming,
    pub(crate) place: OwnedSemaphorePermit,
}

impl Server {
    /// A server whose clients cross this bridge.
    pub(crate) fn new(bridge: Bridge, guard: Guard, tokens: Tokens, allowance: Allowance) -> Arc<Self> {
        Arc::new(Self {
            guard,
            tokens,
            allowance,
            bridge: Arc::new(bridge),
            clients: Arc::new(Semaphore::new(CLIENTS)),
            http: Mutex::default(),
            known: watch::Sender::default(),
            stopping: watch::Sender::default(),
        })
    }

    /// Lets clients in until it is told to stop.
    pub(crate) async fn serve(
        self: &Arc<Self>,
        listener: TcpListener,
        tls: Option<TlsAcceptor>,
        stop: impl Future<Output = ()>,
    ) {
        let sockets = Arc::new(Semaphore::new(SOCKETS));
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(self).watch_tokens());
        let mut stop = std::pin::pin!(stop);
        loop {
            let socket = tokio::select! {
                () = &mut stop => break,
                accepted = accept(&listener, &sockets) => accepted,
                Some(_) = tasks.join_next() => continue,
            };
            match socket {
                Some((stream, place)) => {
                    tasks.spawn(Arc::clone(self).serve_socket(stream, place, tls.clone()));
                }
                None => tokio::time::sleep(REST).await,
            }
        }
        self.stopping.send_replace(true);
        // Whoever does not read what it is told is told no more.
        drop(tokio::time::timeout(FAREWELL, self.all_gone()).await);
    }

    /// Waits until no client is joined to the host any more.
    async fn all_gone(&self) {
        drop(self.clients.acquire_many(u32::try_from(CLIENTS).unwrap_or(u32::MAX)).await);
    }

    async fn serve_socket(
        self: Arc<Self>,
        stream: TcpStream,
        _place: OwnedSemaphorePermit,
        tls: Option<TlsAcceptor>,
    ) {
        // A message is a few bytes that somebody waits for.
        drop(stream.set_nodelay(true));
        match tls {
            None => self.speak(TokioIo::new(stream)).await,
            Some(tls) => {
                if let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, tls.accept(stream)).await {
                    self.speak(TokioIo::new(stream)).await;
                }
            }
        }
    }

    async fn speak(self: Arc<Self>, io: impl Read + Write + Unpin + Send + 'static) {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(HEAD);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(HEAD).unwrap_or(u32::MAX))
            .max_concurrent_streams(REQUESTS)
            .keep_alive_interval(PATIENCE);
        let stopped = self.stopped();
        let service = service_fn(move |request| {
            let server = Arc::clone(&self);
            async move { Ok::<_, Infallible>(http::answer(&server, request).await) }
        });
        let mut connection = std::pin::pin!(builder.serve_connection_with_upgrades(io, service));
        tokio::select! {
            // What is wrong with a client's HTTP it was told, and nobody else needs to know.
            done = &mut connection => drop(done),
            () = stopped => {
                connection.as_mut().graceful_shutdown();
                drop(tokio::time::timeout(FAREWELL, connection).await);
            }
        }
    }

    /// Joins a client to the host; `None` if too many are.
    pub(crate) fn join(&self) -> Option<Joined> {
        let place = Arc::clone(&self.clients).try_acquire_owned().ok()?;
        let (near, far) = tokio::io::duplex(PIPE);
        let bridge = Arc::clone(&self.bridge);
        let stopped = self.stopped();
        tokio::spawn(async move {
            let (source, target) = tokio::io::split(far);
            if let Err(error) = bridge.run(source, target, stopped).await {
                output::log(&format!("no host for a client: {error}"));
            }
        });
        let (source, target) = tokio::io::split(near);
        let (peer, incoming) = wire::connect(source, target, limits());
        Some(Joined { peer, incoming, place })
    }

    /// Waits until a client may stay no longer: its token is revoked, or it has none and now needs one, or the server
    /// stops.
    pub(crate) async fn unwelcome(&self, token: Option<&str>) {
        let revoked = async {
            match token {
                Some(token) => self.revoked(token).await,
                None => self.token_needed().await,
            }
        };
        tokio::select! {
            () = self.stopped() => {}
            () = revoked => {}
        }
    }

    /// Waits until the server stops.
    fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopping = self.stopping.subscribe();
        async move {
            // The one who tells lives as long as the server.
            drop(stopping.wait_for(|stopping| *stopping).await);
        }
    }

    async fn revoked(&self, token: &str) {
        let mut known = self.known.subscribe();
        while known.changed().await.is_ok() {
            let is_listed = known.borrow().holding.contains(token);
            // The list may be from before the token was made.
            if !is_listed && !self.holds(token).await {
                return;
            }
        }
    }

    async fn token_needed(&self) {
        let mut known = self.known.subscribe();
        // Whoever tells lives as long as the server.
        drop(known.wait_for(|known| !self.guard.admits_nothing(known.are_needed)).await);
    }

    async fn holds(&self, token: &str) -> bool {
        let (tokens, token) = (self.tokens.clone(), token.to_owned());
        let asked = tokio::task::spawn_blocking(move || tokens.still_holds(&token)).await;
        // A file that cannot be read now lets nobody new in, and ends nothing.
        !matches!(asked, Ok(Ok(false)))
    }

    /// The connections over HTTP.
    pub(crate) fn connections(&self) -> MutexGuard<'_, HashMap<String, Arc<HttpConnection>>> {
        self.http.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the tokens that hold, again and again.
    async fn watch_tokens(self: Arc<Self>) {
        let mut looks = tokio::time::interval(LOOK);
        let mut stopped = std::pin::pin!(self.stopped());
        loop {
            tokio::select! {
                _ = looks.tick() => {}
                () = &mut stopped => return,
            }
            let tokens = self.tokens.clone();
            let listed = tokio::task::spawn_blocking(move || tokens.list()).await;
            // A file that cannot be read now lets nobody new in, and ends nothing.
            if let Ok(Ok(listed)) = listed {
                let are_needed = !listed.is_empty();
                let held = listed.into_iter().filter(|token| token.revoked_at.is_none());
                self.known.send_replace(Known { are_needed, holding: held.map(|token| token.id).collect() });
            }
        }
    }
}

/// The next socket; `None` if it cannot be had now.
async fn accept(
    listener: &TcpListener,
    sockets: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(sockets).acquire_owned().await.ok()?;
    let (stream, _) = listener.accept().await.ok()?;
    Some((stream, place))
}

/// Listens at an address.
pub(crate) async fn listen(address: SocketAddr) -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
