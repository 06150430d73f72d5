//! The report of an import, file by file. Every file of the directory is in exactly one of its lists, so nothing is
//! skipped silently.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::model::{AcpSessionId, AgentSessionId, ErrorCode, RecordId};
use crate::store::StoreError;

/// The outcome for the files of one directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportReport {
    /// Records that are new here.
    pub imported: Vec<ImportedRecord>,
    /// Records that were imported before and have grown since.
    pub grown: Vec<ImportedRecord>,
    /// How many record files are unchanged since their import.
    pub unchanged: usize,
    /// Skipped files, each with the reason.
    pub skipped: Vec<SkippedFile>,
    /// Why turns that npm acpx has added to imported records are missing here. Each is also in `skipped`, and is here
    /// only until it is noted in the ledger.
    pub continued: Vec<SkipReason>,
    /// Files that cannot be read as a record.
    pub damaged: Vec<ImportProblem>,
}

/// A record that was imported, or its growth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedRecord {
    /// The record's file, without its directory.
    pub file: String,
    /// The record, with its original id.
    pub record: RecordId,
    /// Its current ACP session.
    pub session: AcpSessionId,
    /// The harness's own id of it, as it was recorded.
    pub agent_session: Option<AgentSessionId>,
    /// How many turns were added.
    pub turns: u64,
    /// How many events were added.
    pub events: u64,
    /// Notes for the user.
    pub notes: Vec<ImportNote>,
}

/// A minor problem of an imported record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportNote {
    /// The file's name is not the one npm acpx would use.
    FileName,
    /// A time is missing or unreadable, and another was used instead.
    Time {
        /// The missing one.
        field: &'static str,
    },
    /// The name is not valid here, so the record is found only by its id.
    Name {
        /// What is wrong with it.
        problem: String,
    },
    /// An open record has the agent, directory and name already, so this one is found only by its id.
    ScopeTaken {
        /// The record that has them.
        by: RecordId,
    },
    /// The journal ends within a line, which was left out.
    TornLine,
    /// Lines of the journal that are not messages were left out.
    DamagedLines {
        /// How many.
        count: u64,
    },
    /// There was no journal; the conversation comes from the record's own messages.
    FromMessages,
    /// Messages of the record, or parts of them, of an unknown shape were left out.
    UnknownMessages {
        /// How many.
        count: u64,
    },
}

impl fmt::Display for ImportNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileName => f.write_str("the file is not named after the record's id"),
            Self::Time { field } => {
                write!(f, "{field} is missing or no time, and another time stands for it")
            }
            Self::Name { problem } => write!(f, "{problem}; the record is found by its id"),
            Self::ScopeTaken { by } => write!(
                f,
                "the open record {by} has its agent, directory and name already; this one is found by its id"
            ),
            Self::TornLine => f.write_str("the journal ends within a line, which was left out"),
            Self::DamagedLines { count } => {
                write!(f, "lines of the journal that cannot be read were left out: {count}")
            }
            Self::FromMessages => {
                f.write_str("there is no journal; the conversation comes from the record's messages")
            }
            Self::UnknownMessages { count } => {
                write!(f, "messages of an unknown shape were left out: {count}")
            }
        }
    }
}

/// A skipped file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedFile {
    /// The record's file, without its directory.
    pub file: String,
    /// Why.
    pub reason: SkipReason,
}

/// Why a readable file was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// An npm acpx holds the session. The next import tries again.
    OwnerAlive {
        /// Its process.
        pid: i32,
    },
    /// A session of the record has a client or work here. The next import tries again.
    InUse {
        /// The record.
        record: RecordId,
    },
    /// The record was imported before and has turns of acpx, or its files no longer begin as they did.
    Diverged {
        /// The record.
        record: RecordId,
    },
    /// Another record has the id: one that did not come from npm acpx, came from another file, or was deleted here.
    IdTaken {
        /// The id.
        record: RecordId,
    },
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnerAlive { pid } => {
                write!(f, "npm acpx (process {pid}) holds the session; it is taken once that has ended")
            }
            Self::InUse { record } => write!(
                f,
                "npm acpx may have continued the session {record}, which is in use here; new turns are imported once the session is idle here"
            ),
            Self::Diverged { record } => write!(
                f,
                "npm acpx has continued the session {record} separately, and its new turns are not imported: read them with npm acpx, and prompt the session in one of the two only"
            ),
            Self::IdTaken { record } => {
                write!(f, "another record has the id {record} already, or had it until it was deleted")
            }
        }
    }
}

/// A file that cannot be read as a record. It was left unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot import {file}")]
pub struct ImportProblem {
    /// The record's file, without its directory.
    pub file: String,
    /// What is wrong with it.
    #[source]
    pub damage: Damage,
}

/// What is wrong with a record's file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The system denies reading it.
    #[error("it cannot be read: {why}")]
    Unreadable {
        /// The system's error message.
        why: String,
    },
    /// A journal of it cannot be read. What was imported before stays, and a later import adds the rest.
    #[error("its journal {file} cannot be read: {why}")]
    Journal {
        /// The journal's file, without its directory.
        file: String,
        /// The system's error message.
        why: String,
    },
    /// It is larger than any record.
    #[error("it has more than {limit} bytes")]
    TooLarge {
        /// The size limit.
        limit: u64,
    },
    /// It is not JSON.
    #[error("it is not JSON (line {line}, column {column})")]
    NotJson {
        /// Where reading stopped.
        line: usize,
        /// Where reading stopped.
        column: usize,
    },
    /// It is JSON, but not an object.
    #[error("it is not a JSON object")]
    NotAnObject,
    /// It has another schema.
    #[error("its schema is {found}, and acpx.session.v1 is known")]
    UnknownSchema {
        /// The schema.
        found: String,
    },
    /// A required field is missing, empty or of another type.
    #[error("it has no {what}")]
    Missing {
        /// The field, with its possible names.
        what: &'static str,
    },
    /// The working directory is not absolute.
    #[error("its cwd {cwd:?} is not an absolute path")]
    RelativeCwd {
        /// The directory.
        cwd: String,
    },
    /// The agent's command line cannot be split into words.
    #[error("its agent command {command:?} has a quote that does not end")]
    UnterminatedQuote {
        /// The command line.
        command: String,
    },
}

/// Why an import stopped. Records imported before stay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The directory cannot be read.
    #[error("cannot read the directory {}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ImportError {
    /// The stable code of this error.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Directory { .. } => ErrorCode::ImportDirectory,
            Self::Store(error) => error.code(),
        }
    }

    /// What the user can do next.
    pub fn hint(&self) -> Option<&'static str> {
        self.code().hint()
    }
}
