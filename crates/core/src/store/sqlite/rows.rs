//! Converts rows to values of the model and back. A value that no version of acpx writes is reported as damage, with
//! its column; nothing is guessed.

mod exchange;
mod memory;
mod record;
mod settings;
mod turn;
mod usage;

use rusqlite::{Connection, OptionalExtension, Row};

use super::body;
use super::cells::{Cells, Columns, columns};
use super::fault::SqliteFault;
use crate::model::{
    AcpSessionId, AgentSessionId, Direction, Event, EventKind, Lineage, LineageIndex, LineageReason,
    LineageRow, Seq, TurnId,
};
use crate::store::progress::RecordProgress;

#[cfg(test)]
pub(super) use self::exchange::{EXCHANGE, EXCHANGE_FOLD};
pub(super) use self::exchange::{erase_exchanges, exchanges, write_exchanges};
pub(super) use self::memory::memory_text;
pub(super) use self::record::{
    RECORD, RecordRow, agent_run, directories_text, id, lifecycle_values, list, name_text, place,
    protocol_value, record, run_values, scope_values, servers_text, start_timeout_value,
};
pub(in crate::store) use self::settings::{settings, settings_text};
pub(super) use self::turn::{
    DISPATCHED_AT, StateColumns, TURN, cost_values, limit_values, max_usage, number_unless_none, tool_policy,
    turn, turn_state, unasked, wake_values,
};
pub(in crate::store) use self::usage::{usage, usage_text};
pub(super) use record::restore_error_text;

/// The key of a record in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordKey(pub(super) i64);

const SEQ_BITS: u32 = 40;
const LAST_SEQ: i64 = (1 << SEQ_BITS) - 1;
const LAST_RECORD: i64 = i64::MAX >> SEQ_BITS;

impl RecordKey {
    /// The key of one of the record's events, if the number fits.
    pub(super) fn event(self, seq: Seq) -> Option<i64> {
        let seq = i64::try_from(seq.0).ok().filter(|seq| *seq <= LAST_SEQ)?;
        (0..=LAST_RECORD).contains(&self.0).then_some((self.0 << SEQ_BITS) | seq)
    }

    /// The key after this one, or the first.
    pub(super) fn after(last: Option<Self>) -> Option<Self> {
        let next = last.map_or(1, |last| last.0.saturating_add(1));
        (next <= LAST_RECORD).then_some(Self(next))
    }

    /// The lowest possible key of its events.
    pub(super) fn first_event(self) -> i64 {
        self.0 << SEQ_BITS
    }

    /// The highest possible key of its events.
    pub(super) fn last_event(self) -> i64 {
        (self.0 << SEQ_BITS) | LAST_SEQ
    }
}

/// The number of the event with this key.
pub(super) fn seq_of(key: i64) -> Seq {
    Seq((key & LAST_SEQ).cast_unsigned())
}

/// The error after eight million records, or a million million events of one, when no key is left.
pub(super) fn no_key_left() -> SqliteFault {
    SqliteFault::Sql(rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL),
        None,
    ))
}

/// The state of a record when something other than an event was last written to it.
pub(super) const STANDING: Columns<7> = columns!["records":
    "key", "updated_at", "last_seq", "last_turn", "answered_turns", "lineage_rows", "open_turns";
    "standing_checksum"];

/// The state of a record: what follows from its changes, and how many rows of other tables belong to it, so that a
/// lost row is detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordRowState {
    pub(super) key: RecordKey,
    pub(super) progress: RecordProgress,
    pub(super) lineage_rows: u64,
    pub(super) open_turns: u64,
}

/// The state of a record from its own row, with columns that begin at `first`. Events may have been added since: see
/// [`with_events`].
pub(super) fn standing(row: &Row<'_>, first: usize) -> Result<RecordRowState, SqliteFault> {
    let cells = Cells::read(row, first, &STANDING)?;
    let last_seq = cells.optional_number(2)?.map(Seq);
    let last_turn = cells.optional_number(3)?.map(TurnId);
    Ok(RecordRowState {
        key: RecordKey(cells.integer(0)?),
        progress: RecordProgress::resume(last_seq, last_turn, cells.number(4)?, cells.time(1)?),
        lineage_rows: cells.number(5)?,
        open_turns: cells.number(6)?,
    })
}

/// The state of a record including the events that its row does not include yet.
pub(super) fn with_events(
    connection: &Connection,
    standing: RecordRowState,
) -> Result<RecordRowState, SqliteFault> {
    let key = standing.key;
    let mut select = connection
        .prepare_cached("SELECT key FROM events WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    let last = select.query_row([key.first_event(), key.last_event()], |row| row.get(0)).optional()?;
    Ok(standing.ending_with(last.map(seq_of)))
}

impl RecordRowState {
    /// The same with this last event. A reader of the events detects a missing one.
    pub(super) fn ending_with(mut self, last: Option<Seq>) -> Self {
        self.progress.last_seq = self.progress.last_seq.max(last);
        self
    }

    /// The state at the start of the next append.
    pub(super) fn at_rest(mut self) -> Self {
        self.progress = self.progress.at_rest();
        self
    }

    /// Whether more than added events has changed since the row was written.
    pub(super) fn is_news_after(&self, row: &Self) -> bool {
        let more = self.progress.differs_in_more_than_events(row.progress);
        more || (self.lineage_rows, self.open_turns) != (row.lineage_rows, row.open_turns)
    }
}

/// The columns of a lease.
pub(super) const LEASE: Columns<3> = columns!["leases": "record", "host", "generation"; "leases.checksum"];

/// The generation of a lease whose columns begin at `first`.
pub(super) fn generation(row: &Row<'_>, first: usize) -> Result<u64, SqliteFault> {
    Cells::read(row, first, &LEASE)?.number(2)
}

/// The columns of a row of a lineage.
pub(super) const LINEAGE: Columns<8> = columns!["lineage":
    "record", "row", "session", "agent_session", "began_at", "replaced_at", "reason"; added "error"; "checksum"];

/// The lineage of a record.
pub(super) fn lineage(connection: &Connection, standing: &RecordRowState) -> Result<Lineage, SqliteFault> {
    let mut statement = connection
        .prepare_cached(&format!("SELECT {} FROM lineage WHERE record = ?1 ORDER BY row", LINEAGE.list))?;
    let mut found = statement.query([standing.key.0])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let cells = Cells::read(row, 0, &LINEAGE)?;
        if cells.number(1)? != rows.len() as u64 + 1 {
            return Err(cells.unknown(1));
        }
        rows.push(lineage_row(&cells)?);
    }
    let complete = rows.len() as u64 == standing.lineage_rows;
    let lineage = if complete { Lineage::from_rows(rows) } else { None };
    lineage.ok_or_else(|| SqliteFault::Damaged("rows of a lineage are missing".to_owned()))
}

fn lineage_row(cells: &Cells<'_, 8>) -> Result<LineageRow, SqliteFault> {
    let agent_session = cells.optional_text(3)?;
    let agent_session = agent_session
        .map(|text| AgentSessionId::from_agent(text).ok_or_else(|| cells.unknown(3)))
        .transpose()?;
    Ok(LineageRow {
        session: cells.parsed(2, |text| AcpSessionId::new(text).ok())?,
        agent_session,
        from: cells.time(4)?,
        to: cells.optional_time(5)?,
        reason: cells.parsed(6, LineageReason::parse)?,
        error: record::optional(cells, 7)?,
    })
}

/// The columns of an event.
pub(super) const EVENT: Columns<9> = columns!["events":
    "key", "at", "turn", "lineage", "protocol", "direction", "kind", "body", "blob"; "checksum"];

/// The size of an event's body in bytes, determined without reading it.
pub(super) fn body_size(connection: &Connection, cells: &Cells<'_, 9>) -> Result<usize, SqliteFault> {
    body::size(connection, cells.value(7), cells.value(8))
}

/// An event.
pub(super) fn event(connection: &Connection, cells: &Cells<'_, 9>) -> Result<Event, SqliteFault> {
    Ok(Event {
        seq: seq_of(cells.integer(0)?),
        at: cells.time(1)?,
        turn: cells.optional_number(2)?.map(TurnId),
        lineage: LineageIndex(cells.number(3)?),
        protocol: u16::try_from(cells.integer(4)?).map_err(|_| cells.unknown(4))?,
        direction: direction(cells.integer(5)?).ok_or_else(|| cells.unknown(5))?,
        kind: kind(cells.integer(6)?).ok_or_else(|| cells.unknown(6))?,
        body: body::read(connection, cells.value(7), cells.value(8))?,
    })
}

/// The stable number of a direction.
pub(super) fn direction_number(direction: Direction) -> i64 {
    match direction {
        Direction::FromAgent => 1,
        Direction::ToAgent => 2,
        Direction::Ours => 3,
    }
}

fn direction(number: i64) -> Option<Direction> {
    match number {
        1 => Some(Direction::FromAgent),
        2 => Some(Direction::ToAgent),
        3 => Some(Direction::Ours),
        _ => None,
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

fn kind(number: i64) -> Option<EventKind> {
    match number {
        1 => Some(EventKind::Update),
        2 => Some(EventKind::Notification),
        3 => Some(EventKind::Request),
        4 => Some(EventKind::Response),
        5 => Some(EventKind::Fact),
        _ => None,
    }
}
