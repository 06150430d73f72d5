//! `acpx sessions list`: lists the stored sessions, most recently used first: those of the named agent, or all.

use std::path::Path;

use acpx_core::host::title;
use acpx_core::model::{AbsolutePath, DirectoryNames, Record};
use acpx_core::store::{RecordFilter, Store, real_path, real_path_or_written};

use crate::cli::{AgentChoice, CliOptions};
use crate::error::CliError;
use crate::output::{Console, ListRow, list};
use crate::session::host_locator::block_on;
use crate::session::lookup::RecordLookup;
use crate::session::settings::CommandSettings;

/// Lists the stored sessions.
pub(crate) fn run(
    settings: &CommandSettings,
    options: &CliOptions,
    directory: Option<&Path>,
) -> Result<(), CliError> {
    let filter = RecordFilter {
        agent: (options.agent != AgentChoice::Default).then(|| settings.agent.key()),
        real_cwd: directory.map(|directory| real(settings.cwd.as_path(), directory)).transpose()?,
    };
    let records = block_on(all(&filter))?;
    let rows: Vec<ListRow<'_>> = records.iter().map(ListRow::Kept).collect();
    Ok(list(&rows, &mut Console::of_program(settings.mode))?)
}

/// The stored records, each with its title.
pub(super) async fn all(filter: &RecordFilter) -> Result<Vec<Record>, CliError> {
    let lookup = RecordLookup::open()?;
    let Some(store) = lookup.store() else { return Ok(Vec::new()) };
    // All at once: a record that changes between two pages would be on neither.
    let mut records = store.records(filter.clone(), None, usize::MAX).await?;
    for record in &mut records {
        record.title = title(store, record).await?;
    }
    lookup.leave();
    Ok(records)
}

/// The directory with its links resolved. A missing one is searched by its name: it may have stored sessions.
fn real(cwd: &Path, directory: &Path) -> Result<AbsolutePath, CliError> {
    Ok(real_path_or_written(AbsolutePath::from_path(&cwd.join(directory))?))
}

/// The names of a directory: the written and the real path, which are the same if it is missing.
pub(super) fn names(cwd: &Path, directory: &Path) -> Result<DirectoryNames, CliError> {
    let written = AbsolutePath::from_path(&cwd.join(directory))?;
    Ok(DirectoryNames::new(&written, real_path(&written).ok()))
}
