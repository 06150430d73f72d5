//! Errors of the engine's API, and why a session's task has ended, for callers that still hold its handle: the store's
//! error, a deleted record, or else a shutdown.

use std::borrow::Cow;
use std::sync::Arc;

use crate::model::{
    AbsolutePath, AcpSessionId, AgentError, ErrorCode, LimitReached, RecordId, RequestId, SettingError,
    command_line,
};
use crate::store::StoreError;
use crate::sync::Lock;

/// Why a session could not fulfil a request. Persisted data stays.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The agent failed or refused.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The store failed to persist something.
    #[error(transparent)]
    Store(Arc<StoreError>),
    /// The record does not exist.
    #[error("there is no record {0}")]
    NoRecord(RecordId),
    /// The working directory cannot be used.
    #[error("cannot work in {cwd}: {reason}")]
    Directory {
        /// The directory.
        cwd: AbsolutePath,
        /// The reason.
        reason: String,
    },
    /// A client asked for a session in another directory than the session's.
    #[error("the session {record} works in {cwd}, and was asked for in {asked_by}")]
    WorksElsewhere {
        /// The record.
        record: RecordId,
        /// Its working directory, as it was given.
        cwd: AbsolutePath,
        /// The path in the client's request.
        asked_by: AbsolutePath,
    },
    /// The prompt cannot be sent.
    #[error(transparent)]
    Prompt(#[from] PromptProblem),
    /// The setting is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The record already has a prompt with this request id.
    #[error("the record {record} has had a prompt with the request id {request}")]
    RequestExists {
        /// The record.
        record: RecordId,
        /// The request id.
        request: RequestId,
    },
    /// The turns of the session have reached a limit of the prompt.
    #[error("the prompt for the record {record} is refused: {reached}")]
    LimitReached {
        /// The record.
        record: RecordId,
        /// The limit.
        reached: LimitReached,
    },
    /// Too many requests are pending, or too many lines wait for the agent to read them.
    #[error("too many requests wait for the record {0}")]
    QueueFull(RecordId),
    /// As many prompts wait as may.
    #[error("the queue of the record {record} is full: at most {limit} prompts may wait")]
    PromptQueueFull {
        /// The record.
        record: RecordId,
        /// How many may wait.
        limit: usize,
    },
    /// The session is being closed.
    #[error("the record {0} is being closed")]
    Closing(RecordId),
    /// The session has a running or queued turn.
    #[error("the record {0} has a turn that runs or waits")]
    Busy(RecordId),
    /// The ACP session is not in the record's lineage.
    #[error("the record {record} has no ACP session {session} in its lineage")]
    NotInLineage {
        /// The record.
        record: RecordId,
        /// The ACP session.
        session: AcpSessionId,
    },
    /// The conversation is too long to copy.
    #[error("the conversation of the record {record} has more than {limit} bytes and cannot be copied")]
    TooLong {
        /// The record.
        record: RecordId,
        /// The limit in bytes.
        limit: usize,
    },
    /// The engine was shut down.
    #[error("the session of the record {0} was shut down")]
    ShutDown(RecordId),
}

/// Why a prompt is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptProblem {
    /// It is not a list of content blocks.
    #[error("the prompt is no JSON array of content blocks")]
    NoBlocks,
    /// It is empty.
    #[error("the prompt is empty")]
    Empty,
    /// It does not fit into one line of the protocol.
    #[error("the prompt is longer than {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
}

/// Why a session's task ended, shared with its handles.
#[derive(Debug, Default, Clone)]
pub(crate) struct ExitReasonCell(Arc<Lock<Option<ExitReason>>>);

/// A permanent end of a session.
#[derive(Debug)]
pub(crate) enum ExitReason {
    /// The store failed to persist something.
    Failed(Arc<StoreError>),
    /// The record was deleted.
    Deleted,
}

impl SessionError {
    /// The stable code of this error.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Agent(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::NoRecord(_) => ErrorCode::NoSession,
            Self::Directory { .. } => ErrorCode::BadDirectory,
            Self::WorksElsewhere { .. } => ErrorCode::SessionWorksElsewhere,
            Self::Prompt(_) => ErrorCode::BadPrompt,
            Self::Setting(error) => error.code(),
            Self::RequestExists { .. } => ErrorCode::RequestExists,
            Self::LimitReached { reached, .. } => reached.code(),
            Self::QueueFull(_) => ErrorCode::QueueFull,
            Self::PromptQueueFull { .. } => ErrorCode::QueueOwnerOverloaded,
            Self::Closing(_) => ErrorCode::SessionClosing,
            Self::Busy(_) => ErrorCode::SessionBusy,
            Self::NotInLineage { .. } => ErrorCode::NotInLineage,
            Self::TooLong { .. } => ErrorCode::SessionTooLong,
            Self::ShutDown(_) => ErrorCode::ShutDown,
        }
    }

    /// A hint for the user.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Setting(error) => Some(error.hint().into()),
            Self::Agent(AgentError::DirectoryMoved { record, .. }) => {
                self.code().hint().map(|hint| self.code().fill_record(hint, record).into())
            }
            Self::WorksElsewhere { record, cwd, asked_by } => {
                let words = ["sessions", "move", record.as_str(), "--cwd", asked_by.as_str()];
                let moving = command_line("acpx", words);
                Some(format!("open it in {cwd}; if its project has moved: {moving}").into())
            }
            Self::Agent(error) => error.hint().map(Into::into),
            Self::Directory { .. } => Some("name a directory that exists".into()),
            _ => self.code().hint().map(Into::into),
        }
    }
}

impl From<StoreError> for SessionError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoRecord(record) => Self::NoRecord(record),
            StoreError::RequestExists { record, request } => Self::RequestExists { record, request },
            other => Self::Store(Arc::new(other)),
        }
    }
}

impl ExitReasonCell {
    pub(crate) fn set(&self, reason: ExitReason) {
        *self.0.lock() = Some(reason);
    }

    /// The error for a command to the ended session of this record.
    pub(crate) fn error(&self, record: &RecordId) -> SessionError {
        match &*self.0.lock() {
            Some(ExitReason::Failed(error)) => SessionError::Store(error.clone()),
            Some(ExitReason::Deleted) => SessionError::NoRecord(record.clone()),
            None => SessionError::ShutDown(record.clone()),
        }
    }
}
