//! What each request reads, inside a transaction of its own. What the file says in two places is compared: a
//! page of events must reach the number its record says it has, or the file is damaged.

use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Fault;
use super::rows::{self, EVENT_COLUMNS, RECORD_COLUMNS, RecordKey, TURN_COLUMNS};
use crate::model::{Event, Record, RecordId, RequestId, Seq, Timestamp, Turn, TurnId};
use crate::store::StoreError;
use crate::store::page::Page;

/// One record.
pub(super) fn record(connection: &Connection, id: &RecordId) -> Result<Option<Record>, Fault> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {RECORD_COLUMNS} FROM records WHERE id = ?1"))?;
    let mut found = statement.query([id.as_str()])?;
    found.next()?.map(|row| whole_record(connection, row)).transpose()
}

fn whole_record(connection: &Connection, row: &rusqlite::Row<'_>) -> Result<Record, Fault> {
    let lineage = rows::lineage(connection, RecordKey(row.get(0)?))?;
    rows::record(row, lineage)
}

/// A page of records, last changed first.
pub(super) fn records(
    connection: &Connection,
    after: Option<&(Timestamp, RecordId)>,
    limit: usize,
) -> Result<Vec<Record>, Fault> {
    let place = if after.is_some() { "(updated_at, id) < (?1, ?2)" } else { "?1 IS ?2" };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {RECORD_COLUMNS} FROM records WHERE {place} ORDER BY updated_at DESC, id DESC LIMIT ?3"
    ))?;
    let (at, id) = after.map(|(at, id)| (at.as_millis(), id.as_str())).unzip();
    let mut found = statement.query(params![at, id, bounded(limit)])?;
    let mut records = Vec::new();
    while let Some(row) = found.next()? {
        records.push(whole_record(connection, row)?);
    }
    Ok(records)
}

/// A page of events.
pub(super) fn events(
    connection: &Connection,
    id: &RecordId,
    from: Seq,
    limit: usize,
) -> Result<Vec<Event>, Fault> {
    let (key, last) = progress_of(connection, id)?;
    let first = Seq(from.0.max(Seq::FIRST.0));
    let Some(first_key) = key.event(first) else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {EVENT_COLUMNS} FROM events WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3"
    ))?;
    let mut found = statement.query(params![first_key, key.last_event(), bounded(limit)])?;
    let mut page = Page::new(limit);
    let mut next = first;
    while let Some(row) = found.next()? {
        let event = rows::event(connection, row)?;
        if event.seq != next {
            return Err(missing_event(next));
        }
        next = event.seq.next();
        if !page.push(event) {
            return Ok(page.into_events());
        }
    }
    let complete = page.is_full() || last.is_none_or(|last| last < next);
    if complete { Ok(page.into_events()) } else { Err(missing_event(next)) }
}

fn missing_event(seq: Seq) -> Fault {
    Fault::Damaged(format!("event {seq} is missing"))
}

/// The turns that still wait for the agent, in order.
pub(super) fn open_turns(connection: &Connection, id: &RecordId) -> Result<Vec<Turn>, Fault> {
    let key = existing_key(connection, id)?;
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {TURN_COLUMNS} FROM turns \
         WHERE record = ?1 AND state IN ('queued', 'dispatched') ORDER BY turn"
    ))?;
    let mut found = statement.query([key.0])?;
    let mut turns = Vec::new();
    while let Some(row) = found.next()? {
        turns.push(rows::turn(connection, row)?);
    }
    Ok(turns)
}

/// The turn a client named so.
pub(super) fn turn_by_request(
    connection: &Connection,
    id: &RecordId,
    request: &RequestId,
) -> Result<Option<Turn>, Fault> {
    let key = existing_key(connection, id)?;
    match turn_of_request(connection, key, request)? {
        None => Ok(None),
        Some(found) => turn(connection, key, found),
    }
}

/// The turn with a number.
pub(super) fn turn(connection: &Connection, record: RecordKey, id: TurnId) -> Result<Option<Turn>, Fault> {
    let mut statement = connection
        .prepare_cached(&format!("SELECT {TURN_COLUMNS} FROM turns WHERE record = ?1 AND turn = ?2"))?;
    let mut found = statement.query(params![record.0, i64::try_from(id.0)?])?;
    found.next()?.map(|row| rows::turn(connection, row)).transpose()
}

/// The number of the turn that has a request id.
pub(super) fn turn_of_request(
    connection: &Connection,
    record: RecordKey,
    request: &RequestId,
) -> Result<Option<TurnId>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT turn FROM turns WHERE record = ?1 AND request = ?2")?;
    let mut found = statement.query(params![record.0, request.as_str()])?;
    found.next()?.map(|row| rows::number(row, 0).map(TurnId)).transpose()
}

/// The key of a record, if it is there.
pub(super) fn key_of(connection: &Connection, id: &RecordId) -> Result<Option<RecordKey>, Fault> {
    let mut statement = connection.prepare_cached("SELECT key FROM records WHERE id = ?1")?;
    Ok(statement.query_row([id.as_str()], |row| row.get(0).map(RecordKey)).optional()?)
}

fn existing_key(connection: &Connection, id: &RecordId) -> Result<RecordKey, Fault> {
    key_of(connection, id)?.ok_or_else(|| StoreError::NoRecord(id.clone()).into())
}

fn progress_of(connection: &Connection, id: &RecordId) -> Result<(RecordKey, Option<Seq>), Fault> {
    let mut statement = connection.prepare_cached("SELECT key, last_seq FROM records WHERE id = ?1")?;
    let mut found = statement.query([id.as_str()])?;
    match found.next()? {
        None => Err(StoreError::NoRecord(id.clone()).into()),
        Some(row) => Ok((RecordKey(row.get(0)?), rows::optional_number(row, 1)?.map(Seq))),
    }
}

fn bounded(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
