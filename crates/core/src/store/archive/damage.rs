//! Errors of archives, each with the place in the file.

use std::io;
use std::path::PathBuf;

use crate::model::{ErrorCode, RecordId};
use crate::store::StoreError;

/// Why an archive was not imported. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportArchiveError {
    /// The system denies reading it.
    #[error("cannot read the archive {}", path.display())]
    NotRead {
        /// The archive.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It cannot be copied to a place where it stays unchanged.
    #[error("cannot copy the archive to {}", directory.display())]
    NotCopied {
        /// The directory for the copy.
        directory: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is no archive, or is damaged.
    #[error("the archive {} is invalid: {problem} ({place}line {line}, column {column})", path.display())]
    Invalid {
        /// The archive.
        path: PathBuf,
        /// What is wrong.
        problem: String,
        /// The member, followed by a comma and a blank; empty for the whole document.
        place: String,
        /// The line, from 1.
        line: u64,
        /// The column in bytes, from 1.
        column: u64,
    },
    /// It has another version of the format.
    #[error("the archive {} has format_version {found}, and version 1 is known", path.display())]
    FormatVersion {
        /// The archive.
        path: PathBuf,
        /// Its version, as JSON.
        found: String,
    },
    /// An open session has the agent, directory and name.
    #[error("the session {record} has this agent, directory and name already")]
    ScopeExists {
        /// That session.
        record: RecordId,
    },
    /// A session here has the same ACP session.
    #[error("the session {record} has the ACP session {session} of the archive already")]
    SessionExists {
        /// The session here.
        record: RecordId,
        /// The ACP session.
        session: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
}

impl ImportArchiveError {
    /// The stable code of this error.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotRead { .. } => ErrorCode::ArchiveNotRead,
            Self::NotCopied { source, .. } if is_full(source) => ErrorCode::StoreFull,
            Self::NotCopied { .. } => ErrorCode::StoreFailed,
            Self::Invalid { .. } => ErrorCode::InvalidArchive,
            Self::FormatVersion { .. } => ErrorCode::UnsupportedFormatVersion,
            Self::ScopeExists { .. } => ErrorCode::SessionScopeExists,
            Self::SessionExists { .. } => ErrorCode::SessionProviderExists,
            Self::Store(error) => error.code(),
        }
    }

    /// What the user can do next.
    pub fn hint(&self) -> Option<&'static str> {
        self.code().hint()
    }
}

/// Whether a disk has no room left, or its user may not have more.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl From<StoreError> for ImportArchiveError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::ScopeTaken { record } => Self::ScopeExists { record },
            other => Self::Store(other),
        }
    }
}

/// A problem at a position of the document, before the file's name and the member are known.
#[derive(Debug)]
pub(super) enum ScanError {
    Io(io::Error),
    At { problem: String, line: u64, column: u64 },
}

impl From<io::Error> for ScanError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl ScanError {
    /// The error of a file, in this member; an empty place is the document itself.
    pub(super) fn of(self, path: &std::path::Path, place: &str) -> ImportArchiveError {
        let path = path.to_owned();
        match self {
            Self::Io(source) => ImportArchiveError::NotRead { path, source },
            Self::At { problem, line, column } => {
                let place = if place.is_empty() { String::new() } else { format!("{place}, ") };
                ImportArchiveError::Invalid { path, problem, place, line, column }
            }
        }
    }
}
