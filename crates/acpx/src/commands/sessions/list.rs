//! `acpx sessions list`: lists the stored sessions, most recently used first: those of the named agent, or all.
//!
//! On a terminal it is a table of one page, and the sessions of the current directory come first.

use std::num::NonZeroUsize;
use std::path::Path;

use acpx_core::host::title;
use acpx_core::model::{AbsolutePath, DirectoryNames, Record, RecordId, Timestamp};
use acpx_core::store::{RecordFilter, Store, real_path, real_path_or_written};
use acpx_core::wire::since_1970;

use crate::cli::{AgentChoice, CliOptions, Format, ListArgs, UsageError};
use crate::error::CliError;
use crate::output::{
    Console, ListRow, ListedState, SessionRow, TableView, list, list_page, sessions_on_terminal,
};
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::lookup::RecordLookup;
use crate::session::settings::CommandSettings;
use crate::session::states::SessionStates;

/// How many sessions a terminal or a page shows at most, unless a limit is given.
pub(super) const PAGE: usize = 50;

/// Lists the stored sessions.
pub(crate) fn run(settings: &CommandSettings, options: &CliOptions, args: &ListArgs) -> Result<(), CliError> {
    let directory = args.filter_cwd.as_deref();
    let filter = RecordFilter {
        agent: (options.agent != AgentChoice::Default).then(|| settings.agent.key()),
        real_cwd: directory.map(|directory| real(settings.cwd.as_path(), directory)).transpose()?,
    };
    let limit = args.limit.map(NonZeroUsize::get);
    let mut console = Console::of_program(settings.mode);
    if let Some(cursor) = &args.cursor {
        let (records, next) = block_on(listed_page(&filter, cursor, limit.unwrap_or(PAGE), &mut console))?;
        return Ok(list_page(&rows(&records), next.as_deref(), &mut console)?);
    }
    if settings.mode.is_text_on_terminal() {
        return block_on(on_terminal(settings, &filter, limit.unwrap_or(PAGE), &mut console));
    }
    let records = block_on(listed(&filter, limit.unwrap_or(usize::MAX), &mut console))?;
    Ok(list(&rows(&records), &mut console)?)
}

/// A record with what it is doing, for JSON.
type ListedRecord = (Record, Option<ListedState>);

fn rows(records: &[ListedRecord]) -> Vec<ListRow<'_>> {
    records.iter().map(|(record, state)| ListRow::Kept(record, *state)).collect()
}

/// The stored records, each with its title, and with what it is doing for JSON, the only format that has it.
pub(super) async fn listed(
    filter: &RecordFilter,
    limit: usize,
    console: &mut Console<'_>,
) -> Result<Vec<ListedRecord>, CliError> {
    // All at once: a record that changes between two pages would be on neither.
    listed_after(filter, None, limit, console).await
}

/// The position of a page: after this record. A record that changes afterwards moves to the first page.
type ListPosition = (Timestamp, RecordId);

/// One page of them, and the cursor of the next one if there is one.
async fn listed_page(
    filter: &RecordFilter,
    cursor: &str,
    limit: usize,
    console: &mut Console<'_>,
) -> Result<(Vec<ListedRecord>, Option<String>), CliError> {
    let after = match cursor {
        "start" => None,
        cursor => Some(position(cursor).ok_or_else(|| UsageError::ListCursor { cursor: cursor.to_owned() })?),
    };
    let mut records = listed_after(filter, after, limit.saturating_add(1), console).await?;
    let has_more = records.len() > limit;
    records.truncate(limit);
    let last = records.last().filter(|_| has_more);
    let next = last.map(|(record, _)| format!("{}.{}", record.updated_at.as_millis(), record.id));
    Ok((records, next))
}

/// Reads a cursor: the time of the last record in milliseconds, and its id.
fn position(cursor: &str) -> Option<ListPosition> {
    let (millis, record) = cursor.split_once('.')?;
    Some((Timestamp::from_millis(millis.parse().ok()?).ok()?, RecordId::new(record).ok()?))
}

async fn listed_after(
    filter: &RecordFilter,
    after: Option<ListPosition>,
    limit: usize,
    console: &mut Console<'_>,
) -> Result<Vec<ListedRecord>, CliError> {
    let lookup = RecordLookup::open()?;
    let Some(store) = lookup.store() else { return Ok(Vec::new()) };
    let records = store.records(filter.clone(), after, limit).await?;
    let locator = HostLocator::of_environment()?;
    let states = match console.mode.format {
        Format::Json => Some(SessionStates::read(store, &locator).await?),
        Format::Text | Format::Quiet => None,
    };
    let mut rows = Vec::with_capacity(records.len());
    for mut record in records {
        record.info.title = title(store, &record).await?;
        let state = states.as_ref().map(|states| states.of(&record));
        rows.push((record, state));
    }
    lookup.report_unreadable(console);
    lookup.leave();
    Ok(rows)
}

async fn on_terminal(
    settings: &CommandSettings,
    filter: &RecordFilter,
    limit: usize,
    console: &mut Console<'_>,
) -> Result<(), CliError> {
    let here = real(settings.cwd.as_path(), Path::new(""))?;
    let (rows, has_more) = page(filter, Some(&here), limit, Some(console)).await?;
    let home = std::env::home_dir();
    let now = Timestamp::since_1970(since_1970());
    let view = TableView { here: here.as_path(), home: home.as_deref(), now };
    Ok(sessions_on_terminal(&rows, view, has_more, &settings.typed_agent(), console)?)
}

/// The first sessions, those of a directory before the others if one is given, and whether there are more.
pub(crate) async fn page(
    filter: &RecordFilter,
    first: Option<&AbsolutePath>,
    limit: usize,
    console: Option<&mut Console<'_>>,
) -> Result<(Vec<SessionRow>, bool), CliError> {
    let lookup = RecordLookup::open()?;
    let Some(store) = lookup.store() else { return Ok((Vec::new(), false)) };
    let asked = limit.saturating_add(1);
    let first = first.filter(|_| filter.real_cwd.is_none());
    let mut records = Vec::new();
    if let Some(first) = first {
        let first = RecordFilter { real_cwd: Some(first.clone()), ..filter.clone() };
        records = store.records(first, None, asked).await?;
    }
    let others = store.records(filter.clone(), None, asked).await?;
    records.extend(others.into_iter().filter(|record| Some(&record.real_cwd) != first));
    let has_more = records.len() > limit;
    records.truncate(limit);
    let locator = HostLocator::of_environment()?;
    let states = SessionStates::read(store, &locator).await?;
    let short = store.short_ids(records.iter().map(|record| record.id.clone()).collect()).await?;
    let mut rows = Vec::with_capacity(records.len());
    for (mut record, short_id) in records.into_iter().zip(short) {
        record.info.title = title(store, &record).await?;
        let state = states.of(&record);
        rows.push(SessionRow { record, state, short_id });
    }
    if let Some(console) = console {
        lookup.report_unreadable(console);
    }
    lookup.leave();
    Ok((rows, has_more))
}

/// The directory with its links resolved. A missing one is searched by its name: it may have stored sessions.
pub(crate) fn real(cwd: &Path, directory: &Path) -> Result<AbsolutePath, CliError> {
    Ok(real_path_or_written(AbsolutePath::from_path(&cwd.join(directory))?))
}

/// The names of a directory: the written and the real path, which are the same if it is missing.
pub(super) fn names(cwd: &Path, directory: &Path) -> Result<DirectoryNames, CliError> {
    let written = AbsolutePath::from_path(&cwd.join(directory))?;
    Ok(DirectoryNames::new(&written, real_path(&written).ok()))
}
