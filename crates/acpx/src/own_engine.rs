//! The engine of a command that holds its agents itself, instead of having the home's host hold them. They are marked,
//! reached and ended as the host's are, whichever command it is; nothing of them is kept.

use std::sync::Arc;

use acpx_core::engine::{Engine, Settings as EngineSettings};
use acpx_core::model::HostId;
use acpx_core::store::MemoryStore;

use crate::error::CliError;
use crate::reach::{Reach, relay};
use crate::settings::Settings;

/// An engine under this name, over a store in memory.
pub(crate) fn own_engine(
    name: &'static str,
    settings: &Settings,
    store: Arc<MemoryStore>,
) -> Result<Engine, CliError> {
    let engine_settings = EngineSettings {
        tag: Reach::of_environment()?.tag(),
        keep_programs: Arc::clone(&settings.keep_programs),
        relay: relay(),
        ..EngineSettings::default()
    };
    let id = HostId::new(name).expect("the name of a command is not empty");
    Ok(Engine::new(store, id, engine_settings))
}
