//! What each request writes, inside a transaction that someone else begins and ends. The lease and the
//! numbering are read from the file every time: another process may have written since.

use rusqlite::{CachedStatement, Connection, params};

use super::fault::Fault;
use super::rows::{self, RecordKey, StateColumns};
use super::{body, read};
use crate::model::{
    AgentSessionId, Event, HostId, Lifecycle, Lineage, Record, RecordId, Seq, Timestamp, Turn, TurnId,
};
use crate::store::progress::Progress;
use crate::store::{Change, Durability, Lease, StoreError};

/// A request to write. Each ends with a lease in force.
#[derive(Debug)]
pub(super) enum Write {
    Create { record: Box<Record>, changes: Vec<Change>, host: HostId },
    Lease { record: RecordId, host: HostId },
    Append { lease: Lease, changes: Vec<Change>, durability: Durability },
}

impl Write {
    /// What the commit that holds this must survive.
    pub(super) fn durability(&self) -> Durability {
        match self {
            Self::Create { .. } => Durability::Machine,
            Self::Lease { .. } => Durability::Process,
            Self::Append { durability, .. } => *durability,
        }
    }

    /// Does what is asked, or fails; the caller takes back what a failed one has done.
    pub(super) fn perform(&self, connection: &Connection) -> Result<Lease, Fault> {
        match self {
            Self::Create { record, changes, host } => create(connection, record, changes, host),
            Self::Lease { record, host } => take_lease(connection, record, host),
            Self::Append { lease, changes, .. } => append(connection, lease, changes),
        }
    }
}

fn create(
    connection: &Connection,
    record: &Record,
    changes: &[Change],
    host: &HostId,
) -> Result<Lease, Fault> {
    if read::key_of(connection, &record.id)?.is_some() {
        return Err(StoreError::RecordExists(record.id.clone()).into());
    }
    let key = insert_record(connection, record)?;
    let first: u32 = 1;
    connection
        .prepare_cached("INSERT INTO leases (record, host, generation) VALUES (?1, ?2, ?3)")?
        .execute(params![key.0, host.as_str(), first])?;
    write_lineage(connection, key, None, &record.lineage)?;
    let mut target = Target { connection, id: &record.id, key, progress: Progress::new(record.updated_at) };
    target.write_all(changes)?;
    Ok(Lease { record: record.id.clone(), generation: first.into() })
}

fn insert_record(connection: &Connection, record: &Record) -> Result<RecordKey, Fault> {
    let agent = &record.agent;
    let start_timeout_ms = i64::try_from(agent.start_timeout.as_millis()).unwrap_or(i64::MAX);
    connection
        .prepare_cached(
            "INSERT INTO records (id, agent_name, program, args, start_timeout_ms, cwd, real_cwd, \
             mcp_servers, title, closed_at, created_at, updated_at, answered_turns) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 0)",
        )?
        .execute(params![
            record.id.as_str(),
            agent.name,
            agent.program,
            rows::list(&agent.args),
            start_timeout_ms,
            record.cwd.as_str(),
            record.real_cwd.as_str(),
            rows::list(&record.mcp_servers),
            record.title,
            closed_at(record.lifecycle),
            record.created_at.as_millis(),
            record.updated_at.as_millis(),
        ])?;
    Ok(RecordKey(connection.last_insert_rowid()))
}

fn closed_at(lifecycle: Lifecycle) -> Option<i64> {
    match lifecycle {
        Lifecycle::Open => None,
        Lifecycle::Closed { at } => Some(at.as_millis()),
    }
}

fn take_lease(connection: &Connection, record: &RecordId, host: &HostId) -> Result<Lease, Fault> {
    let Some(head) = Head::read(connection, record)? else {
        return Err(StoreError::NoRecord(record.clone()).into());
    };
    let generation = head.generation + 1;
    connection
        .prepare_cached("UPDATE leases SET host = ?2, generation = ?3 WHERE record = ?1")?
        .execute(params![head.key.0, host.as_str(), i64::try_from(generation)?])?;
    Ok(Lease { record: record.clone(), generation })
}

fn append(connection: &Connection, lease: &Lease, changes: &[Change]) -> Result<Lease, Fault> {
    let Some(head) = Head::read(connection, &lease.record)? else {
        return Err(StoreError::NoRecord(lease.record.clone()).into());
    };
    if head.generation != lease.generation {
        let Lease { record, generation: ours } = lease.clone();
        return Err(StoreError::LeaseLost { record, ours, current: head.generation }.into());
    }
    let mut target = Target { connection, id: &lease.record, key: head.key, progress: head.progress };
    target.write_all(changes)?;
    Ok(lease.clone())
}

/// Who may write to a record, and where its numbering stands.
struct Head {
    key: RecordKey,
    generation: u64,
    progress: Progress,
}

impl Head {
    fn read(connection: &Connection, id: &RecordId) -> Result<Option<Self>, Fault> {
        let mut statement = connection.prepare_cached(
            "SELECT key, (SELECT generation FROM leases WHERE record = key), last_seq, last_turn, \
             answered_turns, updated_at FROM records WHERE id = ?1",
        )?;
        let mut found = statement.query([id.as_str()])?;
        let Some(row) = found.next()? else { return Ok(None) };
        let progress = Progress::resume(
            rows::optional_number(row, 2)?.map(Seq),
            rows::optional_number(row, 3)?.map(TurnId),
            rows::number(row, 4)?,
            rows::time(row, 5)?,
        );
        Ok(Some(Self { key: RecordKey(row.get(0)?), generation: rows::number(row, 1)?, progress }))
    }
}

/// The record that changes are written to.
struct Target<'a> {
    connection: &'a Connection,
    id: &'a RecordId,
    key: RecordKey,
    progress: Progress,
}

impl Target<'_> {
    fn write_all(&mut self, changes: &[Change]) -> Result<(), Fault> {
        let before = self.progress;
        let mut insert_event = self.connection.prepare_cached(
            "INSERT INTO events (key, at, turn, lineage, protocol, direction, kind, checksum, body, blob) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?;
        for change in changes {
            match change {
                Change::Event(event) => self.write_event(&mut insert_event, event)?,
                Change::Turn(turn) => self.write_turn(turn)?,
                Change::Lineage(lineage) => {
                    let before = rows::lineage(self.connection, self.key)?;
                    self.progress.lineage(self.id, &before, lineage)?;
                    write_lineage(self.connection, self.key, Some(&before), lineage)?;
                }
                Change::Title(title) => self.update("UPDATE records SET title = ?2 WHERE key = ?1", title)?,
                Change::McpServers(names) => {
                    self.update("UPDATE records SET mcp_servers = ?2 WHERE key = ?1", rows::list(names))?;
                }
                Change::Lifecycle(lifecycle) => {
                    self.progress.lifecycle(*lifecycle);
                    let closed_at = closed_at(*lifecycle);
                    self.update("UPDATE records SET closed_at = ?2 WHERE key = ?1", closed_at)?;
                }
            }
        }
        if self.progress == before { Ok(()) } else { self.write_progress() }
    }

    fn update(&self, statement: &str, value: impl rusqlite::ToSql) -> Result<(), Fault> {
        self.connection.prepare_cached(statement)?.execute(params![self.key.0, value])?;
        Ok(())
    }

    fn write_event(&mut self, insert: &mut CachedStatement<'_>, event: &Event) -> Result<(), Fault> {
        self.progress.event(self.id, event)?;
        let key = self.key.event(event.seq).ok_or_else(no_key_left)?;
        let body = body::keep(self.connection, &event.body)?;
        insert.execute(params![
            key,
            event.at.as_millis(),
            event.turn.map(|turn| i64::try_from(turn.0)).transpose()?,
            i64::try_from(event.lineage.0)?,
            event.protocol,
            rows::direction_number(event.direction),
            rows::kind_number(event.kind),
            body::checksum(key, event),
            body.text,
            body.blob,
        ])?;
        Ok(())
    }

    fn write_turn(&mut self, turn: &Turn) -> Result<(), Fault> {
        let number = i64::try_from(turn.id.0)?;
        let holder = read::turn_of_request(self.connection, self.key, &turn.request)?;
        if holder.is_some_and(|holder| holder != turn.id) {
            let (record, request) = (self.id.clone(), turn.request.clone());
            return Err(StoreError::RequestExists { record, request }.into());
        }
        let before = read::turn(self.connection, self.key, turn.id)?;
        self.progress.turn(before.as_ref(), turn);
        let prompt = body::keep(self.connection, &turn.prompt)?;
        let state = StateColumns::of(&turn.state);
        self.connection.prepare_cached(UPSERT_TURN)?.execute(params![
            self.key.0,
            number,
            turn.request.as_str(),
            state.state,
            turn.policy.as_str(),
            turn.queued_at.as_millis(),
            state.dispatched_at,
            state.ended_at,
            state.stop_reason,
            state.error_code,
            state.error_message,
            state.error_acp,
            prompt.text,
            prompt.blob,
        ])?;
        Ok(())
    }

    fn write_progress(&self) -> Result<(), Fault> {
        let Progress { last_seq, last_turn, answered_turns, updated_at, .. } = self.progress;
        self.connection
            .prepare_cached(
                "UPDATE records SET last_seq = ?2, last_turn = ?3, answered_turns = ?4, updated_at = ?5 \
                 WHERE key = ?1",
            )?
            .execute(params![
                self.key.0,
                last_seq.map(|seq| i64::try_from(seq.0)).transpose()?,
                last_turn.map(|turn| i64::try_from(turn.0)).transpose()?,
                i64::try_from(answered_turns)?,
                updated_at.as_millis(),
            ])?;
        Ok(())
    }
}

/// The time of dispatch stays with a turn that has gone further; the model no longer carries it.
const UPSERT_TURN: &str = "INSERT INTO turns (record, turn, request, state, policy, queued_at, dispatched_at, \
     ended_at, stop_reason, error_code, error_message, error_acp, prompt, prompt_blob) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) \
     ON CONFLICT (record, turn) DO UPDATE SET request = excluded.request, state = excluded.state, \
     policy = excluded.policy, queued_at = excluded.queued_at, \
     dispatched_at = coalesce(excluded.dispatched_at, dispatched_at), ended_at = excluded.ended_at, \
     stop_reason = excluded.stop_reason, error_code = excluded.error_code, \
     error_message = excluded.error_message, error_acp = excluded.error_acp, prompt = excluded.prompt, \
     prompt_blob = excluded.prompt_blob";

/// Writes the rows that are new or say more than before.
fn write_lineage(
    connection: &Connection,
    record: RecordKey,
    before: Option<&Lineage>,
    now: &Lineage,
) -> Result<(), Fault> {
    let mut upsert = connection.prepare_cached(
        "INSERT INTO lineage (record, row, session, agent_session, began_at, replaced_at, reason) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (record, row) DO UPDATE SET \
         agent_session = excluded.agent_session, replaced_at = excluded.replaced_at",
    )?;
    let before = before.map(Lineage::rows).unwrap_or_default();
    for (index, row) in now.rows().iter().enumerate() {
        if before.get(index) != Some(row) {
            upsert.execute(params![
                record.0,
                i64::try_from(index + 1)?,
                row.session.as_str(),
                row.agent_session.as_ref().map(AgentSessionId::as_str),
                row.from.as_millis(),
                row.to.map(Timestamp::as_millis),
                row.reason.as_str(),
            ])?;
        }
    }
    Ok(())
}

/// After eight million records, or a million million events of one, the numbers are used up.
fn no_key_left() -> Fault {
    Fault::Sql(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL), None))
}
