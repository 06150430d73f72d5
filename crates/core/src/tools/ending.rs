//! How a process is ended, and how it ended.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// How often something that is dying is looked at.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How long each step of an end may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grace {
    /// After stdin was closed.
    pub eof: Duration,
    /// After TERM.
    pub term: Duration,
}

impl Default for Grace {
    fn default() -> Self {
        Self { eof: Duration::from_secs(2), term: Duration::from_secs(2) }
    }
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit(String);

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Result<ExitStatus>> for Exit {
    fn from(status: io::Result<ExitStatus>) -> Self {
        Self(match status {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit code {code}"),
                (None, Some(signal)) => format!("signal {signal}"),
                (None, None) => status.to_string(),
            },
            Err(error) => error.to_string(),
        })
    }
}

/// How far the end has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// The process itself is gone; members of its group may be left.
    Exited(Exit),
    /// Nothing of it is left.
    Gone(Exit),
}
