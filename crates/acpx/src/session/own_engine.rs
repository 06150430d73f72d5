//! The engine of a command that holds its agents itself, instead of having the home's host hold them. They are marked,
//! reached and ended as the host's are, whichever command it is; nothing of them is kept. What a command like it has
//! left that was killed is ended first.

use std::ops::Deref;
use std::sync::Arc;

use acpx_core::engine::{Engine, EngineSettings};
use acpx_core::home::{Holding, HostPlace, end_leavings, has_leavings};
use acpx_core::model::HostId;
use acpx_core::store::MemoryStore;
use acpx_core::tools::{GracePeriods, SweptProcess, Tag};

use super::host_locator::{HostLocator, relay};
use super::interrupt::InterruptWatcher;
use super::settings::CommandSettings;
use crate::error::CliError;
use crate::output::Console;

/// Browsers, by the names of their processes and files. One that is opened for a login is the user's from then on, and one
/// that an agent drives is its tool: only the command that logs in keeps them.
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

/// Such an engine. The home knows of it until this is dropped, which is when its agents are gone.
pub(crate) struct OwnEngine {
    engine: Engine,
    _holding: Option<Holding>,
}

impl Deref for OwnEngine {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

/// An engine whose agents log in.
pub(crate) async fn login_engine(settings: &CommandSettings) -> Result<OwnEngine, CliError> {
    engine("auth", settings, kept_by_login(settings), Arc::new(MemoryStore::new())).await
}

/// The programs that are not ended with a login.
pub(crate) fn kept_by_login(settings: &CommandSettings) -> Arc<[String]> {
    settings.keep_programs.iter().cloned().chain(BROWSERS.map(str::to_owned)).collect()
}

/// An engine under this name, over a store in memory.
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
    let reach = HostLocator::of_environment()?;
    let home = reach.tag();
    let tag = home.clone().and_then(Tag::of_this_process);
    // A home that cannot be written to knows of no command: the next host finds what it leaves all the same.
    let holding = tag.and_then(|tag| Holding::begin(&reach.place, &tag).ok());
    if let Some(home) = home.clone().filter(|_| has_leavings(&reach.place)) {
        sweep(reach.place, home, settings).await?;
    }
    let settings = EngineSettings { tag: home, keep_programs, relay: relay(), ..EngineSettings::default() };
    let id = HostId::new(name).expect("the name of a command is not empty");
    Ok(OwnEngine { engine: Engine::new(store, id, settings), _holding: holding })
}

/// Ends what killed commands have left, and says so. It is bounded in time, and whoever does not want to wait for it ends
/// the command.
async fn sweep(place: HostPlace, home: String, settings: &CommandSettings) -> Result<(), CliError> {
    let keep = Arc::clone(&settings.keep_programs);
    let sweeping = move || end_leavings(&place, &home, &keep, GracePeriods::default());
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
