//! `acpx sessions replay`: shows a stored session again, from any event on. It starts no process.

use std::sync::Arc;

use acpx_core::acp::Cursor;
use acpx_core::host::RecordEvents;
use acpx_core::model::{Record, Seq};
use acpx_core::protocol::WatchedEvent;
use acpx_core::store::Store;

use crate::cli::ReplayArgs;
use crate::error::CliError;
use crate::output::{Console, FollowView};
use crate::session::host_locator::block_on;
use crate::session::host_session::unsent_turn;
use crate::session::lookup::RecordLookup;
use crate::session::settings::CommandSettings;

/// How many events are read at a time.
const PAGE: usize = 1024;

/// Shows the selected session.
pub(crate) fn run(settings: &CommandSettings, command: &ReplayArgs) -> Result<(), CliError> {
    block_on(async {
        let lookup = RecordLookup::with_transcripts(settings).await?;
        let (record, _) = lookup.need(settings, "replay").await?;
        let Some((store, events)) = lookup.into_events(&record) else { return Ok(()) };
        let shown = async {
            let next = beginning(command, &events).await?;
            show(settings, &record, &store, next).await
        };
        shown.await.map_err(|error: CliError| error.about(record.identity()))
    })
}

async fn beginning(command: &ReplayArgs, events: &RecordEvents) -> Result<Seq, CliError> {
    let next = events.find(command.start.from.as_ref().unwrap_or(&Cursor::Start)).await?;
    match command.last {
        Some(turns) => Ok(next.max(events.last_turns(turns.get()).await?)),
        None => Ok(next),
    }
}

/// Shows the stored events, from this one on.
pub(super) async fn show(
    settings: &CommandSettings,
    record: &Record,
    store: &Arc<dyn Store>,
    mut next: Seq,
) -> Result<(), CliError> {
    let mut console = Console::of_program(settings.mode);
    let mut view = FollowView::new(settings.mode, record.identity());
    while Some(next) <= record.last_seq {
        let page = store.events(record.id.clone(), next, PAGE).await?;
        let Some(last) = page.last() else { break };
        next = last.seq.next();
        // Later events are for `sessions watch`.
        let is_meant = |seq: Seq| Some(seq) <= record.last_seq;
        for event in page.iter().filter(|event| is_meant(event.seq)).filter_map(WatchedEvent::of) {
            if let Some(turn) = unsent_turn(&view, &event, store, &record.id).await? {
                view.unsent(&turn, &mut console)?;
            }
            view.event(&event, &mut console)?;
        }
    }
    Ok(view.finish(&mut console)?)
}
