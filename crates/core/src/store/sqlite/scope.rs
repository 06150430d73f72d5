//! Which record a shell means. An index leads to it, so the number of records makes no difference; what the index
//! says is compared with the record it leads to.

use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Fault;
use super::read::select_records;
use super::rows;
use crate::model::{AbsolutePath, Lifecycle, Record, RecordId, Scope};
use crate::store::{ScopeQuery, StoreError};

const IN_SCOPE: &str = "scope_agent = ?1 AND real_cwd = ?2 AND scope_name = ?3";
const OPEN: &str = "closed_at IS NULL";
const CLOSED_LAST: &str = "closed_at IS NOT NULL ORDER BY closed_at DESC, key DESC LIMIT 1";

/// The record that has a scope, in the nearest directory that has one.
pub(super) fn find(connection: &Connection, query: &ScopeQuery) -> Result<Option<Record>, Fault> {
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
) -> Result<Option<Record>, Fault> {
    let mut statement = connection.prepare_cached(&select_in_scope(which))?;
    let [agent, name] = text_of(scope);
    let mut found = statement.query(params![agent, directory.as_str(), name])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let record = rows::record(connection, row)?;
    let as_asked = record.scope.as_ref() == Some(scope)
        && record.real_cwd == *directory
        && (record.lifecycle == Lifecycle::Open) == (which == OPEN);
    if as_asked { Ok(Some(record)) } else { Err(misled(&record.id)) }
}

fn select_in_scope(which: &str) -> String {
    format!("{} WHERE {IN_SCOPE} AND {which}", select_records())
}

/// The two columns that say what a record is found by.
fn text_of(scope: &Scope) -> [&str; 2] {
    [scope.agent.as_str(), rows::name_text(scope)]
}

/// Refuses a scope that another open record of the directory has.
pub(super) fn refuse_taken(
    connection: &Connection,
    record: &RecordId,
    scope: Option<&Scope>,
    directory: &AbsolutePath,
) -> Result<(), Fault> {
    let Some(scope) = scope else { return Ok(()) };
    let [agent, name] = text_of(scope);
    let holder: Option<String> = connection
        .prepare_cached(&format!("SELECT id FROM records WHERE {IN_SCOPE} AND {OPEN}"))?
        .query_row(params![agent, directory.as_str(), name], |row| row.get(0))
        .optional()?;
    match holder.filter(|holder| holder != record.as_str()).map(RecordId::new) {
        None => Ok(()),
        Some(Ok(record)) => Err(StoreError::ScopeTaken { record }.into()),
        Some(Err(_)) => Err(Fault::Damaged("a record has an empty id".to_owned())),
    }
}

fn misled(record: &RecordId) -> Fault {
    Fault::Damaged(format!("an index leads to the record {record}, which is not in that scope"))
}
