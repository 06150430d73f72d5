//! The exit codes of commands, which are those of npm acpx.

use std::process::ExitCode;
use std::time::Duration;

use acpx_core::model::{ErrorClass, ErrorCode, SessionIdentity};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{CliError, cli_hint};

/// The exit status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CliExit {
    /// It succeeded; also for a turn that was cancelled or refused.
    Success,
    /// An error without a status of its own.
    Failure,
    /// The command line is invalid.
    Usage,
    /// A time limit passed.
    Timeout,
    /// The session does not exist.
    NoSession,
    /// The agent requested permissions and all were denied.
    PermissionDenied,
    /// A session that was waited for needs the user before it becomes idle.
    NeedsUser,
    /// With `--exit-by-stop-reason`: the agent stopped at its token limit.
    MaxTokens,
    /// The same: at its limit of requests to the model.
    MaxTurnRequests,
    /// The same: it refused to go on.
    Refusal,
    /// The same: the turn was cancelled.
    Cancelled,
    /// The same: for a reason that acpx does not know.
    OtherStop,
    /// A signal ended the command.
    Interrupted,
}

impl CliExit {
    /// The exit code.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::Timeout => 3,
            Self::NoSession => 4,
            Self::PermissionDenied => 5,
            Self::NeedsUser => 6,
            Self::MaxTokens => 10,
            Self::MaxTurnRequests => 11,
            Self::Refusal => 12,
            Self::Cancelled => 13,
            Self::OtherStop => 14,
            Self::Interrupted => 130,
        }
    }

    /// The status of a turn that ended without an error, by the agent's stop reason.
    pub(crate) fn of_stop_reason(reason: &str) -> Self {
        match reason {
            "end_turn" => Self::Success,
            "max_tokens" => Self::MaxTokens,
            "max_turn_requests" => Self::MaxTurnRequests,
            "refusal" => Self::Refusal,
            "cancelled" => Self::Cancelled,
            _ => Self::OtherStop,
        }
    }
}

impl From<CliExit> for ExitCode {
    fn from(exit: CliExit) -> Self {
        Self::from(exit.number())
    }
}

impl From<ErrorClass> for CliExit {
    fn from(class: ErrorClass) -> Self {
        match class {
            ErrorClass::NoSession => Self::NoSession,
            ErrorClass::Timeout => Self::Timeout,
            ErrorClass::PermissionDenied | ErrorClass::PromptUnavailable => Self::PermissionDenied,
            ErrorClass::ExecDisabled | ErrorClass::Runtime => Self::Failure,
            ErrorClass::Interrupted => Self::Interrupted,
            ErrorClass::Usage => Self::Usage,
        }
    }
}

/// Why a command must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InterruptReason {
    /// Its time limit passed.
    TimedOut(Duration),
    /// The user or the parent process interrupted it.
    Signalled,
    /// It was asked to terminate; its turn continues in the host.
    Terminated,
    /// Its terminal closed. The command continues, but its output is not visible any more.
    HungUp,
}

impl InterruptReason {
    /// The error of a command that was stopped while doing this, such as "waiting for the host to answer".
    pub(crate) fn while_doing(self, doing: &str) -> CliError {
        match self {
            Self::TimedOut(limit) => CliError::TimedOut { doing: doing.into(), limit },
            Self::Signalled | Self::Terminated | Self::HungUp => CliError::Signalled,
        }
    }
}

/// The component that detected an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    /// The command.
    Cli,
    /// The session or the store.
    Runtime,
    /// The queue of prompts.
    Queue,
    /// The agent.
    Acp,
}

/// An error ready to be rendered.
#[derive(Debug, Clone)]
pub(crate) struct ErrorReport {
    pub(crate) class: ErrorClass,
    /// The stable code.
    pub(crate) code: ErrorCode,
    /// What failed, with its causes.
    pub(crate) message: String,
    /// What the user can do next.
    pub(crate) hint: Option<String>,
    pub(crate) origin: Origin,
    pub(crate) retryable: bool,
    /// The ids of the session concerned, rendered as JSON members of their own.
    pub(crate) identity: Option<SessionIdentity>,
    /// The agent's own error object.
    pub(crate) acp: Option<Box<RawValue>>,
}

impl ErrorReport {
    /// The error of a turn, with the usual hint of its code.
    pub(crate) fn of_turn(code: ErrorCode, message: String, acp: Option<&str>) -> Self {
        Self {
            class: code.class(),
            message,
            hint: cli_hint(&code, code.hint()),
            origin: if acp.is_some() { Origin::Acp } else { Origin::Runtime },
            retryable: code.is_retryable(),
            code,
            identity: None,
            acp: acp.and_then(|json| serde_json::from_str(json).ok()),
        }
    }
}

impl From<&CliError> for ErrorReport {
    fn from(error: &CliError) -> Self {
        let code = error.code();
        Self {
            class: error.class(),
            retryable: code.is_retryable(),
            code,
            message: error.message(),
            hint: error.hint().map(Into::into),
            origin: error.origin(),
            identity: error.identity().cloned(),
            acp: error.acp().and_then(|json| serde_json::from_str(json).ok()),
        }
    }
}
