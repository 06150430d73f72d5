//! `acpx sessions prune`: deletes many stored sessions by age and size, and returns their space to the disk.
//!
//! The host deletes them, so that a session with work stays. On a terminal the command shows them and asks first.

use std::path::Path;

use acpx_core::host::title;
use acpx_core::model::{Lifecycle, Record, RecordId, Timestamp};
use acpx_core::protocol::{PruneMeta, PruneParams, PruneSkipMeta};
use acpx_core::store::{RecordFilter, SqliteStore, Store};
use acpx_core::wire::since_1970;
use serde::de::IgnoredAny;
use serde_json::json;

use super::list;
use crate::cli::{AgentChoice, CliOptions, PruneArgs, UsageError};
use crate::commands::verify::stored_bytes;
use crate::error::CliError;
use crate::output::{
    self, Console, FailedDeletion, ListedState, PruneOutcome, PruneReport, PrunedSession, SessionRow,
    TableView, age_from,
};
use crate::session::agent_child::refuse_inside;
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::HostSession;
use crate::session::lookup::RecordLookup;
use crate::session::settings::CommandSettings;
use crate::session::states::SessionStates;
use crate::terminal::tty::ControllingTerminal;

/// How many sessions the host deletes in one request: each takes some milliseconds, and Ctrl-C stops between requests.
const CHUNK: usize = 16;

/// The sessions that the flags mean.
#[derive(Default)]
struct PruneSelection {
    sessions: Vec<PrunedSession>,
    /// Those that match and have work.
    busy: Vec<String>,
}

/// Deletes the sessions that the flags mean, after asking on a terminal.
pub(crate) fn run(
    settings: &CommandSettings,
    options: &CliOptions,
    args: &PruneArgs,
) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    refuse_inside(&locator.paths, "prune sessions")?;
    let filter = RecordFilter {
        agent: (options.agent != AgentChoice::Default).then(|| settings.agent.key()),
        real_cwd: None,
    };
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let asks = !args.run.dry_run && !args.run.yes && settings.mode.is_for_a_person();
        let shows = settings.mode.is_text_on_terminal() || asks;
        let chosen_at = Timestamp::since_1970(since_1970());
        let selection =
            select(&locator, &filter, args, chosen_at, shows || args.run.dry_run, &mut console).await?;
        let PruneSelection { sessions, busy } = selection;
        if shows && !sessions.is_empty() {
            show(settings, &sessions, &mut console)?;
        }
        if args.run.dry_run || sessions.is_empty() {
            let pruned: Vec<&Record> = sessions.iter().map(|session| &session.row.record).collect();
            let outcome = if args.run.dry_run {
                let content_bytes = sessions.iter().map(|session| session.size).sum();
                PruneOutcome::DryRun { content_bytes }
            } else {
                PruneOutcome::Deleted { bytes_freed: 0 }
            };
            let report = PruneReport { pruned: &pruned, skipped: &busy, failed: &[], outcome };
            return Ok(output::pruned(report, &mut console)?);
        }
        if asks && !confirms(&sessions).await? {
            return Ok(output::not_deleted(&mut console)?);
        }
        // Those that are used while the user reads the question stay.
        let params = PruneParams {
            session_ids: Vec::new(),
            include_open: args.include_open,
            unchanged_since: Some(chosen_at),
        };
        delete(&locator, &sessions, busy, params, settings, &mut console).await
    })
}

/// The sessions that match every flag, last used first. Their sizes are read only where they are needed.
async fn select(
    locator: &HostLocator,
    filter: &RecordFilter,
    args: &PruneArgs,
    now: Timestamp,
    is_shown: bool,
    console: &mut Console<'_>,
) -> Result<PruneSelection, CliError> {
    let lookup = RecordLookup::open()?;
    let Some(store) = lookup.store() else { return Ok(PruneSelection::default()) };
    let cutoff = args.cutoff(now);
    let mut records = store.records(filter.clone(), None, usize::MAX).await?;
    records.retain(|record| {
        (args.include_open || record.lifecycle != Lifecycle::Open)
            && cutoff.is_none_or(|cutoff| age_from(record) < cutoff)
    });
    let ids: Vec<RecordId> = records.iter().map(|record| record.id.clone()).collect();
    let sizes = match args.larger_than {
        None if !is_shown => vec![0; ids.len()],
        _ => store.content_sizes(ids).await?,
    };
    let states = SessionStates::read(store, locator).await?;
    let mut selection = PruneSelection::default();
    for (record, size) in records.into_iter().zip(sizes) {
        if args.larger_than.is_some_and(|least| size <= least) {
            continue;
        }
        match states.of(&record) {
            ListedState::Working | ListedState::Waiting | ListedState::Queued => {
                selection.busy.push(record.id.to_string());
            }
            state => {
                let row = row(store, record, state, is_shown).await?;
                selection.sessions.push(PrunedSession { row, size });
            }
        }
    }
    lookup.report_unreadable(console);
    lookup.leave();
    Ok(selection)
}

/// A row of the table; its title and its short id are read only if it is shown.
async fn row(
    store: &SqliteStore,
    mut record: Record,
    state: ListedState,
    is_shown: bool,
) -> Result<SessionRow, CliError> {
    let mut short_id = record.id.to_string();
    if is_shown {
        record.info.title = title(store, &record).await?;
        short_id = store.short_ids(vec![record.id.clone()]).await?.pop().unwrap_or(short_id);
    }
    Ok(SessionRow { record, state, short_id })
}

fn show(
    settings: &CommandSettings,
    sessions: &[PrunedSession],
    console: &mut Console<'_>,
) -> Result<(), CliError> {
    let here = list::real(settings.cwd.as_path(), Path::new(""))?;
    let home = std::env::home_dir();
    let now = Timestamp::since_1970(since_1970());
    let view = TableView { here: here.as_path(), home: home.as_deref(), now };
    Ok(output::prune_table(sessions, view, console)?)
}

async fn confirms(sessions: &[PrunedSession]) -> Result<bool, CliError> {
    // A command in the background cannot ask.
    let Some(mut terminal) = ControllingTerminal::of_program() else {
        return Err(UsageError::Unconfirmed { command: "sessions prune" }.into());
    };
    Ok(terminal.confirm(&output::prune_question(sessions)).await)
}

/// Has the host delete the sessions and shrink the store, and reports by how much its files became smaller. An error
/// ends the deletion; what was deleted before it is reported first.
async fn delete(
    locator: &HostLocator,
    sessions: &[PrunedSession],
    mut skipped: Vec<String>,
    mut params: PruneParams,
    settings: &CommandSettings,
    console: &mut Console<'static>,
) -> Result<(), CliError> {
    let store = locator.paths.store();
    let before = stored_bytes(&store);
    let mut session = HostSession::with_timeout(console, settings.timeout, locator)?;
    let (mut pruned, mut failed, mut ended) = (Vec::new(), Vec::new(), Ok(()));
    for chunk in sessions.chunks(CHUNK) {
        params.session_ids = chunk.iter().map(|session| session.row.record.id.to_string()).collect();
        let answer = session.retry_on_lost_host(async |session| {
            let mut client = session.host(locator).await?;
            session.call::<PruneMeta>(&mut client, "_acpx/prune", &params).await
        });
        let answer = match answer.await {
            Ok(answer) => answer,
            Err(error) => {
                ended = Err(error);
                break;
            }
        };
        for PruneSkipMeta { session_id, error, .. } in answer.skipped {
            match error {
                Some(error) => failed.push(FailedDeletion { acpx_record_id: session_id, message: error }),
                None => skipped.push(session_id),
            }
        }
        let is_pruned =
            |session: &&PrunedSession| answer.pruned.iter().any(|id| *id == session.row.record.id.as_str());
        pruned.extend(chunk.iter().filter(is_pruned).map(|session| &session.row.record));
    }
    let shrunk = session.retry_on_lost_host(async |session| {
        let mut client = session.host(locator).await?;
        session.call::<IgnoredAny>(&mut client, "_acpx/host/shrink", &json!({})).await
    });
    let ended = ended.and(shrunk.await.map(drop));
    let bytes_freed = before.saturating_sub(stored_bytes(&store));
    let outcome = PruneOutcome::Deleted { bytes_freed };
    let report = PruneReport { pruned: &pruned, skipped: &skipped, failed: &failed, outcome };
    output::pruned(report, console)?;
    ended
}
