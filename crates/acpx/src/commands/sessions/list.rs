//! `acpx sessions list`: lists the stored sessions, most recently used first: those of the named agent, or all.
//!
//! On a terminal it is a table of one page, and the sessions of the current directory come first.

use std::num::NonZeroUsize;
use std::path::Path;

use acpx_core::host::title;
use acpx_core::model::{AbsolutePath, DirectoryNames, Record, Timestamp};
use acpx_core::store::{RecordFilter, Store, real_path, real_path_or_written};
use acpx_core::wire::since_1970;

use crate::cli::{AgentChoice, CliOptions, Format, ListArgs};
use crate::error::CliError;
use crate::output::{Console, ListRow, ListedState, SessionRow, TableView, list, sessions_on_terminal};
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::lookup::RecordLookup;
use crate::session::settings::CommandSettings;
use crate::session::states::SessionStates;

/// How many sessions a terminal shows at most, unless a limit is given.
const PAGE: usize = 50;

/// Lists the stored sessions.
pub(crate) fn run(settings: &CommandSettings, options: &CliOptions, args: &ListArgs) -> Result<(), CliError> {
    let directory = args.filter_cwd.as_deref();
    let filter = RecordFilter {
        agent: (options.agent != AgentChoice::Default).then(|| settings.agent.key()),
        real_cwd: directory.map(|directory| real(settings.cwd.as_path(), directory)).transpose()?,
    };
    let limit = args.limit.map(NonZeroUsize::get);
    let mut console = Console::of_program(settings.mode);
    if settings.mode.is_text_on_terminal() {
        return block_on(on_terminal(settings, &filter, limit.unwrap_or(PAGE), &mut console));
    }
    let records = block_on(listed(&filter, limit.unwrap_or(usize::MAX), settings.mode.format))?;
    let rows: Vec<ListRow<'_>> =
        records.iter().map(|(record, state)| ListRow::Kept(record, *state)).collect();
    Ok(list(&rows, &mut console)?)
}

/// The stored records, each with its title, and with what it is doing for JSON, the only format that has it.
pub(super) async fn listed(
    filter: &RecordFilter,
    limit: usize,
    format: Format,
) -> Result<Vec<(Record, Option<ListedState>)>, CliError> {
    let lookup = RecordLookup::open()?;
    let Some(store) = lookup.store() else { return Ok(Vec::new()) };
    // All at once: a record that changes between two pages would be on neither.
    let records = store.records(filter.clone(), None, limit).await?;
    let locator = HostLocator::of_environment()?;
    let states = match format {
        Format::Json => Some(SessionStates::read(store, &locator).await?),
        Format::Text | Format::Quiet => None,
    };
    let mut rows = Vec::with_capacity(records.len());
    for mut record in records {
        record.info.title = title(store, &record).await?;
        let state = states.as_ref().map(|states| states.of(&record));
        rows.push((record, state));
    }
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
    let (rows, has_more) = page(filter, &here, limit).await?;
    let home = std::env::home_dir();
    let now = Timestamp::since_1970(since_1970());
    let view = TableView { here: here.as_path(), home: home.as_deref(), now };
    Ok(sessions_on_terminal(&rows, view, has_more, &settings.typed_agent(), console)?)
}

/// The first sessions, those of a directory before the others, and whether there are more.
pub(crate) async fn page(
    filter: &RecordFilter,
    here: &AbsolutePath,
    limit: usize,
) -> Result<(Vec<SessionRow>, bool), CliError> {
    let lookup = RecordLookup::open()?;
    let Some(store) = lookup.store() else { return Ok((Vec::new(), false)) };
    let (asked, is_of_directory) = (limit.saturating_add(1), filter.real_cwd.is_some());
    let mut records = Vec::new();
    if !is_of_directory {
        let here = RecordFilter { real_cwd: Some(here.clone()), ..filter.clone() };
        records = store.records(here, None, asked).await?;
    }
    let others = store.records(filter.clone(), None, asked).await?;
    records.extend(others.into_iter().filter(|record| is_of_directory || record.real_cwd != *here));
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
