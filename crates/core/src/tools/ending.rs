//! How a process is ended, and how it ended.
//!
//! Every step is bounded, the last one too: a process that waits for a dead disk is not even ended by KILL, and
//! nobody waits for it longer than for any other.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::model::AgentEnd;

/// How often something that is dying is looked at.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How much longer than [`GracePeriods::term`] what was killed may take, on a busy machine.
pub(super) const SLACK: Duration = Duration::from_secs(1);

/// How long each step of an end may take.
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

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessExit {
    /// The number it exited with, if it did.
    pub code: Option<i32>,
    /// The number of the signal that ended it, if one did.
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

/// What came of the end of a process and its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum TerminationOutcome {
    /// Nothing of it is left.
    Gone,
    /// It was killed and is there all the same, or one of its group is.
    Left,
}

impl From<TerminationOutcome> for AgentEnd {
    /// The end of an agent that was asked to go.
    fn from(ended: TerminationOutcome) -> Self {
        match ended {
            TerminationOutcome::Gone => Self::Asked,
            TerminationOutcome::Left => Self::Otherwise("it was killed and would not go".to_owned()),
        }
    }
}

/// How far the end has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// The process itself is gone; members of its group may be left.
    Exited(ProcessExit),
    /// No more is done about it.
    Over(ProcessExit, TerminationOutcome),
}

/// Waits for a process to exit, but not for ever.
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

/// Ends a process whose stdin is closed already, and waits until nothing of it is left, or for so long that nothing
/// more can be hoped for.
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
    // Its group is told by the thread that waited for it: TERM, KILL, and as long for each.
    let over = phase.wait_for(|phase| matches!(phase, Phase::Over(..)));
    match timeout((grace.term + SLACK) * 2, over).await.map(|over| over.map(|phase| phase.clone())) {
        Ok(Ok(Phase::Over(_, ended))) => ended,
        _ => TerminationOutcome::Left,
    }
}

#[cfg(test)]
mod tests;
