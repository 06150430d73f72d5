//! The file's format: its application id, its version, and the migrations.
//!
//! A migration is never edited. All migrations of a file run in one transaction, so a file always has exactly one
//! format. A file of a newer program is read as far as its format is known, never written, and never reported as
//! damaged.

use std::cmp::Ordering;
use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::fault::SqliteFault;
use crate::store::StoreError;

/// "acpx" as a number, in the header for `file` and other programs.
const APPLICATION_ID: i32 = i32::from_be_bytes(*b"acpx");

/// The size of the file's pages.
pub(super) const PAGE_SIZE: u64 = 4096;

/// The migrations from each format to the next, the first from an empty file. Formats are numbered from 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Migrations(pub(super) &'static [&'static str]);

impl Migrations {
    /// This program's migrations.
    pub(super) const OURS: Self = Self(&[
        include_str!("migrations/0001.sql"),
        include_str!("migrations/0002.sql"),
        include_str!("migrations/0003.sql"),
        include_str!("migrations/0004.sql"),
        include_str!("migrations/0005.sql"),
        include_str!("migrations/0006.sql"),
        include_str!("migrations/0007.sql"),
        include_str!("migrations/0008.sql"),
        include_str!("migrations/0009.sql"),
        include_str!("migrations/0010.sql"),
        include_str!("migrations/0011.sql"),
        include_str!("migrations/0012.sql"),
        include_str!("migrations/0013.sql"),
    ]);

    /// The format after all migrations: the one we write.
    pub(super) fn known(self) -> i64 {
        self.numbered().map(|(format, _)| format).last().unwrap_or(0)
    }

    fn numbered(self) -> impl Iterator<Item = (i64, &'static str)> {
        (1..).zip(self.0.iter().copied())
    }
}

/// The status of a file. Finding it out writes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaStatus {
    /// Empty, or a store whose creation was interrupted.
    Unfinished,
    /// A store of a format that we can migrate.
    Older(i64),
    /// A store of the format we write.
    Current,
    /// A store of a newer format.
    Newer(i64),
}

/// Inspects a file without changing it.
pub(super) fn inspect(connection: &Connection, known: i64) -> Result<SchemaStatus, SqliteFault> {
    // One transaction: otherwise another process may create the store in between.
    let look = connection.unchecked_transaction()?;
    let application_id: i32 = look.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let pages: i64 = look.pragma_query_value(None, "page_count", |row| row.get(0))?;
    let format = format(&look)?;
    // Tables and format are created in one transaction.
    let has_tables =
        format == 0 && look.query_row("SELECT count(*) > 0 FROM sqlite_schema", [], |row| row.get(0))?;
    look.commit()?;
    match (application_id, format) {
        // The application id is the first thing written, so a file with pages and without it is not ours.
        (0, _) if pages == 0 => Ok(SchemaStatus::Unfinished),
        (APPLICATION_ID, 0) if has_tables => {
            Err(SqliteFault::Damaged("it has tables and no format".to_owned()))
        }
        (APPLICATION_ID, 0) => Ok(SchemaStatus::Unfinished),
        (APPLICATION_ID, ..0) => Err(SqliteFault::Damaged(format!("its format is {format}"))),
        (APPLICATION_ID, _) => Ok(match format.cmp(&known) {
            Ordering::Less => SchemaStatus::Older(format),
            Ordering::Equal => SchemaStatus::Current,
            Ordering::Greater => SchemaStatus::Newer(format),
        }),
        _ => Err(SqliteFault::Damaged("it is not a store of acpx".to_owned())),
    }
}

/// Migrates a file to the format we write, and turns its write-ahead log on.
pub(super) fn migrate(
    connection: &mut Connection,
    found: SchemaStatus,
    migrations: Migrations,
    path: &Path,
) -> Result<(), SqliteFault> {
    let known = migrations.known();
    if let SchemaStatus::Newer(found) = found {
        return Err(other_format(path, found, known).into());
    }
    if found == SchemaStatus::Unfinished {
        mark(connection)?;
    }
    turn_log_on(connection)?;
    if found == SchemaStatus::Current {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process, even a newer program, may have migrated the file while we waited for the lock.
    let found = format(&transaction)?;
    if found > known {
        return Err(other_format(path, found, known).into());
    }
    for (format, migration) in migrations.numbered().filter(|(format, _)| *format > found) {
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", format)?;
    }
    Ok(transaction.commit()?)
}

/// The error for a file of an unexpected format. Formats only go up, so a lower one was not written by acpx.
pub(super) fn other_format(path: &Path, found: i64, known: i64) -> StoreError {
    let path = path.to_owned();
    if found > known {
        StoreError::Newer { path, found, known }
    } else {
        StoreError::Corrupt { path, problem: format!("its format went back to {found}") }
    }
}

/// Marks an empty file as ours. The application id is committed before anything else, and before the write-ahead log
/// is turned on, so that no later state of the file is without it.
fn mark(connection: &mut Connection) -> Result<(), SqliteFault> {
    connection.pragma_update(None, "page_size", PAGE_SIZE.cast_signed())?;
    // The vacuum mode must be set before the first page is written, and setting it writes that page. So the
    // transaction begins as a read transaction.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
    transaction.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    Ok(transaction.commit()?)
}

fn turn_log_on(connection: &Connection) -> Result<(), SqliteFault> {
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode == "wal" { Ok(()) } else { Err(SqliteFault::Damaged(format!("its journal mode stays {mode}"))) }
}

/// The current format of a file. Another process can raise it at any time outside a transaction.
pub(super) fn format(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))
}
