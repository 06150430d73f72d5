//! `acpx sessions rename`: changes the name of a session, or the title of one without a name.

use acpx_core::protocol::meta::RenamedMeta;
use serde_json::json;

use crate::cli::UsageError;
use crate::commands::host_request::call_host;
use crate::error::CliError;
use crate::output::{self, Console};
use crate::session::host_locator::block_on;
use crate::session::lookup::{RecordLookup, position_of};
use crate::session::settings::CommandSettings;

/// Renames the selected session.
pub(crate) fn run(settings: &CommandSettings, new: &str) -> Result<(), CliError> {
    if position_of(new).is_some() {
        return Err(UsageError::ReservedName { name: new.to_owned() }.into());
    }
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let lookup = RecordLookup::open()?;
        let record = lookup.need(settings, "rename").await?.0;
        drop(lookup);
        let params = json!({ "sessionId": record.id, "name": new });
        let renamed: RenamedMeta =
            call_host("_acpx/rename", &params, &record, settings, &mut console).await?;
        Ok(output::renamed(&renamed, &mut console)?)
    })
}
