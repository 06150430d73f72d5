//! `acpx sessions show`: shows one session, open or closed, with its ACP sessions.

use acpx_core::host::title;
use acpx_core::model::Record;

use crate::error::CliError;
use crate::output::{Console, TranscriptView, show};
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::lookup::{LOOKED_THROUGH, last_usage};
use crate::session::private::PrivateIds;
use crate::session::restore_cause::transcript_view;
use crate::session::settings::CommandSettings;
use crate::session::shown_session::{NativeRecord, ShownSession};

/// Shows the selected session.
pub(crate) fn run(settings: &CommandSettings) -> Result<(), CliError> {
    block_on(async {
        let mut console = Console::of_program(settings.mode);
        let (record, last_prompt, used, native_prompts) = match ShownSession::find(settings, "show").await? {
            ShownSession::Stored { lookup, mut record } => {
                if let Some(store) = lookup.store() {
                    record.info.title = title(store, &record).await?;
                }
                let last_prompt = lookup.last_turn(&record).await?.map(|turn| turn.queued_at);
                let used = last_usage(&record, &lookup.recent(&record, LOOKED_THROUGH).await?);
                (*record, last_prompt, used, None)
            }
            ShownSession::Native(session) => {
                let NativeRecord { record, prompts } = session.record(&mut console).await?;
                (record, None, None, Some(prompts))
            }
        };
        let is_private = is_private(&record, &mut console).await?;
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
