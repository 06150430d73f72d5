//! A record as a row, including its scope, its servers and the last process of its agent.

use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::cells;
use super::super::cells::{Cells, Columns, columns};
use super::super::fault::SqliteFault;
use super::{lineage, standing, with_events};
use crate::model::{
    AbsolutePath, AgentEnd, AgentExit, AgentKey, AgentMemory, AgentRun, AgentSpec, Lifecycle, McpServerRef,
    ProcessIdentity, ProtocolVersion, Record, RecordId, RecordSettings, RestoreError, Scope, SessionInfo,
    SessionName, SessionUsage, Timestamp,
};
use crate::store::progress::RecordProgress;

/// The record's own columns. They change rarely, so they have a checksum that an event does not change.
pub(in super::super) const RECORD: Columns<COLUMNS> = columns!["records":
    "key", "id", "agent_name", "program", "args", "start_timeout_ms", "cwd", "real_cwd", "mcp_servers", "title",
    "closed_at", "created_at";
    added "scope_agent", "scope_name", "run_pid", "run_started", "run_boot", "run_since", "run_ended_at",
    "run_ended_how", "deleted_at", "protocol", "settings", "additional_directories", "memory",
    "restore_error", "user_title", "usage"; "checksum"];

const COLUMNS: usize = 28;
const DELETED_AT: usize = 20;
const PROTOCOL: usize = 21;
const SETTINGS: usize = 22;
const ADDITIONAL_DIRECTORIES: usize = 23;
const MEMORY: usize = 24;
const RESTORE_ERROR: usize = 25;
const USER_TITLE: usize = 26;
const USAGE: usize = 27;

/// A row of [`RECORD`].
pub(in super::super) type RecordRow<'a> = Cells<'a, COLUMNS>;

/// A record with its lineage. The row has the columns of [`RECORD`], and then those of the state.
pub(in super::super) fn record(connection: &Connection, row: &Row<'_>) -> Result<Record, SqliteFault> {
    let cells = Cells::read(row, 0, &RECORD)?;
    let standing = with_events(connection, standing(row, RECORD.names.len() + 1)?)?;
    let RecordProgress { last_seq, last_turn, answered_turns, updated_at, .. } = standing.progress;
    let ScopeClaim { scope, real_cwd, lifecycle } = place(&cells)?;
    Ok(Record {
        id: id(&cells)?,
        agent: AgentSpec {
            name: cells.optional_text(2)?.map(str::to_owned),
            program: cells.text(3)?.to_owned(),
            args: cells.parsed(4, |text| serde_json::from_str(text).ok())?,
            start_timeout: Some(Duration::from_millis(cells.number(5)?))
                .filter(|kept| *kept != AgentSpec::DEFAULT_START_TIMEOUT),
            protocol: protocol(&cells)?,
            profile: None,
        },
        cwd: cells.parsed(6, path)?,
        real_cwd,
        additional_directories: additional_directories(&cells)?,
        scope,
        mcp_servers: cells.parsed(8, servers)?,
        info: SessionInfo {
            title: cells.optional_text(9)?.map(str::to_owned),
            user_title: cells.optional_text(USER_TITLE)?.map(str::to_owned),
            usage: usage(&cells)?,
        },
        lifecycle,
        lineage: lineage(connection, &standing)?,
        agent_run: run(&cells)?,
        settings: settings(&cells)?,
        memory: memory(&cells)?,
        restore_error: self::optional(&cells, RESTORE_ERROR)?,
        created_at: cells.time(11)?,
        updated_at,
        last_seq,
        last_turn,
        answered_turns,
    })
}

/// The start timeout as a column value. The column is never null: an unset timeout is stored as the default, and a
/// timeout that equals the default as a millisecond more.
pub(in super::super) fn start_timeout_value<'a>(timeout: Option<Duration>) -> ValueRef<'a> {
    let usual = AgentSpec::DEFAULT_START_TIMEOUT.as_millis();
    let millis = match timeout.map(|timeout| timeout.as_millis()) {
        None => usual,
        Some(timeout) if timeout == usual => usual + 1,
        Some(timeout) => timeout,
    };
    ValueRef::Integer(i64::try_from(millis).unwrap_or(i64::MAX))
}

/// The id of a record.
pub(in super::super) fn id(cells: &RecordRow<'_>) -> Result<RecordId, SqliteFault> {
    cells.parsed(1, |text| RecordId::new(text).ok())
}

fn settings(cells: &RecordRow<'_>) -> Result<RecordSettings, SqliteFault> {
    match cells.optional_text(SETTINGS)? {
        None => Ok(RecordSettings::default()),
        Some(_) => cells.parsed(SETTINGS, super::settings::settings),
    }
}

fn memory(cells: &RecordRow<'_>) -> Result<AgentMemory, SqliteFault> {
    match cells.optional_text(MEMORY)? {
        None => Ok(AgentMemory::Whole),
        Some(_) => cells.parsed(MEMORY, super::memory::memory),
    }
}

fn usage(cells: &RecordRow<'_>) -> Result<Option<SessionUsage>, SqliteFault> {
    match cells.optional_text(USAGE)? {
        None => Ok(None),
        Some(_) => cells.parsed(USAGE, super::usage::usage).map(Some),
    }
}

fn path(text: &str) -> Option<AbsolutePath> {
    AbsolutePath::new(text).ok()
}

/// The protocol version to request from its agent; version 1 is stored as null.
fn protocol(cells: &RecordRow<'_>) -> Result<ProtocolVersion, SqliteFault> {
    match cells.optional_number(PROTOCOL)? {
        None => Ok(ProtocolVersion::V1),
        Some(2) => Ok(ProtocolVersion::V2),
        Some(_) => Err(cells.unknown(PROTOCOL)),
    }
}

/// The protocol version as a column value.
pub(in super::super) fn protocol_value<'a>(version: ProtocolVersion) -> ValueRef<'a> {
    let number = (version != ProtocolVersion::V1).then(|| version.number());
    cells::optional_integer(number.map(Into::into))
}

/// The additional directories. None is stored as null, so an empty list is damage.
fn additional_directories(cells: &RecordRow<'_>) -> Result<Vec<AbsolutePath>, SqliteFault> {
    let Some(text) = cells.optional_text(ADDITIONAL_DIRECTORIES)? else { return Ok(Vec::new()) };
    let paths = serde_json::from_str::<Vec<String>>(text).ok().filter(|paths| !paths.is_empty());
    let paths = paths.and_then(|paths| paths.iter().map(|text| path(text)).collect());
    paths.ok_or_else(|| cells.unknown(ADDITIONAL_DIRECTORIES))
}

/// The additional directories as a column value, if there are any.
pub(in super::super) fn directories_text(directories: &[AbsolutePath]) -> Option<String> {
    let paths = directories.iter().map(AbsolutePath::as_str).collect::<Vec<_>>();
    (!paths.is_empty()).then(|| Value::from(paths).to_string())
}

/// The scope and directory of a record, with the lifecycle that decides whether it occupies them.
pub(in super::super) struct ScopeClaim {
    pub(in super::super) scope: Option<Scope>,
    pub(in super::super) real_cwd: AbsolutePath,
    pub(in super::super) lifecycle: Lifecycle,
}

/// The scope claim of a record.
pub(in super::super) fn place(cells: &RecordRow<'_>) -> Result<ScopeClaim, SqliteFault> {
    Ok(ScopeClaim { scope: scope(cells)?, real_cwd: cells.parsed(7, path)?, lifecycle: lifecycle(cells)? })
}

fn lifecycle(cells: &RecordRow<'_>) -> Result<Lifecycle, SqliteFault> {
    match (cells.optional_time(10)?, cells.optional_time(DELETED_AT)?) {
        (None, None) => Ok(Lifecycle::Open),
        (Some(at), None) => Ok(Lifecycle::Closed { at }),
        (None, Some(at)) => Ok(Lifecycle::Deleted { at }),
        (Some(_), Some(_)) => Err(cells.unknown(DELETED_AT)),
    }
}

/// A lifecycle as column values.
pub(in super::super) fn lifecycle_values(lifecycle: Lifecycle) -> [(&'static str, ValueRef<'static>); 2] {
    let (closed_at, deleted_at) = match lifecycle {
        Lifecycle::Open => (None, None),
        Lifecycle::Closed { at } => (Some(at.as_millis()), None),
        Lifecycle::Deleted { at } => (None, Some(at.as_millis())),
    };
    [("closed_at", cells::optional_integer(closed_at)), ("deleted_at", cells::optional_integer(deleted_at))]
}

fn scope(cells: &RecordRow<'_>) -> Result<Option<Scope>, SqliteFault> {
    let Some(agent) = cells.optional_text(12)?.map(AgentKey::new) else {
        return empty(cells, 13..14).map(|()| None);
    };
    let name = match cells.text(13)? {
        "" => None,
        text => {
            let name = SessionName::new(text).ok().filter(|name| name.as_str() == text);
            Some(name.ok_or_else(|| cells.unknown(13))?)
        }
    };
    Ok(Some(Scope { agent, name }))
}

/// A scope as column values.
pub(in super::super) fn scope_values(scope: Option<&Scope>) -> [(&'static str, ValueRef<'_>); 2] {
    [
        ("scope_agent", scope.map(|scope| scope.agent.as_str()).into()),
        ("scope_name", scope.map(name_text).into()),
    ]
}

/// The name in a scope as a column value.
pub(in super::super) fn name_text(scope: &Scope) -> &str {
    scope.name.as_ref().map_or("", SessionName::as_str)
}

/// The id of a record and the last process of its agent.
pub(in super::super) fn agent_run(row: &Row<'_>) -> Result<(RecordId, Option<AgentRun>), SqliteFault> {
    let cells = Cells::read(row, 0, &RECORD)?;
    Ok((id(&cells)?, run(&cells)?))
}

fn run(cells: &RecordRow<'_>) -> Result<Option<AgentRun>, SqliteFault> {
    let Some(pid) = cells.optional_number(14)? else { return empty(cells, 15..DELETED_AT).map(|()| None) };
    let ended = match cells.optional_time(18)? {
        Some(at) => Some(AgentExit { at, how: AgentEnd::from_words(cells.text(19)?) }),
        None => empty(cells, 19..DELETED_AT).map(|()| None)?,
    };
    let process = ProcessIdentity {
        pid: u32::try_from(pid).map_err(|_| cells.unknown(14))?,
        started: cells.number(15)?,
        boot: cells.text(16)?.to_owned(),
    };
    Ok(Some(AgentRun { process, since: cells.time(17)?, ended }))
}

/// The last process of an agent as column values.
pub(in super::super) fn run_values(
    run: Option<&AgentRun>,
) -> Result<[(&'static str, ValueRef<'_>); 6], SqliteFault> {
    let process = run.map(|run| &run.process);
    let ended = run.and_then(|run| run.ended.as_ref());
    Ok([
        ("run_pid", cells::optional_integer(process.map(|process| process.pid.into()))),
        ("run_started", cells::optional_number(process.map(|process| process.started))?),
        ("run_boot", process.map(|process| process.boot.as_str()).into()),
        ("run_since", cells::optional_integer(run.map(|run| run.since.as_millis()))),
        ("run_ended_at", cells::optional_integer(ended.map(|ended| ended.at.as_millis()))),
        ("run_ended_how", ended.map(|ended| ended.how.words()).into()),
    ])
}

/// If the first column of a group is null, the others must be null too.
fn empty(cells: &RecordRow<'_>, columns: std::ops::Range<usize>) -> Result<(), SqliteFault> {
    match columns.into_iter().find(|index| cells.value(*index) != ValueRef::Null) {
        None => Ok(()),
        Some(index) => Err(cells.unknown(index)),
    }
}

/// A list of strings as a column value.
pub(in super::super) fn list(strings: &[String]) -> String {
    Value::from(strings).to_string()
}

/// Servers as a column value: a name, or an object where the source is known.
pub(in super::super) fn servers_text(servers: &[McpServerRef]) -> String {
    let kept = |server: &McpServerRef| match &server.source {
        None => Value::from(server.name.as_str()),
        Some(source) => json!({"name": server.name, "source": source.as_str()}),
    };
    servers.iter().map(kept).collect::<Value>().to_string()
}

fn servers(text: &str) -> Option<Vec<McpServerRef>> {
    let Ok(Value::Array(servers)) = serde_json::from_str(text) else { return None };
    let kept = |server: Value| match server {
        Value::String(name) => Some(McpServerRef { name, source: None }),
        Value::Object(fields) => {
            let field = |name| fields.get(name).and_then(Value::as_str);
            let (name, source) = (field("name")?.to_owned(), path(field("source")?)?);
            Some(McpServerRef { name, source: Some(source) })
        }
        _ => None,
    };
    servers.into_iter().map(kept).collect()
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RestoreErrorColumn {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<i64>,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// Milliseconds.
    at: i64,
}

/// A failed restore as a column value.
pub(in super::super) fn restore_error_text(error: Option<&RestoreError>) -> Option<String> {
    let RestoreError { method, code, message, field, at } = error?.clone();
    let stored = RestoreErrorColumn { method, code, message, field, at: at.as_millis() };
    Some(serde_json::to_string(&stored).expect("numbers and texts can be written"))
}

/// The failed restore in a column, if there is one.
pub(super) fn optional<const N: usize>(
    cells: &Cells<'_, N>,
    index: usize,
) -> Result<Option<RestoreError>, SqliteFault> {
    match cells.optional_text(index)? {
        None => Ok(None),
        Some(_) => cells.parsed(index, read).map(Some),
    }
}

fn read(text: &str) -> Option<RestoreError> {
    let RestoreErrorColumn { method, code, message, field, at } = serde_json::from_str(text).ok()?;
    Some(RestoreError { method, code, message, field, at: Timestamp::from_millis(at).ok()? })
}
