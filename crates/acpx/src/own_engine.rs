//! The engine of a command that holds its agents itself, instead of having the home's host hold them. They are marked,
//! reached and ended as the host's are, whichever command it is; nothing of them is kept.

use std::sync::Arc;

use acpx_core::engine::{Engine, Settings as EngineSettings};
use acpx_core::model::HostId;
use acpx_core::store::MemoryStore;

use crate::error::CliError;
use crate::reach::{Reach, relay};
use crate::settings::Settings;

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

/// An engine whose agents log in.
pub(crate) fn login_engine(settings: &Settings) -> Result<Engine, CliError> {
    let kept = settings.keep_programs.iter().cloned();
    let keep_programs = kept.chain(BROWSERS.map(str::to_owned)).collect();
    engine("auth", keep_programs, Arc::new(MemoryStore::new()))
}

/// An engine under this name, over a store in memory.
pub(crate) fn own_engine(
    name: &'static str,
    settings: &Settings,
    store: Arc<MemoryStore>,
) -> Result<Engine, CliError> {
    engine(name, Arc::clone(&settings.keep_programs), store)
}

fn engine(
    name: &'static str,
    keep_programs: Arc<[String]>,
    store: Arc<MemoryStore>,
) -> Result<Engine, CliError> {
    let engine_settings = EngineSettings {
        tag: Reach::of_environment()?.tag(),
        keep_programs,
        relay: relay(),
        ..EngineSettings::default()
    };
    let id = HostId::new(name).expect("the name of a command is not empty");
    Ok(Engine::new(store, id, engine_settings))
}
