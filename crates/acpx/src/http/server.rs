//! State that all connections of the HTTP server share: it limits clients, watches their tokens, and connects each
//! client to the home's host through a bridge of its own.
//!
//! A client's connection ends when the client disconnects, its token is revoked, it stops reading, or the server stops.
//! Its sessions continue in the host in all cases.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use acpx_core::client::Bridge;
use acpx_core::model::Timestamp;
use acpx_core::protocol::HostError;
use acpx_core::protocol::meta::{AccessScope, ClientMeta, RemoteClientMeta};
use acpx_core::sync::Lock;
use acpx_core::wire::{self, InboundStream, Peer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::connection::HttpConnection;
use super::guard::Guard;
use super::limits;
use super::limits::{KeyedCountGuard, KeyedCounter, ReceiveBudget};
use super::peer_process::{SocketAddresses, SocketOwner};
use super::refusal::HttpRefusal;
use super::tokens::{self, Token, TokenKind, Tokens};

/// Maximum number of clients connected to the host.
const CLIENTS: usize = 64;
/// Maximum number of clients per token, or per address without a token.
const CLIENTS_OF_ONE: usize = 32;
/// Maximum number of received bytes, over all clients, that do not form complete messages yet.
const MAX_PARTIAL_BYTES: usize = 256 << 20;
/// Buffer size of the pipe between a client and its bridge.
const PIPE: usize = 64 * 1024;
/// How long the preparation of a client's bridge may take: it ticks for programs in the directories of `PATH`.
const BRIDGE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the tokens of open connections are checked.
const TOKEN_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How a server reaches the host of its home.
pub(crate) struct Hosts {
    /// The home's directory.
    pub(crate) directory: PathBuf,
    /// Creates a bridge to the host for a remote client.
    pub(crate) bridge: Box<dyn Fn(&RemoteClientMeta) -> Bridge + Send + Sync>,
    /// Reports that a client's bridge could not reach a host.
    pub(crate) no_host: fn(&HostError),
}

/// State that all connections of a server share.
pub(crate) struct HttpServer {
    pub(crate) guard: Guard,
    pub(crate) tokens: Tokens,
    hosts: Hosts,
    /// The name of the home.
    home: String,
    /// Metadata that hosts receive about every client.
    client: RemoteClientMeta,
    clients: Arc<Semaphore>,
    /// Number of clients per token or address.
    shares: Arc<KeyedCounter<String>>,
    room: Arc<Semaphore>,
    /// Background tasks that end with the server.
    tasks: Lock<JoinSet<()>>,
    http: Lock<HashMap<String, Arc<HttpConnection>>>,
    /// Last use of each token, not yet written to the token file.
    uses: Lock<HashMap<String, Timestamp>>,
    /// The tokens as of the last check.
    known: watch::Sender<TokenSnapshot>,
    stopping: watch::Sender<bool>,
}

/// Which tokens exist and are valid.
#[derive(Debug, Default)]
struct TokenSnapshot {
    /// Whether clients must present a token.
    are_needed: bool,
    /// Ids of the tokens that are not revoked.
    holding: HashSet<String>,
}

/// One client's connection to the host; dropping it closes the connection.
pub(crate) struct HostLink {
    pub(crate) peer: Peer,
    pub(crate) incoming: InboundStream,
    pub(crate) admission: Admission,
}

/// RAII guard of a client's place in the limits; dropping it frees the place.
pub(crate) struct Admission {
    _permit: OwnedSemaphorePermit,
    _share: KeyedCountGuard<String>,
}

/// Extra privileges that the user grants to remote clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Let an agent act without permission requests.
    pub(crate) approve_all: bool,
    /// Start programs on this machine as MCP servers.
    pub(crate) stdio_servers: bool,
    /// Forward agent-specific fields to the agent.
    pub(crate) agent_fields: bool,
}

/// The sender of an admitted request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) ends: SocketAddresses,
    /// The id of the token it presented.
    pub(crate) token: Option<String>,
    pub(crate) scope: AccessScope,
}

/// Why a client must be disconnected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disconnect {
    ServerStops,
    /// Its token was revoked, or it has none and now needs one.
    SignedOut,
}

impl Caller {
    /// A caller that presented this token.
    pub(crate) fn new(ends: SocketAddresses, token: Option<&Token>) -> Self {
        let scope = token.map(|token| token.scope).unwrap_or_default();
        Self { ends, token: token.map(|token| token.id.clone()), scope }
    }

    /// Key under which this caller's resources are counted.
    fn quota_key(&self) -> String {
        match &self.token {
            Some(token) => format!("token {token}"),
            None => format!("address {}", self.ends.theirs.ip().to_canonical()),
        }
    }

    /// Whether the caller acts for an agent of this home. A caller whose process cannot be identified counts as one,
    /// unless it presented a token, which only the user hands out.
    fn is_confined(&self, home: &str) -> bool {
        match self.ends.owner(home) {
            SocketOwner::Inside => true,
            SocketOwner::Outside => false,
            SocketOwner::Hidden => self.token.is_none(),
        }
    }
}

impl HttpServer {
    /// Creates the server of a home; `client` and `allowance` apply to all its clients.
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
                extra_params: allowance.agent_fields,
                ..RemoteClientMeta::default()
            },
            hosts,
            clients: Arc::new(Semaphore::new(CLIENTS)),
            shares: Arc::default(),
            room: Arc::new(Semaphore::new(MAX_PARTIAL_BYTES)),
            tasks: Lock::default(),
            http: Lock::default(),
            uses: Lock::default(),
            known: watch::Sender::default(),
            stopping: watch::Sender::default(),
        })
    }

    /// Asks all clients to disconnect, and waits until none is connected to the host.
    pub(crate) async fn disconnect_clients(&self) {
        self.stopping.send_replace(true);
        drop(self.clients.acquire_many(u32::try_from(CLIENTS).unwrap_or(u32::MAX)).await);
    }

    /// Ends the background tasks, and with them the connections that are left.
    pub(crate) async fn end(&self) {
        let left = std::mem::take(&mut *self.tasks.lock());
        drop(left);
        self.refresh_tokens().await;
    }

    /// Connects a client to the host, unless a limit is reached.
    pub(crate) async fn join(self: &Arc<Self>, caller: &Caller) -> Result<HostLink, HttpRefusal> {
        let permit = Arc::clone(&self.clients).try_acquire_owned().map_err(|_| HttpRefusal::Full)?;
        let who = caller.quota_key();
        let share = self.shares.take(&who, CLIENTS_OF_ONE).ok_or(HttpRefusal::Full)?;
        let (server, caller) = (Arc::clone(self), caller.clone());
        // Both look at processes and files, which can be slow.
        let bridge = tokio::task::spawn_blocking(move || {
            let confined = caller.is_confined(&server.home);
            let client = RemoteClientMeta { who, confined, scope: caller.scope, ..server.client.clone() };
            (server.hosts.bridge)(&client)
        });
        let bridge = timeout(BRIDGE_TIMEOUT, bridge).await.ok().and_then(Result::ok);
        let bridge = bridge.ok_or(HttpRefusal::NoHost)?;
        let (near, far) = tokio::io::duplex(PIPE);
        let (stopped, no_host) = (self.stopped(), self.hosts.no_host);
        self.spawn(async move {
            let (source, target) = tokio::io::split(far);
            // After the client disconnects, pending output has no reader.
            let no_reader = std::future::ready(());
            if let Err(error) = bridge.run(source, target, stopped, no_reader).await {
                no_host(&error);
            }
        });
        let (source, target) = tokio::io::split(near);
        let (peer, incoming) = wire::connect(source, target, limits());
        Ok(HostLink { peer, incoming, admission: Admission { _permit: permit, _share: share } })
    }

    /// Spawns a background task that ends with the server.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(work);
    }

    /// A receive budget for one client, drawn from the server's total.
    pub(crate) fn load(&self) -> Arc<ReceiveBudget> {
        ReceiveBudget::new(Arc::clone(&self.room))
    }

    /// Waits until a client must be disconnected: its token is revoked, it has none and now needs one, or the server
    /// stops.
    pub(crate) async fn must_disconnect(&self, token: Option<&str>) -> Disconnect {
        let revoked = async {
            match token {
                Some(token) => self.revoked(token).await,
                None => self.token_needed().await,
            }
        };
        tokio::select! {
            () = self.stopped() => Disconnect::ServerStops,
            () = revoked => Disconnect::SignedOut,
        }
    }

    /// Waits until the server stops.
    fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopping = self.stopping.subscribe();
        async move {
            // The sender lives as long as the server.
            drop(stopping.wait_for(|stopping| *stopping).await);
        }
    }

    async fn revoked(&self, token: &str) {
        let mut known = self.known.subscribe();
        while known.changed().await.is_ok() {
            let is_listed = known.borrow().holding.contains(token);
            // The snapshot may be older than the token.
            if !is_listed && !self.holds(token).await {
                return;
            }
        }
    }

    async fn token_needed(&self) {
        let mut known = self.known.subscribe();
        // The sender lives as long as the server.
        drop(known.wait_for(|known| !self.guard.admits_without_token(known.are_needed)).await);
    }

    async fn holds(&self, token: &str) -> bool {
        let (tokens, token) = (self.tokens.clone(), token.to_owned());
        let held = tokio::task::spawn_blocking(move || tokens.still_holds(&token)).await;
        // An unreadable token file admits no new clients and disconnects none.
        !matches!(held, Ok(Ok(false)))
    }

    /// Records that a client with this token sent a message.
    pub(crate) fn note_use(&self, token: &str) {
        let mut uses = self.uses.lock();
        match uses.get_mut(token) {
            Some(last) => *last = tokens::now(),
            None => drop(uses.insert(token.to_owned(), tokens::now())),
        }
    }

    /// The open HTTP connections, by id.
    pub(crate) fn connections(&self) -> MutexGuard<'_, HashMap<String, Arc<HttpConnection>>> {
        self.http.lock()
    }

    /// Refreshes the token snapshot periodically.
    pub(crate) async fn watch_tokens(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(TOKEN_CHECK_INTERVAL);
        let mut stopped = std::pin::pin!(self.stopped());
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = &mut stopped => return,
            }
            self.refresh_tokens().await;
        }
    }

    /// Persists recent token uses and publishes the current token snapshot.
    async fn refresh_tokens(&self) {
        let (tokens, uses) = (self.tokens.clone(), std::mem::take(&mut *self.uses.lock()));
        let listed = tokio::task::spawn_blocking(move || tokens.list_with(&uses)).await;
        // An unreadable token file admits no new clients and disconnects none.
        if let Ok(Ok(listed)) = listed {
            let are_needed = listed.iter().any(|token| token.kind == TokenKind::Bearer);
            let held = listed.into_iter().filter(|token| token.revoked_at.is_none());
            self.known
                .send_replace(TokenSnapshot { are_needed, holding: held.map(|token| token.id).collect() });
        }
    }
}
