//! The exit codes of commands, which are those of npm acpx.

use std::process::ExitCode;

use acpx_core::model::ErrorClass;

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
