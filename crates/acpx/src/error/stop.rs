//! Why a command stops before it has finished.

use std::time::Duration;

use super::CliError;

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
