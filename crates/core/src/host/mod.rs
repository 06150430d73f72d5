//! The host: the background process that holds a home's live sessions, and how clients reach it.
//!
//! On its socket it is an ACP agent whose sessions are our records, so that commands, editors and whatever comes
//! later speak one protocol to one dispatcher. There is one host for each home: whoever has its lock. It comes
//! when it is needed and goes when nobody needs it; what it leaves behind is in the store and nowhere else.

mod attachment;
mod client;
mod connection;
mod door;
mod error;
mod fault;
mod importing;
mod launch;
mod list;
mod lock;
pub mod meta;
mod methods;
mod opening;
mod place;
mod run;
mod scopes;
mod serve;
mod stopping;
mod turns;
mod watched;
mod works;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;

pub use client::{FromHost, HostClient};
pub use error::HostError;
pub use fault::{Refusal, last_words};
pub use importing::{AgentNames, FileMeta, ImportMeta, ImportParams, TakenMeta, import_alone};
pub use launch::{Launcher, READY, any_version, running};
pub use lock::{HostInfo, HostLock, published};
pub use place::HostPlace;
pub use run::{HostSetup, RunError, run};
pub use stopping::stop;
pub use watched::WatchedEvent;

use crate::acp::agent::CallError;
use crate::engine::{Engine, Servers, SessionError};
use crate::model::{KeptServer, McpServer, Timestamp};
use crate::store::Store;

use importing::Importer;
use scopes::Scopes;
use works::Works;

/// Reads the MCP servers of a configuration file for a session; a reason in words if it cannot be read.
pub type ServerFile = Arc<dyn Fn(&Path, Around<'_>) -> Result<Vec<McpServer>, String> + Send + Sync>;

/// What the programs of servers are looked for by.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// The directory the session works in.
    pub cwd: &'a Path,
    /// The directories of `PATH`.
    pub path: Option<&'a OsStr>,
}

/// What every connection to a host shares.
pub struct Host {
    engine: Engine,
    store: Arc<dyn Store>,
    scopes: Scopes,
    works: Works,
    server_file: ServerFile,
    /// Takes sessions of npm acpx over, if there is a file to take them into.
    importer: Option<Importer>,
    version: String,
    started_at: Timestamp,
    /// How many clients are connected.
    clients: Arc<watch::Sender<usize>>,
    /// True once somebody wants the host to go.
    stopping: watch::Sender<bool>,
}

impl Host {
    /// A host over an engine and the store it writes to. `version` is the program's.
    pub fn new(
        engine: Engine,
        store: Arc<dyn Store>,
        server_file: ServerFile,
        version: impl Into<String>,
    ) -> Arc<Self> {
        Arc::new(Self::made_of(engine, store, server_file, None, version.into()))
    }

    fn made_of(
        engine: Engine,
        store: Arc<dyn Store>,
        server_file: ServerFile,
        importer: Option<Importer>,
        version: String,
    ) -> Self {
        Self {
            started_at: engine.now(),
            engine,
            store,
            scopes: Scopes::default(),
            works: Works::default(),
            server_file,
            importer,
            version,
            clients: Arc::default(),
            stopping: watch::Sender::new(false),
        }
    }

    /// Lets the host go: it takes nobody in any more, and stops.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Stops every session for good.
    pub async fn shut_down(&self) {
        self.stopping.send_replace(true);
        self.engine.shutdown().await;
        self.works.done().await;
    }

    /// What a session answers instead. A host on its way out leaves whoever it can no longer serve without an
    /// answer: the client finds the connection ended, and asks the next host.
    fn refused(&self, error: &SessionError) -> CallError {
        match error {
            SessionError::ShutDown(_) if self.is_leaving() => CallError::Unanswered,
            other => fault::refused(other),
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

    /// The servers a record had, from the files they came from. One whose file no longer has it, or that a
    /// client had told, is left out; `None` if no file could help.
    fn recovered(&self, kept: Vec<KeptServer>, around: Around<'_>) -> Option<Servers> {
        let source = kept.iter().find_map(|server| server.source.clone())?;
        let there = (self.server_file)(source.as_path(), around).unwrap_or_default();
        let mut servers = Servers { source: Some(source.clone()), ..Servers::default() };
        for KeptServer { name, source: from } in kept {
            let value = there.iter().find(|server| server.name == name && from.as_ref() == Some(&source));
            match value {
                Some(server) => servers.list.push(server.clone()),
                None => servers.left_out.push(name),
            }
        }
        Some(servers)
    }
}
