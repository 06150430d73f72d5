//! Copies an open store into another file while other processes write to the store.
//!
//! The copy is one state of the store: everything that was committed before the copy began, and nothing of what was
//! committed after. The pages are copied in steps inside one read transaction, so writers never wait; only the log is
//! not truncated in the meantime.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use super::fault::{SqliteFault, sql_error};
use super::file::uri;
use super::schema;

/// How many pages are copied in one step (4 MiB).
const PAGES: i32 = 1024;

/// How far a long operation on a store has come. It may be read from another thread.
#[derive(Debug, Default)]
pub struct StoreProgress {
    done: AtomicU64,
    total: AtomicU64,
}

impl StoreProgress {
    /// The part that is done, in percent.
    pub fn percent(&self) -> u64 {
        let total = self.total.load(Ordering::Relaxed);
        (self.done.load(Ordering::Relaxed) * 100).checked_div(total).unwrap_or(0).min(100)
    }

    pub(super) fn set(&self, done: u64, total: u64) {
        self.total.store(total, Ordering::Relaxed);
        self.done.store(done, Ordering::Relaxed);
    }
}

/// Copies the store into an existing, empty file that no other program uses.
pub(super) fn copy(connection: &Connection, to: &Path, progress: &StoreProgress) -> Result<(), SqliteFault> {
    // The first read fixes the state that the transaction sees.
    schema::format(connection)?;
    copy_pages(connection, to, progress).map_err(|error| match error.sqlite_error_code() {
        // The store itself, and not the copy.
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => SqliteFault::Sql(error),
        _ => SqliteFault::Refused(sql_error(&Arc::new(error), "write", to)),
    })
}

fn copy_pages(connection: &Connection, to: &Path, progress: &StoreProgress) -> rusqlite::Result<()> {
    // No other program has the file, so it needs no locks, which some network file systems do not have.
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut copy = Connection::open_with_flags(uri(to, "nolock=1"), flags)?;
    // A copy that is not finished is thrown away, and the caller syncs a finished one.
    copy.pragma_update(None, "journal_mode", "OFF")?;
    copy.pragma_update(None, "synchronous", "OFF")?;
    let backup = Backup::new(connection, &mut copy)?;
    loop {
        let step = backup.step(PAGES)?;
        let pages = backup.progress();
        let total = u64::try_from(pages.pagecount).unwrap_or(0);
        progress.set(total.saturating_sub(u64::try_from(pages.remaining).unwrap_or(0)), total);
        match step {
            StepResult::Done => return Ok(()),
            // Nothing else holds a lock on either file, so this does not happen.
            StepResult::Busy | StepResult::Locked => {
                return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_BUSY), None));
            }
            _ => {}
        }
    }
}
