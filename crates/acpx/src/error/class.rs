//! Coarse error classes, with the codes and exit codes that npm acpx uses.

use std::process::ExitCode;

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
            Self::Interrupted => 130,
        }
    }
}

impl From<CliExit> for ExitCode {
    fn from(exit: CliExit) -> Self {
        Self::from(exit.number())
    }
}

/// The class of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    NoSession,
    Timeout,
    PermissionDenied,
    /// A permission was requested, and no client could answer.
    PromptUnavailable,
    ExecDisabled,
    Runtime,
    /// A signal ended the command.
    Interrupted,
    Usage,
}

impl ErrorClass {
    /// The class of a stable code.
    pub(crate) fn of(code: &str) -> Self {
        match code {
            "NO_SESSION" | "NO_QUESTION" => Self::NoSession,
            "TIMEOUT" | "QUEUE_TIMEOUT" | "IDLE_TIMEOUT" | "AGENT_START_TIMEOUT" | "AGENT_UNRESPONSIVE" => {
                Self::Timeout
            }
            "PERMISSION_DENIED" => Self::PermissionDenied,
            "PERMISSION_PROMPT_UNAVAILABLE" => Self::PromptUnavailable,
            "EXEC_DISABLED" => Self::ExecDisabled,
            "SIGNALLED" => Self::Interrupted,
            "USAGE" | "NO_OPTION" | "BAD_PROMPT" | "CONTENT_UNSUPPORTED" | "PUBLIC_ADDRESS" | "BAD_URL" => {
                Self::Usage
            }
            _ => Self::Runtime,
        }
    }

    /// The class's name, `acpxCode` in JSON.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::NoSession => "NO_SESSION",
            Self::Timeout => "TIMEOUT",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::PromptUnavailable => "PERMISSION_PROMPT_UNAVAILABLE",
            Self::ExecDisabled => "EXEC_DISABLED",
            Self::Runtime | Self::Interrupted => "RUNTIME",
            Self::Usage => "USAGE",
        }
    }

    /// The class's JSON-RPC error code.
    pub(crate) fn rpc_code(self) -> i32 {
        match self {
            Self::NoSession => -32002,
            Self::Timeout => -32070,
            Self::PermissionDenied => -32071,
            Self::PromptUnavailable => -32072,
            Self::ExecDisabled | Self::Runtime | Self::Interrupted => -32603,
            Self::Usage => -32602,
        }
    }

    /// The exit status of a command that fails with it.
    pub(crate) fn exit(self) -> CliExit {
        match self {
            Self::NoSession => CliExit::NoSession,
            Self::Timeout => CliExit::Timeout,
            Self::PermissionDenied | Self::PromptUnavailable => CliExit::PermissionDenied,
            Self::ExecDisabled | Self::Runtime => CliExit::Failure,
            Self::Interrupted => CliExit::Interrupted,
            Self::Usage => CliExit::Usage,
        }
    }
}

/// Whether the same command may succeed later without any change.
pub(crate) fn is_retryable(code: &str) -> bool {
    matches!(
        code,
        "STORE_LOCKED"
            | "QUEUE_FULL"
            | "SESSION_BUSY"
            | "SESSION_BUSY_ELSEWHERE"
            | "SESSION_NOT_RESTORED"
            | "SESSION_CLOSING"
            | "SHUT_DOWN"
            | "HOST_LOST"
            | "HOST_SILENT"
            | "QUEUE_TIMEOUT"
            | "AGENT_START_TIMEOUT"
            | "AGENT_UNRESPONSIVE"
            | "AGENT_DIED"
            | "DIRECTORY_SILENT"
            | "HELD_BY_NPM_ACPX"
    )
}
