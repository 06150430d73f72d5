//! An agent's process: runs in its own process group, its stderr is drained, and the whole group is ended with it.
//!
//! To end it: close stdin, then TERM to the whole group, then KILL, each with a time limit. Members that outlive the
//! leader get the same. If even KILL fails, this is reported and not waited for.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::net::unix::pipe;

use crate::model::{AbsolutePath, AgentError, AgentSpec, ProcessIdentity};

use super::environment::Environment;
use super::leader::{ChildPipes, Leader};
use super::spawner::{Spawner, StartError};
use super::stderr::{Stderr, StderrTail};
use super::termination;
use super::termination::{GracePeriods, Phase, ProcessExit, TerminationOutcome};

/// How long to wait for the last stderr lines of an exited process.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// A running agent. Dropping it kills its process group.
#[derive(Debug)]
pub struct AgentProcess {
    leader: Leader,
    stderr: Stderr,
    /// The thread that started the agent must live as long as the agent.
    _spawner: Spawner,
}

/// Our ends of the agent's pipes.
pub struct Pipes {
    /// Its stdin.
    pub stdin: pipe::Sender,
    /// Its stdout.
    pub stdout: pipe::Receiver,
}

impl AgentProcess {
    /// Starts an agent in a directory. Must be called inside a tokio runtime; dropping the future leaves no process.
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

    /// Its process id, which is also its process group.
    pub fn pid(&self) -> u32 {
        self.leader.identity().pid
    }

    /// The process's identity, to find it again later.
    pub fn identity(&self) -> &ProcessIdentity {
        self.leader.identity()
    }

    /// Whether it is running, as the system reports it now.
    pub(crate) fn is_running(&self) -> bool {
        *self.leader.phase.borrow() == Phase::Running && self.identity().is_alive()
    }

    /// The last lines it wrote to stderr. If it has exited, waits briefly for them.
    pub async fn output_tail(&mut self) -> Vec<String> {
        let is_running = *self.leader.phase.borrow() == Phase::Running;
        self.stderr.last_lines(if is_running { Duration::ZERO } else { LAST_WORDS }).await
    }

    /// Its stderr tail, readable while it runs.
    pub(crate) fn tail(&self) -> StderrTail {
        self.stderr.tail()
    }

    /// Waits for the process to exit, up to a limit.
    pub async fn exited_within(&mut self, limit: Duration) -> Option<ProcessExit> {
        termination::exited_within(&mut self.leader.phase, limit).await
    }

    /// Waits for its exit, whether or not we ended it.
    pub(crate) fn exited(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut phase = self.leader.phase.clone();
        // A closed channel means that the process is not waited for any more.
        async move { drop(phase.wait_for(|phase| *phase != Phase::Running).await) }
    }

    /// A function that returns how it exited; `None` while it runs.
    pub fn exit(&self) -> impl Fn() -> Option<ProcessExit> + use<> {
        let phase = self.leader.phase.clone();
        move || match &*phase.borrow() {
            Phase::Running => None,
            Phase::Exited(exit) | Phase::Over(exit, _) => Some(exit.clone()),
        }
    }

    /// Ends it, after stdin was closed, and returns when the group has exited or KILL has failed. In that case the
    /// waiting thread stays and reaps the process when it exits.
    pub async fn end(self, grace: GracePeriods) -> TerminationOutcome {
        let mut phase = self.leader.phase.clone();
        termination::end(&mut phase, |signal| self.leader.signal(signal), grace).await
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
