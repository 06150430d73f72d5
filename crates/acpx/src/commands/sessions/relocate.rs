//! `acpx sessions move`: moves a session whose project has moved to the new directory.

use acpx_core::model::{AbsolutePath, ErrorCode, Record};
use acpx_core::protocol::meta::MovedMeta;
use acpx_core::store::real_path;
use serde_json::json;

use crate::commands::host_request::call_host;
use crate::error::{CliError, NoSessionHelp};
use crate::output::{self, Console, SessionMove};
use crate::session::host_locator::block_on;
use crate::session::lookup::{RecordLookup, has_name, id_of, lost_session, no_session};
use crate::session::settings::CommandSettings;

/// Moves the selected session to the command's directory.
pub(crate) fn run(settings: &CommandSettings) -> Result<(), CliError> {
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let record = meant(&RecordLookup::open()?, settings).await?;
        let MovedMeta { ids, staying_directories } = if works_in(&record, &settings.cwd) {
            // It is there already, and its agent need not be restarted.
            MovedMeta { ids: record.identity(), staying_directories: Vec::new() }
        } else {
            let params = json!({ "sessionId": record.id, "cwd": settings.cwd });
            let moved = call_host("_acpx/move", &params, &record, settings, &mut console).await;
            moved.map_err(with_close_hint)?
        };
        let moved = SessionMove {
            identity: &ids,
            from: record.cwd.as_path(),
            cwd: settings.cwd.as_path(),
            staying_directories: &staying_directories,
        };
        Ok(output::moved(&moved, &mut console)?)
    })
}

/// The session of an id, or else the one of this agent and name whose directory is missing.
async fn meant(lookup: &RecordLookup, settings: &CommandSettings) -> Result<Record, CliError> {
    if let Some(record) = lookup.by_reference(settings).await? {
        return Ok(record);
    }
    let mut lost = lookup.lost_of(settings, usize::MAX).await?;
    match (lost.pop(), lost.is_empty()) {
        (Some(record), true) => Ok(record),
        (None, _) => {
            let name = settings.session.as_ref();
            let mut there = lookup.open_with(Some(settings)).await?;
            there.retain(|record| name.is_some() && has_name(record, name));
            if id_of(settings).is_some() && there.is_empty() {
                return Err(no_session(settings, NoSessionHelp::LOOK)?);
            }
            Err(CliError::NoneLost {
                agent: settings.typed_agent(),
                name: name.map(ToString::to_string),
                there: there.iter().map(lost_session).collect(),
            })
        }
        (Some(another), false) => {
            Err(CliError::SeveralLost { lost: lost.iter().chain([&another]).map(lost_session).collect() })
        }
    }
}

/// Whether a record works in a directory already, also by its real path: a link may have changed.
fn works_in(record: &Record, cwd: &AbsolutePath) -> bool {
    record.cwd.as_path() == cwd.as_path() && real_path(cwd).is_ok_and(|real| real == record.real_cwd)
}

/// Adds a hint to the error that another session has the name there. A move cannot change the name.
fn with_close_hint(error: CliError) -> CliError {
    let hint = "close that session first, by its id: acpx sessions close ID";
    if error.code() == ErrorCode::ScopeTaken { error.with_hint(hint.to_owned()) } else { error }
}
