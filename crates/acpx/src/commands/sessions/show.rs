//! `acpx sessions show`: shows one session, open or closed, with its ACP sessions.

use acpx_core::host::title;

use crate::error::CliError;
use crate::output::{Console, show};
use crate::session::host_locator::block_on;
use crate::session::lookup::{LOOKED_THROUGH, RecordLookup, last_usage};
use crate::session::settings::CommandSettings;

/// Shows the selected session.
pub(crate) fn run(settings: &CommandSettings) -> Result<(), CliError> {
    block_on(async {
        let lookup = RecordLookup::open()?;
        let (mut record, store) = lookup.need(settings, "show").await?;
        record.info.title = title(store, &record).await?;
        let last_prompt = lookup.last_turn(&record).await?.map(|turn| turn.queued_at);
        let used = last_usage(&record, &lookup.recent(&record, LOOKED_THROUGH).await?);
        Ok(show(&record, last_prompt, used.as_ref(), &mut Console::of_program(settings.mode))?)
    })
}
