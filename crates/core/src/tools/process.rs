//! An agent's process: started in a group of its own, its stderr drained, and really gone at the end.
//!
//! The end is stdin closed, then TERM to the whole group, then KILL, each bounded in time; whatever its
//! leader leaves behind in the group gets the same. A thread of its own waits for the process, so that its
//! exit is known at once, and the group is signalled while its id cannot belong to anyone else: before the
//! leader is reaped, or while members are left.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use rustix::process::{kill_process_group, test_kill_process_group, waitid};
use tokio::net::unix::pipe;
use tokio::sync::watch;

use crate::model::{AbsolutePath, AgentError, AgentSpec};

use super::stderr::StderrTail;

/// The environment an agent is started with, whole. Nothing is inherited, and nobody prints it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    /// Its variables: name and value.
    pub fn variables(&self) -> &[(OsString, OsString)] {
        &self.0
    }
}

impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// How long the last lines of an exited process are waited for.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// How often a dying group is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

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
enum Phase {
    Running,
    /// The process itself is gone; members of its group may be left.
    Exited(Exit),
    /// Nothing of it is left.
    Gone(Exit),
}

/// A running agent.
#[derive(Debug)]
pub struct AgentProcess {
    group: Pid,
    stderr: StderrTail,
    drained: watch::Receiver<bool>,
    phase: watch::Receiver<Phase>,
    /// Whether the process has been reaped, so that its id may be anyone's.
    reaped: Arc<Mutex<bool>>,
}

/// The two ends we hold of its pipes.
pub struct Pipes {
    /// To its stdin.
    pub stdin: pipe::Sender,
    /// From its stdout.
    pub stdout: pipe::Receiver,
}

impl AgentProcess {
    /// Starts an agent in a directory. To be called inside a tokio runtime.
    pub fn spawn(
        agent: &AgentSpec,
        cwd: &AbsolutePath,
        environment: &Environment,
        grace: Grace,
    ) -> Result<(Self, Pipes), AgentError> {
        let not_started = |error: &io::Error| AgentError::NotStarted {
            program: agent.program.clone(),
            reason: error.to_string(),
        };
        if !cwd.as_path().is_dir() {
            let (agent, cwd) = (agent.label().to_owned(), cwd.to_string());
            return Err(AgentError::NoDirectory { agent, cwd });
        }
        let mut command = Command::new(&agent.program);
        command
            .args(&agent.args)
            .env_clear()
            .envs(environment.variables().iter().map(|(name, value)| (name, value)))
            .current_dir(cwd.as_path())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => AgentError::NotFound { program: agent.program.clone() },
            io::ErrorKind::PermissionDenied => AgentError::NotExecutable { program: agent.program.clone() },
            _ => not_started(&error),
        })?;
        let group = group_of(&child).ok_or_else(|| not_started(&io::Error::other("it has no process id")))?;
        let pipes = take_pipes(&mut child);
        let (told, phase) = watch::channel(Phase::Running);
        let (told_drained, drained) = watch::channel(false);
        let (stderr, reaped) = (StderrTail::default(), Arc::new(Mutex::new(false)));
        let process = Self { group, stderr, drained, phase, reaped: Arc::clone(&reaped) };
        std::thread::Builder::new()
            .name(format!("agent-{}", group.as_raw_nonzero()))
            .spawn(move || reap(child, group, grace, &told, &reaped))
            .map_err(|error| not_started(&error))?;
        let (pipes, stderr) = pipes.map_err(|error| not_started(&error))?;
        let tail = process.stderr.clone();
        // It ends with the pipe, which ends with the last process that holds it.
        tokio::spawn(async move {
            tail.drain(stderr).await;
            told_drained.send_replace(true);
        });
        Ok((process, pipes))
    }

    /// Its process id, which is its group's too.
    pub fn pid(&self) -> u32 {
        self.group.as_raw_nonzero().get().unsigned_abs()
    }

    /// The last lines it wrote to stderr. If it has exited, they are waited for, a moment.
    pub async fn last_words(&mut self) -> Vec<String> {
        if *self.phase.borrow() != Phase::Running {
            let drained = self.drained.wait_for(|drained| *drained);
            drop(tokio::time::timeout(LAST_WORDS, drained).await);
        }
        self.stderr.last_lines()
    }

    /// Waits for the process to exit by itself, but not for ever.
    pub async fn exited_within(&mut self, limit: Duration) -> Option<Exit> {
        let exited = self.phase.wait_for(|phase| *phase != Phase::Running);
        match tokio::time::timeout(limit, exited).await {
            Ok(Ok(phase)) => match &*phase {
                Phase::Running => None,
                Phase::Exited(exit) | Phase::Gone(exit) => Some(exit.clone()),
            },
            _ => None,
        }
    }

    /// Ends it, its stdin being closed already, and returns when nothing of it is left.
    pub async fn end(mut self, grace: Grace) {
        if self.exited_within(grace.eof).await.is_none() {
            self.signal(Signal::TERM);
            if self.exited_within(grace.term).await.is_none() {
                self.signal(Signal::KILL);
            }
        }
        // The thread that waits ends in bounded time after a KILL; if it is gone, so is the process.
        drop(self.phase.wait_for(|phase| matches!(phase, Phase::Gone(_))).await);
    }

    fn signal(&self, signal: Signal) {
        let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if !*reaped {
            // All of it may have exited this moment; then there is nobody to tell.
            let _ = kill_process_group(self.group, signal);
        }
    }
}

impl Drop for AgentProcess {
    /// Whoever drops an agent without ending it wants it gone now.
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

fn group_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

fn take_pipes(child: &mut Child) -> io::Result<(Pipes, pipe::Receiver)> {
    let missing = || io::Error::other("a pipe is missing");
    let stdin = OwnedFd::from(child.stdin.take().ok_or_else(missing)?);
    let stdout = OwnedFd::from(child.stdout.take().ok_or_else(missing)?);
    let stderr = OwnedFd::from(child.stderr.take().ok_or_else(missing)?);
    let pipes =
        Pipes { stdin: pipe::Sender::from_owned_fd(stdin)?, stdout: pipe::Receiver::from_owned_fd(stdout)? };
    Ok((pipes, pipe::Receiver::from_owned_fd(stderr)?))
}

/// Waits for the process, tells its exit, and ends what it left in its group.
fn reap(mut child: Child, group: Pid, grace: Grace, told: &watch::Sender<Phase>, reaped: &Mutex<bool>) {
    // The exit is seen before the process is reaped: until then its id is nobody else's.
    while let Err(rustix::io::Errno::INTR) =
        waitid(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
    {}
    let _ = kill_process_group(group, Signal::TERM);
    let exit = {
        let mut reaped = reaped.lock().unwrap_or_else(PoisonError::into_inner);
        *reaped = true;
        Exit::from(child.wait())
    };
    told.send_replace(Phase::Exited(exit.clone()));
    if !group_is_gone_within(group, grace.term) {
        let _ = kill_process_group(group, Signal::KILL);
        group_is_gone_within(group, grace.term);
    }
    told.send_replace(Phase::Gone(exit));
}

fn group_is_gone_within(group: Pid, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    while test_kill_process_group(group).is_ok() && has_living_members(group) {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    true
}

/// Whether anyone in a group is more than a zombie. Where nobody reaps orphans, as in many containers, the
/// dead stay members of their group for good.
#[cfg(target_os = "linux")]
fn has_living_members(group: Pid) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return true };
    let stat =
        |entry: io::Result<std::fs::DirEntry>| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok();
    processes.filter_map(stat).any(|stat| is_living_member(&stat, group))
}

#[cfg(not(target_os = "linux"))]
fn has_living_members(_: Pid) -> bool {
    true
}

/// Reads a line of `/proc/<pid>/stat`: after the name in brackets come state, parent and group.
#[cfg(target_os = "linux")]
fn is_living_member(stat: &str, group: Pid) -> bool {
    let Some((_, facts)) = stat.rsplit_once(')') else { return false };
    let mut facts = facts.split_ascii_whitespace();
    let (state, member_of) = (facts.next(), facts.nth(1));
    let is_dead = matches!(state, Some("Z" | "X"));
    !is_dead && member_of.and_then(|text| text.parse().ok()).and_then(Pid::from_raw) == Some(group)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_dead_are_no_living_members_whatever_they_are_called() {
        let group = Pid::from_raw(7).unwrap();
        assert!(is_living_member("9 (a) b) S 1 7 7 0", group));
        assert!(!is_living_member("9 (sleep) Z 1 7 7 0", group));
        assert!(!is_living_member("9 (sleep) S 1 8 7 0", group));
        assert!(!is_living_member("", group));
    }
}
