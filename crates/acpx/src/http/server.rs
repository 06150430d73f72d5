//! The server: a listener, what all its connections have in common, and its bounds.
//!
//! A connection of a client is joined to the home's host by a bridge of its own. It ends when its client goes, when
//! its token is revoked, when it does not read, or when the server stops; its sessions go on in any case.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use acpx_core::client::Bridge;
use acpx_core::model::Timestamp;
use acpx_core::protocol::HostError;
use acpx_core::protocol::meta::{ClientMeta, RemoteClientMeta};
use acpx_core::wire::{self, InboundStream, Peer};
use hyper::rt::{Read, Write};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::bounds::{KeyedCountGuard, KeyedCounter, ReceiveBudget};
use super::connection::HttpConnection;
use super::guard::{Guard, is_loopback};
use super::limits;
use super::owner::{SocketAddresses, SocketOwner};
use super::patient::DeadlineStream;
use super::refusal::HttpRefusal;
use super::request;
use super::tokens::{self, Tokens};

/// How many sockets are open at once. Others wait at the door.
const SOCKETS: usize = 512;
/// How many of them one address may have. This machine itself may have all: others come by it through a proxy.
const SOCKETS_OF_ONE: usize = 128;
/// How many clients are joined to the host at once.
const CLIENTS: usize = 64;
/// How many of them one token may have, or one address without a token.
const CLIENTS_OF_ONE: usize = 32;
/// How many bytes may have come, from all clients together, that are no messages yet.
const ROOM: usize = 256 << 20;
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

/// How a server reaches the host of its home.
pub(crate) struct Hosts {
    /// The home's directory.
    pub(crate) directory: PathBuf,
    /// A bridge to the host for a remote client.
    pub(crate) bridge: Box<dyn Fn(&RemoteClientMeta) -> Bridge + Send + Sync>,
    /// Reports that there is no host for a client.
    pub(crate) no_host: fn(&HostError),
}

/// What all connections of a server have in common.
pub(crate) struct HttpServer {
    pub(crate) guard: Guard,
    pub(crate) tokens: Tokens,
    hosts: Hosts,
    /// The name of the home.
    home: String,
    /// What hosts are told of every client.
    client: RemoteClientMeta,
    clients: Arc<Semaphore>,
    /// How many of them each has.
    shares: Arc<KeyedCounter<String>>,
    room: Arc<Semaphore>,
    /// What goes on beside the sockets, and ends with the server.
    tasks: Mutex<JoinSet<()>>,
    http: Mutex<HashMap<String, Arc<HttpConnection>>>,
    /// When tokens were last used whose use is not written down yet.
    uses: Mutex<HashMap<String, Timestamp>>,
    /// What the tokens were when they were last looked at.
    known: watch::Sender<TokenSnapshot>,
    stopping: watch::Sender<bool>,
}

/// What is known of the tokens.
#[derive(Debug, Default)]
struct TokenSnapshot {
    /// Whether nobody comes in without one.
    are_needed: bool,
    /// The ids of those that hold.
    holding: HashSet<String>,
}

/// One client's way to the host. Dropped, it ends.
pub(crate) struct HostLink {
    pub(crate) peer: Peer,
    pub(crate) incoming: InboundStream,
    pub(crate) admission: Admission,
}

/// That a client is one of those who may be there. Dropped, another may.
pub(crate) struct Admission {
    _permit: OwnedSemaphorePermit,
    _share: KeyedCountGuard<String>,
}

/// What the user lets clients from elsewhere do beyond the ordinary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Let an agent do everything unasked.
    pub(crate) approve_all: bool,
    /// Start programs on this machine as MCP servers.
    pub(crate) stdio_servers: bool,
    /// Say to the agent what only the agent understands.
    pub(crate) besides: bool,
}

/// Who has sent a request, once it is let in.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) ends: SocketAddresses,
    /// The token it came in by.
    pub(crate) token: Option<String>,
}

impl Caller {
    /// Who it is, so that what belongs to one can be bounded.
    fn who(&self) -> String {
        match &self.token {
            Some(token) => format!("token {token}"),
            None => format!("address {}", self.ends.theirs.ip().to_canonical()),
        }
    }

    /// Whether it speaks for an agent of the home with this name. Whoever does not show itself is taken for one, unless
    /// it has a token: that is the user's word.
    fn is_confined(&self, home: &str) -> bool {
        match self.ends.owner(home) {
            SocketOwner::Inside => true,
            SocketOwner::Outside => false,
            SocketOwner::Hidden => self.token.is_none(),
        }
    }
}

impl HttpServer {
    /// A server of a home, whose clients have this in common.
    pub(crate) fn new(
        hosts: Hosts,
        home: String,
        client: ClientMeta,
        guard: Guard,
        allowance: Allowance,
    ) -> Arc<Self> {
        Arc::new(Self {
            guard,
            tokens: Tokens::of(&hosts.directory),
            home,
            client: RemoteClientMeta {
                client,
                approve_all: allowance.approve_all,
                stdio_servers: allowance.stdio_servers,
                besides: allowance.besides,
                ..RemoteClientMeta::default()
            },
            hosts,
            clients: Arc::new(Semaphore::new(CLIENTS)),
            shares: Arc::default(),
            room: Arc::new(Semaphore::new(ROOM)),
            tasks: Mutex::default(),
            http: Mutex::default(),
            uses: Mutex::default(),
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
        let addresses = Arc::new(KeyedCounter::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(self).watch_tokens());
        let mut stop = std::pin::pin!(stop);
        loop {
            let socket = tokio::select! {
                () = &mut stop => break,
                accepted = accept(&listener, &sockets) => accepted,
                Some(_) = tasks.join_next() => continue,
            };
            let Some((stream, ends, permit)) = socket else {
                tokio::time::sleep(REST).await;
                continue;
            };
            // Whoever has as many as it may is not heard.
            if let Some(share) = addresses.take(&ends.theirs.ip(), most_sockets(ends)) {
                let (server, tls) = (Arc::clone(self), tls.clone());
                tasks.spawn(async move {
                    server.serve_socket(stream, ends, tls).await;
                    drop((permit, share));
                });
            }
        }
        self.stopping.send_replace(true);
        // Whoever does not read what it is told is told no more.
        drop(tokio::time::timeout(FAREWELL, self.all_gone()).await);
        let left = std::mem::take(&mut *self.tasks());
        drop(left);
        self.look_at_tokens().await;
    }

    /// Waits until no client is joined to the host any more.
    async fn all_gone(&self) {
        drop(self.clients.acquire_many(u32::try_from(CLIENTS).unwrap_or(u32::MAX)).await);
    }

    async fn serve_socket(
        self: Arc<Self>,
        stream: TcpStream,
        ends: SocketAddresses,
        tls: Option<TlsAcceptor>,
    ) {
        // A message is a few bytes that somebody waits for.
        drop(stream.set_nodelay(true));
        match tls {
            None => self.speak(ends, TokioIo::new(DeadlineStream::new(stream, PATIENCE))).await,
            Some(tls) => {
                if let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, tls.accept(stream)).await {
                    self.speak(ends, TokioIo::new(DeadlineStream::new(stream, PATIENCE))).await;
                }
            }
        }
    }

    async fn speak(self: Arc<Self>, ends: SocketAddresses, io: impl Read + Write + Unpin + Send + 'static) {
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
            async move { Ok::<_, Infallible>(request::answer(&server, ends, request).await) }
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

    /// Joins a client to the host, unless too many are.
    pub(crate) async fn join(self: &Arc<Self>, caller: &Caller) -> Result<HostLink, HttpRefusal> {
        let permit = Arc::clone(&self.clients).try_acquire_owned().map_err(|_| HttpRefusal::Full)?;
        let who = caller.who();
        let share = self.shares.take(&who, CLIENTS_OF_ONE).ok_or(HttpRefusal::Full)?;
        let (asking, home) = (caller.clone(), self.home.clone());
        let confined = tokio::task::spawn_blocking(move || asking.is_confined(&home)).await;
        // Whoever cannot be told to be the user is not taken for the user.
        let confined = confined.unwrap_or(true);
        let bridge = (self.hosts.bridge)(&RemoteClientMeta { who, confined, ..self.client.clone() });
        let (near, far) = tokio::io::duplex(PIPE);
        let (stopped, no_host) = (self.stopped(), self.hosts.no_host);
        self.spawn(async move {
            let (source, target) = tokio::io::split(far);
            // One that is gone reads nothing.
            let unheard = std::future::ready(());
            if let Err(error) = bridge.run(source, target, stopped, unheard).await {
                no_host(&error);
            }
        });
        let (source, target) = tokio::io::split(near);
        let (peer, incoming) = wire::connect(source, target, limits());
        Ok(HostLink { peer, incoming, admission: Admission { _permit: permit, _share: share } })
    }

    /// Sees something through for as long as the server is there.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(work);
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a client is about to send, out of what all may.
    pub(crate) fn load(&self) -> Arc<ReceiveBudget> {
        ReceiveBudget::new(Arc::clone(&self.room))
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

    /// A client that came in by this token has said something.
    pub(crate) fn note_use(&self, token: &str) {
        let mut uses = self.uses();
        match uses.get_mut(token) {
            Some(last) => *last = tokens::now(),
            None => drop(uses.insert(token.to_owned(), tokens::now())),
        }
    }

    fn uses(&self) -> MutexGuard<'_, HashMap<String, Timestamp>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
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
            self.look_at_tokens().await;
        }
    }

    /// Writes down which tokens were used, and tells those that hold.
    async fn look_at_tokens(&self) {
        let (tokens, uses) = (self.tokens.clone(), std::mem::take(&mut *self.uses()));
        let listed = tokio::task::spawn_blocking(move || tokens.list_with(&uses)).await;
        // A file that cannot be read now lets nobody new in, and ends nothing.
        if let Ok(Ok(listed)) = listed {
            let are_needed = !listed.is_empty();
            let held = listed.into_iter().filter(|token| token.revoked_at.is_none());
            self.known
                .send_replace(TokenSnapshot { are_needed, holding: held.map(|token| token.id).collect() });
        }
    }
}

/// The next socket; `None` if it cannot be had now.
async fn accept(
    listener: &TcpListener,
    sockets: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddresses, OwnedSemaphorePermit)> {
    let permit = Arc::clone(sockets).acquire_owned().await.ok()?;
    let (stream, theirs) = listener.accept().await.ok()?;
    let ours = stream.local_addr().ok()?;
    Some((stream, SocketAddresses { theirs, ours }, permit))
}

/// How many sockets may come from where this one does.
fn most_sockets(ends: SocketAddresses) -> usize {
    if is_loopback(ends.theirs) { SOCKETS } else { SOCKETS_OF_ONE }
}

/// Listens at an address.
pub(crate) async fn listen(address: SocketAddr) -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
