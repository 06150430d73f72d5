//! What the two threads of a store do. SQLite blocks, so it is kept off the runtime's threads.
//!
//! The writer takes every request that waits and commits them together; none is answered before the commit,
//! and one that is refused, or does not fit, takes nothing back but itself. The reader answers each request in a short
//! transaction, so that it never keeps the log from being copied into the file.

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
use super::in_place::OpenFiles;
use super::schema;
use super::write::{RecordHeads, WriteOperation};
use crate::store::{Durability, Lease, StoreError};

/// How many requests may wait for each thread. Whoever comes next waits until there is room.
pub(super) const QUEUE: usize = 256;
/// The log is copied into the file at the latest when it has this many pages (16 MiB).
const LOG_PAGES: u32 = 4096;
/// While little is written, it is copied from this many pages on (1 MiB). Then it begins anew in the pages that the
/// system has at hand, and to write into those takes much less time than to get others.
const FEW_LOG_PAGES: u32 = 256;
/// So many free pages stay in the file for what is written next (1 MiB).
const FREE_PAGES_KEPT: u32 = 256;
/// So many are given back in one step, which takes some milliseconds.
const FREE_PAGES_STEP: u32 = 256;

/// A request to read: it answers by itself.
pub(super) type ReadRequest = Box<dyn FnOnce(&Connection) + Send>;

/// The answer to a request to write: the lease in force, if it was for a record.
pub(super) type WriteResult = Result<Option<Lease>, StoreError>;

/// The connection that writes.
pub(super) struct WriteConnection {
    connection: Connection,
    path: PathBuf,
    files: Arc<OpenFiles>,
    /// The format we write.
    known: i64,
    /// How long to wait for another process.
    busy_timeout: Duration,
    /// What the connection's commits survive as it is set now; `None` when that is not known.
    durability: Option<Durability>,
    /// How many pages the log has.
    log: Arc<AtomicU32>,
    /// The log may still have what was erased from the file.
    has_traces: bool,
    /// What this connection has left in the file, and the state of the file that this holds for.
    heads: RecordHeads,
    state: Option<i64>,
}

impl WriteConnection {
    /// Opens the file to write to it.
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

    /// The files that it writes to.
    pub(super) fn files(&self) -> Arc<OpenFiles> {
        Arc::clone(&self.files)
    }

    /// Whether the log is to be copied into the file, whatever else is to be done.
    pub(super) fn has_long_log(&self) -> bool {
        self.log.load(Ordering::Relaxed) >= LOG_PAGES
    }

    /// Whether it is to be copied if there is nothing else to do.
    pub(super) fn has_log(&self) -> bool {
        self.log.load(Ordering::Relaxed) >= FEW_LOG_PAGES
    }

    /// Copies the log into the file. If this fails the log still has everything, and the next commit says what is
    /// wrong.
    pub(super) fn empty_log(&mut self) {
        if self.has_traces {
            self.cut_log();
        } else {
            drop(self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())));
        }
        self.log.store(0, Ordering::Relaxed);
    }

    /// Removes some free pages from the file; whether there are more. It waits for nobody, and a failure is left to the
    /// next commit to report.
    pub(super) fn free_pages(&mut self) -> bool {
        let count = |connection: &Connection| -> rusqlite::Result<u32> {
            connection.query_row("PRAGMA freelist_count", [], |row| row.get(0))
        };
        let Ok(free) = count(&self.connection) else { return false };
        if free <= FREE_PAGES_KEPT || self.connection.busy_timeout(Duration::ZERO).is_err() {
            return false;
        }
        let step = FREE_PAGES_STEP.min(free - FREE_PAGES_KEPT);
        let freed = self.vacuum(step);
        drop(self.connection.busy_timeout(self.busy_timeout));
        freed.is_ok() && count(&self.connection).is_ok_and(|left| left < free)
    }

    fn vacuum(&self, pages: u32) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
        let mut rows = statement.query([])?;
        // Each row is a page that was removed.
        while rows.next()?.is_some() {}
        Ok(())
    }

    /// Copies the log into the file and leaves nothing in it. It waits for nobody: while somebody reads from the log it
    /// stays, and is tried again when there is nothing else to do.
    fn cut_log(&mut self) {
        if self.connection.busy_timeout(Duration::ZERO).is_ok() {
            let cut = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
            self.has_traces = cut != Ok(0_i64);
        }
        drop(self.connection.busy_timeout(self.busy_timeout));
    }

    /// Writes alone and without waiting for anybody; `None` if that cannot be, and then nothing is written.
    pub(super) fn commit_now(&mut self, write: &WriteOperation) -> Option<WriteResult> {
        if self.has_long_log() || self.connection.busy_timeout(Duration::ZERO).is_err() {
            return None;
        }
        let outcome = self.try_commit(slice::from_ref(write));
        // Where even this fails the next one that would have waited is told that the store is locked.
        drop(self.connection.busy_timeout(self.busy_timeout));
        match outcome {
            Ok(mut answers) => answers.pop(),
            Err(failure) if failure.is_busy() => None,
            Err(failure) => Some(Err(failure.to_error(self))),
        }
    }

    /// Writes a group in one transaction; an answer for each. If one of them may have spoilt it for the others,
    /// each gets a transaction of its own.
    pub(super) fn commit(&mut self, group: &[WriteOperation]) -> Vec<WriteResult> {
        let answers = match self.try_commit(group) {
            Ok(answers) => answers,
            Err(Failure::Someones(_)) if group.len() > 1 => self.commit_one_by_one(group),
            Err(failure) => group.iter().map(|_| Err(failure.to_error(self))).collect(),
        };
        // Whoever is told that something was erased may look for it.
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
                Err(failure @ Failure::Someones(_)) => answers.push(Err(failure.to_error(self))),
                // The rest would fare no better, and waiting for a lock takes time.
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
            self.forget();
            if !self.connection.is_autocommit() {
                // Where even this fails the next BEGIN will, and say so.
                drop(self.connection.execute_batch("ROLLBACK"));
            }
        }
        outcome
    }

    fn forget(&mut self) {
        self.heads = RecordHeads::default();
        self.state = None;
    }

    fn begin(&mut self, group: &[WriteOperation]) -> Result<(), Failure> {
        let durability = group.iter().map(WriteOperation::durability).max().unwrap_or(Durability::Process);
        let begun = self.make_commits_survive(durability).and_then(|()| {
            self.execute("BEGIN IMMEDIATE")?;
            // It changes with every commit of another connection.
            self.connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
        });
        let state = begun.map_err(Failure::everyones)?;
        if self.state == Some(state) {
            return Ok(());
        }
        self.forget();
        match schema::format(&self.connection).map_err(Failure::everyones)? {
            format if format == self.known => {
                self.state = Some(state);
                Ok(())
            }
            format => Err(Failure::Format(format)),
        }
    }

    /// Does the one request of a group. What it has done is taken back with the transaction.
    fn perform_alone(&mut self, write: &WriteOperation) -> Result<Vec<WriteResult>, Failure> {
        match write.perform(&self.connection, &mut self.heads) {
            Ok(lease) => self.end_with(vec![Ok(lease)]),
            Err(SqliteFault::Sql(error)) if self.connection.is_autocommit() => Err(Failure::someones(error)),
            Err(fault) => {
                self.forget();
                self.execute("ROLLBACK").map_err(Failure::everyones)?;
                Ok(vec![Err(fault.into_error("write", &self.path))])
            }
        }
    }

    fn perform_all(&mut self, group: &[WriteOperation]) -> Result<Vec<WriteResult>, Failure> {
        let answers = group.iter().map(|write| self.perform(write)).collect::<Result<_, _>>();
        self.end_with(answers.map_err(Failure::someones)?)
    }

    fn end_with(&self, answers: Vec<WriteResult>) -> Result<Vec<WriteResult>, Failure> {
        match self.execute("COMMIT") {
            Ok(()) if self.files.are_in_place() => Ok(answers),
            Ok(()) => Err(Failure::Gone),
            // When a sync has failed, the system may say of the next one that all is well although it is not.
            Err(error) if is_failed_sync(&error) => Err(Failure::everyones(error)),
            Err(error) => Err(Failure::someones(error)),
        }
    }

    /// This must stand before the transaction begins.
    fn make_commits_survive(&mut self, durability: Durability) -> Result<(), rusqlite::Error> {
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

    /// Does one request of a group. The outer error is the whole group's.
    fn perform(&mut self, write: &WriteOperation) -> Result<WriteResult, rusqlite::Error> {
        self.execute("SAVEPOINT request")?;
        let answer = match write.perform(&self.connection, &mut self.heads) {
            Ok(lease) => Ok(lease),
            // SQLite has given up the transaction, and the group's other requests with it.
            Err(SqliteFault::Sql(error)) if self.connection.is_autocommit() => return Err(error),
            Err(fault) => {
                self.forget();
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
    /// No request is to blame, so none would fare better alone.
    Everyones(Arc<rusqlite::Error>),
    /// One of the requests may be to blame.
    Someones(Arc<rusqlite::Error>),
    /// Another program has changed the format of the file to this one.
    Format(i64),
    /// The file was removed or replaced. What was written is in no file that has a name.
    Gone,
}

impl Failure {
    fn everyones(error: rusqlite::Error) -> Self {
        Self::Everyones(Arc::new(error))
    }

    fn someones(error: rusqlite::Error) -> Self {
        Self::Someones(Arc::new(error))
    }

    fn is_busy(&self) -> bool {
        let (Self::Everyones(error) | Self::Someones(error)) = self else { return false };
        error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
    }

    fn to_error(&self, writer: &WriteConnection) -> StoreError {
        match self {
            Self::Everyones(error) | Self::Someones(error) => sql_error(error, "write", &writer.path),
            Self::Gone => StoreError::Gone { path: writer.path.clone() },
            Self::Format(found) => schema::other_format(&writer.path, *found, writer.known),
        }
    }
}

fn is_failed_sync(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == SQLITE_IOERR_FSYNC)
}

/// Answers requests until nobody is left to make one.
pub(super) fn serve_reads(connection: &Connection, mut queue: mpsc::Receiver<ReadRequest>) {
    while let Some(request) = queue.blocking_recv() {
        request(connection);
    }
}

/// Reads in one short transaction, so that two statements see the same state of the file. What we cannot make
/// sense of is damage, unless a newer program has written to the file: then it may well be right.
pub(super) fn read_once<T>(
    connection: &Connection,
    path: &Path,
    known: i64,
    query: impl FnOnce(&Connection) -> Result<T, SqliteFault>,
) -> Result<T, StoreError> {
    let read = |fault: SqliteFault| fault.into_error("read", path);
    let transaction = connection.unchecked_transaction().map_err(|error| read(error.into()))?;
    match query(&transaction) {
        Ok(answer) => transaction.commit().map(|()| answer).map_err(|error| read(error.into())),
        Err(fault) if fault.is_unknown_content() => match schema::format(&transaction) {
            Ok(found) if found > known => Err(schema::other_format(path, found, known)),
            Ok(_) | Err(_) => Err(read(fault)),
        },
        Err(fault) => Err(read(fault)),
    }
}

#[cfg(test)]
mod tests;
