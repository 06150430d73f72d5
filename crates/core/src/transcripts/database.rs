//! Reads transcripts in SQLite databases of agents.
//!
//! A database is opened read-only, with its log: an agent may be writing, and may have left everything in the log. One
//! that its agent has closed has no log, and is opened so that SQLite creates none. No
//! statement stays open between two items, so the agent is not kept from truncating its log. Rows are read one by one, and
//! a row above the limit is passed over without reading it.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Params, Row};

use super::item_queue::ItemQueue;
use super::lines::LINE_LIMIT;
use super::walk::{Walk, open_within};
use super::{SourceStamp, TranscriptItem, TranscriptItems, TranscriptProblem, TranscriptSource, Unread};
use crate::model::AcpSessionId;
use crate::store::database_uri;

/// How long a read waits for a lock.
const BUSY: Duration = Duration::from_millis(250);

/// Where the header of a database has its versions for writing and for reading: 2 if changes go into a log.
const FORMAT_VERSIONS: u64 = 18;

/// A database that an agent writes.
pub(super) struct AgentDatabase {
    connection: Connection,
}

/// A session as the database lists it.
pub(super) struct DatabaseSession {
    pub(super) id: String,
    pub(super) parent: Option<String>,
    /// In nanoseconds since 1970.
    pub(super) modified: i64,
    pub(super) messages: i64,
    pub(super) is_archived: bool,
}

impl AgentDatabase {
    /// Opens a regular file of this user.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = open_within(path.parent().unwrap_or(path), path)?;
        let mode = if is_closed(&file, path) { "immutable=1" } else { "mode=ro" };
        Self::connect(path, mode).map_err(into_io)
    }

    fn connect(path: &Path, mode: &str) -> rusqlite::Result<Self> {
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(database_uri(path, mode), flags)?;
        connection.busy_timeout(BUSY)?;
        // Views and functions in a schema of another program could do anything, and take any time.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        Ok(Self { connection })
    }

    /// The columns of a table; none if there is no such table.
    pub(super) fn columns(&self, table: &str) -> io::Result<BTreeSet<String>> {
        self.all("SELECT name FROM pragma_table_info(?1)", [table], |row| row.get(0)).map(BTreeSet::from_iter)
    }

    /// All rows of a query.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> io::Result<Vec<T>> {
        let rows = || -> rusqlite::Result<Vec<T>> {
            self.connection.prepare_cached(sql)?.query_map(params, read)?.collect()
        };
        rows().map_err(into_io)
    }

    /// The first row of a query.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> io::Result<Option<T>> {
        let row = || self.connection.prepare_cached(sql)?.query_row(params, read).optional();
        row().map_err(into_io)
    }
}

/// Whether a database keeps a log while it is open, and has none. Without a log, such a database is not locked either.
fn is_closed(file: &File, path: &Path) -> bool {
    let mut versions = [0; 2];
    let keeps_log = file.read_exact_at(&mut versions, FORMAT_VERSIONS).is_ok() && versions == [2, 2];
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    keeps_log && Path::new(&log).try_exists().is_ok_and(|exists| !exists)
}

fn into_io(error: rusqlite::Error) -> io::Error {
    io::Error::other(error)
}

/// An expression that reads a column, or nothing if it is above the limit.
pub(super) fn limited(column: &str) -> String {
    format!("CASE WHEN octet_length({column}) <= {LINE_LIMIT} THEN {column} END")
}

/// A column if a table has it, or else nothing.
pub(super) fn optional(columns: &BTreeSet<String>, column: &'static str) -> &'static str {
    if columns.contains(column) { column } else { "NULL" }
}

/// The bytes of a text or a blob.
pub(super) fn bytes(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<Vec<u8>>> {
    Ok(match row.get_ref(index)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes.to_vec()),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => None,
    })
}

/// The text of a column, if it is one.
pub(super) fn text(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<String>> {
    Ok(bytes(row, index)?.and_then(|bytes| String::from_utf8(bytes).ok()))
}

/// Lists the sessions of a database in a directory, if it exists.
pub(super) fn list_sessions(
    agent: &'static str,
    path: &Path,
    sessions: impl FnOnce(&AgentDatabase) -> io::Result<Vec<DatabaseSession>>,
    each: &mut dyn FnMut(TranscriptSource),
) -> Vec<TranscriptProblem> {
    let mut problems = Vec::new();
    let Some(directory) = path.parent() else { return problems };
    let Some(mut walk) = Walk::new(directory, &mut problems) else { return problems };
    let Some(file) = path.file_name().and_then(|name| name.to_str()) else { return problems };
    let entry = walk.named_file(&walk.root(), file);
    problems.append(&mut walk.problems);
    let Some(entry) = entry else { return problems };
    match AgentDatabase::open(&entry.path).and_then(|database| sessions(&database)) {
        Ok(sessions) => sessions.into_iter().filter_map(|row| row.source(agent, &entry.path)).for_each(each),
        Err(error) => problems.push(TranscriptProblem::new(path, error.to_string())),
    }
    problems
}

impl DatabaseSession {
    fn source(self, agent: &'static str, path: &Path) -> Option<TranscriptSource> {
        let parent = match self.parent {
            Some(parent) => Some(AcpSessionId::new(parent).ok()?),
            None => None,
        };
        Some(TranscriptSource {
            agent,
            session: AcpSessionId::new(self.id).ok()?,
            path: PathBuf::from(path),
            stamp: SourceStamp { size: self.messages.unsigned_abs(), modified: self.modified, inode: 0 },
            parent,
            is_archived: self.is_archived,
        })
    }
}

/// Makes items of the rows of one format.
pub(super) trait RowParser: Send {
    /// Adds the items of a row with this number.
    fn read(&mut self, database: &AgentDatabase, row: i64, items: &mut ItemQueue) -> io::Result<()>;

    /// Adds what is known only after the last row.
    fn finish(&mut self, items: &mut ItemQueue) {
        let _ = items;
    }
}

/// The items of a session in a database.
pub(super) struct RowItems<P> {
    pub(super) database: AgentDatabase,
    pub(super) rows: VecDeque<i64>,
    pub(super) parser: P,
    pub(super) queue: ItemQueue,
}

impl<P: RowParser> TranscriptItems for RowItems<P> {
    fn next(&mut self) -> io::Result<Option<TranscriptItem>> {
        loop {
            if let Some(item) = self.queue.pop() {
                return Ok(Some(item));
            }
            if let Some(row) = self.rows.pop_front() {
                self.parser.read(&self.database, row, &mut self.queue)?;
                continue;
            }
            self.parser.finish(&mut self.queue);
            return Ok(self.queue.pop());
        }
    }

    fn position(&self) -> Option<u64> {
        None
    }

    fn unread(&self) -> Unread {
        self.queue.unread
    }
}
