//! The store's contract. Missing is not broken: a missing record is `None`, an unreadable file is an error with its
//! path, and neither ever becomes the other.
//!
//! Only the holder of a record's lease may write to it. Taking a lease voids every older one: an append under an old
//! generation is refused, so two hosts can never interleave. Events are numbered without gaps. An acknowledged append
//! survives a crash of the process; a synced one survives a crash of the machine.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;

use crate::model::{
    AbsolutePath, AcpSessionId, AgentAnswer, AgentBuild, AgentMemory, AgentRun, AgentSpec, DeliveryOutcome,
    Event, ExchangeCheckpoint, HostId, Lifecycle, Lineage, McpServerRef, Notification, ProtocolVersion,
    QueuedNotification, Record, RecordId, RecordSettings, RequestId, RestoreError, Scope, Seq, SessionUsage,
    SinkStatus, Spending, Timestamp, Turn, TurnId,
};

pub mod archive;
mod error;
pub(crate) mod file_system;
pub mod import_acpx;
mod memory;
mod progress;
mod query;
mod sqlite;
mod usage;

pub use error::StoreError;
pub use file_system::{
    make_private_directory, open as open_regular_file, real_path, real_path_or_written, sync_entry,
};
pub use memory::MemoryStore;
pub use query::{OpenTurns, RecordFilter, SHORT_ID, ScopeQuery, SessionOwner};
pub use sqlite::{
    Access, FileSystem, ReadThread, SqliteOptions, SqliteStore, StoreCheck, StoreProblem, StoreProgress,
    StoreVerification,
};
pub(crate) use sqlite::{ImportedFile, SqliteFailure, database_uri};
pub use usage::{UsageGroup, UsageKey, UsageQuery, UsageSum};

/// What a store's methods return: a future, so that a store may live on another thread or machine.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The exclusive right to write to a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub(crate) record: RecordId,
    pub(crate) generation: u64,
}

impl Lease {
    /// The record it is for.
    pub fn record(&self) -> &RecordId {
        &self.record
    }

    /// How many leases this record has had; the highest is the one in force.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

/// One change to write. The changes of one append are written together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The record's next event.
    Event(Event),
    /// A new or changed turn, complete. Its request id is unique within the record, or the append fails with
    /// [`StoreError::RequestExists`].
    Turn(Turn),
    /// The record's complete lineage: rows may be added or completed. Removing or rewriting a row fails with
    /// [`StoreError::LineageRewritten`].
    Lineage(Lineage),
    /// The agent's title for the record.
    Title(Option<String>),
    /// The user's title for the record.
    UserTitle(Option<String>),
    /// The usage of the record's current ACP session.
    Usage(Option<SessionUsage>),
    /// The record's MCP servers.
    McpServers(Vec<McpServerRef>),
    /// The additional directories of the record's session.
    AdditionalDirectories(Vec<AbsolutePath>),
    /// Whether the record is open, closed or deleted. Reopening it while another open record has its scope fails with
    /// [`StoreError::ScopeTaken`]. Closing or deleting it frees its scope at once.
    ///
    /// Deleting a record erases its conversation in the same step: its events, exchanges, turns, titles, usage, servers, settings,
    /// agent memory and queued notifications. Its ids, its directory and its agent's last process stay.
    Lifecycle(Lifecycle),
    /// The scope that a shell finds the record by, or none. A scope that another open record of its directory has
    /// fails with [`StoreError::ScopeTaken`]; a closed record may have it too.
    Scope(Option<Scope>),
    /// The record's new working directory. A directory where another open record has its scope fails with
    /// [`StoreError::ScopeTaken`].
    WorkingDirectory {
        /// The directory as given.
        cwd: AbsolutePath,
        /// The same with all links resolved.
        real_cwd: AbsolutePath,
    },
    /// The record's complete settings.
    Settings(RecordSettings),
    /// What the record's agent remembers.
    Memory(AgentMemory),
    /// Why the agent last failed to restore the record's session, or `None` after a success.
    RestoreError(Option<RestoreError>),
    /// The exchanges that changed up to an event that is stored.
    Exchanges(Box<ExchangeCheckpoint>),
    /// A notification to queue for its sinks. One that is queued for a sink already stays as it is. That of a pending
    /// request replaces the record's earlier one. A full queue loses its oldest notification, which is counted.
    Notification(Notification),
    /// Removes the notification of a pending request from the queues: the request is settled.
    RequestSettled,
    /// The last process of the record's agent.
    AgentRun(AgentRun),
    /// The time of the last activity in the record, overriding the changes before it in the same append: for a
    /// conversation that took place outside acpx (an adopted session).
    LastActivity(Timestamp),
    /// How to start the record's agent: a named agent may change its command.
    AgentCommand {
        /// The program to run.
        program: String,
        /// Its arguments.
        args: Vec<String>,
        /// The protocol version to request.
        protocol: ProtocolVersion,
    },
}

/// The first changes of a record that are too many for the memory. They are read while they are written, and may be
/// read more than once.
pub(crate) trait ChangeSource: std::fmt::Debug + Send + Sync {
    /// Calls `each` with every batch, in order, until it breaks. This blocks.
    fn for_each(&self, each: &mut dyn FnMut(&[Change]) -> ControlFlow<()>) -> Result<(), StoreError>;
}

/// The changes to one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// The record's lease.
    pub lease: Lease,
    /// The changes, in this order.
    pub changes: Vec<Change>,
}

/// What an acknowledged append survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// A crash of this process.
    Process,
    /// A crash of the machine: it is synced to the disk.
    Machine,
}

/// Stores records.
///
/// A future does its work once it is polled. A dropped one may or may not have done its work, but never half of it.
pub trait Store: Send + Sync {
    /// Stores a new record with its first changes, leases it to `host`, and syncs it to the disk. An existing record
    /// with this id fails with [`StoreError::RecordExists`]; an open one of its directory with its scope fails with
    /// [`StoreError::ScopeTaken`].
    ///
    /// The given record's `last_seq`, `last_turn` and `answered_turns` are ignored: they follow from the changes, as
    /// in [`Store::append`], and its first event is number 1.
    fn create(&self, record: Record, changes: Vec<Change>, host: HostId) -> StoreFuture<'_, Lease>;

    /// Takes the lease of a record and voids the one in force.
    fn lease(&self, record: RecordId, host: HostId) -> StoreFuture<'_, Lease>;

    /// Removes a record that is damaged so that it cannot be read or leased, with everything that belongs to it. Fails
    /// with [`StoreError::NoRecord`] if there is no such record, or nothing is wrong with it. Its id is free again.
    fn remove_damaged(&self, record: RecordId) -> StoreFuture<'_, ()>;

    /// Writes changes in order, all or none, under the lease in force; any other lease fails with
    /// [`StoreError::LeaseLost`].
    ///
    /// Events must continue the record's numbering, or the append fails with [`StoreError::OutOfOrder`]. The record's
    /// `last_seq` and `last_turn` are the highest numbers written, and `answered_turns` counts the turns that are
    /// [answered](Turn::is_answered). Its `updated_at` is the time of the last event written; during a run of updates
    /// it may lag by less than a second. Without an event it is the time of the change of lineage or lifecycle, if
    /// that is later. A turn by itself does not move it, because a queued prompt is no activity of the agent. Nor
    /// does a scope, a place, a setting, a run or a command line. A [`Change::LastActivity`] sets it, overriding the
    /// changes before it in the append.
    fn append(&self, lease: Lease, changes: Vec<Change>, durability: Durability) -> StoreFuture<'_, ()>;

    /// Writes to two records as [`Store::append`] does, first to one and then to the other, all or none. A scope can
    /// move from one record to the other, and no reader ever finds both without it.
    fn append_both(&self, one: Append, other: Append, durability: Durability) -> StoreFuture<'_, ()>;

    /// One record, or `None`. A deleted record is returned too, because its id stays reserved; no list contains it
    /// and no shell finds it.
    fn record(&self, id: RecordId) -> StoreFuture<'_, Option<Record>>;

    /// Up to `limit` records that match the filter, most recently changed first and by descending id where that is
    /// equal, after the last one of the previous page. A record that changes before its page is read moves to the
    /// front. Deleted records are left out, and so are, in this and the other lists, damaged ones.
    fn records(
        &self,
        filter: RecordFilter,
        after: Option<(Timestamp, RecordId)>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Record>>;

    /// Up to `limit` records that match the filter, most recently created here first, after the last one of the
    /// previous page. A record never changes its position in this order, so consecutive pages skip none. After an
    /// unknown record the page is empty.
    fn records_by_creation(
        &self,
        filter: RecordFilter,
        after: Option<RecordId>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Record>>;

    /// Up to `limit` records that match the filter and whose ids begin with a prefix, by id. Deleted records are left
    /// out.
    fn records_by_id_prefix(
        &self,
        filter: RecordFilter,
        prefix: String,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Record>>;

    /// Up to `limit` open records with this scope, in any directory, most recently created first.
    fn records_named(&self, named: Scope, limit: usize) -> StoreFuture<'_, Vec<Record>>;

    /// For each id the shortest prefix that no other record's id has, deleted records aside; at least
    /// [`SHORT_ID`] characters of it.
    fn short_ids(&self, ids: Vec<RecordId>) -> StoreFuture<'_, Vec<String>>;

    /// The record with a scope, or `None`: in the nearest directory that has one, the open one, or else the most
    /// recently closed (or created, where that is equal). Deleted records are not found.
    fn find(&self, query: ScopeQuery) -> StoreFuture<'_, Option<Record>>;

    /// Which of these ACP sessions of an agent are in the lineage of which record, ordered by their ids. Every record
    /// with [the same agent](AgentSpec::is_same_as) counts, under any name. Deleted records are included, so that a
    /// deleted session stays known.
    fn owners(&self, agent: AgentSpec, sessions: Vec<AcpSessionId>) -> StoreFuture<'_, Vec<SessionOwner>>;

    /// How many records are deleted; every deletion adds one.
    fn deleted_records(&self) -> StoreFuture<'_, u64>;

    /// Which of these records were created here after another one, in order of creation. After an unknown record the
    /// result is empty.
    fn created_after(&self, than: RecordId, records: Vec<RecordId>) -> StoreFuture<'_, Vec<RecordId>>;

    /// The records whose last run has no end, ordered by id, with those runs. Deleted records are included, because
    /// their processes may still run.
    fn running(&self) -> StoreFuture<'_, Vec<(RecordId, AgentRun)>>;

    /// Up to `limit` records that are [unprompted](Record::is_unprompted) and last changed before a time, oldest
    /// first. Deleted ones are left out.
    fn unprompted(&self, before: Timestamp, limit: usize) -> StoreFuture<'_, Vec<RecordId>>;

    /// Up to `limit` events of a record, in order, from `from` on, and no more than [`PAGE_BYTES`] of bodies (but
    /// always at least one event if there is one). This and the methods below fail with [`StoreError::NoRecord`] for
    /// an unknown record.
    fn events(&self, record: RecordId, from: Seq, limit: usize) -> StoreFuture<'_, Vec<Event>>;

    /// All exchanges of a record up to the last checkpoint that was written, as one checkpoint; `None` if none was.
    fn exchanges(&self, record: RecordId) -> StoreFuture<'_, Option<ExchangeCheckpoint>>;

    /// The records that have [open](Turn::is_open) turns, by id.
    fn records_with_open_turns(&self) -> StoreFuture<'_, Vec<(RecordId, OpenTurns)>>;

    /// The turns of a record that are [open](Turn::is_open), in order.
    fn open_turns(&self, record: RecordId) -> StoreFuture<'_, Vec<Turn>>;

    /// What the ended turns of a record have used. Turns that a fork copied from another record are left out.
    fn spent(&self, record: RecordId) -> StoreFuture<'_, Spending>;

    /// The turn with this request id.
    fn turn(&self, record: RecordId, request: RequestId) -> StoreFuture<'_, Option<Turn>>;

    /// The turn with this number.
    fn turn_numbered(&self, record: RecordId, turn: TurnId) -> StoreFuture<'_, Option<Turn>>;

    /// The first turn with this number or a higher one. Numbers can have gaps.
    fn first_turn_from(&self, record: RecordId, turn: TurnId) -> StoreFuture<'_, Option<Turn>>;

    /// The last stored `initialize` response for this command line.
    fn agent_answer(&self, command: Vec<String>) -> StoreFuture<'_, Option<AgentAnswer>>;

    /// Stores an agent's `initialize` response, replacing the previous one for its command line.
    fn store_agent_answer(&self, agent: AgentBuild, answer: String) -> StoreFuture<'_, ()>;

    /// Up to `limit` notifications that wait for a sink, the next due first.
    fn notifications(&self, sink: String, limit: usize) -> StoreFuture<'_, Vec<QueuedNotification>>;

    /// Stores the outcome of an attempt to deliver a notification to a sink. It leaves the queue unless it is tried
    /// again. Nothing changes if it is no longer queued, because its record was deleted.
    fn settle_notification(&self, id: String, sink: String, outcome: DeliveryOutcome) -> StoreFuture<'_, ()>;

    /// How every sink is doing that has had a notification, by name.
    fn notification_sinks(&self) -> StoreFuture<'_, Vec<SinkStatus>>;

    /// Returns the space of erased content to the disk, in steps between which other requests are served. Another
    /// process that uses the store may keep some of it.
    fn shrink(&self) -> StoreFuture<'_, ()>;
}

/// How many notifications may wait for one sink.
pub const MAX_NOTIFICATIONS: usize = 1000;

/// The most bytes of bodies in one page of events, which bounds a reader's memory.
pub const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The only writer of a record: a lease together with its store.
#[derive(Clone)]
pub struct SessionWriter {
    store: Arc<dyn Store>,
    lease: Lease,
}

impl SessionWriter {
    /// Creates a record and becomes its writer.
    pub async fn create(
        store: Arc<dyn Store>,
        record: Record,
        changes: Vec<Change>,
        host: HostId,
    ) -> Result<Self, StoreError> {
        let lease = store.create(record, changes, host).await?;
        Ok(Self { store, lease })
    }

    /// Becomes the writer of an existing record.
    pub async fn lease(store: Arc<dyn Store>, record: RecordId, host: HostId) -> Result<Self, StoreError> {
        let lease = store.lease(record, host).await?;
        Ok(Self { store, lease })
    }

    /// Writes changes, all or none.
    pub async fn append(&self, changes: Vec<Change>, durability: Durability) -> Result<(), StoreError> {
        self.store.append(self.lease.clone(), changes, durability).await
    }

    /// Writes to this record and then to another of the same store, all or none.
    pub(crate) async fn append_with(
        &self,
        changes: Vec<Change>,
        other: &Self,
        other_changes: Vec<Change>,
        durability: Durability,
    ) -> Result<(), StoreError> {
        let one = Append { lease: self.lease.clone(), changes };
        let other = Append { lease: other.lease.clone(), changes: other_changes };
        self.store.append_both(one, other, durability).await
    }
}
