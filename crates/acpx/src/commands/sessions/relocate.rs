//! `acpx sessions move`: moves a session whose project has moved to the new directory.

use std::process::ExitCode;

use acpx_core::model::{AbsolutePath, Record};
use acpx_core::protocol::meta::MovedMeta;
use acpx_core::store::real_path;
use serde_json::json;

use crate::error::{CliError, CliExit, NoSessionHelp};
use crate::output::{self, Console, SessionMove};
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::HostSession;
use crate::session::interrupt::InterruptWatcher;
use crate::session::lookup::{RecordLookup, has_name, id_of, no_session, told};
use crate::session::settings::CommandSettings;

/// Moves the selected session to the command's directory.
pub(crate) fn run(settings: &CommandSettings) -> Result<ExitCode, CliError> {
    let reach = HostLocator::of_environment()?;
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let record = meant(&RecordLookup::open()?, settings).await?;
        let MovedMeta { ids, staying_directories } = if works_in(&record, &settings.cwd) {
            // It is there already, and its agent need not be restarted.
            MovedMeta { ids: record.identity().into(), staying_directories: Vec::new() }
        } else {
            let params = json!({ "sessionId": record.id, "cwd": settings.cwd });
            let mut talk =
                HostSession::new(&mut console, InterruptWatcher::new(settings.timeout)?, Some(&reach));
            let asked = talk.persist(async |talk| {
                let mut client = talk.host(&reach).await?;
                talk.call::<MovedMeta>(&mut client, "_acpx/move", &params).await
            });
            asked.await.map_err(|error| of_taken_place(error).about(record.identity()))?
        };
        let identity = ids.identity().unwrap_or_else(|| record.identity());
        let (from, to) = (record.cwd.as_path(), settings.cwd.as_path());
        let moved = SessionMove { identity: &identity, from, to, staying: &staying_directories };
        output::moved(&moved, &mut console)?;
        Ok(CliExit::Success.into())
    })
}

/// The session of an id, or else the one of this agent and name whose directory is missing.
async fn meant(kept: &RecordLookup, settings: &CommandSettings) -> Result<Record, CliError> {
    if let Some(record) = kept.by_id(settings).await? {
        return Ok(record);
    }
    let mut lost = kept.lost_of(settings).await?;
    match (lost.pop(), lost.is_empty()) {
        (Some(record), true) => Ok(record),
        (None, _) => {
            let name = settings.session.as_ref();
            let mut there = kept.open_with(Some(settings)).await?;
            there.retain(|record| name.is_some() && has_name(record, name));
            if id_of(settings).is_some() && there.is_empty() {
                return Err(no_session(settings, NoSessionHelp::LOOK)?);
            }
            Err(CliError::NoneLost {
                agent: settings.typed_agent(),
                name: name.map(ToString::to_string),
                there: there.iter().map(told).collect(),
            })
        }
        (Some(another), false) => {
            Err(CliError::SeveralLost { lost: lost.iter().chain([&another]).map(told).collect() })
        }
    }
}

/// Whether a record works in a directory already, also by its real path: a link may have changed.
fn works_in(record: &Record, cwd: &AbsolutePath) -> bool {
    record.cwd.as_path() == cwd.as_path() && real_path(cwd).is_ok_and(|real| real == record.real_cwd)
}

/// Adds a hint to the error that the place is taken. A move cannot change the name.
fn of_taken_place(error: CliError) -> CliError {
    let hint = "close that session first, by its id: acpx sessions close ID";
    if error.code() == "SCOPE_TAKEN" { error.with_hint(hint.to_owned()) } else { error }
}
