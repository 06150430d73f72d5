//! How a process is ended, and how it exited.
//!
//! Every step has a time limit, including the last: a process that waits for an unresponsive disk survives even KILL,
//! and is not waited for longer than any other.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::model::AgentEnd;

/// Poll interval for a process that is being ended.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Extra time after KILL, in addition to [`GracePeriods::term`], for a busy machine.
pub(super) const SLACK: Duration = Duration::from_secs(1);

/// The time limit of each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GracePeriods {
    /// After stdin was closed.
    pub eof: Duration,
    /// After TERM, and again after KILL.
    pub term: Duration,
}

impl Default for GracePeriods {
    fn default() -> Self {
        Self { eof: Duration::from_secs(2), term: Duration::from_secs(2) }
    }
}

/// How a process exited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessExit {
    /// Its exit code, if it exited by itself.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    words: String,
}

impl std::fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words)
    }
}

impl From<io::Result<ExitStatus>> for ProcessExit {
    fn from(status: io::Result<ExitStatus>) -> Self {
        match status {
            Ok(status) => {
                let (code, signal) = (status.code(), status.signal());
                let words = match (code, signal) {
                    (Some(code), _) => format!("exit code {code}"),
                    (None, Some(signal)) => format!("signal {signal}"),
                    (None, None) => status.to_string(),
                };
                Self { code, signal, words }
            }
            Err(error) => Self { code: None, signal: None, words: error.to_string() },
        }
    }
}

/// The result of ending a process and its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum TerminationOutcome {
    /// Everything has exited.
    Gone,
    /// The process or a member of its group survived KILL.
    Left,
}

impl From<TerminationOutcome> for AgentEnd {
    /// The end of an agent that we asked to exit.
    fn from(ended: TerminationOutcome) -> Self {
        match ended {
            TerminationOutcome::Gone => Self::Asked,
            TerminationOutcome::Left => Self::Otherwise("it was killed and would not go".to_owned()),
        }
    }
}

/// The progress of the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// The process itself has exited; members of its group may be left.
    Exited(ProcessExit),
    /// Nothing more is done.
    Over(ProcessExit, TerminationOutcome),
}

/// Waits for a process to exit, up to a limit.
pub(super) async fn exited_within(
    phase: &mut watch::Receiver<Phase>,
    limit: Duration,
) -> Option<ProcessExit> {
    match timeout(limit, phase.wait_for(|phase| *phase != Phase::Running)).await {
        Ok(Ok(phase)) => match &*phase {
            Phase::Running => None,
            Phase::Exited(exit) | Phase::Over(exit, _) => Some(exit.clone()),
        },
        _ => None,
    }
}

/// Ends a process whose stdin is closed already, and waits until its group has exited or all limits have passed.
pub(super) async fn end(
    phase: &mut watch::Receiver<Phase>,
    signal: impl Fn(Signal),
    grace: GracePeriods,
) -> TerminationOutcome {
    if exited_within(phase, grace.eof).await.is_none() {
        signal(Signal::TERM);
        if exited_within(phase, grace.term).await.is_none() {
            signal(Signal::KILL);
            if exited_within(phase, grace.term + SLACK).await.is_none() {
                return TerminationOutcome::Left;
            }
        }
    }
    // The thread that waited for the leader ends its group: TERM, then KILL, with the same limit for each.
    let over = phase.wait_for(|phase| matches!(phase, Phase::Over(..)));
    match timeout((grace.term + SLACK) * 2, over).await.map(|over| over.map(|phase| phase.clone())) {
        Ok(Ok(Phase::Over(_, ended))) => ended,
        _ => TerminationOutcome::Left,
    }
}

#[cfg(test)]
mod tests;
