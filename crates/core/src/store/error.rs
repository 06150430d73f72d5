//! Errors of a store, each with its subject.

use std::io;
use std::path::PathBuf;

use super::SqliteFailure;
use crate::model::{ErrorCode, RecordId, RequestId, Seq};

/// Why a store operation failed. Nothing was half done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory or file cannot be created or opened.
    #[error("cannot open the store {}", path.display())]
    Open {
        /// The store's file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another process holds its lock for longer than we wait.
    #[error("the store {} is locked by another process", path.display())]
    Locked {
        /// The store's file.
        path: PathBuf,
    },
    /// The file is damaged, or is not a store. It was left unchanged.
    #[error("the store {} is damaged: {problem}", path.display())]
    Corrupt {
        /// The store's file.
        path: PathBuf,
        /// The damage found.
        problem: String,
    },
    /// An older acpx wrote it, and it was opened read-only. Opening it to write migrates it.
    #[error("the store {} was written by an older acpx (format {found}, this one reads {known})", path.display())]
    Older {
        /// The store's file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The format this version reads.
        known: i64,
    },
    /// A newer acpx wrote it; this version only reads it, as far as it understands it.
    #[error("the store {} was written by a newer acpx (format {found}, this one writes {known})", path.display())]
    Newer {
        /// The store's file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format this version writes.
        known: i64,
    },
    /// It is on a network file system, where SQLite's locks cannot be trusted.
    #[error("the store {} is on a network file system ({kind}), where its locks cannot be trusted", path.display())]
    NetworkFileSystem {
        /// The store's file.
        path: PathBuf,
        /// The file system's name.
        kind: String,
    },
    /// The disk is full.
    #[error("no space is left for the store {}", path.display())]
    Full {
        /// The store's file.
        path: PathBuf,
    },
    /// Reading or writing failed.
    #[error("cannot {operation} in the store {}", path.display())]
    Failed {
        /// The operation.
        operation: &'static str,
        /// The store's file.
        path: PathBuf,
        /// Why.
        #[source]
        source: SqliteFailure,
    },
    /// The file, or its log, was removed or replaced while it was open.
    #[error("the store {} was removed or replaced while it was in use", path.display())]
    Gone {
        /// The store's file.
        path: PathBuf,
    },
    /// The record does not exist.
    #[error("there is no record {0}")]
    NoRecord(RecordId),
    /// A record with this id exists already.
    #[error("there is a record {0} already")]
    RecordExists(RecordId),
    /// An open record of the same directory has this scope.
    #[error("the record {record} has this agent, directory and name already")]
    ScopeTaken {
        /// The record that has it.
        record: RecordId,
    },
    /// Another host has taken the record's lease.
    #[error("another host has taken over the record {record} (generation {current}, ours was {ours})")]
    LeaseLost {
        /// The record.
        record: RecordId,
        /// The generation we held.
        ours: u64,
        /// The generation in force.
        current: u64,
    },
    /// An event does not continue the record's numbering.
    #[error("event {found} of the record {record} does not follow event {last}")]
    OutOfOrder {
        /// The record.
        record: RecordId,
        /// The last stored event; 0 if there is none.
        last: u64,
        /// The rejected event.
        found: Seq,
    },
    /// Two turns of a record were given one request id.
    #[error("the record {record} has a turn with the request id {request} already")]
    RequestExists {
        /// The record.
        record: RecordId,
        /// The id.
        request: RequestId,
    },
    /// A change would remove or rewrite a row of a lineage.
    #[error("the lineage of the record {0} may only grow")]
    LineageRewritten(RecordId),
    /// What was to be written with a new record could not be read to its end.
    #[error("cannot import the session")]
    Import {
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store was opened read-only.
    #[error("the store {} is open for reading only", path.display())]
    ReadOnly {
        /// The store's file.
        path: PathBuf,
    },
    /// The store has been shut down.
    #[error("the store {} is closed", path.display())]
    Closed {
        /// The store's file.
        path: PathBuf,
    },
}

impl StoreError {
    /// The stable code of this error.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Open { .. } => ErrorCode::StoreNotOpened,
            Self::Import { .. } => ErrorCode::InvalidArchive,
            Self::Locked { .. } => ErrorCode::StoreLocked,
            Self::Corrupt { .. } => ErrorCode::StoreCorrupt,
            Self::Older { .. } => ErrorCode::StoreOlder,
            Self::Newer { .. } => ErrorCode::StoreNewer,
            Self::NetworkFileSystem { .. } => ErrorCode::StoreOnNetwork,
            Self::Full { .. } => ErrorCode::StoreFull,
            Self::Failed { .. } => ErrorCode::StoreFailed,
            Self::Gone { .. } => ErrorCode::StoreGone,
            Self::NoRecord(_) => ErrorCode::NoSession,
            Self::RecordExists(_) => ErrorCode::RecordExists,
            Self::ScopeTaken { .. } => ErrorCode::ScopeTaken,
            Self::LeaseLost { .. } => ErrorCode::LeaseLost,
            Self::OutOfOrder { .. } => ErrorCode::StoreOutOfOrder,
            Self::RequestExists { .. } => ErrorCode::RequestExists,
            Self::LineageRewritten(_) => ErrorCode::LineageRewritten,
            Self::ReadOnly { .. } => ErrorCode::StoreReadOnly,
            Self::Closed { .. } => ErrorCode::StoreClosed,
        }
    }

    /// What the user can do next.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Open { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("nothing is stored there yet: the first session creates it")
            }
            _ => self.code().hint(),
        }
    }
}
