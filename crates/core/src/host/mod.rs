//! The host: the background process that holds a home's live sessions, and how clients reach it.
//!
//! On its socket it is an ACP agent whose sessions are our records, so that commands, editors and whatever comes
//! later speak one protocol to one dispatcher. There is one host for each home: whoever has its lock. It comes
//! when it is needed and goes when nobody needs it; what it leaves behind is in the store and nowhere else.

mod attach;
mod connection;
mod permissions;
mod process;
mod session;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

pub use attach::replay::{CursorError, RecordEvents};
pub use process::import::import_alone;
pub use process::run::{HostSetup, RunError, run};
pub use session::title::title;

use crate::acp::agent::CallError;
use crate::engine::{Engine, ResponderRequest, SessionError};
use crate::model::{McpServer, RecordId, Timestamp};
use crate::store::Store;
use crate::wire::{self, InboundStream, Peer};

use connection::Connection;
use connection::access::SessionQuota;
use connection::confined_records::ConfinedRecords;
use permissions::responders::{ConnectionId, Responders, TurnResponder};
use process::background::BackgroundTasks;
use process::import::Importer;
use process::scope_locks::ScopeLocks;
use process::unprompted::LastUses;
use session::turn_owners::TurnOwners;

/// The MCP servers of a configuration file of this path and text, for a session; a reason in words if it has none to
/// give. The reason is kept with the record and told to whoever watches it, so it must not repeat what the file says.
pub type ServerFile = Arc<dyn Fn(&Path, &str, Around<'_>) -> Result<Vec<McpServer>, String> + Send + Sync>;

/// What the programs of servers are looked for by.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// The directory the session works in.
    pub cwd: &'a Path,
    /// The directories of `PATH`.
    pub path: Option<&'a OsStr>,
}

/// How long what a host has begun may take when its sessions have ended. Whoever does not read what it is told is told
/// no more.
const LAST_WORKS: Duration = Duration::from_secs(2);

/// How long a host waits for a client that takes nothing of what it is told. Such a one holds up nobody else's updates
/// and costs next to nothing.
#[derive(Debug, Clone, Copy)]
pub struct ClientPatience {
    /// Before whatever its turns ask is asked of the other clients as well.
    pub before_others_are_asked: Duration,
    /// Before its connection ends.
    pub before_it_goes: Duration,
}

impl Default for ClientPatience {
    fn default() -> Self {
        Self {
            before_others_are_asked: Duration::from_secs(30),
            before_it_goes: crate::protocol::limits::STALL_LIMIT,
        }
    }
}

/// What every connection to a host shares.
pub struct Host {
    engine: Engine,
    store: Arc<dyn Store>,
    scopes: ScopeLocks,
    works: BackgroundTasks,
    askable: Arc<Responders>,
    turn_owners: Arc<TurnOwners>,
    patience: ClientPatience,
    shares: SessionQuota,
    confined_records: ConfinedRecords,
    /// Numbers the connections.
    connections: AtomicU64,
    server_file: ServerFile,
    last_uses: LastUses,
    /// Takes sessions of npm acpx over, if there is a file to take them into.
    importer: Option<Importer>,
    version: String,
    started_at: Timestamp,
    /// How many clients are connected.
    clients: Arc<watch::Sender<usize>>,
    /// Whether all places for clients are taken.
    is_full: watch::Sender<bool>,
    /// True once somebody wants the host to go.
    stopping: watch::Sender<bool>,
    /// The way to the door, where it is known whether there is anything to do.
    idle_stops: OnceLock<mpsc::Sender<IdleStop>>,
}

/// Somebody wants the host to go if it has nothing to do, and is told whether it does.
type IdleStop = oneshot::Sender<bool>;

impl Host {
    /// A host over an engine and the store it writes to. `version` is the program's.
    pub fn new(
        engine: Engine,
        store: Arc<dyn Store>,
        server_file: ServerFile,
        version: impl Into<String>,
    ) -> Arc<Self> {
        Arc::new(Self::made_of(engine, store, server_file, None, version.into(), ClientPatience::default()))
    }

    fn made_of(
        engine: Engine,
        store: Arc<dyn Store>,
        server_file: ServerFile,
        importer: Option<Importer>,
        version: String,
        patience: ClientPatience,
    ) -> Self {
        Self {
            started_at: engine.now(),
            engine,
            store,
            scopes: ScopeLocks::default(),
            works: BackgroundTasks::default(),
            askable: Arc::new(Responders::new(patience.before_others_are_asked)),
            turn_owners: Arc::default(),
            patience,
            shares: SessionQuota::default(),
            confined_records: ConfinedRecords::default(),
            connections: AtomicU64::new(0),
            server_file,
            last_uses: LastUses::default(),
            importer,
            version,
            clients: Arc::default(),
            is_full: watch::Sender::new(false),
            stopping: watch::Sender::new(false),
            idle_stops: OnceLock::new(),
        }
    }

    /// Lets the host go: it takes nobody in any more, and stops.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Lets the host go if it has nothing to do but to hear of this; whether it goes. One without a door stays.
    async fn stop_if_idle(&self) -> bool {
        let Some(door) = self.idle_stops.get() else { return false };
        let (reply, answer) = oneshot::channel();
        // A door that is closed is one that nobody comes in by: it goes already.
        door.send(reply).await.is_err() || answer.await.unwrap_or(true)
    }

    /// Stops every session for good.
    pub async fn shut_down(&self) {
        self.stopping.send_replace(true);
        self.engine.shutdown().await;
        self.works.done_within(LAST_WORKS).await;
    }

    /// A connection of a client in this process: the client's end of it.
    pub fn connect(self: &Arc<Self>) -> (Peer, InboundStream) {
        let (client, (peer, incoming)) = wire::memory(crate::protocol::limits::limits());
        let connection = Arc::new(Connection::new(Arc::clone(self), false));
        self.works.see_through(process::accept::serve_connection(peer, incoming, connection));
        client
    }

    /// The number of a connection that begins.
    fn next_connection(&self) -> ConnectionId {
        ConnectionId(self.connections.fetch_add(1, Ordering::Relaxed))
    }

    /// A way for questions about a record to those who can be asked, first of all to the client of the turn.
    fn advisor(&self, record: &RecordId, own: Option<TurnResponder>) -> mpsc::Sender<ResponderRequest> {
        let (advisor, routing) = permissions::router::route(
            Arc::clone(&self.askable),
            Arc::clone(&self.store),
            record.clone(),
            own,
        );
        self.works.see_through(routing);
        advisor
    }

    /// What a session answers instead. A host on its way out leaves whoever it can no longer serve without an
    /// answer: the client finds the connection ended, and asks the next host.
    fn refused(&self, error: &SessionError) -> CallError {
        match error {
            SessionError::ShutDown(_) if self.is_leaving() => CallError::Unanswered,
            other => crate::protocol::rpc_error::refused(other),
        }
    }

    /// Whether it is on its way out.
    fn is_leaving(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Waits until somebody wants the host to go.
    async fn leaving(&self) {
        // The sender is our own, so it does not go away before.
        drop(self.stopping.subscribe().wait_for(|stopping| *stopping).await);
    }
}
