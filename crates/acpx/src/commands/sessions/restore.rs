//! `acpx sessions restore --to`: returns a session to an earlier ACP session that its agent still has.

use std::process::ExitCode;

use acpx_core::model::LineageReason;
use acpx_core::protocol::meta::RestoreMeta;

use super::reset::resume;
use crate::error::{CliError, CliExit};
use crate::output::{self, Console, SessionChange};
use crate::session::host_locator::block_on;
use crate::session::lookup::RecordLookup;
use crate::session::settings::CommandSettings;

/// Returns to the ACP session of this id.
pub(crate) fn run(settings: &CommandSettings, to: String) -> Result<ExitCode, CliError> {
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let record = RecordLookup::open()?.open_one(settings).await?;
        let meta = RestoreMeta { return_to: Some(to), ..RestoreMeta::default() };
        let others = format!("acpx sessions show {} lists its ACP sessions", record.id);
        let not_restored = |error: CliError| {
            let hint = match &*error.code() {
                "SESSION_NOT_RESTORED" => {
                    format!("nothing has changed; try again, or choose another: {others}")
                }
                "NOT_IN_LINEAGE" => others,
                _ => return error,
            };
            error.with_hint(hint)
        };
        let identity = resume(settings, &record, meta, &mut console).await.map_err(not_restored)?;
        let (from, reason) = (&record.lineage.current().session, LineageReason::Returned);
        output::session_changed(&SessionChange { identity: &identity, from, reason }, &mut console)?;
        Ok(CliExit::Success.into())
    })
}
