//! The leader of an agent's process group: forked, waited for, and reaped only after its group was signalled.
//!
//! A dedicated thread waits for the leader, so that its exit is noticed at once. The group is signalled only while its
//! id cannot have been reused: before the leader is reaped, or while members are left.

use std::io;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use rustix::process::{kill_process_group, test_kill_process_group, waitid};
use tokio::sync::watch;

use crate::model::ProcessIdentity;
use crate::sync::Lock;

use super::children;
use super::termination::{GracePeriods, POLL_INTERVAL, Phase, ProcessExit, SLACK, TerminationOutcome};

/// A process that leads a group. Dropping it kills the group.
#[derive(Debug)]
pub(super) struct Leader {
    identity: ProcessIdentity,
    group: Group,
    pub(super) phase: watch::Receiver<Phase>,
}

/// The pipes to a process, as far as its command requested them.
#[derive(Debug)]
pub(super) struct ChildPipes {
    pub(super) stdin: Option<std::process::ChildStdin>,
    pub(super) stdout: Option<std::process::ChildStdout>,
    pub(super) stderr: Option<std::process::ChildStderr>,
}

impl Leader {
    /// Forks the command from this thread. The command must start its own process group.
    pub(super) fn start(command: &mut Command, grace: GracePeriods) -> io::Result<(Self, ChildPipes)> {
        // The waiting thread exists before the process, so that no process is left without one.
        let (hand_over, handed_over) = sync_channel::<(Child, Group)>(1);
        let (phase_sender, phase) = watch::channel(Phase::Running);
        std::thread::Builder::new().name("agent-wait".into()).spawn(move || {
            if let Ok((child, group)) = handed_over.recv() {
                group.wait_for(child, grace, &phase_sender);
            }
        })?;
        let mut child = children::start(command)?;
        let streams = ChildPipes {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
        };
        let id = child.id();
        // It cannot have been reaped yet, so this is the process we started, dead or alive.
        let identity = ProcessIdentity::of(id).unwrap_or_else(|| ProcessIdentity::unknown(id));
        let group = Group::of(&child);
        // The thread waits only for this message, so it is alive.
        drop(hand_over.send((child, group.clone())));
        Ok((Self { identity, group, phase }, streams))
    }

    /// The process's identity.
    pub(super) fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    /// Signals the whole group, unless its id may have been reused.
    pub(super) fn signal(&self, signal: Signal) {
        self.group.signal(signal);
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// The process group of a child of ours.
#[derive(Debug, Clone)]
struct Group {
    id: Pid,
    /// Whether the leader has been reaped, so that its id may be reused.
    reaped: Arc<Lock<bool>>,
}

impl Group {
    fn of(leader: &Child) -> Self {
        let id = i32::try_from(leader.id()).ok().and_then(Pid::from_raw);
        let id = id.expect("the system's process ids are positive and fit its own type");
        Self { id, reaped: Arc::new(Lock::new(false)) }
    }

    fn signal(&self, signal: Signal) {
        let reaped = self.reaped.lock();
        if !*reaped {
            // Fails if the whole group has just exited.
            let _ = kill_process_group(self.id, signal);
        }
    }

    /// Waits for the leader, publishes its exit, and ends what it left in its group.
    fn wait_for(&self, mut leader: Child, grace: GracePeriods, phase_sender: &watch::Sender<Phase>) {
        // Notices the exit without reaping the leader: until it is reaped, its id cannot be reused.
        while let Err(rustix::io::Errno::INTR) =
            waitid(WaitId::Pid(self.id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        {}
        let _ = kill_process_group(self.id, Signal::TERM);
        let exit = {
            let mut reaped = self.reaped.lock();
            *reaped = true;
            ProcessExit::from(children::reap(&mut leader))
        };
        phase_sender.send_replace(Phase::Exited(exit.clone()));
        let mut is_gone = self.exits_within(grace.term);
        if !is_gone {
            let _ = kill_process_group(self.id, Signal::KILL);
            is_gone = self.exits_within(grace.term + SLACK);
        }
        phase_sender.send_replace(Phase::Over(
            exit,
            if is_gone { TerminationOutcome::Gone } else { TerminationOutcome::Left },
        ));
    }

    fn exits_within(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while test_kill_process_group(self.id).is_ok() && self.has_living_members() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        true
    }

    /// Whether the group has a member that is not a zombie. Where orphans are not reaped, as in many containers,
    /// zombies stay members forever.
    #[cfg(target_os = "linux")]
    fn has_living_members(&self) -> bool {
        let group = self.id.as_raw_nonzero().get().unsigned_abs();
        let is_member = |stat: &super::stat::Stat| !stat.is_dead && stat.group == group;
        super::stat::Stat::all().map_or(true, |processes| processes.iter().any(is_member))
    }

    #[cfg(not(target_os = "linux"))]
    fn has_living_members(&self) -> bool {
        true
    }
}
