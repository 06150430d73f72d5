//! The host: the background process that runs a home's live sessions and serves their clients.
//!
//! On its socket it is an ACP agent whose sessions are our records, so commands and editors use one protocol and one
//! dispatcher. Each home has at most one host: the process that holds the home's lock. Clients start it on demand and
//! it exits when idle; all durable state is in the store.

mod attach;
mod connection;
mod permissions;
mod process;
mod service;
mod session;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tracing::Instrument;

pub use attach::replay::{CursorError, RecordEvents};
pub use process::import::{import_alone, import_archive_alone};
pub use process::run::{HostSetup, RunError, run};
pub use session::queue::open_prompts;
pub use session::title::title;
pub use session::turn_reply::turn_reply;

use crate::acp::agent::CallError;
use crate::engine::{Engine, ResponderRequest, SessionError};
use crate::model::{AbsolutePath, McpServer, RecordId, SpendingLimits, Timestamp};
use crate::store::Store;
use crate::wire::{self, InboundStream, Peer};

use connection::Connection;
use connection::confined_records::ConfinedRecords;
use connection::session_quota::SessionQuota;
use permissions::responders::{ConnectionId, Responders, TurnResponder};
use process::background::BackgroundTasks;
use process::import::Importer;
use process::scope_locks::ScopeLocks;
use process::unprompted::LastUses;
use session::turn_owners::TurnOwners;

/// Reads a session's MCP servers from a configuration file, given its path and text; the error is a reason in words.
/// The reason is stored with the record and sent to its watchers, so it must not quote the file.
pub(crate) type ServerFile =
    Arc<dyn Fn(&Path, &str, Around<'_>) -> Result<Vec<McpServer>, String> + Send + Sync>;

/// The MCP servers that the program itself provides for a session in this directory. They are restored by their names.
pub(crate) type OwnServers = Arc<dyn Fn(&AbsolutePath) -> Vec<McpServer> + Send + Sync>;

/// Reads from the configuration what turns and sessions may use.
pub(crate) type UsageLimits = Arc<dyn Fn() -> SpendingLimits + Send + Sync>;

/// What the host reads from the user's configuration when it needs it.
struct ConfigurationReader {
    server_file: ServerFile,
    own_servers: OwnServers,
    /// No program that an agent started exceeds these limits.
    usage_limits: UsageLimits,
}

impl Default for ConfigurationReader {
    /// A reader without a configuration.
    fn default() -> Self {
        Self {
            server_file: Arc::new(|_, _, _| Ok(Vec::new())),
            own_servers: Arc::new(|_| Vec::new()),
            usage_limits: Arc::new(SpendingLimits::default),
        }
    }
}

/// Where to look up the programs of MCP servers.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// The directory the session works in.
    pub cwd: &'a Path,
    /// The directories of `PATH`.
    pub path: Option<&'a OsStr>,
}

/// How long background tasks may run after the sessions have ended. A client that has not read its lines by then loses
/// them.
const LAST_TASKS: Duration = Duration::from_secs(2);

/// How long the host waits for a client that reads nothing. Such a client does not delay the updates of others.
#[derive(Debug, Clone, Copy)]
pub struct ClientTimeouts {
    /// Before permission requests of its turns are sent to the other clients as well.
    pub ask_others: Duration,
    /// Before the host closes its connection.
    pub disconnect: Duration,
}

impl Default for ClientTimeouts {
    fn default() -> Self {
        Self { ask_others: Duration::from_secs(30), disconnect: crate::protocol::limits::STALL_LIMIT }
    }
}

/// State shared by all connections of a host.
pub struct Host {
    engine: Engine,
    store: Arc<dyn Store>,
    scope_locks: ScopeLocks,
    background: BackgroundTasks,
    responders: Arc<Responders>,
    turn_owners: Arc<TurnOwners>,
    client_timeouts: ClientTimeouts,
    quota: Arc<SessionQuota>,
    confined_records: ConfinedRecords,
    /// The next connection's number.
    connections: AtomicU64,
    configuration: ConfigurationReader,
    last_uses: LastUses,
    /// Imports sessions of npm acpx, if the store is a file.
    importer: Option<Importer>,
    version: String,
    started_at: Timestamp,
    /// How many clients are connected.
    clients: Arc<watch::Sender<usize>>,
    /// Whether the limit of connected clients is reached.
    is_full: watch::Sender<bool>,
    /// True once a stop was requested.
    stopping: watch::Sender<bool>,
    /// Channel to the accept loop, which alone knows whether the host is idle.
    idle_stops: OnceLock<mpsc::Sender<IdleStop>>,
}

/// A request to stop if idle; the reply is whether the host stops.
type IdleStop = oneshot::Sender<bool>;

impl Host {
    /// A host over an engine and the store it writes to, which reads no server file and imports nothing. `version` is
    /// the program's.
    pub fn new(
        engine: Engine,
        store: Arc<dyn Store>,
        version: impl Into<String>,
        client_timeouts: ClientTimeouts,
    ) -> Self {
        Self {
            started_at: engine.now(),
            engine,
            store,
            scope_locks: ScopeLocks::default(),
            background: BackgroundTasks::default(),
            responders: Arc::new(Responders::new(client_timeouts.ask_others)),
            turn_owners: Arc::default(),
            client_timeouts,
            quota: Arc::default(),
            confined_records: ConfinedRecords::default(),
            connections: AtomicU64::new(0),
            configuration: ConfigurationReader::default(),
            last_uses: LastUses::default(),
            importer: None,
            version: version.into(),
            clients: Arc::default(),
            is_full: watch::Sender::new(false),
            stopping: watch::Sender::new(false),
            idle_stops: OnceLock::new(),
        }
    }

    /// Asks the host to stop: it accepts no more clients.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Stops the host if this request is all it has to do, and returns whether it stops. Without an accept loop it
    /// stays.
    async fn stop_if_idle(&self) -> bool {
        let Some(accept_loop) = self.idle_stops.get() else { return false };
        let (reply, answer) = oneshot::channel();
        // A closed channel means that the accept loop has ended: the host is stopping already.
        accept_loop.send(reply).await.is_err() || answer.await.unwrap_or(true)
    }

    /// Stops all sessions, and waits briefly for background tasks.
    pub async fn shut_down(&self) {
        self.stopping.send_replace(true);
        self.engine.shutdown().await;
        self.background.finish_within(LAST_TASKS).await;
    }

    /// Connects a client in this process, and returns the client's end.
    pub fn connect(self: &Arc<Self>) -> (Peer, InboundStream) {
        let (client, (peer, incoming)) = wire::memory(crate::protocol::limits::limits());
        let connection = Arc::new(Connection::new(Arc::clone(self), false));
        let span = process::accept::connection_span(&connection);
        self.background.spawn(process::accept::serve_connection(peer, incoming, connection).instrument(span));
        client
    }

    /// Numbers a new connection.
    fn next_connection(&self) -> ConnectionId {
        ConnectionId(self.connections.fetch_add(1, Ordering::Relaxed))
    }

    /// Starts a router for the requests of a record's agent. It asks the turn's own client first.
    fn route_requests(
        &self,
        record: &RecordId,
        own: Option<TurnResponder>,
    ) -> mpsc::Sender<ResponderRequest> {
        let (sender, routing) = permissions::router::route(Arc::clone(&self.responders), record.clone(), own);
        self.background.spawn(routing);
        sender
    }

    /// The error for a failed session request. A stopping host leaves requests that it can no longer serve unanswered:
    /// the client sees the connection close, and retries with the next host.
    fn refused(&self, error: &SessionError) -> CallError {
        match error {
            SessionError::ShutDown(_) if self.is_stopping() => CallError::Unanswered,
            other => crate::protocol::rpc_error::refused(other),
        }
    }

    /// Whether the host is stopping.
    fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Waits until a stop is requested.
    async fn stopped(&self) {
        // `self` owns the sender, so the channel stays open.
        drop(self.stopping.subscribe().wait_for(|stopping| *stopping).await);
    }
}
