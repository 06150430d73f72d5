//! The store in one SQLite file. It survives a crash of its process at any point, and several processes may have it
//! open at once: any number of readers, and hosts that write under their leases.
//!
//! The format is described in `docs/internals/store-format.md`.

mod backup;
mod body;
mod cells;
mod check;
mod fault;
mod file;
mod filesystem;
mod ledger;
mod log_damage;
mod notifications;
mod read;
mod rows;
mod schema;
mod scope;
mod target;
mod threads;
mod usage;
mod verify;
mod write;
mod write_queue;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io};

use rusqlite::Connection;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

pub use self::backup::StoreProgress;
pub use self::check::StoreCheck;
pub(crate) use self::fault::SqliteFailure;
use self::fault::SqliteFault;
use self::file::StoreOpener;
pub(crate) use self::file::uri as database_uri;
pub use self::filesystem::FileSystem;
pub(crate) use self::ledger::ImportedFile;
use self::log_damage::OpenStore;
use self::read::{RecordList, UnreadableRecord};
use self::threads::{QUEUE, ReadRequest, WriteConnection};
pub use self::verify::{StoreProblem, StoreVerification};
use self::write::WriteOperation;
use super::{
    Append, Change, ChangeSource, Durability, Lease, OpenTurns, RecordFilter, ScopeQuery, SessionOwner,
    Store, StoreError, StoreFuture, UsageKey, UsageQuery, UsageSum,
};
use crate::model::{
    AcpSessionId, AgentAnswer, AgentBuild, AgentRun, AgentSpec, DeliveryOutcome, Event, ExchangeCheckpoint,
    HostId, QueuedNotification, Record, RecordId, RequestId, Scope, Seq, SinkStatus, Spending, Timestamp,
    Turn, TurnId,
};
use crate::sync::Lock;
use write::OpenFiles;
use write_queue::{WriteQueue, WriteRequest};

/// Parts of a record as its columns have them. Archives have the same JSON.
pub(super) mod stored_text {
    pub(in crate::store) use super::rows::{settings, settings_text, usage, usage_text};
}

/// The longest path that SQLite opens: it reserves 512 bytes, including the name of a companion file.
const LONGEST_PATH: usize = 500;

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading and writing. A missing store is created.
    ReadWrite,
    /// Reading only. A missing store is not created, an existing one is not changed, and every write fails with
    /// [`StoreError::ReadOnly`]. SQLite may leave its two companion files, empty, next to the file.
    ReadOnly,
}

/// The thread that reads run on. SQLite blocks while the disk does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadThread {
    /// A thread of the store, so that no thread of a runtime blocks.
    OnOwnThread,
    /// The caller's thread. For a command that reads little and exits, starting a thread would take much of its time.
    OnCallersThread,
}

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// Reading only, or writing too.
    pub access: Access,
    /// Where reads run.
    pub reads: ReadThread,
    /// How long to wait for another process before an operation fails with [`StoreError::Locked`].
    pub busy_timeout: Duration,
    /// The maximum size of the file in bytes; `None` for no limit.
    pub size_limit: Option<u64>,
    /// The write-ahead log is checkpointed after this long without a write.
    pub idle: Duration,
}

impl SqliteOptions {
    /// The default timeouts, no size limit, and reads on their own thread.
    pub fn new(access: Access) -> Self {
        let (busy_timeout, idle) = (Duration::from_secs(5), Duration::from_secs(1));
        Self { access, reads: ReadThread::OnOwnThread, busy_timeout, size_limit: None, idle }
    }
}

/// Records in one SQLite file.
///
/// Dropping it finishes the writes that are queued and waits for them.
pub struct SqliteStore {
    path: PathBuf,
    /// The format we know.
    known: i64,
    // Dropped first: the connection that closes last checkpoints the log, and only the writer's can.
    reader: ReadExecutor,
    writer: Option<(Arc<WriteQueue>, QueueThread<WriteRequest>)>,
    files: Option<Arc<OpenFiles>>,
    /// The ids of records that lists left out.
    unreadable: Lock<BTreeSet<String>>,
    /// Dropped last, after all connections.
    _open: OpenStore,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the store at `path`.
    pub fn open(path: &Path, access: Access) -> Result<Self, StoreError> {
        Self::open_with(path, &SqliteOptions::new(access))
    }

    /// Opens the store at `path` with these options.
    pub fn open_with(path: &Path, options: &SqliteOptions) -> Result<Self, StoreError> {
        let not_opened = |source| StoreError::Open { path: path.to_owned(), source };
        // SQLite interprets some relative names specially.
        let path = std::path::absolute(path).map_err(not_opened)?;
        if path.as_os_str().len() > LONGEST_PATH {
            let words = format!(
                "its path is longer than {LONGEST_PATH} bytes, which is the longest that SQLite opens"
            );
            return Err(not_opened(io::Error::new(io::ErrorKind::InvalidFilename, words)));
        }
        Self::open_as(&StoreOpener::new(&path, options))
    }

    /// Opens a copy of a store, read-only. If no program has it open, nothing is left next to the file, and it may be
    /// anywhere, also on a network.
    pub fn open_copy(path: &Path) -> Result<Self, StoreError> {
        let path =
            std::path::absolute(path).map_err(|source| StoreError::Open { path: path.to_owned(), source })?;
        let is_alone = ["-wal", "-shm"].iter().all(|suffix| !file::companion(&path, suffix).exists());
        let options = SqliteOptions::new(Access::ReadOnly);
        Self::open_as(&StoreOpener { is_immutable: is_alone, ..StoreOpener::new(&path, &options) })
    }

    fn open_as(opening: &StoreOpener<'_>) -> Result<Self, StoreError> {
        let path = opening.path.to_owned();
        let known = opening.migrations.known();
        let not_opened = |source| StoreError::Open { path: path.clone(), source };
        let open = OpenStore::new(&path).map_err(|fault| fault.into_error("open", &path))?;
        let writer = match opening.options.access {
            Access::ReadOnly => None,
            Access::ReadWrite => Some(WriteConnection::open(opening)?),
        };
        let files = writer.as_ref().map(WriteConnection::files);
        let connection = opening.reader()?;
        let idle = opening.options.idle;
        let writer = writer.map(|writer| start_writer(writer, idle)).transpose().map_err(not_opened)?;
        let reader = match opening.options.reads {
            ReadThread::OnCallersThread => ReadExecutor::Here(Lock::new(connection)),
            ReadThread::OnOwnThread => ReadExecutor::Thread(start_reader(connection).map_err(not_opened)?),
        };
        let unreadable = Lock::new(BTreeSet::new());
        Ok(Self { path, known, reader, writer, files, unreadable, _open: open })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file and its log still exist under their names. Every write fails once they do not. Always true
    /// for a read-only store.
    pub(crate) fn is_in_place(&self) -> bool {
        self.files.as_ref().is_none_or(|files| files.are_in_place())
    }

    /// The format of the file, and the damage that a check finds within this time.
    pub async fn check(&self, limit: Duration) -> Result<StoreCheck, StoreError> {
        self.read(move |connection| check::check(connection, limit)).await
    }

    /// Copies the store into an existing, empty file. The copy has everything that was committed before, also while
    /// others write, and is not synced.
    pub async fn copy_to(&self, to: PathBuf, progress: Arc<StoreProgress>) -> Result<(), StoreError> {
        self.read(move |connection| backup::copy(connection, &to, &progress)).await
    }

    /// Reads the whole store and reports what is damaged.
    pub async fn verify(&self, progress: Arc<StoreProgress>) -> Result<StoreVerification, StoreError> {
        let (path, known) = (self.path.clone(), self.known);
        self.read(move |connection| match schema::format(connection)? {
            // What this program does not know is no damage.
            found if found > known => Err(schema::other_format(&path, found, known).into()),
            _ => verify::verify(connection, &progress),
        })
        .await
    }

    /// How many bytes the conversation of each record takes, as far as it is stored: a text that several records share
    /// counts for each. A missing record has none.
    pub async fn content_sizes(&self, records: Vec<RecordId>) -> Result<Vec<u64>, StoreError> {
        self.read(move |connection| records.iter().map(|id| read::content_size(connection, id)).collect())
            .await
    }

    /// The files of npm acpx in a directory that were examined, by name.
    pub async fn imports(&self, directory: PathBuf) -> Result<Vec<ImportedFile>, StoreError> {
        self.read(move |connection| ledger::read(connection, &directory)).await
    }

    /// What ended turns have used, by the rows of a report.
    pub async fn usage(&self, query: UsageQuery) -> Result<BTreeMap<UsageKey, UsageSum>, StoreError> {
        self.read(move |connection| usage::usage(connection, &query)).await
    }

    /// Stores that files of a directory were examined; each entry replaces the previous one for its file.
    pub(crate) async fn note_imports(
        &self,
        directory: PathBuf,
        files: Vec<ImportedFile>,
    ) -> Result<(), StoreError> {
        self.write(WriteOperation::NoteImports { directory, files }).await.map(drop)
    }

    /// Stores a new record with changes that are read while they are written, in one transaction.
    pub(crate) async fn create_from(
        &self,
        record: Record,
        source: Arc<dyn ChangeSource>,
        host: HostId,
    ) -> Result<(), StoreError> {
        let record = Box::new(record);
        self.write(WriteOperation::CreateFrom { record, source, host }).await.map(drop)
    }

    /// Writes to a record.
    async fn write_under_lease(&self, write: WriteOperation) -> Result<Lease, StoreError> {
        Ok(self.write(write).await?.expect("what is written to a record ends with its lease in force"))
    }

    async fn write(&self, write: WriteOperation) -> Result<Option<Lease>, StoreError> {
        let Some((queue, thread)) = &self.writer else {
            return Err(StoreError::ReadOnly { path: self.path.clone() });
        };
        let write = match queue.try_now(write) {
            Ok((answer, checks_log)) => {
                if checks_log {
                    thread.send(WriteRequest::CheckLog).await.ok_or_else(|| self.closed())?;
                }
                return answer;
            }
            Err(write) => write,
        };
        let (request, answer) = queue.request(write);
        thread.send(request).await.ok_or_else(|| self.closed())?;
        answer.await.unwrap_or_else(|_| Err(self.closed()))
    }

    /// The ids of the records that lists left out since the store was opened, because they cannot be read.
    pub fn unreadable_records(&self) -> Vec<String> {
        self.unreadable.lock().iter().cloned().collect()
    }

    /// Reads a list without the records that cannot be read. In a file of a newer program these may be valid, so there
    /// the first one is an error.
    async fn list(
        &self,
        query: impl FnOnce(&Connection) -> Result<RecordList, SqliteFault> + Send + 'static,
    ) -> Result<Vec<Record>, StoreError> {
        let known = self.known;
        let answer = self.read(move |connection| {
            let mut found = query(connection)?;
            match found.unreadable.pop() {
                Some(record) if schema::format(connection)? > known => return Err(record.fault),
                last => found.unreadable.extend(last),
            }
            Ok(found)
        });
        let RecordList { records, unreadable } = answer.await?;
        for UnreadableRecord { id, .. } in unreadable {
            if self.unreadable.lock().insert(id.clone()) {
                tracing::warn!(record = id, "damaged record left out of lists");
            }
        }
        Ok(records)
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, SqliteFault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let worker = match &self.reader {
            ReadExecutor::Thread(worker) => worker,
            ReadExecutor::Here(connection) => {
                // A read that panicked has changed nothing, and unwinding rolled back its transaction.
                let connection = connection.lock();
                return threads::read_once(&connection, &self.path, self.known, query);
            }
        };
        let (reply, answer) = oneshot::channel();
        let (path, known) = (self.path.clone(), self.known);
        let request = move |connection: &Connection| {
            if !reply.is_closed() {
                drop(reply.send(threads::read_once(connection, &path, known, query)));
            }
        };
        worker.send(Box::new(request)).await.ok_or_else(|| self.closed())?;
        answer.await.unwrap_or_else(|_| Err(self.closed()))
    }

    fn closed(&self) -> StoreError {
        StoreError::Closed { path: self.path.clone() }
    }
}

fn start_reader(connection: Connection) -> io::Result<QueueThread<ReadRequest>> {
    QueueThread::start("acpx-store-read", move |queue| threads::serve_reads(&connection, queue))
}

fn start_writer(
    writer: WriteConnection,
    idle: Duration,
) -> io::Result<(Arc<WriteQueue>, QueueThread<WriteRequest>)> {
    let timer = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let queue = Arc::new(WriteQueue::new(writer, idle));
    let served = Arc::clone(&queue);
    let worker = QueueThread::start("acpx-store-write", move |queue| served.run(queue, &timer))?;
    Ok((queue, worker))
}

impl Store for SqliteStore {
    fn create(&self, record: Record, changes: Vec<Change>, host: HostId) -> StoreFuture<'_, Lease> {
        Box::pin(self.write_under_lease(WriteOperation::Create { record: Box::new(record), changes, host }))
    }

    fn lease(&self, record: RecordId, host: HostId) -> StoreFuture<'_, Lease> {
        Box::pin(self.write_under_lease(WriteOperation::Lease { record, host }))
    }

    fn remove_damaged(&self, record: RecordId) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.write(WriteOperation::RemoveDamaged { record }).await.map(drop) })
    }

    fn append(&self, lease: Lease, changes: Vec<Change>, durability: Durability) -> StoreFuture<'_, ()> {
        Box::pin(
            async move { self.write(WriteOperation::Append { lease, changes, durability }).await.map(drop) },
        )
    }

    fn append_both(&self, one: Append, other: Append, durability: Durability) -> StoreFuture<'_, ()> {
        let appends = Box::new([one, other]);
        Box::pin(
            async move { self.write(WriteOperation::AppendBoth { appends, durability }).await.map(drop) },
        )
    }

    fn record(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(self.read(move |connection| read::record(connection, &id)))
    }

    fn records(
        &self,
        filter: RecordFilter,
        after: Option<(Timestamp, RecordId)>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Record>> {
        Box::pin(self.list(move |connection| read::records(connection, &filter, after.as_ref(), limit)))
    }

    fn records_by_creation(
        &self,
        filter: RecordFilter,
        after: Option<RecordId>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Record>> {
        Box::pin(
            self.list(move |connection| {
                read::records_by_creation(connection, &filter, after.as_ref(), limit)
            }),
        )
    }

    fn records_by_id_prefix(
        &self,
        filter: RecordFilter,
        prefix: String,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Record>> {
        Box::pin(self.list(move |connection| read::records_by_id_prefix(connection, &filter, &prefix, limit)))
    }

    fn records_named(&self, named: Scope, limit: usize) -> StoreFuture<'_, Vec<Record>> {
        Box::pin(self.list(move |connection| read::records_named(connection, &named, limit)))
    }

    fn short_ids(&self, ids: Vec<RecordId>) -> StoreFuture<'_, Vec<String>> {
        Box::pin(self.read(move |connection| ids.iter().map(|id| read::short_id(connection, id)).collect()))
    }

    fn unprompted(&self, before: Timestamp, limit: usize) -> StoreFuture<'_, Vec<RecordId>> {
        Box::pin(self.read(move |connection| read::unprompted(connection, before, limit)))
    }

    fn find(&self, query: ScopeQuery) -> StoreFuture<'_, Option<Record>> {
        Box::pin(self.read(move |connection| scope::find(connection, &query)))
    }

    fn owners(&self, agent: AgentSpec, sessions: Vec<AcpSessionId>) -> StoreFuture<'_, Vec<SessionOwner>> {
        Box::pin(self.read(move |connection| read::owners(connection, &agent, &sessions)))
    }

    fn deleted_records(&self) -> StoreFuture<'_, u64> {
        Box::pin(self.read(read::deleted_records))
    }

    fn created_after(&self, than: RecordId, records: Vec<RecordId>) -> StoreFuture<'_, Vec<RecordId>> {
        Box::pin(self.read(move |connection| read::created_after(connection, &than, &records)))
    }

    fn running(&self) -> StoreFuture<'_, Vec<(RecordId, AgentRun)>> {
        Box::pin(self.read(read::running))
    }

    fn events(&self, record: RecordId, from: Seq, limit: usize) -> StoreFuture<'_, Vec<Event>> {
        Box::pin(self.read(move |connection| read::events(connection, &record, from, limit)))
    }

    fn exchanges(&self, record: RecordId) -> StoreFuture<'_, Option<ExchangeCheckpoint>> {
        Box::pin(self.read(move |connection| read::exchanges(connection, &record)))
    }

    fn records_with_open_turns(&self) -> StoreFuture<'_, Vec<(RecordId, OpenTurns)>> {
        Box::pin(self.read(read::records_with_open_turns))
    }

    fn open_turns(&self, record: RecordId) -> StoreFuture<'_, Vec<Turn>> {
        Box::pin(self.read(move |connection| read::open_turns(connection, &record)))
    }

    fn spent(&self, record: RecordId) -> StoreFuture<'_, Spending> {
        Box::pin(self.read(move |connection| usage::spent(connection, &record)))
    }

    fn turn(&self, record: RecordId, request: RequestId) -> StoreFuture<'_, Option<Turn>> {
        Box::pin(self.read(move |connection| read::turn_by_request(connection, &record, &request)))
    }

    fn turn_numbered(&self, record: RecordId, turn: TurnId) -> StoreFuture<'_, Option<Turn>> {
        Box::pin(self.read(move |connection| read::turn_by_number(connection, &record, turn)))
    }

    fn first_turn_from(&self, record: RecordId, turn: TurnId) -> StoreFuture<'_, Option<Turn>> {
        Box::pin(self.read(move |connection| read::first_turn_from(connection, &record, turn)))
    }

    fn agent_answer(&self, command: Vec<String>) -> StoreFuture<'_, Option<AgentAnswer>> {
        Box::pin(self.read(move |connection| write::read(connection, &command)))
    }

    fn store_agent_answer(&self, agent: AgentBuild, answer: String) -> StoreFuture<'_, ()> {
        Box::pin(
            async move { self.write(WriteOperation::StoreAgentAnswer { agent, answer }).await.map(drop) },
        )
    }

    fn notifications(&self, sink: String, limit: usize) -> StoreFuture<'_, Vec<QueuedNotification>> {
        Box::pin(self.read(move |connection| notifications::of_sink(connection, &sink, limit)))
    }

    fn settle_notification(&self, id: String, sink: String, outcome: DeliveryOutcome) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.write(WriteOperation::SettleNotification { id, sink, outcome }).await.map(drop)
        })
    }

    fn notification_sinks(&self) -> StoreFuture<'_, Vec<SinkStatus>> {
        Box::pin(self.read(notifications::sinks))
    }

    fn shrink(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let Some((_, thread)) = &self.writer else {
                return Err(StoreError::ReadOnly { path: self.path.clone() });
            };
            // One request for each step, so that the requests of others come between.
            loop {
                let (reply, has_more) = oneshot::channel();
                thread.send(WriteRequest::Shrink(reply)).await.ok_or_else(|| self.closed())?;
                if !has_more.await.map_err(|_| self.closed())?? {
                    return Ok(());
                }
            }
        })
    }
}

/// Where reads run.
enum ReadExecutor {
    Thread(QueueThread<ReadRequest>),
    Here(Lock<Connection>),
}

/// A thread and its queue. Dropping it waits until the thread has served what is queued.
struct QueueThread<T> {
    queue: Option<mpsc::Sender<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> QueueThread<T> {
    fn start(name: &str, serve: impl FnOnce(mpsc::Receiver<T>) + Send + 'static) -> io::Result<Self> {
        let (queue, requests) = mpsc::channel(QUEUE);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || serve(requests))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Queues a request, waiting for room if necessary; `None` if the thread has ended.
    async fn send(&self, request: T) -> Option<()> {
        let queue = self.queue.as_ref()?;
        match queue.try_send(request) {
            Ok(()) => Some(()),
            Err(TrySendError::Full(request)) => queue.send(request).await.ok(),
            Err(TrySendError::Closed(_)) => None,
        }
    }
}

impl<T> Drop for QueueThread<T> {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests;
