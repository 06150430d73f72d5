//! The two threads of a store. SQLite blocks, so it is kept off the runtime's threads.
//!
//! The writer takes every request that waits and commits them together; none is answered before the commit,
//! and one that is refused takes nothing back but itself. The reader answers each request in a short
//! transaction, so that it never keeps the log from being copied into the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use super::fault::{Fault, sql_error};
use super::write::Write;
use crate::store::{Durability, Lease, StoreError};

/// How many requests may wait for each thread. Whoever comes next waits until there is room.
pub(super) const QUEUE: usize = 256;
/// After this long without a request the log is copied into the file.
const IDLE: Duration = Duration::from_secs(1);

/// A request to write, and where its answer goes.
pub(super) struct WriteRequest {
    pub(super) write: Write,
    pub(super) reply: oneshot::Sender<Result<Lease, StoreError>>,
}

/// A request to read: it answers by itself.
pub(super) type ReadRequest = Box<dyn FnOnce(&Connection) + Send>;

/// The connection that writes.
pub(super) struct Writer {
    connection: Connection,
    path: PathBuf,
    /// What the connection's commits survive as it is set now; `None` when that is not known.
    durability: Option<Durability>,
}

impl Writer {
    pub(super) fn new(connection: Connection, path: PathBuf) -> Self {
        Self { connection, path, durability: None }
    }

    /// Serves requests until nobody is left to make one.
    pub(super) fn run(mut self, mut queue: mpsc::Receiver<WriteRequest>, timer: &Runtime) {
        while let Some(first) = self.next(&mut queue, timer) {
            let (mut writes, mut replies) = (vec![first.write], vec![first.reply]);
            while writes.len() < QUEUE
                && let Ok(WriteRequest { write, reply }) = queue.try_recv()
            {
                writes.push(write);
                replies.push(reply);
            }
            for (reply, answer) in replies.into_iter().zip(self.commit(writes)) {
                // A requester that has gone needs no answer.
                drop(reply.send(answer));
            }
        }
    }

    /// The next request. While there is none, the time is used to empty the log.
    fn next(&self, queue: &mut mpsc::Receiver<WriteRequest>, timer: &Runtime) -> Option<WriteRequest> {
        if let Ok(request) = queue.try_recv() {
            return Some(request);
        }
        let soon = timer.block_on(async { tokio::time::timeout(IDLE, queue.recv()).await });
        soon.unwrap_or_else(|_| {
            // If this fails the log still has everything, and the next commit says what is wrong.
            drop(self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())));
            queue.blocking_recv()
        })
    }

    /// Writes a group in one transaction; an answer for each.
    fn commit(&mut self, group: Vec<Write>) -> Vec<Result<Lease, StoreError>> {
        let size = group.len();
        self.try_commit(group).unwrap_or_else(|error| {
            if !self.connection.is_autocommit() {
                // Where even this fails the next BEGIN will, and say so.
                drop(self.connection.execute_batch("ROLLBACK"));
            }
            let error = Arc::new(error);
            (0..size).map(|_| Err(sql_error(&error, "write", &self.path))).collect()
        })
    }

    fn try_commit(&mut self, group: Vec<Write>) -> Result<Vec<Result<Lease, StoreError>>, rusqlite::Error> {
        let durability = group.iter().map(Write::durability).max().unwrap_or(Durability::Process);
        self.make_commits_survive(durability)?;
        self.execute("BEGIN IMMEDIATE")?;
        let answers = group.into_iter().map(|write| self.perform(write)).collect::<Result<_, _>>()?;
        self.execute("COMMIT")?;
        Ok(answers)
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
    fn perform(&self, write: Write) -> Result<Result<Lease, StoreError>, rusqlite::Error> {
        self.execute("SAVEPOINT request")?;
        let answer = match write.perform(&self.connection) {
            Ok(lease) => Ok(lease),
            // SQLite has given up the transaction, and the group's other requests with it.
            Err(Fault::Sql(error)) if self.connection.is_autocommit() => return Err(error),
            Err(fault) => {
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

/// Answers requests until nobody is left to make one.
pub(super) fn serve_reads(connection: &Connection, mut queue: mpsc::Receiver<ReadRequest>) {
    while let Some(request) = queue.blocking_recv() {
        request(connection);
    }
}

/// Reads in one short transaction, so that two statements see the same state of the file.
pub(super) fn read_once<T>(
    connection: &Connection,
    path: &Path,
    query: impl FnOnce(&Connection) -> Result<T, Fault>,
) -> Result<T, StoreError> {
    let answer = connection.unchecked_transaction().map_err(Fault::from).and_then(|transaction| {
        let answer = query(&transaction)?;
        transaction.commit()?;
        Ok(answer)
    });
    answer.map_err(|fault| fault.into_error("read", path))
}
