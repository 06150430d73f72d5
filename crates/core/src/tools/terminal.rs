//! A command that acpx runs for an agent: in its own process group, without input, with stdout and stderr on one
//! screen. It ends when this value is dropped, at the latest with its session.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::environment::Environment;
use super::termination;
use super::termination::{GracePeriods, Phase, ProcessExit, TerminationOutcome};
use crate::model::command_line;
use crate::sync::Lock;

use super::leader::Leader;
use super::marks::RECORD_VARIABLE;
use super::screen::Screen;
use super::spawner::{Spawner, StartError};

/// How many bytes a terminal keeps by default.
const DEFAULT_OUTPUT_BYTES: usize = 64 << 10;
/// How many bytes it keeps at most.
const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// How long to wait for the last output of an exited command. Other processes may hold its end of the pipe open.
const LAST_OUTPUT: Duration = Duration::from_millis(300);
/// Shell syntax. A command that contains any of these and is not a program is run by a shell.
const SHELL_SYNTAX: &[char] =
    &['|', '&', ';', '<', '>', '(', ')', '$', '`', '\\', '"', '\'', '*', '?', '[', '#', '~', '=', '%'];

/// The command to run.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CommandLine {
    /// The program, or a shell command line.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables in addition to the session's. They may be secrets and are never printed.
    pub env: Vec<(String, String)>,
    /// The working directory.
    pub cwd: PathBuf,
    /// How many bytes of output the agent asked for.
    pub output_bytes: Option<u64>,
    /// How many bytes of its output are kept at most; `None` for the usual limit.
    pub most_output_bytes: Option<usize>,
}

/// A command that runs or has run. Dropping it kills its process group.
#[derive(Debug)]
pub(crate) struct TerminalProcess {
    leader: Leader,
    screen: Arc<Lock<Screen>>,
    /// How it exited, set after its output is on the screen.
    exit: watch::Receiver<Option<ProcessExit>>,
    /// The reader task, which ends with this value.
    _reading: JoinSet<()>,
    /// The thread that started the command must live as long as the command.
    _spawner: Spawner,
}

/// A terminal's current content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TerminalView {
    /// The end of its output.
    pub output: String,
    /// Whether earlier output was cut off.
    pub is_cut: bool,
    /// How the command exited, if it has.
    pub exit: Option<ProcessExit>,
}

/// What has happened on a terminal since the last delta.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TerminalDelta {
    /// The new output.
    pub output: String,
    /// How the command exited, if it has; with the whole screen, if the deltas did not contain all output.
    pub exit: Option<(ProcessExit, Option<String>)>,
}

/// Why a command was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum TerminalError {
    /// The program does not exist.
    #[error("spawn {command} ENOENT: no such file or directory")]
    NotFound {
        /// The command.
        command: String,
    },
    /// The working directory does not exist.
    #[error("cannot run {command} in {}: no such directory", cwd.display())]
    NoDirectory {
        /// The command.
        command: String,
        /// The directory.
        cwd: PathBuf,
    },
    /// Any other failure.
    #[error("cannot run {command}: {problem}")]
    NotStarted {
        /// The command.
        command: String,
        /// The cause.
        problem: String,
    },
}

impl TerminalProcess {
    /// Runs a command directly, or else by a shell. `changed` is notified of output and exit. Must be called inside a
    /// tokio runtime; dropping the future leaves no process.
    pub(crate) async fn start(
        spawner: &Spawner,
        line: &CommandLine,
        environment: &Environment,
        grace: GracePeriods,
        changed: Arc<Notify>,
    ) -> Result<Self, TerminalError> {
        let started = Self::start_command(spawner, line.direct(), line, environment, grace, &changed).await;
        let is_missing =
            matches!(&started, Err(StartError::System(error)) if error.kind() == io::ErrorKind::NotFound);
        let started = match line.by_shell().filter(|_| is_missing) {
            Some(shell) => Self::start_command(spawner, shell, line, environment, grace, &changed).await,
            None => started,
        };
        started.map_err(|error| line.not_started(&error))
    }

    async fn start_command(
        spawner: &Spawner,
        mut command: Command,
        line: &CommandLine,
        environment: &Environment,
        grace: GracePeriods,
        changed: &Arc<Notify>,
    ) -> Result<Self, StartError> {
        let (output, input) = io::pipe()?;
        // The agent may not choose the record that a command belongs to.
        let given = line.env.iter().filter(|(name, _)| name != RECORD_VARIABLE);
        let given = given.map(|(name, value)| (name.as_str(), value.as_str()));
        command
            .env_clear()
            .envs(environment.variables().iter().map(|(name, value)| (name, value)))
            .envs(given)
            .current_dir(&line.cwd)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(input.try_clone()?)
            .stderr(input);
        let output = pipe::Receiver::from_owned_fd(OwnedFd::from(output))?;
        let (leader, _) = spawner.start(command, grace).await?;
        let screen = Arc::new(Lock::new(Screen::new(line.screen_bytes())));
        let (exit_sender, exit) = watch::channel(None);
        let reading =
            TerminalReader { screen: Arc::clone(&screen), changed: Arc::clone(changed), exit_sender };
        let mut tasks = JoinSet::new();
        tasks.spawn(reading.run(output, leader.phase.clone()));
        Ok(Self { leader, screen, exit, _reading: tasks, _spawner: spawner.clone() })
    }

    /// Its current content.
    pub(crate) fn shown(&self) -> TerminalView {
        // Read the exit first: after it, nothing more is written.
        let exit = self.exit.borrow().clone();
        let screen = self.screen.lock();
        TerminalView { output: screen.text().to_owned(), is_cut: screen.is_cut(), exit }
    }

    /// What has happened since the last call. With `all`, an incomplete line is included.
    pub(crate) fn take_new_output(&self, all: bool) -> TerminalDelta {
        let exit = self.exit.borrow().clone();
        let mut screen = self.screen.lock();
        let output = screen.take_new_output(all || exit.is_some());
        let whole = screen.is_full().then(|| screen.text().to_owned());
        TerminalDelta { output, exit: exit.map(|exit| (exit, whole)) }
    }

    /// Waits until the command has exited.
    pub(crate) fn exited(&self) -> impl Future<Output = Option<ProcessExit>> + Send + 'static {
        let mut exit = self.exit.clone();
        async move { exit.wait_for(Option::is_some).await.ok().and_then(|exit| exit.clone()) }
    }

    /// Ends the command in bounded time and waits for its last output.
    pub(crate) async fn kill(&self, grace: GracePeriods) -> TerminationOutcome {
        let mut phase = self.leader.phase.clone();
        let grace = GracePeriods { eof: Duration::ZERO, ..grace };
        let ended = termination::end(&mut phase, |signal| self.leader.signal(signal), grace).await;
        if ended == TerminationOutcome::Gone {
            self.exited().await;
        }
        ended
    }
}

/// Copies a command's output to its screen until the pipe closes.
struct TerminalReader {
    screen: Arc<Lock<Screen>>,
    changed: Arc<Notify>,
    exit_sender: watch::Sender<Option<ProcessExit>>,
}

impl TerminalReader {
    async fn run(self, mut output: pipe::Receiver, mut phase: watch::Receiver<Phase>) {
        let mut exited = std::pin::pin!(exit_of(&mut phase));
        let mut reading = std::pin::pin!(self.read(&mut output));
        let exit = tokio::select! {
            exit = &mut exited => {
                drop(timeout(LAST_OUTPUT, &mut reading).await);
                exit
            }
            () = &mut reading => exited.await,
        };
        self.screen.lock().finish();
        self.exit_sender.send_replace(Some(exit));
        self.changed.notify_one();
    }

    async fn read(&self, output: &mut pipe::Receiver) {
        let mut buffer = vec![0; 16 << 10];
        while let Ok(read @ 1..) = output.read(&mut buffer).await {
            self.screen.lock().write(buffer.get(..read).unwrap_or_default());
            self.changed.notify_one();
        }
    }
}

/// Waits for a process to exit. The waiting thread publishes the exit before it ends.
async fn exit_of(phase: &mut watch::Receiver<Phase>) -> ProcessExit {
    match phase.wait_for(|phase| *phase != Phase::Running).await.as_deref() {
        Ok(Phase::Exited(exit) | Phase::Over(exit, _)) => exit.clone(),
        _ => ProcessExit::from(Err(io::Error::other("its exit status is unknown"))),
    }
}

impl CommandLine {
    fn screen_bytes(&self) -> usize {
        let wanted = self.output_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        wanted.unwrap_or(DEFAULT_OUTPUT_BYTES).min(self.most_output_bytes.unwrap_or(MAX_OUTPUT_BYTES))
    }

    fn direct(&self) -> Command {
        let mut command = Command::new(&self.command);
        command.args(&self.args);
        command
    }

    /// The same run by a shell, if it contains shell syntax.
    fn by_shell(&self) -> Option<Command> {
        let is_for_shell = |c: char| c.is_whitespace() || SHELL_SYNTAX.contains(&c);
        self.command.contains(is_for_shell).then(|| {
            let mut command = Command::new("/bin/sh");
            if self.args.is_empty() {
                command.arg("-c").arg(&self.command);
            } else {
                command.arg("-c").arg(format!("{} \"$@\"", self.command)).arg("sh").args(&self.args);
            }
            command
        })
    }

    fn not_started(&self, error: &StartError) -> TerminalError {
        let command = self.command.clone();
        match error {
            StartError::NoDirectory => TerminalError::NoDirectory { command, cwd: self.cwd.clone() },
            StartError::System(error) if error.kind() == io::ErrorKind::NotFound => {
                TerminalError::NotFound { command }
            }
            _ => TerminalError::NotStarted { command, problem: error.to_string() },
        }
    }
}

impl std::fmt::Debug for CommandLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { command, args, cwd, output_bytes, .. } = self;
        f.debug_struct("CommandLine")
            .field("command", command)
            .field("args", args)
            .field("cwd", cwd)
            .field("output_bytes", output_bytes)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Display for CommandLine {
    /// The command line as a user would type it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&command_line(&self.command, self.args.iter().map(String::as_str)))
    }
}

#[cfg(test)]
mod tests;
