//! An agent's process: started in a group of its own, its stderr drained, and really gone at the end.
//!
//! The end is stdin closed, then TERM to the whole group, then KILL, each bounded in time; whatever its leader
//! leaves behind in the group gets the same. What even KILL does not end is told, and nobody waits for it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::net::unix::pipe;

use crate::model::{AbsolutePath, AgentError, AgentSpec, ProcessIdentity};

use super::ending::{self, GracePeriods, Phase, ProcessExit, TerminationOutcome};
use super::environment::Environment;
use super::leader::{ChildPipes, Leader};
use super::spawner::{Spawner, StartError};
use super::stderr::{Stderr, StderrTail};

/// How long the last lines of an exited process are waited for.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// A running agent. Whoever drops it without ending it wants it gone now: its group is killed.
#[derive(Debug)]
pub struct AgentProcess {
    leader: Leader,
    stderr: Stderr,
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
        grace: GracePeriods,
    ) -> Result<(Self, Pipes), AgentError> {
        let problem = |error| not_started(agent, cwd, &error);
        let command = command(agent, cwd, environment);
        let (leader, streams) = spawner.start(command, grace).await.map_err(problem)?;
        let (pipes, stderr) = pipes(streams).map_err(StartError::System).map_err(problem)?;
        Ok((Self { leader, stderr: Stderr::drain(stderr), _spawner: spawner.clone() }, pipes))
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
        let is_running = *self.leader.phase.borrow() == Phase::Running;
        self.stderr.last_lines(if is_running { Duration::ZERO } else { LAST_WORDS }).await
    }

    /// What it writes to stderr, to be looked at while it runs.
    pub(crate) fn tail(&self) -> StderrTail {
        self.stderr.tail()
    }

    /// Waits for the process to exit by itself, but not for ever.
    pub async fn exited_within(&mut self, limit: Duration) -> Option<ProcessExit> {
        ending::exited_within(&mut self.leader.phase, limit).await
    }

    /// Waits for its exit, also when it has been ended.
    pub fn exited(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut phase = self.leader.phase.clone();
        // Without a sender nobody waits for the process any more.
        async move { drop(phase.wait_for(|phase| *phase != Phase::Running).await) }
    }

    /// What says how it exited, also when it has been ended; `None` as long as it has not.
    pub fn exit(&self) -> impl Fn() -> Option<ProcessExit> + use<> {
        let phase = self.leader.phase.clone();
        move || match &*phase.borrow() {
            Phase::Running => None,
            Phase::Exited(exit) | Phase::Over(exit, _) => Some(exit.clone()),
        }
    }

    /// Ends it, its stdin being closed already, and returns when nothing of it is left, or when even KILL has not
    /// helped. Then the thread that waits for the process stays, and reaps it whenever it goes.
    pub async fn end(self, grace: GracePeriods) -> TerminationOutcome {
        let mut phase = self.leader.phase.clone();
        ending::end(&mut phase, |signal| self.leader.signal(signal), grace).await
    }
}

fn not_started(agent: &AgentSpec, cwd: &AbsolutePath, error: &StartError) -> AgentError {
    let program = agent.program.clone();
    match error {
        StartError::NoDirectory => {
            AgentError::NoDirectory { agent: agent.label().into_owned(), cwd: cwd.to_string() }
        }
        StartError::System(error) if error.kind() == io::ErrorKind::NotFound => {
            AgentError::NotFound { program }
        }
        StartError::System(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            AgentError::NotExecutable { program }
        }
        _ => AgentError::NotStarted { program, reason: error.to_string() },
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

fn pipes(streams: ChildPipes) -> io::Result<(Pipes, pipe::Receiver)> {
    let missing = || io::Error::other("a pipe is missing");
    let ChildPipes { stdin, stdout, stderr } = streams;
    let stdin = pipe::Sender::from_owned_fd(OwnedFd::from(stdin.ok_or_else(missing)?))?;
    let stdout = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout.ok_or_else(missing)?))?;
    let stderr = pipe::Receiver::from_owned_fd(OwnedFd::from(stderr.ok_or_else(missing)?))?;
    Ok((Pipes { stdin, stdout }, stderr))
}
