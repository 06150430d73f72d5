//! `acpx backup`: copies the store into one file while it is in use.
//!
//! The copy is written under a temporary name in the same directory, verified and synced, and only then gets its name.
//! So a file of that name is always a complete backup, also after a crash.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use acpx_core::store::{Access, ReadThread, SqliteOptions, SqliteStore, StoreError, StoreProgress};
use rustix::io::Errno;

use crate::cli::{BackupArgs, OutputArgs, UsageError};
use crate::commands::verify::{during_store_work, verified};
use crate::error::CliError;
use crate::output::{self, Console, StoreBackup};
use crate::private_file::{ExistingFile, PrivateFile};
use crate::session::agent_child::refuse_inside;
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::settings::LazyConfig;

/// Writes the backup.
pub(super) fn run(args: &BackupArgs, output: OutputArgs, config: &LazyConfig) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    refuse_inside(&locator.paths, "back up the store")?;
    let mut console = config.console(output)?;
    let store = locator.paths.store();
    let file = std::path::absolute(&args.file).map_err(|source| not_written(&args.file, source))?;
    check_target(&file, &store, args.force)?;
    block_on(async {
        // A store of an older format is migrated first.
        drop(locator.open_store()?);
        let copy = copy(&store, &file, &mut console).await?;
        let (verification, bytes) = verified(copy.path(), &mut console).await?;
        if let Some(problem) = verification.problems.first() {
            return Err(CliError::DamagedStore { path: store, problem: problem.to_string() });
        }
        give_name(copy, &file, args.force)?;
        let (sessions, events) = (verification.records, verification.events);
        Ok(output::backed_up(&StoreBackup { path: &file, bytes, sessions, events }, &mut console)?)
    })
}

/// Refuses a file that exists, unless it is to be replaced, and always one of the store itself.
fn check_target(file: &Path, store: &Path, force: bool) -> Result<(), CliError> {
    let inode = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let companions = ["db", "db-wal", "db-shm"].map(|end| store.with_extension(end));
    let is_named = |own: &PathBuf| own == file || (inode(own).is_some() && inode(own) == inode(file));
    if companions.iter().any(is_named) {
        return Err(UsageError::BackupOverStore { path: file.to_owned() }.into());
    }
    match file.symlink_metadata() {
        Ok(found) if found.is_dir() => Err(not_written(file, Errno::ISDIR.into())),
        Ok(_) if !force => Err(UsageError::BackupExists { path: file.to_owned() }.into()),
        _ => Ok(()),
    }
}

/// Copies the store into a temporary file next to the target. It is removed unless it gets its name.
async fn copy(store: &Path, file: &Path, console: &mut Console<'_>) -> Result<PrivateFile, CliError> {
    let copy = PrivateFile::next_to(file, ".acpx-backup-").map_err(|source| not_written(file, source))?;
    let options = SqliteOptions { reads: ReadThread::OnOwnThread, ..SqliteOptions::new(Access::ReadOnly) };
    let store = SqliteStore::open_with(store, &options)?;
    let progress = Arc::<StoreProgress>::default();
    let work = store.copy_to(copy.path().to_owned(), Arc::clone(&progress));
    let copied = during_store_work("copying the store", &progress, console, work).await;
    // A reader has nothing to flush, and an interrupted command does not wait for its thread.
    std::mem::forget(store);
    copied?.map_err(|error| match error {
        StoreError::Full { path } if path == copy.path() => not_written(file, Errno::NOSPC.into()),
        other => other.into(),
    })?;
    Ok(copy)
}

/// Syncs the copy and gives it its name.
fn give_name(copy: PrivateFile, file: &Path, force: bool) -> Result<(), CliError> {
    let existing = if force { ExistingFile::Replace } else { ExistingFile::Keep };
    copy.persist(file, existing).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => UsageError::BackupExists { path: file.to_owned() }.into(),
        _ => not_written(file, error),
    })
}

fn not_written(file: &Path, source: io::Error) -> CliError {
    CliError::System { doing: format!("write the backup {}", file.display()), source }
}
