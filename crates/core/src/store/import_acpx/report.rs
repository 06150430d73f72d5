//! What an import did, file by file. Every file of the directory ends in exactly one place of the report, so
//! nothing is passed over in silence.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::model::{AcpSessionId, AgentSessionId, RecordId};
use crate::store::StoreError;

/// What became of the files of one directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportReport {
    /// Records that are new here.
    pub taken: Vec<ImportedRecord>,
    /// Records that were taken before and have grown since.
    pub grown: Vec<ImportedRecord>,
    /// How many record files are as they were when they were taken.
    pub unchanged: usize,
    /// Files that were left alone, each with the reason.
    pub left: Vec<SkippedFile>,
    /// Why turns that npm acpx has added to imported records are not here. Each is also in `left`, and is here only until
    /// it is noted in the ledger.
    pub continued: Vec<SkipReason>,
    /// Files that cannot be read as a record.
    pub damaged: Vec<ImportProblem>,
}

/// A record that was taken, or its growth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedRecord {
    /// The record's file, without its directory.
    pub file: String,
    /// The record, under the id it had.
    pub record: RecordId,
    /// Its current ACP session.
    pub session: AcpSessionId,
    /// The harness's own id of it, as it was recorded.
    pub agent_session: Option<AgentSessionId>,
    /// How many turns came.
    pub turns: u64,
    /// How many events came.
    pub events: u64,
    /// What a person should know of it.
    pub notes: Vec<ImportNote>,
}

/// Something about a record that came although not all was well.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportNote {
    /// The file is named otherwise than npm acpx names it.
    FileName,
    /// A time is missing or unreadable, and another stands for it.
    Time {
        /// The missing one.
        field: &'static str,
    },
    /// The name cannot name a session here, so the record is found by its id alone.
    Name {
        /// What is wrong with it.
        problem: String,
    },
    /// An open record has the agent, directory and name already, so this one is found by its id alone.
    ScopeTaken {
        /// The one that has them.
        by: RecordId,
    },
    /// The journal ends within a line, which was left out.
    TornLine,
    /// Lines of the journal that are no messages were left out.
    DamagedLines {
        /// How many.
        count: u64,
    },
    /// There was no journal; the conversation comes from the record's own messages.
    FromMessages,
    /// Messages of the record, or parts of them, that are of an unknown shape were left out.
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

/// A file that was left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedFile {
    /// The record's file, without its directory.
    pub file: String,
    /// Why.
    pub reason: SkipReason,
}

/// Why a readable file was left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// An npm acpx holds the session. It is tried again by itself.
    OwnerAlive {
        /// Its process.
        pid: i32,
    },
    /// A session of the record has a client or work here. It is tried again by itself.
    InUse {
        /// The record.
        record: RecordId,
    },
    /// The record was taken before and has turns of ours, or its files no longer begin as they did.
    GoneOn {
        /// The record.
        record: RecordId,
    },
    /// A record that did not come from npm acpx, came from another file, or was deleted here, has the id.
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
                "npm acpx has continued the session {record}, which is in use here; its new turns are imported once the session is idle here"
            ),
            Self::GoneOn { record } => write!(
                f,
                "npm acpx has continued the session {record} separately, and its new turns are not imported: read them with npm acpx, and prompt the session in one of the two only"
            ),
            Self::IdTaken { record } => {
                write!(f, "another record has the id {record} already, or had it until it was deleted")
            }
        }
    }
}

/// A file that cannot be read as a record. It was left as it is.
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
    /// The system does not let us read it.
    #[error("it cannot be read: {why}")]
    Unreadable {
        /// The system's words.
        why: String,
    },
    /// A journal of it cannot be read. What came of it before stays, and the rest is taken up by a later import.
    #[error("its journal {file} cannot be read: {why}")]
    Journal {
        /// The journal's file, without its directory.
        file: String,
        /// The system's words.
        why: String,
    },
    /// It is larger than any record.
    #[error("it has more than {limit} bytes")]
    TooLarge {
        /// The most that is read.
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
    /// It is JSON, and no object.
    #[error("it is not a JSON object")]
    NotAnObject,
    /// It says that it is something else.
    #[error("its schema is {found}, and acpx.session.v1 is known")]
    UnknownSchema {
        /// What it says.
        found: String,
    },
    /// What every record has is missing, empty or of another type.
    #[error("it has no {what}")]
    Missing {
        /// What, with the names it could have.
        what: &'static str,
    },
    /// The working directory depends on where one stands.
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

/// Why an import could not go on. What was taken before stays.
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
    pub fn code(&self) -> &'static str {
        match self {
            Self::Directory { .. } => "IMPORT_DIRECTORY",
            Self::Store(error) => error.code(),
        }
    }

    /// What a person can do next.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Directory { .. } => {
                Some("name the sessions directory of npm acpx, usually ~/.acpx/sessions")
            }
            Self::Store(error) => error.hint(),
        }
    }
}
