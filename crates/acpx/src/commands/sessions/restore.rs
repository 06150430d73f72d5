//! `acpx sessions restore --to`: returns a session to an earlier ACP session that its agent still has.

use acpx_core::model::{ErrorCode, LineageReason};
use acpx_core::protocol::meta::RestoreMeta;

use super::reset::change_session;
use crate::commands::host_request::restore_meta;
use crate::error::CliError;
use crate::output::Console;
use crate::session::host_locator::block_on;
use crate::session::lookup::RecordLookup;
use crate::session::settings::CommandSettings;

/// Returns to the ACP session of this id.
pub(crate) fn run(settings: &CommandSettings, to: String) -> Result<(), CliError> {
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let record = RecordLookup::open()?.open_one(settings).await?;
        let meta = RestoreMeta { return_to: Some(to), ..restore_meta(&record, settings, None) };
        let others = format!("acpx sessions show {} lists its ACP sessions", record.id);
        let not_restored = |error: CliError| {
            let hint = match error.code() {
                ErrorCode::SessionNotRestored => {
                    format!("nothing has changed; try again, or choose another: {others}")
                }
                ErrorCode::NotInLineage => others,
                _ => return error,
            };
            error.with_hint(hint)
        };
        let returned = change_session(meta, LineageReason::Returned, &record, settings, &mut console).await;
        returned.map_err(not_restored)
    })
}
