//! `acpx sessions close`: ends a session's turns and its agent, and hides it from lookup.

use acpx_core::model::SessionIdentity;
use serde_json::json;

use crate::commands::host_request::call_host;
use crate::error::{CliError, Intent};
use crate::output::{self, Console};
use crate::session::host_locator::block_on;
use crate::session::lookup::{RecordLookup, SessionFilter};
use crate::session::settings::CommandSettings;

/// Closes the selected session.
pub(crate) fn run(settings: &CommandSettings) -> Result<(), CliError> {
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let lookup = RecordLookup::open()?;
        let record = lookup.selected(settings, SessionFilter::Open).await?;
        let Some(record) = record else { return Err(lookup.missing(settings, Intent::Close).await?) };
        drop(lookup);
        let params = json!({ "sessionId": record.id });
        let identity: SessionIdentity =
            call_host("_acpx/close", &params, &record, settings, &mut console).await?;
        Ok(output::closed(&identity, &mut console)?)
    })
}
