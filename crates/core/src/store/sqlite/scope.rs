//! Finds the record that a shell means. The lookup uses an index, so its cost does not depend on the number of
//! records. The indexed columns are part of the record's checksum, so a wrong index entry is detected.

use rusqlite::{Connection, params};

use super::cells::Cells;
use super::fault::SqliteFault;
use super::read::select_records;
use super::rows::{self, RECORD};
use crate::model::{AbsolutePath, Lifecycle, Record, RecordId, Scope};
use crate::store::{ScopeQuery, StoreError};

const IN_SCOPE: &str = "scope_agent = ?1 AND real_cwd = ?2 AND scope_name = ?3";
pub(super) const OPEN: &str = "closed_at IS NULL AND deleted_at IS NULL";
pub(super) const CLOSED_LAST: &str = "closed_at IS NOT NULL ORDER BY closed_at DESC, key DESC LIMIT 1";

/// The record with a scope, in the nearest directory that has one.
pub(super) fn find(connection: &Connection, query: &ScopeQuery) -> Result<Option<Record>, SqliteFault> {
    let scope = Scope { agent: query.agent.clone(), name: query.name.clone() };
    for directory in &query.directories {
        if let Some(found) = find_in(connection, &scope, directory, OPEN)? {
            return Ok(Some(found));
        }
        if query.closed
            && let Some(found) = find_in(connection, &scope, directory, CLOSED_LAST)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn find_in(
    connection: &Connection,
    scope: &Scope,
    directory: &AbsolutePath,
    which: &'static str,
) -> Result<Option<Record>, SqliteFault> {
    let mut statement = connection.prepare_cached(&select_in_scope(which))?;
    let name = rows::name_text(scope);
    let mut found = statement.query(params![scope.agent.as_str(), directory.as_str(), name])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let record = rows::record(connection, row)?;
    // The lifecycle decides which index contains a record, but is not a column of the index for open records.
    let is_right = match record.lifecycle {
        Lifecycle::Open => which == OPEN,
        Lifecycle::Closed { .. } => which == CLOSED_LAST,
        Lifecycle::Deleted { .. } => false,
    };
    if is_right { Ok(Some(record)) } else { Err(misled(&record.id)) }
}

pub(super) fn select_in_scope(which: &str) -> String {
    format!("{} WHERE {IN_SCOPE} AND {which}", select_records())
}

/// Refuses a scope that another open record of the directory has.
pub(super) fn refuse_taken(
    connection: &Connection,
    record: &RecordId,
    scope: Option<&Scope>,
    directory: &AbsolutePath,
) -> Result<(), SqliteFault> {
    let Some(scope) = scope else { return Ok(()) };
    let mut statement = connection
        .prepare_cached(&format!("SELECT {} FROM records WHERE {IN_SCOPE} AND {OPEN}", RECORD.list))?;
    let name = rows::name_text(scope);
    let mut found = statement.query(params![scope.agent.as_str(), directory.as_str(), name])?;
    let Some(row) = found.next()? else { return Ok(()) };
    // Only the record's own columns, not its state: the holder may be the record that is being written.
    let cells = Cells::read(row, 0, &RECORD)?;
    let holder = rows::id(&cells)?;
    match rows::place(&cells)?.lifecycle {
        Lifecycle::Closed { .. } | Lifecycle::Deleted { .. } => Err(misled(&holder)),
        Lifecycle::Open if holder == *record => Ok(()),
        Lifecycle::Open => Err(StoreError::ScopeTaken { record: holder }.into()),
    }
}

/// The error for a record in the wrong index.
pub(super) fn misled(record: &RecordId) -> SqliteFault {
    SqliteFault::Damaged(format!(
        "an index and the record {record} do not agree whether it is open, closed or deleted"
    ))
}
