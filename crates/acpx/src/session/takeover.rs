//! Imports npm acpx sessions automatically: a command that finds new files imports them first, through the running host
//! or, without one, under the host's lock. It never starts a process for that.
//!
//! A session that a running npm acpx holds is not imported: two programs would continue one conversation. A command for
//! such a session fails and names the process; every other command reports it and continues.

use std::path::Path;
use std::time::{Duration, Instant};

use acpx_core::home::HostLock;
use acpx_core::host::import_alone;
use acpx_core::model::{AgentSpec, ProcessIdentity};
use acpx_core::protocol::{ConfiguredAgent, HostError, ImportMeta, ImportParams};
use acpx_core::store::import_acpx::{HeldSession, ImportMode, NpmSessions};
use acpx_core::store::{Access, ScopeQuery, SqliteStore, Store};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::host_locator::{HostLocator, block_on};
use super::host_session::HostSession;
use super::lookup::{ScopeDirectories, abbreviates};
use super::settings::CommandSettings;
use crate::agents::name_of;
use crate::error::CliError;
use crate::output::Console;

/// How long to wait for a host that is starting or stopping.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(10);
/// How often to check for it.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Which sessions a command concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImportScope {
    /// The one selected by agent, directory and name.
    One,
    /// Any.
    Any,
}

/// Imports new sessions of the home, and prints how many.
pub(crate) fn first(settings: &CommandSettings, concerns: ImportScope) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    let directory = locator.paths.npm_sessions();
    if !directory.is_dir() {
        return Ok(());
    }
    block_on(async {
        let mut console = Console::of_program(settings.mode);
        let store = locator.open_store()?;
        let found = NpmSessions::look(store.as_ref(), &directory, ProcessIdentity::living).await?;
        for held in &found.held {
            if concerns == ImportScope::One && is_meant(held, settings, store.as_ref()).await? {
                return Err(CliError::HeldByNpm { record: held.record.to_string(), pid: held.pid });
            }
            let HeldSession { record, pid, .. } = held;
            console.banner(&format!(
                "npm acpx (pid {pid}) holds the session {record}; it comes over when that process ends"
            ));
        }
        drop(store);
        if found.has_news {
            let mut session = HostSession::with_timeout(&mut console, settings.timeout, &locator)?;
            let agents = &settings.configured_agents;
            let report = take(&locator, &directory, agents, ImportMode::Keep, &mut session).await?;
            report_import(&report, &mut console);
        }
        Ok(())
    })
}

/// Whether the command concerns a session that npm acpx holds: by id, or by agent, directory and name if these select
/// no session of ours.
async fn is_meant(
    held: &HeldSession,
    settings: &CommandSettings,
    store: Option<&SqliteStore>,
) -> Result<bool, CliError> {
    if settings.session.as_ref().is_some_and(|name| abbreviates(name.as_str(), &held.record)) {
        return Ok(true);
    }
    let directories = ScopeDirectories::from(settings.cwd.as_path())?.directories()?;
    let real_cwd = held.cwd.as_path().canonicalize().ok();
    let is_here = directories.iter().any(|directory| real_cwd.as_deref() == Some(directory.as_path()));
    if !is_here || held.name != settings.session || !is_of(held, &settings.agent, &settings.configured_agents)
    {
        return Ok(false);
    }
    let Some(store) = store else { return Ok(true) };
    let (agent, name) = (settings.agent.key(), settings.session.clone());
    let found = store.find(ScopeQuery { agent, directories, name, closed: false }).await?;
    Ok(found.is_none_or(|found| found.id == held.record))
}

/// Whether npm acpx holds a session with this agent.
fn is_of(held: &HeldSession, agent: &AgentSpec, configured: &[ConfiguredAgent]) -> bool {
    let own = [&agent.program].into_iter().chain(&agent.args);
    held.commands.iter().any(|argv| {
        let name = ConfiguredAgent::name_of(configured, name_of, argv);
        own.clone().eq(argv) || (name.is_some() && name == agent.name)
    })
}

/// Imports the sessions of a directory, or reports what would be imported.
pub(crate) async fn take(
    locator: &HostLocator,
    directory: &Path,
    agents: &[ConfiguredAgent],
    mode: ImportMode,
    session: &mut HostSession<'_>,
) -> Result<ImportMeta, CliError> {
    let dry_run = mode == ImportMode::DryRun;
    let params = ImportParams { directory: directory.to_owned(), dry_run, agents: agents.to_owned() };
    let alone = async || alone(locator, directory, agents, mode).await;
    by_host_or_alone(locator, session, "_acpx/import", &params, alone).await
}

/// Calls a method of the running host or, without one, does the same under the host's lock. It starts no host.
pub(crate) async fn by_host_or_alone<T: DeserializeOwned>(
    locator: &HostLocator,
    session: &mut HostSession<'_>,
    method: &'static str,
    params: &impl Serialize,
    alone: impl AsyncFn() -> Result<T, CliError>,
) -> Result<T, CliError> {
    let deadline = Instant::now() + TAKEOVER_TIMEOUT;
    loop {
        let imported = session.retry_on_lost_host(async |session| {
            let Some(mut client) = session.during(locator.running()).await? else { return Ok(None) };
            session.call::<T>(&mut client, method, params).await.map(Some)
        });
        if let Some(report) = imported.await? {
            return Ok(report);
        }
        if let Some(_alone) = HostLock::try_take(&locator.paths)? {
            return alone().await;
        }
        if Instant::now() >= deadline {
            return Err(HostError::Silent { home: locator.paths.home().to_owned() }.into());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn alone(
    locator: &HostLocator,
    directory: &Path,
    agents: &[ConfiguredAgent],
    mode: ImportMode,
) -> Result<ImportMeta, CliError> {
    let path = locator.paths.store();
    if mode == ImportMode::Keep || path.exists() {
        let access = if mode == ImportMode::Keep { Access::ReadWrite } else { Access::ReadOnly };
        let store = SqliteStore::open(&path, access)?;
        return Ok(import_alone(&store, directory, agents, name_of, mode).await?);
    }
    // A dry run in a home without a store must not create one.
    let elsewhere = tempfile::tempdir()
        .map_err(|source| CliError::System { doing: "make a temporary directory".to_owned(), source })?;
    let store = SqliteStore::open(&elsewhere.path().join("acpx.db"), Access::ReadWrite)?;
    Ok(import_alone(&store, directory, agents, name_of, mode).await?)
}

/// Reports imports to people only: a command's stdout carries its own answer, also in JSON, and a program that parses
/// it expects nothing else. Programs use `sessions migrate`, which reports every file each time.
fn report_import(report: &ImportMeta, console: &mut Console<'_>) {
    match report.taken.len() + report.grown.len() {
        0 => {}
        1 => console.banner("took over 1 session of npm acpx"),
        count => console.banner(&format!("took over {count} sessions of npm acpx")),
    }
    for damaged in &report.damaged {
        console.banner(&format!("{} of npm acpx was not taken over: {}", damaged.file, damaged.reason));
    }
    for continued in &report.continued {
        console.banner(continued);
    }
}
