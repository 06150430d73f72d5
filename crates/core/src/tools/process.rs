//! An agent's process: started in a group of its own, its stderr drained, and really gone at the end.
//!
//! The end is stdin closed, then TERM to the whole group, then KILL, each bounded in time; whatever its leader
//! leaves behind in the group gets the same.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tokio::net::unix::pipe;
use tokio::sync::watch;

use crate::model::{AbsolutePath, AgentError, AgentSpec, ProcessIdentity};

use super::ending::{Exit, Grace, Phase};
use super::environment::Environment;
use super::leader::{Leader, Streams};
use super::spawner::Spawner;
use super::stderr::StderrTail;

/// How long the last lines of an exited process are waited for.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// A running agent. Whoever drops it without ending it wants it gone now: its group is killed.
#[derive(Debug)]
pub struct AgentProcess {
    leader: Leader,
    stderr: StderrTail,
    drained: watch::Receiver<bool>,
    /// The thread that started an agent must live as long as the agent.
    _spawner: Spawner,
}

/// The two ends we hold of its pipes.
pub struct Pipes {
    /// To its stdin.
    pub stdin: pipe::Sender,
    /// From its stdout.
    pub stdout: pipe::Receiver,
}

impl AgentProcess {
    /// Starts an agent in a directory. To be called inside a tokio runtime; dropped half-way, it leaves no process.
    pub async fn spawn(
        spawner: &Spawner,
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
        let command = command(agent, cwd, environment);
        let (leader, streams) = spawner.start(command, grace).await.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => AgentError::NotFound { program: agent.program.clone() },
            io::ErrorKind::PermissionDenied => AgentError::NotExecutable { program: agent.program.clone() },
            _ => not_started(&error),
        })?;
        let (pipes, stderr) = pipes(streams).map_err(|error| not_started(&error))?;
        let (told_drained, drained) = watch::channel(false);
        let tail = StderrTail::default();
        let process = Self { leader, stderr: tail.clone(), drained, _spawner: spawner.clone() };
        // It ends with the pipe, which ends with the last process that holds it.
        tokio::spawn(async move {
            tail.drain(stderr).await;
            told_drained.send_replace(true);
        });
        Ok((process, pipes))
    }

    /// Its process id, which is its group's too.
    pub fn pid(&self) -> u32 {
        self.leader.identity().pid
    }

    /// Which process it is, for whoever has to find it again.
    pub fn identity(&self) -> &ProcessIdentity {
        self.leader.identity()
    }

    /// Whether it still runs, by what the system says this moment.
    pub fn is_running(&self) -> bool {
        *self.leader.phase.borrow() == Phase::Running && self.identity().is_alive()
    }

    /// The last lines it wrote to stderr. If it has exited, they are waited for, a moment.
    pub async fn last_words(&mut self) -> Vec<String> {
        if *self.leader.phase.borrow() != Phase::Running {
            let drained = self.drained.wait_for(|drained| *drained);
            drop(tokio::time::timeout(LAST_WORDS, drained).await);
        }
        self.stderr.last_lines()
    }

    /// Waits for the process to exit by itself, but not for ever.
    pub async fn exited_within(&mut self, limit: Duration) -> Option<Exit> {
        let exited = self.leader.phase.wait_for(|phase| *phase != Phase::Running);
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
            self.leader.signal(Signal::TERM);
            if self.exited_within(grace.term).await.is_none() {
                self.leader.signal(Signal::KILL);
            }
        }
        // The thread that waits ends in bounded time after a KILL; if it is gone, so is the process.
        drop(self.leader.phase.wait_for(|phase| matches!(phase, Phase::Gone(_))).await);
    }
}

fn command(agent: &AgentSpec, cwd: &AbsolutePath, environment: &Environment) -> Command {
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
    command
}

fn pipes(streams: Streams) -> io::Result<(Pipes, pipe::Receiver)> {
    let stdin = pipe::Sender::from_owned_fd(OwnedFd::from(streams.stdin))?;
    let stdout = pipe::Receiver::from_owned_fd(OwnedFd::from(streams.stdout))?;
    let stderr = pipe::Receiver::from_owned_fd(OwnedFd::from(streams.stderr))?;
    Ok((Pipes { stdin, stdout }, stderr))
}
