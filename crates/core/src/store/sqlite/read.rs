//! The queries of read requests, each in its own transaction. Redundant information is compared: the events of a
//! record must end where the record's row says, and the number of open turns must match, or the file is damaged.

use std::sync::LazyLock;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::cells::Cells;
use super::fault::SqliteFault;
use super::rows::{self, EVENT, RECORD, RecordKey, RecordRowState, STANDING, TURN};
use super::scope;
use crate::model::{
    AcpSessionId, AgentKey, AgentRun, AgentSpec, Event, ExchangeCheckpoint, Lifecycle, LineageReason, Record,
    RecordId, RequestId, Scope, Seq, Timestamp, Turn, TurnId,
};
use crate::store::query::{self, EventPage};
use crate::store::{OpenTurns, RecordFilter, SessionOwner, StoreError};

/// One record.
pub(super) fn record(connection: &Connection, id: &RecordId) -> Result<Option<Record>, SqliteFault> {
    let mut statement = connection.prepare_cached(&format!("{} WHERE id = ?1", select_records()))?;
    let mut found = statement.query([id.as_str()])?;
    found.next()?.map(|row| rows::record(connection, row)).transpose()
}

/// The statement that selects whole records, without its conditions.
pub(super) fn select_records() -> String {
    format!("SELECT {}, {} FROM records", RECORD.list, STANDING.list)
}

/// A page of records, most recently changed first.
pub(super) fn records(
    connection: &Connection,
    filter: &RecordFilter,
    after: Option<&(Timestamp, RecordId)>,
    limit: usize,
) -> Result<RecordList, SqliteFault> {
    let mut conditions = vec![NOT_DELETED];
    let mut values: Vec<Value> = Vec::new();
    if let Some((at, id)) = after {
        conditions.push(AFTER);
        values.extend([at.as_millis().into(), id.as_str().to_owned().into()]);
    }
    add_filter(filter, &mut conditions, &mut values);
    listed(connection, &select_page(&conditions), &values, limit)
}

/// A page of records, most recently created first.
pub(super) fn records_by_creation(
    connection: &Connection,
    filter: &RecordFilter,
    after: Option<&RecordId>,
    limit: usize,
) -> Result<RecordList, SqliteFault> {
    let mut conditions = vec![NOT_DELETED];
    let mut values: Vec<Value> = Vec::new();
    if let Some(after) = after {
        let Some(key) = key_of(connection, after)? else { return Ok(RecordList::default()) };
        conditions.push(MADE_BEFORE);
        values.push(key.0.into());
    }
    add_filter(filter, &mut conditions, &mut values);
    listed(connection, &select_page_by_making(&conditions), &values, limit)
}

/// Records whose ids begin with a prefix, by id.
pub(super) fn records_by_id_prefix(
    connection: &Connection,
    filter: &RecordFilter,
    prefix: &str,
    limit: usize,
) -> Result<RecordList, SqliteFault> {
    let mut conditions = vec![WITH_PREFIX];
    // No character of an id is greater than the last one.
    let mut values: Vec<Value> = vec![prefix.to_owned().into(), format!("{prefix}{}", char::MAX).into()];
    add_filter(filter, &mut conditions, &mut values);
    listed(connection, &select_by_id(&conditions), &values, limit)
}

/// The shortest prefix of an id that finds only it.
pub(super) fn short_id(connection: &Connection, id: &RecordId) -> Result<String, SqliteFault> {
    let neighbour = |statement: &str| {
        let mut select = connection.prepare_cached(statement)?;
        select.query_row([id.as_str()], |row| row.get::<_, String>(0)).optional()
    };
    let (before, after) = (neighbour(ID_BEFORE)?, neighbour(ID_AFTER)?);
    Ok(query::short_id(id.as_str(), [before.as_deref(), after.as_deref()]))
}

// The plus keeps SQLite from reading the index of listed records from its beginning.
pub(super) const WITH_PREFIX: &str = "id >= ? AND id < ? AND +deleted_at IS NULL";
pub(super) const ID_BEFORE: &str =
    "SELECT id FROM records WHERE id < ? AND +deleted_at IS NULL ORDER BY id DESC LIMIT 1";
pub(super) const ID_AFTER: &str =
    "SELECT id FROM records WHERE id > ? AND +deleted_at IS NULL ORDER BY id LIMIT 1";

/// The statement for records that meet all conditions, by id.
pub(super) fn select_by_id(conditions: &[&str]) -> String {
    format!("{} WHERE {} ORDER BY id LIMIT ?", select_records(), conditions.join(" AND "))
}

fn add_filter(filter: &RecordFilter, conditions: &mut Vec<&str>, values: &mut Vec<Value>) {
    if let Some(real_cwd) = &filter.real_cwd {
        conditions.push(IN_DIRECTORY);
        values.push(real_cwd.as_str().to_owned().into());
    }
    if let Some(agent) = &filter.agent {
        conditions.push(WITH_AGENT);
        values.extend(agent_values(agent));
    }
}

const WITH_AGENT: &str = "(agent_name = ? OR (agent_name IS NULL AND program = ? AND args = ?))";

fn agent_values(agent: &AgentKey) -> [Value; 3] {
    let (program, args) = command_of(agent).unzip();
    [agent.as_str().to_owned().into(), program.into(), args.into()]
}

/// Which of these sessions of an agent are in the lineage of a record, by session and record.
pub(super) fn owners(
    connection: &Connection,
    agent: &AgentSpec,
    sessions: &[AcpSessionId],
) -> Result<Vec<SessionOwner>, SqliteFault> {
    let mut statement = connection.prepare_cached(
        "SELECT DISTINCT session, id, agent_name, program, args, deleted_at IS NOT NULL FROM lineage JOIN records ON key = record \
         WHERE (agent_name = ?1 OR ((agent_name IS NULL OR ?1 IS NULL) AND program = ?2 AND args = ?3)) \
         AND session IN (SELECT value FROM json_each(?4)) ORDER BY session, id",
    )?;
    let sessions: Vec<&str> = sessions.iter().map(AcpSessionId::as_str).collect();
    let values = params![agent.name, agent.program, rows::list(&agent.args), json_list(&sessions)];
    let mut found = statement.query(values)?;
    let mut owners = Vec::new();
    while let Some(row) = found.next()? {
        let (session, record): (String, String) = (row.get(0)?, row.get(1)?);
        let (name, program, args): (Option<String>, String, String) = (row.get(2)?, row.get(3)?, row.get(4)?);
        let args: Option<Vec<String>> = serde_json::from_str(&args).ok();
        let (Ok(session), Ok(record), Some(args)) = (AcpSessionId::new(session), RecordId::new(record), args)
        else {
            return Err(SqliteFault::Damaged(
                "a session or a record has no id, or an agent no arguments".to_owned(),
            ));
        };
        let agent = AgentSpec { name, ..AgentSpec::new(program, args) }.key();
        owners.push(SessionOwner { session, record, agent, is_deleted: row.get(5)? });
    }
    Ok(owners)
}

/// How many records are deleted. Both counts read an index.
pub(super) fn deleted_records(connection: &Connection) -> Result<u64, SqliteFault> {
    let mut count = connection.prepare_cached(
        "SELECT (SELECT count(*) FROM records) - (SELECT count(*) FROM records WHERE deleted_at IS NULL)",
    )?;
    Ok(count.query_row([], |row| row.get::<_, i64>(0))?.cast_unsigned())
}

/// Which of these records were created after another one.
pub(super) fn created_after(
    connection: &Connection,
    than: &RecordId,
    records: &[RecordId],
) -> Result<Vec<RecordId>, SqliteFault> {
    let mut statement = connection.prepare_cached(
        "SELECT id FROM records WHERE id IN (SELECT value FROM json_each(?)) \
         AND key > (SELECT key FROM records WHERE id = ?) ORDER BY key",
    )?;
    let records: Vec<&str> = records.iter().map(RecordId::as_str).collect();
    let mut found = statement.query(params![json_list(&records), than.as_str()])?;
    let mut later = Vec::new();
    while let Some(row) = found.next()? {
        let id = RecordId::new(row.get::<_, String>(0)?);
        later.push(id.map_err(|_| SqliteFault::Damaged("a record has no id".to_owned()))?);
    }
    Ok(later)
}

fn json_list(texts: &[&str]) -> String {
    serde_json::to_string(texts).expect("a list of texts is JSON")
}

/// The records of a list, and those that are left out because they cannot be read.
#[derive(Debug, Default)]
pub(super) struct RecordList {
    pub(super) records: Vec<Record>,
    pub(super) unreadable: Vec<UnreadableRecord>,
}

/// A record whose row, state or lineage is damaged.
#[derive(Debug)]
pub(super) struct UnreadableRecord {
    pub(super) id: String,
    pub(super) fault: SqliteFault,
}

/// The first records of a list; a deleted one among them is damage of an index. Records that cannot be read do not count
/// for the limit, so that a page is short only at the end of the list.
fn listed(
    connection: &Connection,
    statement: &str,
    values: &[Value],
    limit: usize,
) -> Result<RecordList, SqliteFault> {
    let mut list = first_rows(connection, statement, values, limit)?;
    let mut asked = limit;
    while list.records.len() < limit && list.records.len() + list.unreadable.len() == asked {
        asked = limit.saturating_add(list.unreadable.len());
        list = first_rows(connection, statement, values, asked)?;
    }
    Ok(list)
}

/// The records of the first rows.
fn first_rows(
    connection: &Connection,
    statement: &str,
    values: &[Value],
    rows: usize,
) -> Result<RecordList, SqliteFault> {
    let limit = Value::from(bounded(rows));
    let mut statement = connection.prepare_cached(statement)?;
    let mut found = statement.query(params_from_iter(values.iter().chain([&limit])))?;
    let mut list = RecordList::default();
    while let Some(row) = found.next()? {
        match rows::record(connection, row) {
            Ok(record) if record.lifecycle.is_deleted() => return Err(scope::misled(&record.id)),
            Ok(record) => list.records.push(record),
            Err(fault) if fault.is_unknown_content() => {
                let id = row.get("id").unwrap_or_else(|_| "(no id)".to_owned());
                list.unreadable.push(UnreadableRecord { id, fault });
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(list)
}

/// The condition that selects the index of listed records.
pub(super) const NOT_DELETED: &str = "deleted_at IS NULL";
pub(super) const IN_DIRECTORY: &str = "real_cwd = ?";
pub(super) const AFTER: &str = "(updated_at, id) < (?, ?)";

/// The statement for a page of records that meet all conditions.
pub(super) fn select_page(conditions: &[&str]) -> String {
    let conditions = conditions.join(" AND ");
    format!("{} WHERE {conditions} ORDER BY updated_at DESC, id DESC LIMIT ?", select_records())
}

pub(super) const MADE_BEFORE: &str = "key < ?";

/// The statement for a page of records that meet all conditions, by key. Keys are assigned in order of creation.
pub(super) fn select_page_by_making(conditions: &[&str]) -> String {
    let conditions = conditions.join(" AND ");
    format!("{} WHERE {conditions} ORDER BY key DESC LIMIT ?", select_records())
}

/// The program and the arguments of an agent without a name, in their columns' format, if the key is that of such an
/// agent.
fn command_of(agent: &AgentKey) -> Option<(String, String)> {
    let command: Vec<String> = serde_json::from_str(agent.as_str()).ok()?;
    let (program, args) = command.split_first()?;
    // Only a key in our own JSON formatting is an agent's key.
    (rows::list(&command) == agent.as_str()).then(|| (program.clone(), rows::list(args)))
}

/// Records that an ACP client created and no client has ever prompted, if they last changed before a time.
pub(super) fn unprompted(
    connection: &Connection,
    before: Timestamp,
    limit: usize,
) -> Result<Vec<RecordId>, SqliteFault> {
    let mut statement = connection.prepare_cached(
        "SELECT id FROM records WHERE deleted_at IS NULL AND updated_at < ? AND last_turn IS NULL \
         AND scope_agent IS NULL AND ? = (SELECT reason FROM lineage WHERE record = key AND row = 1) \
         ORDER BY updated_at, id LIMIT ?",
    )?;
    let values = params![before.as_millis(), LineageReason::Created.as_str(), bounded(limit)];
    let mut found = statement.query(values)?;
    let mut records = Vec::new();
    while let Some(row) = found.next()? {
        let id: String = row.get(0)?;
        records.push(RecordId::new(id).map_err(|_| SqliteFault::Damaged("a record has no id".to_owned()))?);
    }
    Ok(records)
}

/// The records whose last run has no end.
pub(super) fn running(connection: &Connection) -> Result<Vec<(RecordId, AgentRun)>, SqliteFault> {
    let mut statement = connection.prepare_cached(&select_running())?;
    let mut found = statement.query([])?;
    let mut running = Vec::new();
    while let Some(row) = found.next()? {
        match rows::agent_run(row) {
            Ok((id, Some(run))) if run.ended.is_none() => running.push((id, run)),
            Ok((id, _)) => {
                return Err(SqliteFault::Damaged(format!("an index has a run of {id} that is not there")));
            }
            // One damaged record must not keep a host from starting. Its process is found by its tag.
            Err(fault) if fault.is_unknown_content() => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(running)
}

pub(super) fn select_running() -> String {
    // By default SQLite would scan all records, because another index has them in the order of their ids.
    format!(
        "SELECT {} FROM records INDEXED BY records_running WHERE run_pid IS NOT NULL AND run_ended_at IS NULL \
         ORDER BY id",
        RECORD.list
    )
}

/// Frequent statements are built once.
static SELECT_EVENTS: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {} FROM events WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3", EVENT.list)
});
static SELECT_STANDING: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM records WHERE id = ?1", STANDING.list));

/// A page of events.
pub(super) fn events(
    connection: &Connection,
    id: &RecordId,
    from: Seq,
    limit: usize,
) -> Result<Vec<Event>, SqliteFault> {
    let RecordRowState { key, progress, .. } = rows::with_events(connection, existing(connection, id)?)?;
    let first = Seq(from.0.max(Seq::FIRST.0));
    let Some(first_key) = key.event(first) else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(&SELECT_EVENTS)?;
    let mut found = statement.query(params![first_key, key.last_event(), bounded(limit)])?;
    let mut page = EventPage::new(limit);
    let mut next = first;
    while let Some(row) = found.next()? {
        let cells = Cells::read(row, 0, &EVENT)?;
        let seq = rows::seq_of(cells.integer(0)?);
        if seq != next {
            return Err(missing_event(next));
        }
        // A body that does not fit is left for the next page without being read.
        if !page.has_room_for(rows::body_size(connection, &cells)?) {
            return Ok(page.into_events());
        }
        page.push(rows::event(connection, &cells)?);
        next = seq.next();
    }
    let complete = page.is_full() || progress.last_seq < Some(next);
    if complete { Ok(page.into_events()) } else { Err(missing_event(next)) }
}

fn missing_event(seq: Seq) -> SqliteFault {
    SqliteFault::Damaged(format!("event {seq} is missing"))
}

/// Which records have open turns, by id. The index of open turns keeps this independent of the number of records.
pub(super) const WITH_OPEN_TURNS: &str = "SELECT id, max(state = 'dispatched'), max(state = 'queued') \
     FROM turns INDEXED BY turns_open JOIN records ON key = record \
     WHERE state IN ('queued', 'dispatched') GROUP BY record ORDER BY id";

/// The records that have open turns.
pub(super) fn records_with_open_turns(
    connection: &Connection,
) -> Result<Vec<(RecordId, OpenTurns)>, SqliteFault> {
    let mut statement = connection.prepare_cached(WITH_OPEN_TURNS)?;
    let mut found = statement.query([])?;
    let mut records = Vec::new();
    while let Some(row) = found.next()? {
        let id = RecordId::new(row.get::<_, String>(0)?);
        let id = id.map_err(|_| SqliteFault::Damaged("a record has no id".to_owned()))?;
        records.push((id, OpenTurns { has_dispatched: row.get(1)?, has_queued: row.get(2)? }));
    }
    Ok(records)
}

/// The open turns, in order.
pub(super) fn open_turns(connection: &Connection, id: &RecordId) -> Result<Vec<Turn>, SqliteFault> {
    let standing = existing(connection, id)?;
    // There is usually none, and preparing the long statement costs a short command too much.
    if standing.open_turns == 0 {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {} FROM turns WHERE record = ?1 AND state IN ('queued', 'dispatched') ORDER BY turn",
        TURN.list
    ))?;
    let mut found = statement.query([standing.key.0])?;
    let mut turns = Vec::new();
    while let Some(row) = found.next()? {
        turns.push(rows::turn(connection, &Cells::read(row, 0, &TURN)?)?);
    }
    let complete = turns.len() as u64 == standing.open_turns;
    if complete { Ok(turns) } else { Err(SqliteFault::Damaged("an open turn is missing".to_owned())) }
}

/// Reads every turn of a record, and returns how many there are.
pub(super) fn turns(connection: &Connection, id: &RecordId) -> Result<u64, SqliteFault> {
    let standing = existing(connection, id)?;
    let mut statement = connection
        .prepare_cached(&format!("SELECT {} FROM turns WHERE record = ?1 ORDER BY turn", TURN.list))?;
    let mut found = statement.query([standing.key.0])?;
    let mut count = 0;
    while let Some(row) = found.next()? {
        rows::turn(connection, &Cells::read(row, 0, &TURN)?)?;
        count += 1;
    }
    Ok(count)
}

/// The turn with this request id.
pub(super) fn turn_by_request(
    connection: &Connection,
    id: &RecordId,
    request: &RequestId,
) -> Result<Option<Turn>, SqliteFault> {
    let RecordRowState { key, .. } = existing(connection, id)?;
    let mut statement = connection
        .prepare_cached(&format!("SELECT {} FROM turns WHERE record = ?1 AND request = ?2", TURN.list))?;
    let mut found = statement.query(params![key.0, request.as_str()])?;
    let Some(row) = found.next()? else { return Ok(None) };
    rows::turn(connection, &Cells::read(row, 0, &TURN)?).map(Some)
}

/// The turn with this number.
pub(super) fn turn_by_number(
    connection: &Connection,
    id: &RecordId,
    turn: TurnId,
) -> Result<Option<Turn>, SqliteFault> {
    turn_where("turn = ?2", connection, id, turn)
}

/// The first turn with this number or a higher one.
pub(super) fn first_turn_from(
    connection: &Connection,
    id: &RecordId,
    turn: TurnId,
) -> Result<Option<Turn>, SqliteFault> {
    turn_where("turn >= ?2 ORDER BY turn LIMIT 1", connection, id, turn)
}

fn turn_where(
    condition: &str,
    connection: &Connection,
    id: &RecordId,
    turn: TurnId,
) -> Result<Option<Turn>, SqliteFault> {
    let RecordRowState { key, .. } = existing(connection, id)?;
    // No column holds a larger number.
    let Ok(number) = i64::try_from(turn.0) else { return Ok(None) };
    let mut statement = connection
        .prepare_cached(&format!("SELECT {} FROM turns WHERE record = ?1 AND {condition}", TURN.list))?;
    let mut found = statement.query(params![key.0, number])?;
    let Some(row) = found.next()? else { return Ok(None) };
    rows::turn(connection, &Cells::read(row, 0, &TURN)?).map(Some)
}

/// The exchanges of a record.
pub(super) fn exchanges(
    connection: &Connection,
    id: &RecordId,
) -> Result<Option<ExchangeCheckpoint>, SqliteFault> {
    let RecordRowState { key, progress, .. } = rows::with_events(connection, existing(connection, id)?)?;
    let stored = rows::exchanges(connection, key)?;
    match &stored {
        Some(stored) if Some(stored.through) > progress.last_seq => {
            Err(SqliteFault::Damaged("the exchanges of a record go beyond its last event".to_owned()))
        }
        _ => Ok(stored),
    }
}

/// Open records with this scope in any directory.
pub(super) fn records_named(
    connection: &Connection,
    named: &Scope,
    limit: usize,
) -> Result<RecordList, SqliteFault> {
    let values = vec![named.agent.as_str().to_owned().into(), rows::name_text(named).to_owned().into()];
    let list = listed(connection, &select_named(), &values, limit)?;
    match list.records.iter().find(|record| record.lifecycle != Lifecycle::Open) {
        Some(record) => Err(scope::misled(&record.id)),
        None => Ok(list),
    }
}

/// The statement for open records of one agent and name, last created first.
pub(super) fn select_named() -> String {
    format!(
        "{} WHERE scope_agent = ? AND scope_name = ? AND {} ORDER BY key DESC LIMIT ?",
        select_records(),
        scope::OPEN
    )
}

/// The bytes of a record's events and prompts, with the long texts that they refer to. The texts are not read.
const CONTENT_SIZE: &str = "SELECT \
     (SELECT ifnull(sum(octet_length(body)), 0) \
      + ifnull(sum((SELECT octet_length(bytes) FROM blobs WHERE hash = blob)), 0) \
      FROM events WHERE key BETWEEN ?1 AND ?2) + \
     (SELECT ifnull(sum(octet_length(prompt)), 0) \
      + ifnull(sum((SELECT octet_length(bytes) FROM blobs WHERE hash = prompt_blob)), 0) \
      FROM turns WHERE record = ?3)";

/// How many bytes a record's conversation takes; 0 for a missing record.
pub(super) fn content_size(connection: &Connection, id: &RecordId) -> Result<u64, SqliteFault> {
    let Some(key) = key_of(connection, id)? else { return Ok(0) };
    let mut statement = connection.prepare_cached(CONTENT_SIZE)?;
    let values = params![key.first_event(), key.last_event(), key.0];
    let size: i64 = statement.query_row(values, |row| row.get(0))?;
    Ok(u64::try_from(size)?)
}

/// The key of a record, if it exists.
pub(super) fn key_of(connection: &Connection, id: &RecordId) -> Result<Option<RecordKey>, SqliteFault> {
    let mut statement = connection.prepare_cached("SELECT key FROM records WHERE id = ?1")?;
    Ok(statement.query_row([id.as_str()], |row| row.get(0).map(RecordKey)).optional()?)
}

/// The highest key of all records.
pub(super) fn last_key(connection: &Connection) -> Result<Option<RecordKey>, SqliteFault> {
    let mut statement = connection.prepare_cached("SELECT max(key) FROM records")?;
    Ok(statement.query_row([], |row| row.get::<_, Option<i64>>(0))?.map(RecordKey))
}

pub(super) fn existing(connection: &Connection, id: &RecordId) -> Result<RecordRowState, SqliteFault> {
    let mut statement = connection.prepare_cached(&SELECT_STANDING)?;
    let mut found = statement.query([id.as_str()])?;
    match found.next()? {
        None => Err(StoreError::NoRecord(id.clone()).into()),
        Some(row) => rows::standing(row, 0),
    }
}

fn bounded(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
