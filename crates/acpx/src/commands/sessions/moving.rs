//! `acpx sessions move`: a session whose project has moved works in the new directory from then on.

use std::process::ExitCode;

use acpx_core::host::meta::MovedMeta;
use acpx_core::model::{Lifecycle, Record};
use acpx_core::store::{RecordFilter, Store};
use serde_json::json;

use super::super::kept::Kept;
use crate::error::{CliError, Exit};
use crate::output::{self, Console, Moved};
use crate::patience::Patience;
use crate::reach::{Reach, block_on};
use crate::settings::Settings;
use crate::talk::Talk;

/// Moves the session that is meant to the directory that the command works in.
pub(crate) fn run(settings: &Settings) -> Result<ExitCode, CliError> {
    let reach = Reach::of_environment()?;
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let record = meant(&Kept::open()?, settings).await?;
        let params = json!({ "sessionId": record.id, "cwd": settings.cwd });
        let mut talk = Talk::new(&mut console, Patience::new(settings.timeout)?, Some(&reach));
        let asked = talk.persist(async |talk| {
            let mut client = talk.host(&reach).await?;
            talk.call::<MovedMeta>(&mut client, "_acpx/move", &params).await
        });
        let MovedMeta { ids, staying_directories } =
            asked.await.map_err(|error| error.about(record.identity()))?;
        let identity = ids.identity().unwrap_or_else(|| record.identity());
        let (from, to) = (record.cwd.as_path(), settings.cwd.as_path());
        let moved = Moved { identity: &identity, from, to, staying: &staying_directories };
        output::moved(&moved, &mut console)?;
        Ok(Exit::Success.into())
    })
}

/// The session of an id, or else the one of this agent and name whose directory is gone: where it was, nobody who
/// works in the new directory can say.
async fn meant(kept: &Kept, settings: &Settings) -> Result<Record, CliError> {
    if let Some(record) = kept.by_id(settings).await? {
        return Ok(record);
    }
    let filter = RecordFilter { agent: Some(settings.agent.key()), real_cwd: None };
    let records = match kept.store() {
        Some(store) => store.records(filter, None, usize::MAX).await?,
        None => Vec::new(),
    };
    let is_meant = |record: &Record| {
        let scope = record.scope.as_ref().filter(|_| record.lifecycle == Lifecycle::Open);
        scope.is_some_and(|scope| scope.name == settings.session) && !record.cwd.as_path().is_dir()
    };
    let mut lost: Vec<Record> = records.into_iter().filter(is_meant).collect();
    match (lost.pop(), lost.is_empty()) {
        (Some(record), true) => Ok(record),
        (None, _) => Err(CliError::NoneLost {
            agent: settings.typed_agent(),
            name: settings.session.as_ref().map(ToString::to_string),
        }),
        (Some(another), false) => {
            let ids = lost.iter().chain([&another]).map(|record| record.id.to_string()).collect();
            Err(CliError::SeveralLost { ids })
        }
    }
}
