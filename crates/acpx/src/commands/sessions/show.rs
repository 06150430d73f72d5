//! `acpx sessions show`: shows one session, open or closed, with its ACP sessions.

use acpx_core::host::title;
use acpx_core::model::Record;

use crate::error::CliError;
use crate::output::{Console, TranscriptView, show};
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::lookup::{LOOKED_THROUGH, RecordLookup, last_usage};
use crate::session::private::PrivateIds;
use crate::session::restore_cause::transcript_view;
use crate::session::settings::CommandSettings;

/// Shows the selected session.
pub(crate) fn run(settings: &CommandSettings) -> Result<(), CliError> {
    block_on(async {
        let lookup = RecordLookup::with_transcripts(settings).await?;
        let (mut record, store) = lookup.need(settings, "show").await?;
        record.info.title = title(store, &record).await?;
        let last_prompt = lookup.last_turn(&record).await?.map(|turn| turn.queued_at);
        let used = last_usage(&record, &lookup.recent(&record, LOOKED_THROUGH).await?);
        let mut console = Console::of_program(settings.mode);
        let is_private = is_private(&record, &mut console).await?;
        let native_prompts = lookup.native_prompts;
        let transcript = TranscriptView { is_private, native_prompts, ..transcript_view(&record, settings) };
        Ok(show(&record, last_prompt, used.as_ref(), &transcript, &mut console)?)
    })
}

/// Whether `acpx mcp` never shows the record. If that is not known, the session is shown all the same.
async fn is_private(record: &Record, console: &mut Console<'_>) -> Result<bool, CliError> {
    let locator = HostLocator::of_environment()?;
    let store = locator.open_store()?;
    let private = PrivateIds::read(locator.paths.home(), store.as_ref().map(|store| store as _), &[]).await;
    match private {
        Ok(private) => Ok(private.covers(record)),
        Err(error) => {
            console.notice(&error.message());
            Ok(false)
        }
    }
}
