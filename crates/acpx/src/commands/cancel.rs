//! `acpx cancel`: cancels the running turn, of any client, or a prompt by its id.

use acpx_core::model::Record;
use acpx_core::protocol::{CancelledMeta, TurnCancelParams};
use acpx_core::store::Store;

use super::queue::{open_in_store, open_prompt};
use crate::error::CliError;
use crate::output::{self, Console};
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::{HostSession, HostSessionError};
use crate::session::lookup::{RecordLookup, SessionFilter};
use crate::session::settings::CommandSettings;

/// Cancels in the selected session. Nothing to cancel is a result, not an error.
pub(super) fn run(settings: &CommandSettings) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let lookup = RecordLookup::open()?;
        let record = lookup.selected(settings, SessionFilter::Open).await?;
        let cancelled = match &record {
            None => false,
            Some(record) => {
                let mut session = HostSession::with_timeout(&mut console, settings.timeout, &locator)?;
                let cancelled = session
                    .retry_on_lost_host(async |session| cancel(&locator, &lookup, record, session).await);
                cancelled.await.map_err(|error| error.about(record.identity()))?
            }
        };
        let identity = record.map(|record| record.identity());
        Ok(output::cancelled(identity.as_ref(), cancelled, &mut console)?)
    })
}

/// Cancels the prompt with this id, or a unique beginning of it, in any session.
pub(super) fn by_id(typed: &str, settings: &CommandSettings) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let mut open = open_in_store().await?;
        open.retain(|(record, _)| !settings.agent_is_typed || record.agent.is_same_as(&settings.agent));
        let Some((record, turn)) = open_prompt(typed, &open)? else {
            return Err(CliError::NoPrompt { id: typed.to_owned() });
        };
        let request_id = Some(turn.request.to_string());
        let params = TurnCancelParams { session_id: record.id.to_string(), request_id };
        let mut session = HostSession::with_timeout(&mut console, settings.timeout, &locator)?;
        let cancelled = session.retry_on_lost_host(async |session| {
            let mut client = session.host(&locator).await?;
            Ok(session.call::<CancelledMeta>(&mut client, "_acpx/cancel", &params).await?.cancelled)
        });
        let cancelled = cancelled.await.map_err(|error| error.about(record.identity()))?;
        Ok(output::cancelled(Some(&record.identity()), cancelled, &mut console)?)
    })
}

async fn cancel(
    locator: &HostLocator,
    lookup: &RecordLookup,
    record: &Record,
    session: &mut HostSession<'_>,
) -> Result<bool, HostSessionError> {
    let running = match session.during(locator.running()).await? {
        Some(client) => Some(client),
        // Without a host nothing runs, but prompts of a dead host may be queued.
        None if waits(lookup, record).await? => Some(session.host(locator).await?),
        None => None,
    };
    let Some(mut client) = running else { return Ok(false) };
    let params = TurnCancelParams { session_id: record.id.to_string(), request_id: None };
    Ok(session.call::<CancelledMeta>(&mut client, "_acpx/cancel", &params).await?.cancelled)
}

async fn waits(lookup: &RecordLookup, record: &Record) -> Result<bool, CliError> {
    match lookup.store() {
        Some(store) => Ok(!store.open_turns(record.id.clone()).await?.is_empty()),
        None => Ok(false),
    }
}
