//! Why a command stops before it is done.

use std::time::Duration;

use super::CliError;

/// Why a command shall stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InterruptReason {
    /// Its time is over.
    TimedOut(Duration),
    /// A person, or whoever started it, has had enough.
    Signalled,
    /// It is to end, and its turn goes on without it.
    Terminated,
    /// Its terminal is gone, which it outlives: nobody sees what it shows any more.
    HungUp,
}

impl InterruptReason {
    /// The error of a command that was stopped while it did this: words such as "waiting for the host to answer".
    pub(crate) fn while_doing(self, doing: &str) -> CliError {
        match self {
            Self::TimedOut(limit) => CliError::TimedOut { doing: doing.into(), limit },
            Self::Signalled | Self::Terminated | Self::HungUp => CliError::Signalled,
        }
    }
}
