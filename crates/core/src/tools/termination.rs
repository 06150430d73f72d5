//! How a process is ended, and how it exited.
//!
//! Every step has a time limit, including the last: a process that waits for an unresponsive disk survives even KILL,
//! and is not waited for longer than any other.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::model::{AgentEnd, ProcessIdentity};

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
            TerminationOutcome::Left => Self::Otherwise("it survived SIGKILL".to_owned()),
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

/// Signals a process if it is still running.
#[cfg(target_os = "linux")]
pub(crate) fn signal_process(process: &ProcessIdentity, signal: Signal) {
    use rustix::io::Errno;
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

    let Some(pid) = pid_of(process) else { return };
    // A process that has exited by now needs no signal.
    match pidfd_open(pid, PidfdFlags::empty()) {
        // The pidfd pins the process, so checking first and signalling after is safe.
        Ok(held) => {
            if process.is_alive() {
                let _ = pidfd_send_signal(&held, signal);
            }
        }
        Err(Errno::SRCH) => {}
        // An old kernel, or no free descriptor: check immediately before the signal.
        Err(_) => {
            if process.is_alive() {
                let _ = kill_process(pid, signal);
            }
        }
    }
}

/// Signals a process if it is still running, as far as the system can identify it.
#[cfg(not(target_os = "linux"))]
pub(crate) fn signal_process(process: &ProcessIdentity, signal: Signal) {
    if let Some(pid) = pid_of(process).filter(|_| process.is_alive()) {
        // A process that has exited by now needs no signal.
        let _ = kill_process(pid, signal);
    }
}

fn pid_of(process: &ProcessIdentity) -> Option<Pid> {
    i32::try_from(process.pid).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests;
