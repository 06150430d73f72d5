//! The engine of a command that holds its agents itself instead of using the home's host. Its agents are tagged,
//! reached and ended like the host's, and are not recorded. It first ends the agents that a killed command left behind.

use std::ops::Deref;
use std::sync::Arc;

use acpx_core::engine::{Engine, EngineSettings};
use acpx_core::home::{DirectRun, HostPaths, end_leftovers, has_leftovers};
use acpx_core::model::HostId;
use acpx_core::store::MemoryStore;
use acpx_core::tools::{GracePeriods, SweptProcess, Tag};

use super::host_locator::{HostLocator, relay};
use super::interrupt::InterruptWatcher;
use super::settings::CommandSettings;
use crate::config::environment;
use crate::error::CliError;
use crate::output::Console;

/// Browsers, by process and file name. A browser opened for a login belongs to the user, one that an agent drives is
/// the agent's tool: only the login command leaves them running.
const BROWSERS: [&str; 15] = [
    "brave",
    "chrome",
    "chromium",
    "chromium-browser",
    "epiphany",
    "falkon",
    "firefox",
    "firefox-bin",
    "firefox-esr",
    "konqueror",
    "librewolf",
    "msedge",
    "opera",
    "vivaldi-bin",
    "zen-bin",
];

/// The engine, and its mark in the home. The drop removes the mark, after its agents have ended.
pub(crate) struct OwnEngine {
    engine: Engine,
    _direct_run: Option<DirectRun>,
}

impl Deref for OwnEngine {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

/// An engine for logins.
pub(crate) async fn login_engine(settings: &CommandSettings) -> Result<OwnEngine, CliError> {
    engine("auth", settings, programs_kept_by_login(settings), Arc::new(MemoryStore::new())).await
}

/// The programs that survive a login.
pub(crate) fn programs_kept_by_login(settings: &CommandSettings) -> Arc<[String]> {
    settings.keep_programs.iter().cloned().chain(BROWSERS.map(str::to_owned)).collect()
}

/// An engine under this name, with a store in memory.
pub(crate) async fn own_engine(
    name: &'static str,
    settings: &CommandSettings,
    store: Arc<MemoryStore>,
) -> Result<OwnEngine, CliError> {
    engine(name, settings, Arc::clone(&settings.keep_programs), store).await
}

async fn engine(
    name: &'static str,
    settings: &CommandSettings,
    keep_programs: Arc<[String]>,
    store: Arc<MemoryStore>,
) -> Result<OwnEngine, CliError> {
    let locator = HostLocator::of_environment()?;
    let home = locator.tag();
    let tag = home.clone().and_then(Tag::of_this_process);
    // A home that cannot be written to gets no mark: the next host finds leftover agents anyway.
    let direct_run = tag.and_then(|tag| DirectRun::begin(&locator.paths, &tag).ok());
    if let Some(home) = home.clone().filter(|_| has_leftovers(&locator.paths)) {
        sweep(locator.paths, home, settings).await?;
    }
    let settings =
        EngineSettings { tag: home, keep_programs, relay: relay(), ..environment::engine_settings()? };
    let id = HostId::new(name).expect("the name of a command is not empty");
    Ok(OwnEngine { engine: Engine::new(store, id, settings), _direct_run: direct_run })
}

/// Ends the agents that killed commands left behind, and reports it. Takes a bounded time; a signal ends the command.
async fn sweep(paths: HostPaths, home: String, settings: &CommandSettings) -> Result<(), CliError> {
    let keep = Arc::clone(&settings.keep_programs);
    let sweeping = move || end_leftovers(&paths, &home, &keep, GracePeriods::default());
    let swept =
        InterruptWatcher::new(None)?.during(tokio::task::spawn_blocking(sweeping)).await?.unwrap_or_default();
    let mut console = Console::of_program(settings.mode);
    for (processes, what) in [(&swept.ended, "ended"), (&swept.left, "could not end")] {
        for SweptProcess { identity, name, .. } in processes {
            console.detail(&format!("{what} {} ({name}), left by a command that was killed", identity.pid));
        }
    }
    Ok(())
}
