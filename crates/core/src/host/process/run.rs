//! Runs a host's process: cleans up after a previous host, serves clients, and leaves nothing behind but the store.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Engine, EngineSettings};
use crate::model::{ErrorCode, HostId};
use crate::store::{Access, SqliteStore, Store, StoreError};
use crate::tools::{OrphanReaper, SweepReport, SweptProcess, raise_open_files};

use super::accept::serve;
use super::import::Importer;
use super::listener::HostListener;
use super::startup_cleanup;
use crate::home::{HostLock, HostPaths};
use crate::host::{ClientTimeouts, ConfigurationReader, Host, OwnServers, ServerFile, UsageLimits};
use crate::protocol::{AgentNames, HostError};

/// The parameters of a host.
pub struct HostSetup {
    /// The paths of its home.
    pub paths: HostPaths,
    /// The program's version.
    pub version: String,
    /// The commit that the program was built from, with its date, if known.
    pub build: Option<String>,
    /// How long it stays without a client and a live session.
    pub linger: Duration,
    /// How long it waits for clients that read nothing.
    pub client_timeouts: ClientTimeouts,
    /// The engine's settings.
    pub settings: EngineSettings,
    /// Reads MCP servers from a configuration file.
    pub server_file: ServerFile,
    /// The MCP servers that the program itself provides for a session in a directory.
    pub own_servers: OwnServers,
    /// Reads from the configuration what turns and sessions may use. No program that an agent started exceeds it.
    pub usage_limits: UsageLimits,
    /// The names of agents in imported records.
    pub name_of: AgentNames,
}

/// Why a host could not start, or failed at its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The lock, the socket or the home failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system does not allow adopting orphaned processes.
    #[error("cannot look after orphaned processes")]
    Orphans(#[source] std::io::Error),
}

impl RunError {
    /// The stable code of this error.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Host(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Orphans(_) => ErrorCode::System,
        }
    }

    /// What a person can do next.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Host(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Orphans(_) => None,
        }
    }
}

/// Runs the host of a home whose lock the caller holds, until it is stopped, idle or has lost its store. `ready` is
/// called when it listens.
///
/// It claims the whole process: it adopts orphans, and treats every descendant as an agent's.
pub async fn run(setup: HostSetup, lock: HostLock, ready: impl FnOnce(&Arc<Host>)) -> Result<(), RunError> {
    let HostSetup { paths, version, build, linger, client_timeouts, mut settings, .. } = setup;
    let HostSetup { server_file, own_servers, usage_limits, name_of, .. } = setup;
    raise_open_files();
    let file = Arc::new(SqliteStore::open(&paths.store(), Access::ReadWrite)?);
    let store: Arc<dyn Store> = file.clone();
    let id = HostId::new(crate::wire::new_uuid().to_string()).expect("a UUID is not empty");
    let home = paths.name()?;
    settings.tag = Some(home.clone());
    let orphans = OrphanReaper::adopt().map_err(RunError::Orphans)?;
    let swept = startup_cleanup::end(&store, &id, (&paths, &home), &settings).await?;
    let engine = Engine::new(Arc::clone(&store), id.clone(), settings);
    let importer = Importer {
        store: Arc::clone(&file),
        host: id,
        own_directory: paths.npm_sessions(),
        home: paths.home().to_owned(),
        index: paths.index(),
        name_of,
        one_at_a_time: tokio::sync::Mutex::default(),
    };
    let host = Arc::new(Host {
        configuration: ConfigurationReader { server_file, own_servers, usage_limits },
        importer: Some(importer),
        ..Host::new(engine, store, version.clone(), client_timeouts)
    });
    let listener = HostListener::open(paths, lock, (version.clone(), build.clone()))?;
    tracing::info!(version, build, pid = std::process::id(), "host started");
    log_swept(&swept);
    ready(&host);
    // Held to the end, so that no other host starts before this one is done.
    let _lock = serve(listener, &host, &home, linger, || file.is_in_place()).await;
    orphans.release().await;
    tracing::info!("host stopped");
    if file.is_in_place() { Ok(()) } else { Err(StoreError::Gone { path: file.path().to_owned() }.into()) }
}

/// Logs the processes that a killed host or command left behind.
fn log_swept(swept: &SweepReport) {
    for SweptProcess { identity, name, .. } in &swept.ended {
        tracing::warn!(pid = identity.pid, name, "process of a killed host or command ended");
    }
    for SweptProcess { identity, name, .. } in &swept.left {
        tracing::error!(pid = identity.pid, name, "process of a killed host or command could not be ended");
    }
}
