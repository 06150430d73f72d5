//! The statements of write requests, inside a transaction of the caller. Lease and numbering are read from the file
//! unless no other connection has written to it since they were cached.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};

use super::cells::{Cells, Columns, columns};
use super::fault::SqliteFault;
use super::file::log_of;
use super::ledger::ImportedFile;
use super::rows::{EVENT, LEASE, RECORD, RecordKey, RecordRowState, STANDING};
use super::target::{RecordWriter, write_lineage};
use super::{cells, ledger, notifications, read, rows, scope, write};
use crate::model::{AgentAnswer, AgentBuild, DeliveryOutcome, HostId, Lifecycle, Record, RecordId, Seq};
use crate::store::progress::RecordProgress;
use crate::store::{Append, Change, ChangeSource, Durability, Lease, StoreError};

/// The limits of a quick append: changes, and bytes of their bodies.
const QUICK_CHANGES: usize = 8;
const QUICK_BYTES: usize = 16 * 1024;

/// A write request. One for a single record returns the lease in force.
#[derive(Debug)]
pub(super) enum WriteOperation {
    Create { record: Box<Record>, changes: Vec<Change>, host: HostId },
    CreateFrom { record: Box<Record>, source: Arc<dyn ChangeSource>, host: HostId },
    Lease { record: RecordId, host: HostId },
    Append { lease: Lease, changes: Vec<Change>, durability: Durability },
    AppendBoth { appends: Box<[Append; 2]>, durability: Durability },
    NoteImports { directory: PathBuf, files: Vec<ImportedFile> },
    StoreAgentAnswer { agent: AgentBuild, answer: String },
    SettleNotification { id: String, sink: String, outcome: DeliveryOutcome },
    RemoveDamaged { record: RecordId },
}

impl WriteOperation {
    /// The durability that the commit must have.
    pub(super) fn durability(&self) -> Durability {
        match self {
            Self::Create { .. } | Self::CreateFrom { .. } | Self::RemoveDamaged { .. } => Durability::Machine,
            // A lost import note only means that its file is examined again, and a lost `initialize` response is
            // requested again. A lost outcome means that a notification is delivered twice.
            Self::Lease { .. }
            | Self::NoteImports { .. }
            | Self::StoreAgentAnswer { .. }
            | Self::SettleNotification { .. } => Durability::Process,
            Self::Append { durability, .. } | Self::AppendBoth { durability, .. } => *durability,
        }
    }

    /// Whether it takes less time than waking a thread: a few events that are not synced.
    pub(super) fn is_quick(&self) -> bool {
        let Self::Append { changes, durability: Durability::Process, .. } = self else { return false };
        let bytes = |change: &Change| match change {
            Change::Event(event) => Some(event.body.len()),
            _ => None,
        };
        let total = changes.iter().map(bytes).try_fold(0, |total, bytes| Some(total + bytes?));
        changes.len() <= QUICK_CHANGES && total.is_some_and(|total| total <= QUICK_BYTES)
    }

    /// Whether it erases a record's conversation.
    pub(super) fn erases(&self) -> bool {
        let erases = |changes: &[Change]| {
            changes.iter().any(|change| matches!(change, Change::Lifecycle(Lifecycle::Deleted { .. })))
        };
        match self {
            Self::Append { changes, .. } => erases(changes),
            Self::AppendBoth { appends, .. } => appends.iter().any(|append| erases(&append.changes)),
            Self::RemoveDamaged { .. } => true,
            _ => false,
        }
    }

    /// Performs the operation; the caller rolls back a failed one.
    pub(super) fn perform(
        &self,
        connection: &Connection,
        heads: &mut RecordHeads,
    ) -> Result<Option<Lease>, SqliteFault> {
        match self {
            Self::Create { record, changes, host } => {
                create(connection, record, host, |target| target.write_all(changes)).map(Some)
            }
            Self::CreateFrom { record, source, host } => {
                create(connection, record, host, |target| target.write_from(&**source)).map(Some)
            }
            Self::Lease { record, host } => {
                heads.0.remove(record);
                take_lease(connection, record, host).map(Some)
            }
            Self::Append { lease, changes, .. } => append(connection, heads, lease, changes).map(Some),
            Self::AppendBoth { appends, .. } => {
                for Append { lease, changes } in appends.iter() {
                    append(connection, heads, lease, changes)?;
                }
                Ok(None)
            }
            Self::NoteImports { directory, files } => {
                ledger::note(connection, directory, files).map(|()| None)
            }
            Self::StoreAgentAnswer { agent, answer } => write::keep(connection, agent, answer).map(|()| None),
            Self::SettleNotification { id, sink, outcome } => {
                notifications::settle(connection, id, sink, outcome).map(|()| None)
            }
            Self::RemoveDamaged { record } => {
                heads.0.remove(record);
                remove_damaged(connection, record).map(|()| None)
            }
        }
    }
}

fn create(
    connection: &Connection,
    record: &Record,
    host: &HostId,
    write: impl FnOnce(&mut RecordWriter<'_>) -> Result<(), SqliteFault>,
) -> Result<Lease, SqliteFault> {
    if read::key_of(connection, &record.id)?.is_some() {
        return Err(StoreError::RecordExists(record.id.clone()).into());
    }
    if record.lifecycle == Lifecycle::Open {
        scope::refuse_taken(connection, &record.id, record.scope.as_ref(), &record.real_cwd)?;
    }
    let key = RecordKey::after(read::last_key(connection)?).ok_or_else(rows::no_key_left)?;
    insert_record(connection, key, record)?;
    let generation = 1;
    write_lease(connection, key, host, generation)?;
    write_lineage(connection, key, None, &record.lineage)?;
    let standing = RecordRowState {
        key,
        progress: RecordProgress::new(record.updated_at),
        lineage_rows: record.lineage.rows().len() as u64,
        open_turns: 0,
    };
    let mut target = RecordWriter { connection, id: &record.id, standing };
    write(&mut target)?;
    target.write_standing()?;
    Ok(Lease { record: record.id.clone(), generation })
}

/// Inserts a record's own columns. Its state columns are written with its first changes.
fn insert_record(connection: &Connection, key: RecordKey, record: &Record) -> Result<(), SqliteFault> {
    let agent = &record.agent;
    let (args, mcp_servers) = (rows::list(&agent.args), rows::servers_text(&record.mcp_servers));
    let directories = rows::directories_text(&record.additional_directories);
    let [closed_at, deleted_at] = rows::lifecycle_values(record.lifecycle).map(|(_, value)| value);
    let [scope_agent, scope_name] = rows::scope_values(record.scope.as_ref()).map(|(_, value)| value);
    let [pid, started, boot, since, ended_at, ended_how] =
        rows::run_values(record.agent_run.as_ref())?.map(|(_, value)| value);
    let restore_error = rows::restore_error_text(record.restore_error.as_ref());
    let usage = rows::usage_text(record.info.usage.as_ref());
    let (settings, memory) = (rows::settings_text(&record.settings), rows::memory_text(record.memory));
    let values = [
        ValueRef::Integer(key.0),
        record.id.as_str().into(),
        agent.name.as_deref().into(),
        agent.program.as_str().into(),
        args.as_str().into(),
        rows::start_timeout_value(agent.start_timeout),
        record.cwd.as_str().into(),
        record.real_cwd.as_str().into(),
        mcp_servers.as_str().into(),
        record.info.title.as_deref().into(),
        closed_at,
        ValueRef::Integer(record.created_at.as_millis()),
        scope_agent,
        scope_name,
        pid,
        started,
        boot,
        since,
        ended_at,
        ended_how,
        deleted_at,
        rows::protocol_value(agent.protocol),
        settings.as_deref().into(),
        directories.as_deref().into(),
        memory.as_deref().into(),
        restore_error.as_deref().into(),
        record.info.user_title.as_deref().into(),
        usage.as_deref().into(),
    ];
    let mut insert = connection.prepare_cached(
        "INSERT INTO records (key, id, agent_name, program, args, start_timeout_ms, cwd, real_cwd, \
         mcp_servers, title, closed_at, created_at, scope_agent, scope_name, run_pid, run_started, run_boot, \
         run_since, run_ended_at, run_ended_how, deleted_at, protocol, settings, additional_directories, memory, \
         restore_error, user_title, usage, checksum, updated_at, answered_turns, lineage_rows, open_turns, \
         standing_checksum) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, \
         ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, 0, 0, 0, 0, 0)",
    )?;
    Ok(cells::write(&mut insert, &RECORD, values)?)
}

fn write_lease(
    connection: &Connection,
    key: RecordKey,
    host: &HostId,
    generation: u64,
) -> Result<(), SqliteFault> {
    let values = [ValueRef::Integer(key.0), host.as_str().into(), cells::number(generation)?];
    let mut upsert = connection.prepare_cached(
        "INSERT INTO leases (record, host, generation, checksum) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (record) DO UPDATE SET host = excluded.host, generation = excluded.generation, \
         checksum = excluded.checksum",
    )?;
    Ok(cells::write(&mut upsert, &LEASE, values)?)
}

fn take_lease(connection: &Connection, record: &RecordId, host: &HostId) -> Result<Lease, SqliteFault> {
    let Some(head) = RecordHead::read(connection, record)? else {
        return Err(StoreError::NoRecord(record.clone()).into());
    };
    let generation = head.generation + 1;
    write_lease(connection, head.standing.key, host, generation)?;
    Ok(Lease { record: record.clone(), generation })
}

/// Removes every row of a record that cannot be read or continued, without reading them.
fn remove_damaged(connection: &Connection, record: &RecordId) -> Result<(), SqliteFault> {
    let read = read::record(connection, record).and_then(|_| RecordHead::read(connection, record));
    let key = match read {
        Ok(_) => None,
        Err(fault) if fault.is_unknown_content() => read::key_of(connection, record)?,
        Err(fault) => return Err(fault),
    };
    let Some(key) = key else { return Err(StoreError::NoRecord(record.clone()).into()) };
    erase(connection, key)?;
    for statement in [
        "DELETE FROM leases WHERE record = ?1",
        "DELETE FROM lineage WHERE record = ?1",
        "DELETE FROM records WHERE key = ?1",
    ] {
        connection.execute(statement, [key.0])?;
    }
    Ok(())
}

fn append(
    connection: &Connection,
    heads: &mut RecordHeads,
    lease: &Lease,
    changes: &[Change],
) -> Result<Lease, SqliteFault> {
    // A failed operation must leave nothing cached.
    let known = heads.0.remove(&lease.record);
    let Some(head) =
        known.map_or_else(|| RecordHead::read(connection, &lease.record), |head| Ok(Some(head)))?
    else {
        return Err(StoreError::NoRecord(lease.record.clone()).into());
    };
    if head.generation != lease.generation {
        let Lease { record, generation: ours } = lease.clone();
        return Err(StoreError::LeaseLost { record, ours, current: head.generation }.into());
    }
    let mut target = RecordWriter { connection, id: &lease.record, standing: head.standing };
    target.write_all(changes)?;
    if target.standing.is_news_after(&head.standing) {
        target.write_standing()?;
    }
    heads.know(&lease.record, RecordHead { standing: target.standing.at_rest(), ..head });
    Ok(lease.clone())
}

/// It runs with every append, so it is built once.
static SELECT_HEAD: LazyLock<String> = LazyLock::new(|| {
    let (standing, lease) = (STANDING.list, LEASE.list);
    format!("SELECT {standing}, {lease} FROM records LEFT JOIN leases ON record = key WHERE id = ?1")
});

static SELECT_LAST_EVENT: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {} FROM events WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1", EVENT.list)
});

/// The last event, with its checksum verified: the next one follows it.
fn last_event(connection: &Connection, key: RecordKey) -> Result<Option<Seq>, SqliteFault> {
    let mut statement = connection.prepare_cached(&SELECT_LAST_EVENT)?;
    let mut found = statement.query([key.first_event(), key.last_event()])?;
    let Some(row) = found.next()? else { return Ok(None) };
    Ok(Some(rows::seq_of(Cells::read(row, 0, &EVENT)?.integer(0)?)))
}

/// Leases and states of records, as this connection has written them. Valid as long as no other connection has
/// written to the file and nothing was rolled back.
#[derive(Debug, Default)]
pub(super) struct RecordHeads(HashMap<RecordId, RecordHead>);

/// How many records are cached; usually more than are active at once.
const KNOWN_HEADS: usize = 64;

impl RecordHeads {
    fn know(&mut self, record: &RecordId, head: RecordHead) {
        if self.0.len() >= KNOWN_HEADS {
            self.0.clear();
        }
        self.0.insert(record.clone(), head);
    }
}

/// The lease and the state of a record.
#[derive(Debug, Clone, Copy)]
struct RecordHead {
    standing: RecordRowState,
    generation: u64,
}

impl RecordHead {
    fn read(connection: &Connection, id: &RecordId) -> Result<Option<Self>, SqliteFault> {
        let mut statement = connection.prepare_cached(&SELECT_HEAD)?;
        let mut found = statement.query([id.as_str()])?;
        let Some(row) = found.next()? else { return Ok(None) };
        let standing = rows::standing(row, 0)?;
        let generation = rows::generation(row, STANDING.names.len() + 1)?;
        let last = last_event(connection, standing.key)?;
        Ok(Some(Self { standing: standing.ending_with(last), generation }))
    }
}

/// The statements that read the state of a record.
#[cfg(test)]
pub(super) fn hot_statements() -> [&'static str; 2] {
    [SELECT_HEAD.as_str(), SELECT_LAST_EVENT.as_str()]
}

/// The hashes of the long texts of a record.
pub(super) const BLOBS: &str = "SELECT blob FROM events WHERE key BETWEEN ?1 AND ?2 AND blob IS NOT NULL \
     UNION SELECT prompt_blob FROM turns WHERE record = ?3 AND prompt_blob IS NOT NULL";

/// Deletes a blob unless another record has the same text.
pub(super) const DELETE_BLOB: &str = "DELETE FROM blobs WHERE hash = ?1 \
     AND NOT EXISTS (SELECT 1 FROM events WHERE blob = ?1) \
     AND NOT EXISTS (SELECT 1 FROM turns WHERE prompt_blob = ?1)";

/// Erases a record's conversation.
pub(super) fn erase(connection: &Connection, key: RecordKey) -> Result<(), SqliteFault> {
    let (first, last) = (key.first_event(), key.last_event());
    let mut select = connection.prepare_cached(BLOBS)?;
    let hashes = select.query_map(params![first, last, key.0], |row| row.get(0))?;
    let hashes: BTreeSet<Vec<u8>> = hashes.collect::<Result<_, _>>()?;
    connection.prepare_cached("DELETE FROM events WHERE key BETWEEN ?1 AND ?2")?.execute([first, last])?;
    connection.prepare_cached("DELETE FROM turns WHERE record = ?1")?.execute([key.0])?;
    rows::erase_exchanges(connection, key)?;
    notifications::erase(connection, key)?;
    let mut delete = connection.prepare_cached(DELETE_BLOB)?;
    for hash in hashes {
        delete.execute([hash])?;
    }
    Ok(())
}

pub(super) const ANSWER: Columns<3> = columns!["agent_answers": "command", "program", "answer"; "checksum"];

/// The last response for a command line.
pub(super) fn read(connection: &Connection, command: &[String]) -> Result<Option<AgentAnswer>, SqliteFault> {
    let mut statement = connection
        .prepare_cached(&format!("SELECT {} FROM agent_answers WHERE command = ?1", ANSWER.list))?;
    let mut found = statement.query([rows::list(command)])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let cells = Cells::read(row, 0, &ANSWER)?;
    let (program, answer) = (cells.text(1)?.to_owned(), cells.text(2)?.to_owned());
    Ok(Some(AgentAnswer { program, answer }))
}

/// Stores a response in place of the previous one.
pub(super) fn keep(connection: &Connection, agent: &AgentBuild, answer: &str) -> Result<(), SqliteFault> {
    let mut upsert = connection.prepare_cached(
        "INSERT INTO agent_answers (command, program, answer, checksum) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (command) DO UPDATE SET \
         program = excluded.program, answer = excluded.answer, checksum = excluded.checksum",
    )?;
    let command = rows::list(&agent.command);
    cells::write(
        &mut upsert,
        &ANSWER,
        [command.as_str().into(), agent.program.as_str().into(), answer.into()],
    )?;
    Ok(())
}

/// The files of an open store: their paths and inodes.
#[derive(Debug)]
pub(super) struct OpenFiles {
    path: PathBuf,
    log: PathBuf,
    file: Option<InodeId>,
    /// SQLite creates the log on demand and keeps it while the store is open.
    log_file: OnceLock<InodeId>,
}

/// Device and inode number.
type InodeId = (u64, u64);

impl OpenFiles {
    /// The files of a store that was just opened.
    pub(super) fn new(path: &Path) -> Self {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Self { path: path.to_owned(), log: log_of(&real), file: id(path), log_file: OnceLock::new() }
    }

    /// Whether the paths still lead to the same files.
    pub(super) fn are_in_place(&self) -> bool {
        let is_log = match id(&self.log) {
            Some(log) => *self.log_file.get_or_init(|| log) == log,
            None => self.log_file.get().is_none(),
        };
        is_log && id(&self.path) == self.file
    }
}

fn id(path: &Path) -> Option<InodeId> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}
