//! The writer's and the reader's thread of a store. SQLite blocks, so it runs off the runtime's threads.
//!
//! The writer commits all waiting requests together. No request is answered before the commit, and a refused or
//! failed one rolls back only itself. The reader answers each request in a short transaction, so that it never blocks
//! a checkpoint.

use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rusqlite::ffi::SQLITE_IOERR_FSYNC;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::mpsc;

use super::fault::{SqliteFault, sql_error};
use super::file::StoreOpener;
use super::schema;
use super::write::{OpenFiles, RecordHeads, WriteOperation};
use crate::store::{Durability, Lease, StoreError};

/// How many requests may wait for each thread. Further callers wait until there is room.
pub(super) const QUEUE: usize = 256;
/// The log is checkpointed at the latest when it has this many pages (16 MiB).
const LOG_PAGES: u32 = 4096;
/// While little is written, the log is checkpointed from this many pages on (1 MiB). It then restarts in pages that
/// are still in the system's cache, which is much faster than allocating new ones.
const FEW_LOG_PAGES: u32 = 256;
/// This many free pages stay in the file for later writes (1 MiB).
const FREE_PAGES_KEPT: u32 = 256;
/// This many are freed in one step, which takes some milliseconds.
const FREE_PAGES_STEP: u32 = 256;

/// A read request: it sends its own answer.
pub(super) type ReadRequest = Box<dyn FnOnce(&Connection) + Send>;

/// The result of a write request: the lease in force, if it was for a record.
pub(super) type WriteResult = Result<Option<Lease>, StoreError>;

/// The connection that writes.
pub(super) struct WriteConnection {
    connection: Connection,
    path: PathBuf,
    files: Arc<OpenFiles>,
    /// The format we write.
    known: i64,
    /// How long to wait for locks of other processes.
    busy_timeout: Duration,
    /// What the connection's commits currently survive; `None` when unknown.
    durability: Option<Durability>,
    /// The number of pages in the log.
    log: Arc<AtomicU32>,
    /// The log may still contain content that was erased from the file.
    has_traces: bool,
    /// The record heads that this connection has written, and the `data_version` for which they are valid.
    heads: RecordHeads,
    state: Option<i64>,
}

impl WriteConnection {
    /// Opens the file for writing.
    pub(super) fn open(opening: &StoreOpener<'_>) -> Result<Self, StoreError> {
        let mut connection = opening.writer()?;
        let log = Arc::new(AtomicU32::new(0));
        let noted = Arc::clone(&log);
        let note = move |_: &mut Wal, pages| {
            noted.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(note)).map_err(|error| sql_error(&Arc::new(error), "open", opening.path))?;
        Ok(Self {
            connection,
            path: opening.path.to_owned(),
            files: Arc::new(OpenFiles::new(opening.path)),
            known: opening.migrations.known(),
            busy_timeout: opening.options.busy_timeout,
            durability: None,
            log,
            has_traces: false,
            heads: RecordHeads::default(),
            state: None,
        })
    }

    /// The files it writes to.
    pub(super) fn files(&self) -> Arc<OpenFiles> {
        Arc::clone(&self.files)
    }

    /// Whether the log must be checkpointed now.
    pub(super) fn has_long_log(&self) -> bool {
        self.log.load(Ordering::Relaxed) >= LOG_PAGES
    }

    /// Whether the log should be checkpointed when idle.
    pub(super) fn has_log(&self) -> bool {
        self.log.load(Ordering::Relaxed) >= FEW_LOG_PAGES
    }

    /// Checkpoints the log. If this fails, the log still has everything, and the next commit reports the problem.
    pub(super) fn empty_log(&mut self) {
        if self.has_traces {
            self.cut_log();
        } else {
            drop(self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())));
        }
        self.log.store(0, Ordering::Relaxed);
    }

    /// Removes some free pages from the file; returns whether there are more.
    pub(super) fn free_pages(&mut self) -> Result<bool, StoreError> {
        self.try_free_pages(0).map_err(|error| sql_error(&Arc::new(error), "free space", &self.path))
    }

    /// The same, except the pages that are kept for the next writes. It does not wait for locks; if it fails, the next
    /// idle period tries again.
    pub(super) fn free_pages_while_idle(&mut self) -> bool {
        let more =
            self.connection.busy_timeout(Duration::ZERO).and_then(|()| self.try_free_pages(FREE_PAGES_KEPT));
        drop(self.connection.busy_timeout(self.busy_timeout));
        more.unwrap_or(false)
    }

    fn try_free_pages(&self, kept: u32) -> rusqlite::Result<bool> {
        let count = || -> rusqlite::Result<u32> {
            self.connection.query_row("PRAGMA freelist_count", [], |row| row.get(0))
        };
        let free = count()?;
        if free <= kept {
            return Ok(false);
        }
        self.vacuum(FREE_PAGES_STEP.min(free - kept))?;
        Ok(count()? < free)
    }

    fn vacuum(&self, pages: u32) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
        let mut rows = statement.query([])?;
        // Each row is a page that was removed.
        while rows.next()?.is_some() {}
        Ok(())
    }

    /// Checkpoints and truncates the log. It does not wait for locks: while a reader uses the log, the log stays, and
    /// the next idle period tries again.
    pub(super) fn cut_log(&mut self) {
        if self.connection.busy_timeout(Duration::ZERO).is_ok() {
            let cut = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
            self.has_traces = cut != Ok(0_i64);
        }
        drop(self.connection.busy_timeout(self.busy_timeout));
    }

    /// Writes one operation without waiting for locks; `None` if that is impossible, and then nothing is written.
    pub(super) fn commit_now(&mut self, write: &WriteOperation) -> Option<WriteResult> {
        if self.has_long_log() || self.connection.busy_timeout(Duration::ZERO).is_err() {
            return None;
        }
        let outcome = self.try_commit(slice::from_ref(write));
        // If this fails, the next operation that would have waited reports a locked store.
        drop(self.connection.busy_timeout(self.busy_timeout));
        match outcome {
            Ok(mut answers) => answers.pop(),
            Err(failure) if failure.is_busy() => None,
            Err(failure) => Some(Err(failure.to_error(self))),
        }
    }

    /// Writes a group in one transaction, with a result for each. If one operation may have caused a failure of the
    /// group, each is retried in its own transaction.
    pub(super) fn commit(&mut self, group: &[WriteOperation]) -> Vec<WriteResult> {
        let answers = match self.try_commit(group) {
            Ok(answers) => answers,
            Err(Failure::OfOne(_)) if group.len() > 1 => self.commit_one_by_one(group),
            Err(failure) => group.iter().map(|_| Err(failure.to_error(self))).collect(),
        };
        // Erased content must be gone from the log before the caller is answered.
        if group.iter().zip(&answers).any(|(write, answer)| write.erases() && answer.is_ok()) {
            self.has_traces = true;
            self.empty_log();
        }
        answers
    }

    fn commit_one_by_one(&mut self, group: &[WriteOperation]) -> Vec<WriteResult> {
        let mut answers = Vec::with_capacity(group.len());
        for write in group {
            match self.try_commit(slice::from_ref(write)) {
                Ok(answer) => answers.extend(answer),
                Err(failure @ Failure::OfOne(_)) => answers.push(Err(failure.to_error(self))),
                // The rest would fail too, and waiting for a lock takes time.
                Err(failure) => {
                    let rest = answers.len()..group.len();
                    answers.extend(rest.map(|_| Err(failure.to_error(self))));
                    break;
                }
            }
        }
        answers
    }

    fn try_commit(&mut self, group: &[WriteOperation]) -> Result<Vec<WriteResult>, Failure> {
        let outcome = self.begin(group).and_then(|()| match group {
            [write] => self.perform_alone(write),
            group => self.perform_all(group),
        });
        if outcome.is_err() {
            self.clear_heads();
            if !self.connection.is_autocommit() {
                // If this fails, the next BEGIN fails and reports it.
                drop(self.connection.execute_batch("ROLLBACK"));
            }
        }
        outcome
    }

    fn clear_heads(&mut self) {
        self.heads = RecordHeads::default();
        self.state = None;
    }

    fn begin(&mut self, group: &[WriteOperation]) -> Result<(), Failure> {
        let durability = group.iter().map(WriteOperation::durability).max().unwrap_or(Durability::Process);
        let begun = self.set_durability(durability).and_then(|()| {
            self.execute("BEGIN IMMEDIATE")?;
            // It changes with every commit of another connection.
            self.connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
        });
        let state = begun.map_err(Failure::of_group)?;
        if self.state == Some(state) {
            return Ok(());
        }
        self.clear_heads();
        match schema::format(&self.connection).map_err(Failure::of_group)? {
            format if format == self.known => {
                self.state = Some(state);
                Ok(())
            }
            format => Err(Failure::Format(format)),
        }
    }

    /// Performs the only request of a group. A failure rolls back the transaction.
    fn perform_alone(&mut self, write: &WriteOperation) -> Result<Vec<WriteResult>, Failure> {
        match write.perform(&self.connection, &mut self.heads) {
            Ok(lease) => self.end_with(vec![Ok(lease)]),
            Err(SqliteFault::Sql(error)) if self.connection.is_autocommit() => Err(Failure::of_one(error)),
            Err(fault) => {
                self.clear_heads();
                self.execute("ROLLBACK").map_err(Failure::of_group)?;
                Ok(vec![Err(fault.into_error("write", &self.path))])
            }
        }
    }

    fn perform_all(&mut self, group: &[WriteOperation]) -> Result<Vec<WriteResult>, Failure> {
        let answers = group.iter().map(|write| self.perform(write)).collect::<Result<_, _>>();
        self.end_with(answers.map_err(Failure::of_one)?)
    }

    fn end_with(&self, answers: Vec<WriteResult>) -> Result<Vec<WriteResult>, Failure> {
        match self.execute("COMMIT") {
            Ok(()) if self.files.are_in_place() => Ok(answers),
            Ok(()) => Err(Failure::Gone),
            // After a failed sync, the system may report success for the next one although data was lost.
            Err(error) if is_failed_sync(&error) => Err(Failure::of_group(error)),
            Err(error) => Err(Failure::of_one(error)),
        }
    }

    /// Sets the durability; it must be set before the transaction begins.
    fn set_durability(&mut self, durability: Durability) -> Result<(), rusqlite::Error> {
        if self.durability == Some(durability) {
            return Ok(());
        }
        let level = match durability {
            Durability::Process => "NORMAL",
            Durability::Machine => "FULL",
        };
        self.durability = None;
        self.connection.pragma_update(None, "synchronous", level)?;
        self.durability = Some(durability);
        Ok(())
    }

    /// Performs one request of a group. The outer error concerns the whole group.
    fn perform(&mut self, write: &WriteOperation) -> Result<WriteResult, rusqlite::Error> {
        self.execute("SAVEPOINT request")?;
        let answer = match write.perform(&self.connection, &mut self.heads) {
            Ok(lease) => Ok(lease),
            // SQLite has rolled back the transaction, and the group's other requests with it.
            Err(SqliteFault::Sql(error)) if self.connection.is_autocommit() => return Err(error),
            Err(fault) => {
                self.clear_heads();
                self.execute("ROLLBACK TO request")?;
                Err(fault.into_error("write", &self.path))
            }
        };
        self.execute("RELEASE request")?;
        Ok(answer)
    }

    fn execute(&self, statement: &str) -> Result<(), rusqlite::Error> {
        self.connection.prepare_cached(statement)?.execute([]).map(drop)
    }
}

/// Why a group was not committed. The errors are shared because each may answer many requests.
enum Failure {
    /// No single request caused it, so none would succeed alone.
    OfGroup(Arc<rusqlite::Error>),
    /// One of the requests may have caused it.
    OfOne(Arc<rusqlite::Error>),
    /// Another program has migrated the file to this format.
    Format(i64),
    /// The file was removed or replaced. The written data is in a file without a name.
    Gone,
}

impl Failure {
    fn of_group(error: rusqlite::Error) -> Self {
        Self::OfGroup(Arc::new(error))
    }

    fn of_one(error: rusqlite::Error) -> Self {
        Self::OfOne(Arc::new(error))
    }

    fn is_busy(&self) -> bool {
        let (Self::OfGroup(error) | Self::OfOne(error)) = self else { return false };
        error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
    }

    fn to_error(&self, writer: &WriteConnection) -> StoreError {
        match self {
            Self::OfGroup(error) | Self::OfOne(error) => sql_error(error, "write", &writer.path),
            Self::Gone => StoreError::Gone { path: writer.path.clone() },
            Self::Format(found) => schema::other_format(&writer.path, *found, writer.known),
        }
    }
}

fn is_failed_sync(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == SQLITE_IOERR_FSYNC)
}

/// Answers requests until every sender is dropped.
pub(super) fn serve_reads(connection: &Connection, mut queue: mpsc::Receiver<ReadRequest>) {
    while let Some(request) = queue.blocking_recv() {
        request(connection);
    }
}

/// Reads in one short transaction, so that two statements see the same state of the file. Unknown content is reported
/// as damage, unless a newer program has written to the file: then it may be valid.
///
/// The transaction is rolled back: there is nothing to commit, and SQLite refuses to commit after it has read a damaged
/// page, also if the answer is the report of that damage.
pub(super) fn read_once<T>(
    connection: &Connection,
    path: &Path,
    known: i64,
    query: impl FnOnce(&Connection) -> Result<T, SqliteFault>,
) -> Result<T, StoreError> {
    let read = |fault: SqliteFault| fault.into_error("read", path);
    let transaction = connection.unchecked_transaction().map_err(|error| read(error.into()))?;
    match query(&transaction) {
        Ok(answer) => Ok(answer),
        Err(fault) if fault.is_unknown_content() => match schema::format(&transaction) {
            Ok(found) if found > known => Err(schema::other_format(path, found, known)),
            Ok(_) | Err(_) => Err(read(fault)),
        },
        Err(fault) => Err(read(fault)),
    }
}

#[cfg(test)]
mod tests;
