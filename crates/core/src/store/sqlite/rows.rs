//! Rows as values of the model and back. A row that says what no version of ours says is damage, with the
//! column named; nothing is guessed in its place.

use std::time::Duration;

use rusqlite::{Connection, Row};

use super::body;
use super::fault::Fault;
use crate::model::{
    AbsolutePath, AcpSessionId, AgentSessionId, AgentSpec, Direction, Event, EventKind, Lifecycle, Lineage,
    LineageIndex, LineageReason, LineageRow, PermissionPolicy, Record, RecordId, RequestId, Seq, StopReason,
    Timestamp, Turn, TurnError, TurnId, TurnOutcome, TurnState,
};

/// The number of a record in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordKey(pub(super) i64);

const SEQ_BITS: u32 = 40;
const LAST_SEQ: i64 = (1 << SEQ_BITS) - 1;
const LAST_RECORD: i64 = i64::MAX >> SEQ_BITS;

impl RecordKey {
    /// The key of one of the record's events, if it can have one.
    pub(super) fn event(self, seq: Seq) -> Option<i64> {
        let seq = i64::try_from(seq.0).ok().filter(|seq| *seq <= LAST_SEQ)?;
        (0..=LAST_RECORD).contains(&self.0).then_some((self.0 << SEQ_BITS) | seq)
    }

    /// The highest key one of its events can have.
    pub(super) fn last_event(self) -> i64 {
        (self.0 << SEQ_BITS) | LAST_SEQ
    }
}

/// The number of the event a key is for.
pub(super) fn seq_of(key: i64) -> Seq {
    Seq((key & LAST_SEQ).cast_unsigned())
}

/// The columns of a record, in the order [`record`] reads them.
pub(super) const RECORD_COLUMNS: &str = "key, id, agent_name, program, args, start_timeout_ms, cwd, real_cwd, \
     mcp_servers, title, closed_at, created_at, updated_at, last_seq, last_turn, answered_turns";

/// A record without its lineage, which has rows of its own.
pub(super) fn record(row: &Row<'_>, lineage: Lineage) -> Result<Record, Fault> {
    let closed_at = optional_time(row, 10)?;
    let text = |index| row.get::<_, Box<str>>(index);
    Ok(Record {
        id: RecordId::new(text(1)?).map_err(|_| damaged("records.id"))?,
        agent: AgentSpec {
            name: row.get(2)?,
            program: row.get(3)?,
            args: strings(row, 4, "records.args")?,
            start_timeout: Duration::from_millis(number(row, 5)?),
        },
        cwd: AbsolutePath::new(text(6)?).map_err(|_| damaged("records.cwd"))?,
        real_cwd: AbsolutePath::new(text(7)?).map_err(|_| damaged("records.real_cwd"))?,
        mcp_servers: strings(row, 8, "records.mcp_servers")?,
        title: row.get(9)?,
        lifecycle: closed_at.map_or(Lifecycle::Open, |at| Lifecycle::Closed { at }),
        lineage,
        created_at: time(row, 11)?,
        updated_at: time(row, 12)?,
        last_seq: optional_number(row, 13)?.map(Seq),
        last_turn: optional_number(row, 14)?.map(TurnId),
        answered_turns: number(row, 15)?,
    })
}

/// The lineage of a record.
pub(super) fn lineage(connection: &Connection, record: RecordKey) -> Result<Lineage, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT session, agent_session, began_at, replaced_at, reason, row FROM lineage \
         WHERE record = ?1 ORDER BY row",
    )?;
    let mut found = statement.query([record.0])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let place: u64 = number(row, 5)?;
        if place != rows.len() as u64 + 1 {
            return Err(damaged("lineage.row"));
        }
        rows.push(lineage_row(row)?);
    }
    Lineage::from_rows(rows).ok_or_else(|| Fault::Damaged("a record has no lineage".to_owned()))
}

fn lineage_row(row: &Row<'_>) -> Result<LineageRow, Fault> {
    let agent_session: Option<String> = row.get(1)?;
    let agent_session = agent_session
        .map(|text| AgentSessionId::from_agent(&text).ok_or_else(|| damaged("lineage.agent_session")))
        .transpose()?;
    Ok(LineageRow {
        session: AcpSessionId::new(row.get::<_, Box<str>>(0)?).map_err(|_| damaged("lineage.session"))?,
        agent_session,
        from: time(row, 2)?,
        to: optional_time(row, 3)?,
        reason: LineageReason::parse(row.get_ref(4)?.as_str().map_err(|_| damaged("lineage.reason"))?)
            .ok_or_else(|| damaged("lineage.reason"))?,
    })
}

/// The columns of an event, in the order [`event`] reads them.
pub(super) const EVENT_COLUMNS: &str =
    "key, at, turn, lineage, protocol, direction, kind, checksum, body, blob";

/// An event, checked against its checksum.
pub(super) fn event(connection: &Connection, row: &Row<'_>) -> Result<Event, Fault> {
    let key: i64 = row.get(0)?;
    let event = Event {
        seq: seq_of(key),
        at: time(row, 1)?,
        turn: optional_number(row, 2)?.map(TurnId),
        lineage: LineageIndex(number(row, 3)?),
        protocol: row.get(4)?,
        direction: direction(row.get(5)?)?,
        kind: kind(row.get(6)?)?,
        body: body::read(connection, row.get_ref(8)?, row.get_ref(9)?)?,
    };
    let kept: i64 = row.get(7)?;
    if kept == body::checksum(key, &event) {
        Ok(event)
    } else {
        Err(Fault::Damaged(format!("event {} is not what was written", event.seq)))
    }
}

/// The stable number of a direction.
pub(super) fn direction_number(direction: Direction) -> i64 {
    match direction {
        Direction::FromAgent => 1,
        Direction::ToAgent => 2,
        Direction::Ours => 3,
    }
}

fn direction(number: i64) -> Result<Direction, Fault> {
    match number {
        1 => Ok(Direction::FromAgent),
        2 => Ok(Direction::ToAgent),
        3 => Ok(Direction::Ours),
        _ => Err(damaged("events.direction")),
    }
}

/// The stable number of a kind.
pub(super) fn kind_number(kind: EventKind) -> i64 {
    match kind {
        EventKind::Update => 1,
        EventKind::Notification => 2,
        EventKind::Request => 3,
        EventKind::Response => 4,
        EventKind::Fact => 5,
    }
}

fn kind(number: i64) -> Result<EventKind, Fault> {
    match number {
        1 => Ok(EventKind::Update),
        2 => Ok(EventKind::Notification),
        3 => Ok(EventKind::Request),
        4 => Ok(EventKind::Response),
        5 => Ok(EventKind::Fact),
        _ => Err(damaged("events.kind")),
    }
}

/// The columns of a turn, in the order [`turn`] reads them.
pub(super) const TURN_COLUMNS: &str = "turn, request, state, policy, queued_at, dispatched_at, ended_at, \
     stop_reason, error_code, error_message, error_acp, prompt, prompt_blob";

/// A turn.
pub(super) fn turn(connection: &Connection, row: &Row<'_>) -> Result<Turn, Fault> {
    let policy: Box<str> = row.get(3)?;
    Ok(Turn {
        id: TurnId(number(row, 0)?),
        request: RequestId::new(row.get::<_, Box<str>>(1)?).map_err(|_| damaged("turns.request"))?,
        prompt: body::read(connection, row.get_ref(11)?, row.get_ref(12)?)?,
        policy: PermissionPolicy::parse(&policy).ok_or_else(|| damaged("turns.policy"))?,
        queued_at: time(row, 4)?,
        state: turn_state(row)?,
    })
}

fn turn_state(row: &Row<'_>) -> Result<TurnState, Fault> {
    let state: Box<str> = row.get(2)?;
    match &*state {
        QUEUED => Ok(TurnState::Queued),
        DISPATCHED => Ok(TurnState::Dispatched { at: time(row, 5)? }),
        ENDED => Ok(TurnState::Ended { at: time(row, 6)?, outcome: turn_outcome(row)? }),
        INTERRUPTED => Ok(TurnState::Interrupted { at: time(row, 6)? }),
        _ => Err(damaged("turns.state")),
    }
}

fn turn_outcome(row: &Row<'_>) -> Result<TurnOutcome, Fault> {
    let stop_reason: Option<Box<str>> = row.get(7)?;
    let error_code: Option<Box<str>> = row.get(8)?;
    match (stop_reason, error_code) {
        (Some(reason), None) => Ok(TurnOutcome::Stopped(StopReason::new(reason))),
        (None, Some(code)) => {
            Ok(TurnOutcome::Failed(TurnError { code, message: row.get(9)?, acp: row.get(10)? }))
        }
        (Some(_), Some(_)) | (None, None) => Err(damaged("turns.stop_reason")),
    }
}

const QUEUED: &str = "queued";
const DISPATCHED: &str = "dispatched";
const ENDED: &str = "ended";
const INTERRUPTED: &str = "interrupted";

/// The columns a turn's state is spread over; those that do not apply are empty.
#[derive(Default)]
pub(super) struct StateColumns<'a> {
    pub(super) state: &'static str,
    pub(super) dispatched_at: Option<i64>,
    pub(super) ended_at: Option<i64>,
    pub(super) stop_reason: Option<&'a str>,
    pub(super) error_code: Option<&'a str>,
    pub(super) error_message: Option<&'a str>,
    pub(super) error_acp: Option<&'a str>,
}

impl<'a> StateColumns<'a> {
    pub(super) fn of(state: &'a TurnState) -> Self {
        match state {
            TurnState::Queued => Self { state: QUEUED, ..Self::default() },
            TurnState::Dispatched { at } => {
                Self { state: DISPATCHED, dispatched_at: Some(at.as_millis()), ..Self::default() }
            }
            TurnState::Interrupted { at } => {
                Self { state: INTERRUPTED, ended_at: Some(at.as_millis()), ..Self::default() }
            }
            TurnState::Ended { at, outcome: TurnOutcome::Stopped(reason) } => Self {
                state: ENDED,
                ended_at: Some(at.as_millis()),
                stop_reason: Some(reason.as_str()),
                ..Self::default()
            },
            TurnState::Ended { at, outcome: TurnOutcome::Failed(error) } => Self {
                state: ENDED,
                ended_at: Some(at.as_millis()),
                error_code: Some(&error.code),
                error_message: Some(&error.message),
                error_acp: error.acp.as_deref(),
                ..Self::default()
            },
        }
    }
}

/// A list of strings as a column holds it.
pub(super) fn list(strings: &[String]) -> String {
    serde_json::Value::from(strings).to_string()
}

fn strings(row: &Row<'_>, index: usize, column: &'static str) -> Result<Vec<String>, Fault> {
    let text: Box<str> = row.get(index)?;
    serde_json::from_str(&text).map_err(|_| damaged(column))
}

pub(super) fn time(row: &Row<'_>, index: usize) -> Result<Timestamp, Fault> {
    moment(row.get(index)?)
}

fn optional_time(row: &Row<'_>, index: usize) -> Result<Option<Timestamp>, Fault> {
    row.get::<_, Option<i64>>(index)?.map(moment).transpose()
}

fn moment(millis: i64) -> Result<Timestamp, Fault> {
    Timestamp::from_millis(millis).map_err(|_| Fault::Damaged(format!("{millis} is not a time")))
}

/// A count or number of the model.
pub(super) fn number(row: &Row<'_>, index: usize) -> Result<u64, Fault> {
    counted(row.get(index)?)
}

pub(super) fn optional_number(row: &Row<'_>, index: usize) -> Result<Option<u64>, Fault> {
    row.get::<_, Option<i64>>(index)?.map(counted).transpose()
}

fn counted(number: i64) -> Result<u64, Fault> {
    u64::try_from(number).map_err(|_| Fault::Damaged(format!("{number} is not a number of ours")))
}

fn damaged(column: &str) -> Fault {
    Fault::Damaged(format!("{column} holds what no version of ours writes"))
}
