//! What is kept, and the contract every store keeps. Missing is not broken: a record that is not there is
//! `None`, a file that cannot be read is an error with its path, and neither ever becomes the other.
//!
//! Only the holder of a record's lease may write to it. Taking a lease makes every older one void: an append
//! under an old generation is refused, so two hosts can never interleave. Events are numbered without gaps,
//! and an acknowledged append is there after a crash of the process; a synced one, after a crash of the
//! machine.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::model::{
    AbsolutePath, AcpSessionId, AgentAnswer, AgentBuild, AgentMemory, AgentRun, AgentSpec, Event, HostId,
    Lifecycle, Lineage, McpServerRef, ProtocolVersion, Record, RecordId, RecordSettings, RequestId,
    RestoreError, Scope, Seq, Timestamp, Turn, TurnId,
};

mod error;
pub mod import_acpx;
mod memory;
mod page;
mod private_directory;
mod progress;
mod query;
mod real_path;
pub(crate) mod regular_file;
mod sqlite;

pub use error::StoreError;
pub use memory::MemoryStore;
pub use private_directory::make_private_directory;
pub use query::{RecordFilter, ScopeQuery, SessionOwner};
pub use real_path::{real_path, real_path_or_written};
pub use regular_file::open as open_regular_file;
pub use sqlite::{
    Access, FileSystem, ImportedFile, ReadThread, SqliteFailure, SqliteOptions, SqliteStore, StoreCheck,
};

/// What a store's methods return: a future, so that a store may live on another thread or machine.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The right to be the one writer of a record.
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

/// One thing to write. Changes of one append are written together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The record's next event.
    Event(Event),
    /// A turn, new or changed, whole. Its request id is unique within the record, or the append is
    /// [`StoreError::RequestExists`].
    Turn(Turn),
    /// The record's lineage, whole: rows may be added or completed. One that loses a row or rewrites what a
    /// row says is [`StoreError::LineageRewritten`].
    Lineage(Lineage),
    /// The agent's title for the record.
    Title(Option<String>),
    /// The record's MCP servers.
    McpServers(Vec<McpServerRef>),
    /// The directories beside its own whose files belong to the record's session.
    AdditionalDirectories(Vec<AbsolutePath>),
    /// Whether the record still takes part. To open it again where another has taken its scope is
    /// [`StoreError::ScopeTaken`]. One that is closed or deleted leaves its scope to others at once.
    ///
    /// What was said in a record that is deleted is erased in the same step: its events, its turns, its title, its
    /// servers, its settings and what its agent remembers. Its ids and its directory stay, and so does its agent's last process.
    Lifecycle(Lifecycle),
    /// What the record is found by from a shell, or that it no longer is. A scope that another open record of
    /// its directory has is [`StoreError::ScopeTaken`]; a closed record may have it too.
    Scope(Option<Scope>),
    /// Where the record works from now on. A directory where another open record has its scope is
    /// [`StoreError::ScopeTaken`].
    Place {
        /// The directory as it was given.
        cwd: AbsolutePath,
        /// The same with every link followed.
        real_cwd: AbsolutePath,
    },
    /// The record's settings, whole.
    Settings(RecordSettings),
    /// What the record's agent remembers.
    Memory(AgentMemory),
    /// Why the agent last failed to restore the record's session, or that it has it again.
    RestoreError(Option<RestoreError>),
    /// The last process of the record's agent.
    AgentRun(AgentRun),
    /// When something was last said in the record, whatever was written before in the same append: of a conversation that
    /// is kept here after it was had elsewhere.
    SpokenAt(Timestamp),
    /// How the record's agent is started: one that has a name may move.
    AgentCommand {
        /// The program to run.
        program: String,
        /// Its arguments.
        args: Vec<String>,
        /// The version of the protocol it is asked for.
        protocol: ProtocolVersion,
    },
}

/// What is to be written to one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// The right to write to it.
    pub lease: Lease,
    /// What, in this order.
    pub changes: Vec<Change>,
}

/// What an append survives once it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// The end of this process, however sudden.
    Process,
    /// The end of the machine: it is synced to the disk.
    Machine,
}

/// Where records are kept.
///
/// A future does its work once it is polled. One that is dropped half way may or may not have done it, but
/// never half of it.
pub trait Store: Send + Sync {
    /// Keeps a new record, with its first changes, leases it to `host`, and syncs it to the disk. A record of
    /// this id that is there already is [`StoreError::RecordExists`]; an open one of its directory that has its
    /// scope is [`StoreError::ScopeTaken`].
    ///
    /// Whatever the given record says, its `last_seq`, `last_turn` and `answered_turns` follow from the
    /// changes, as in [`Store::append`], and its first event is number 1.
    fn create(&self, record: Record, changes: Vec<Change>, host: HostId) -> StoreFuture<'_, Lease>;

    /// Takes the lease of a record, whoever had it, and voids that one.
    fn lease(&self, record: RecordId, host: HostId) -> StoreFuture<'_, Lease>;

    /// Writes changes in their order, all or none, under a lease that is still in force; under any other they
    /// are [`StoreError::LeaseLost`].
    ///
    /// Events must continue the record's numbering, or they are [`StoreError::OutOfOrder`]. The record's
    /// `last_seq` and `last_turn` are the highest numbers written, and `answered_turns` counts the turns that
    /// are [answered](Turn::is_answered). Its `updated_at` is the time of the last event written, and while updates
    /// alone come it is behind by less than a second; without an event it is the time of the change of lineage or
    /// lifecycle, if that is later. A turn by itself does not move it: a prompt that waits is not news from the
    /// agent. Nor does a scope, a place, a setting, a run or a command line. A [`Change::SpokenAt`] sets it, over what
    /// comes before it in the append.
    fn append(&self, lease: Lease, changes: Vec<Change>, durability: Durability) -> StoreFuture<'_, ()>;

    /// Writes to two records as [`Store::append`] does, first to one and then to the other, all or none: what one
    /// record gives up another can have, and nobody ever finds neither of them with it.
    fn append_both(&self, one: Append, other: Append, durability: Durability) -> StoreFuture<'_, ()>;

    /// One record, or `None`. A deleted one is still told here, because its id is taken; it is in no list and no
    /// shell finds it.
    fn record(&self, id: RecordId) -> StoreFuture<'_, Option<Record>>;

    /// Up to `limit` of the records that the filter takes, last changed first and by descending id where that is
    /// equal, after the one a page before ended with. One that changes before its page is read has moved to the front. Deleted ones are left out.
    fn records(
        &self,
        filter: RecordFilter,
        after: Option<(Timestamp, RecordId)>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Record>>;

    /// Up to `limit` of the records that the filter takes, last made here first, after the one a page before ended with.
    /// No record changes its place in this order, so pages that are read one after the other leave none out, whatever
    /// happens meanwhile. After a record that is not there comes none.
    fn records_by_making(
        &self,
        filter: RecordFilter,
        after: Option<RecordId>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Record>>;

    /// The record that has a scope, or `None`: in the nearest directory that has one, the open one, or else the
    /// one that was closed last (the one that was made last, where that is equal). A deleted one is not found.
    fn find(&self, query: ScopeQuery) -> StoreFuture<'_, Option<Record>>;

    /// Which of these ACP sessions of an agent are in the lineage of a record, and of which one, in the order of their
    /// ids. Every record with [the same agent](AgentSpec::is_same_as) counts, whatever it is called there. Deleted
    /// records are among them: what was deleted is known.
    fn owners(&self, agent: AgentSpec, sessions: Vec<AcpSessionId>) -> StoreFuture<'_, Vec<SessionOwner>>;

    /// Which of these records were made here after another one, in the order of their making. After a record that is
    /// not there comes none.
    fn made_after(&self, than: RecordId, records: Vec<RecordId>) -> StoreFuture<'_, Vec<RecordId>>;

    /// The records whose last run has no end, by their ids, and those runs. Deleted ones are among them: a process
    /// does not end because its record is not wanted any more.
    fn running(&self) -> StoreFuture<'_, Vec<(RecordId, AgentRun)>>;

    /// Up to `limit` records that are [unprompted](Record::is_unprompted) and last changed before a time, the oldest
    /// first. Deleted ones are not among them.
    fn unprompted(&self, before: Timestamp, limit: usize) -> StoreFuture<'_, Vec<RecordId>>;

    /// Up to `limit` events of a record, in order, from `from` on, and no more than [`PAGE_BYTES`] of bodies
    /// (but always at least one event if there is one). This and the methods below need the record: without it
    /// they are [`StoreError::NoRecord`].
    fn events(&self, record: RecordId, from: Seq, limit: usize) -> StoreFuture<'_, Vec<Event>>;

    /// The turns of a record that are [open](Turn::is_open), in order.
    fn open_turns(&self, record: RecordId) -> StoreFuture<'_, Vec<Turn>>;

    /// The turn a client named so.
    fn turn(&self, record: RecordId, request: RequestId) -> StoreFuture<'_, Option<Turn>>;

    /// The turn of a number.
    fn turn_numbered(&self, record: RecordId, turn: TurnId) -> StoreFuture<'_, Option<Turn>>;

    /// What was last answered to `initialize` under this command line.
    fn agent_answer(&self, command: Vec<String>) -> StoreFuture<'_, Option<AgentAnswer>>;

    /// Keeps what an agent answered to `initialize`, in the place of what its command line was last answered with.
    fn keep_agent_answer(&self, agent: AgentBuild, answer: String) -> StoreFuture<'_, ()>;
}

/// How many bytes of bodies one page of events holds at most, so that a reader's memory is bounded.
pub const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The one writer of a record: a lease together with the store it is for.
#[derive(Clone)]
pub struct SessionWriter {
    store: Arc<dyn Store>,
    lease: Lease,
}

impl SessionWriter {
    /// Keeps a new record and becomes its writer.
    pub async fn create(
        store: Arc<dyn Store>,
        record: Record,
        changes: Vec<Change>,
        host: HostId,
    ) -> Result<Self, StoreError> {
        let lease = store.create(record, changes, host).await?;
        Ok(Self { store, lease })
    }

    /// Becomes the writer of a record that is there.
    pub async fn lease(store: Arc<dyn Store>, record: RecordId, host: HostId) -> Result<Self, StoreError> {
        let lease = store.lease(record, host).await?;
        Ok(Self { store, lease })
    }

    /// Writes changes, all or none.
    pub async fn append(&self, changes: Vec<Change>, durability: Durability) -> Result<(), StoreError> {
        self.store.append(self.lease.clone(), changes, durability).await
    }

    /// Writes to this record and then to another of the same store, all or none.
    pub async fn append_with(
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
