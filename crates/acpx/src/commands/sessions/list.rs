//! `acpx sessions list`: the sessions that are kept, last used first. With an agent named, those with it;
//! without, all of them.

use std::path::Path;
use std::process::ExitCode;

use acpx_core::host::title;
use acpx_core::model::{AbsolutePath, DirectoryNames, Record};
use acpx_core::store::{RecordFilter, Store, real_path, real_path_or_written};

use crate::cli::{AgentChoice, CliOptions};
use crate::error::{CliError, CliExit};
use crate::output::{Console, ListRow, list};
use crate::session::host_locator::block_on;
use crate::session::lookup::RecordLookup;
use crate::session::settings::CommandSettings;

/// Lists what is kept.
pub(crate) fn run(
    settings: &CommandSettings,
    options: &CliOptions,
    directory: Option<&Path>,
) -> Result<ExitCode, CliError> {
    let filter = RecordFilter {
        agent: (options.agent != AgentChoice::Default).then(|| settings.agent.key()),
        real_cwd: directory.map(|directory| real(settings.cwd.as_path(), directory)).transpose()?,
    };
    let records = block_on(all(&filter))?;
    let rows: Vec<ListRow<'_>> = records.iter().map(ListRow::Kept).collect();
    list(&rows, &mut Console::of_program(settings.mode))?;
    Ok(CliExit::Success.into())
}

/// The records that are kept, each with what it is called.
pub(super) async fn all(filter: &RecordFilter) -> Result<Vec<Record>, CliError> {
    let kept = RecordLookup::open()?;
    let Some(store) = kept.store() else { return Ok(Vec::new()) };
    // All of them at once: one that changes between two pages would be in neither.
    let mut records = store.records(filter.clone(), None, usize::MAX).await?;
    for record in &mut records {
        record.title = title(store, record).await?;
    }
    kept.leave();
    Ok(records)
}

/// The directory with its links followed. One that is gone is looked for by its name: its sessions may be kept.
fn real(cwd: &Path, directory: &Path) -> Result<AbsolutePath, CliError> {
    Ok(real_path_or_written(AbsolutePath::from_path(&cwd.join(directory))?))
}

/// The names of a directory, which are one where it is gone.
pub(super) fn names(cwd: &Path, directory: &Path) -> Result<DirectoryNames, CliError> {
    let written = AbsolutePath::from_path(&cwd.join(directory))?;
    Ok(DirectoryNames::new(&written, real_path(&written).ok()))
}
