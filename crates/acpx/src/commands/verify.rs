//! `acpx verify`: reads a whole store or a backup, and reports what is damaged and where. It changes nothing.

use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;

use acpx_core::store::{Access, SqliteOptions, SqliteStore, StoreError, StoreProgress, StoreVerification};

use crate::cli::{OutputArgs, VerifyArgs};
use crate::error::{CliError, CliExit, system_words};
use crate::output::{self, Console, VerifiedStore};
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::interrupt::InterruptWatcher;
use crate::session::settings::LazyConfig;

/// Verifies the file, or the home's store.
pub(super) fn run(args: &VerifyArgs, output: OutputArgs, config: &LazyConfig) -> Result<ExitCode, CliError> {
    let mut console = config.console(output)?;
    block_on(async {
        let (path, (verification, bytes)) = if let Some(file) = &args.file {
            let verified = verified(file, &mut console).await;
            (file.clone(), verified.map_err(|error| of_file(file, error))?)
        } else {
            let path = HostLocator::of_environment()?.paths.store();
            let store = SqliteStore::open_with(&path, &SqliteOptions::new(Access::ReadOnly))?;
            let verification = verified_store(store, &mut console).await?;
            (path.clone(), (verification, stored_bytes(&path)))
        };
        output::verified(&VerifiedStore { path: &path, bytes, verification: &verification }, &mut console)?;
        let exit = if verification.problems.is_empty() { CliExit::Success } else { CliExit::Failure };
        Ok(exit.into())
    })
}

/// The error for a file that someone named. Hints about the home's store do not apply to it.
fn of_file(file: &Path, error: CliError) -> CliError {
    let (code, reason) = match &error {
        CliError::Store(error @ StoreError::Open { source, .. }) => (error.code(), system_words(source)),
        CliError::Store(error @ StoreError::Corrupt { problem, .. }) => (error.code(), problem.clone()),
        _ => return error,
    };
    CliError::Unverifiable { path: file.to_owned(), reason, code }
}

/// Verifies a backup; also returns its size.
pub(super) async fn verified(
    file: &Path,
    console: &mut Console<'_>,
) -> Result<(StoreVerification, u64), CliError> {
    let store = SqliteStore::open_copy(file)?;
    Ok((verified_store(store, console).await?, stored_bytes(file)))
}

async fn verified_store(
    store: SqliteStore,
    console: &mut Console<'_>,
) -> Result<StoreVerification, CliError> {
    let progress = Arc::<StoreProgress>::default();
    let work = store.verify(Arc::clone(&progress));
    let verified = during_store_work("verifying", &progress, console, work).await;
    // A reader has nothing to flush, and an interrupted command does not wait for its thread.
    std::mem::forget(store);
    Ok(verified??)
}

/// Waits for work on a store, shows on a terminal how far it is, and stops at a signal.
pub(super) async fn during_store_work<T>(
    words: &str,
    progress: &StoreProgress,
    console: &mut Console<'_>,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<Result<T, StoreError>, CliError> {
    let mut interrupts = InterruptWatcher::new(None)?;
    let mut work = pin!(work);
    let done = loop {
        console.wait_for(&format!("{words}, {} %", progress.percent()));
        tokio::select! {
            biased;
            done = &mut work => break Ok(done),
            stop = interrupts.over() => break Err(stop.into()),
            () = console.next_frame() => {}
        }
    };
    console.stop_waiting();
    done
}

/// The size of a store's file and of its log.
pub(in crate::commands) fn stored_bytes(store: &Path) -> u64 {
    let size = |path: &Path| path.metadata().map_or(0, |found| found.len());
    let mut log = store.as_os_str().to_owned();
    log.push("-wal");
    size(store) + size(Path::new(&log))
}
