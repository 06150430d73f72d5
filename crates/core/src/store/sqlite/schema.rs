//! The file's format: how it is marked as ours, which version it has, and the migrations from one to the next.
//!
//! A migration is never edited. All that a file needs run in one transaction, so a file is of one version or
//! of another and never between two.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::fault::Fault;
use crate::store::StoreError;

/// "acpx" as a number: what `file` and other programs see in the header.
const APPLICATION_ID: i32 = i32::from_be_bytes(*b"acpx");

/// The size of the file's pages.
pub(super) const PAGE_SIZE: u64 = 4096;

/// The versions in order, each with what leads to it from the one before; the first from an empty file.
const MIGRATIONS: [(i64, &str); 1] = [(1, include_str!("migrations/0001.sql"))];

/// The version this program writes.
const KNOWN: i64 = MIGRATIONS[MIGRATIONS.len() - 1].0;

/// What a file turned out to be. Finding out writes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing yet, or a store whose making was cut short.
    Unfinished,
    /// A store of the version we write.
    Current,
    /// A store of a version we only know in part.
    Newer {
        /// Which.
        version: i64,
    },
}

/// Looks at a file without changing it.
pub(super) fn inspect(connection: &Connection) -> Result<Found, Fault> {
    // One look: between two, someone else may make the store.
    let look = connection.unchecked_transaction()?;
    let application_id: i32 = look.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let pages: i64 = look.pragma_query_value(None, "page_count", |row| row.get(0))?;
    let version = version(&look)?;
    look.commit()?;
    match (application_id, version) {
        // The mark is the first thing ever written, so a file with pages and without it is not ours.
        (0, _) if pages == 0 => Ok(Found::Unfinished),
        (APPLICATION_ID, 0) => Ok(Found::Unfinished),
        (APPLICATION_ID, KNOWN) => Ok(Found::Current),
        (APPLICATION_ID, version) if version > KNOWN => Ok(Found::Newer { version }),
        (APPLICATION_ID, version) => Err(Fault::Damaged(format!("its format is {version}"))),
        _ => Err(Fault::Damaged("it is not a store of acpx".to_owned())),
    }
}

/// Brings a file to the version we write, with its write-ahead log on.
pub(super) fn migrate(connection: &mut Connection, found: Found, path: &Path) -> Result<(), Fault> {
    if let Found::Newer { version: found } = found {
        return Err(StoreError::Newer { path: path.to_owned(), found, known: KNOWN }.into());
    }
    if found == Found::Unfinished {
        mark(connection)?;
    }
    turn_log_on(connection)?;
    if found == Found::Current {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Someone else may have been first while we waited for the lock.
    let found = version(&transaction)?;
    for (version, migration) in MIGRATIONS.iter().filter(|(version, _)| *version > found) {
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", version)?;
    }
    Ok(transaction.commit()?)
}

/// Makes an empty file ours. The mark is committed before anything else, and before the write-ahead log comes
/// in, so that no later state of the file is without it.
fn mark(connection: &mut Connection) -> Result<(), Fault> {
    connection.pragma_update(None, "page_size", PAGE_SIZE.cast_signed())?;
    // The vacuum mode must be set before the first page is written, and setting it writes that page. So the
    // transaction begins as one that reads.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
    transaction.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    Ok(transaction.commit()?)
}

fn turn_log_on(connection: &Connection) -> Result<(), Fault> {
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode == "wal" { Ok(()) } else { Err(Fault::Damaged(format!("its journal mode stays {mode}"))) }
}

fn version(connection: &Connection) -> Result<i64, Fault> {
    Ok(connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
}
