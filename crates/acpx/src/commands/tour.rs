//! `acpx tour`: demonstrates the main features in a home of its own. Every step is a command that the user could type,
//! run by this program. On a terminal it waits for a key after each step.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::json;
use tokio::task::spawn_blocking;

use crate::cli::{Format, OutputArgs, TourArgs};
use crate::error::{CliError, CliExit};
use crate::output::{OutputMode, Printer};
use crate::session::host_locator::{block_on, own_program};
use crate::session::interrupt::InterruptWatcher;
use crate::terminal::raw_terminal::RawTerminal;

/// Runs the tour.
pub(crate) fn run(args: &TourArgs) -> Result<(), CliError> {
    let home = TourHome::new(args.home.as_deref())?;
    let guide = Guide::new(&home)?;
    // A signal ends the tour, but not its cleanup.
    let shown = block_on(async {
        let mut interrupts = InterruptWatcher::new(None)?;
        tokio::select! {
            biased;
            stop = interrupts.over() => Err(stop.into()),
            shown = guide.show() => shown,
        }
    });
    let stopped = Guide::new(&home)?.run(&["host", "stop"], |_| Ok(())).map(drop);
    shown?;
    stopped?;
    Ok(Printer::stdout().line(&home.last_word())?)
}

/// The home of the tour.
enum TourHome {
    Temporary(tempfile::TempDir),
    Kept(PathBuf),
}

impl TourHome {
    fn new(directory: Option<&Path>) -> Result<Self, CliError> {
        let Some(home) = directory else {
            let made = tempfile::tempdir().map_err(|source| system("make a temporary directory", source))?;
            return Ok(Self::Temporary(made));
        };
        let mut builder = std::fs::DirBuilder::new();
        let made = builder.mode(0o700).create(home);
        made.map_err(|source| system(&format!("make {}", home.display()), source))?;
        let home = home.canonicalize();
        Ok(Self::Kept(home.map_err(|source| system("find the directory just made", source))?))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(directory) => directory.path(),
            Self::Kept(directory) => directory,
        }
    }

    /// What becomes of the files.
    fn last_word(&self) -> String {
        match self {
            Self::Temporary(_) => "Its files are removed now; --home DIR would have kept them.".to_owned(),
            Self::Kept(home) => {
                let home = home.display();
                format!("ACPX_HOME={home} acpx sessions list shows what is kept there.")
            }
        }
    }
}

/// Runs and prints the steps in order.
struct Guide {
    printer: Printer,
    program: PathBuf,
    home: PathBuf,
    work: PathBuf,
    step: usize,
    /// Whether a person is at the terminal and decides when to continue.
    is_stepped: bool,
    /// How long it waited for the person.
    waited: Duration,
}

/// Whether the tour continues.
enum TourStep {
    Continue,
    End,
}

/// What the tour reads of a session's status.
#[derive(Deserialize)]
struct TourStatus {
    pid: u32,
}

impl Guide {
    fn new(home: &TourHome) -> Result<Self, CliError> {
        let home = home.path().to_owned();
        let work = home.join("project");
        std::fs::create_dir_all(&work).map_err(|source| system("make a directory to work in", source))?;
        let (printer, program) = (Printer::stdout(), own_program()?);
        let is_stepped = super::attach::is_possible();
        Ok(Self { printer, program, home, work, step: 0, is_stepped, waited: Duration::ZERO })
    }

    async fn show(mut self) -> Result<(), CliError> {
        self.configure()?;
        let started = Instant::now();
        let steps = [Self::create, Self::prompt, Self::restore, Self::replay, Self::lose, Self::close];
        for step in steps {
            if matches!(self.pause().await?, TourStep::End) {
                return Ok(());
            }
            let shown = spawn_blocking(move || step(&mut self).map(|()| self));
            self = shown.await.unwrap_or(Err(CliError::Signalled))?;
        }
        let took = started.elapsed().saturating_sub(self.waited);
        self.say(&format!("\nThat was everything, in {:.2} s.", took.as_secs_f32()))
    }

    /// Waits for a key between two steps. The terminal leaves raw mode even if a signal ends the wait.
    async fn pause(&mut self) -> Result<TourStep, CliError> {
        if !self.is_stepped || self.step == 0 {
            return Ok(TourStep::Continue);
        }
        let since = Instant::now();
        self.say("")?;
        // Before the question: a Ctrl-D that is typed outside raw mode is lost.
        let mut terminal = RawTerminal::enter()?;
        self.printer.part("Enter shows the next step, q ends the tour: ")?;
        let step = loop {
            match terminal.next().await {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    if let Some(step) = step_of(key) {
                        break step;
                    }
                }
                Some(_) => {}
                None => break Ok(TourStep::End),
            }
        };
        drop(terminal);
        self.waited += since.elapsed();
        self.say("")?;
        step
    }

    fn create(&mut self) -> Result<(), CliError> {
        self.begin("A new session with the built-in agent. Its own id never changes; below are the ids of the agent:")?;
        self.command(&["demo", "sessions", "new"], CliExit::Success)?;
        self.command(&["demo", "sessions", "show"], CliExit::Success)
    }

    fn prompt(&mut self) -> Result<(), CliError> {
        self.begin("Two prompts. Each line is in the store before it is shown:")?;
        self.command(&["demo", "My name is Ada."], CliExit::Success)?;
        self.command(&["demo", "Please think, then use a tool."], CliExit::Success)
    }

    fn restore(&mut self) -> Result<(), CliError> {
        self.begin("The agent is killed. The next prompt brings the session back, and it remembers:")?;
        self.kill_agent()?;
        self.command(&["demo", "recall"], CliExit::Success)
    }

    fn replay(&mut self) -> Result<(), CliError> {
        self.begin("The conversation, replayed from our store and not from the agent:")?;
        self.command(&["demo", "sessions", "history"], CliExit::Success)
    }

    fn lose(&mut self) -> Result<(), CliError> {
        self.begin("The agent's own files are deleted and it is killed: the session is lost for good.")?;
        self.kill_agent()?;
        self.delete_agent_files()?;
        self.say("\n   Asked to restore it or fail:")?;
        self.command(&["demo", "prompt", "--no-fallback", "recall"], CliExit::Failure)?;
        self.say("\n   Asked to go on all the same:")?;
        self.command(&["demo", "recall"], CliExit::Success)?;
        self.say("\n   The record is the same, the ACP session is another, and the lineage says why:")?;
        self.command(&["demo", "sessions", "show"], CliExit::Success)
    }

    fn close(&mut self) -> Result<(), CliError> {
        self.begin("Closed. acpx sends the agent session/close and ends it; the record stays and can be restored by its id:")?;
        self.command(&["demo", "sessions", "close"], CliExit::Success)?;
        self.command(&["sessions", "list"], CliExit::Success)
    }

    /// Configures the tour's own demo agent, which reports its inner id; the default one does not.
    fn configure(&self) -> Result<(), CliError> {
        let argv = json!([self.program.to_string_lossy(), "demo-agent", "--agent-session-id"]);
        let config = json!({ "agents": { "demo": { "argv": argv } } });
        let file = self.home.join("config.json");
        std::fs::write(&file, config.to_string())
            .map_err(|source| system(&format!("write {}", file.display()), source))
    }

    fn begin(&mut self, text: &str) -> Result<(), CliError> {
        self.step += 1;
        let gap = if self.step == 1 { "" } else { "\n" };
        let line = format!("{gap}{}. {text}", self.step);
        self.say(&line)
    }

    fn say(&mut self, text: &str) -> Result<(), CliError> {
        Ok(self.printer.line(text)?)
    }

    /// Runs a command and prints it with its output. An unexpected exit code ends the tour.
    fn command(&mut self, arguments: &[&str], expected: CliExit) -> Result<(), CliError> {
        let typed = arguments.iter().map(|word| crate::agents::quote(word)).collect::<Vec<_>>().join(" ");
        self.say(&format!("\n   $ acpx {typed}"))?;
        let mut printer = Printer::stdout();
        let code = self.run(arguments, |line| Ok(printer.line(format!("   {line}").trim_end())?))?;
        if code != Some(i32::from(expected.number())) {
            let source = std::io::Error::other(format!("it ended with {code:?}"));
            return Err(system(&format!("go on with the tour after acpx {typed}"), source));
        }
        Ok(())
    }

    /// Runs a command in the tour's home and passes on its lines, of stdout and stderr as they arrive; returns its exit
    /// code.
    fn run(
        &self,
        arguments: &[&str],
        mut line: impl FnMut(&str) -> Result<(), CliError>,
    ) -> Result<Option<i32>, CliError> {
        let (output, stdout) = std::io::pipe().map_err(not_run)?;
        let stderr = stdout.try_clone().map_err(not_run)?;
        let mut child = self.program(arguments).stdout(stdout).stderr(stderr).spawn().map_err(not_run)?;
        for text in BufReader::new(output).lines() {
            line(&text.map_err(not_run)?)?;
        }
        Ok(child.wait().map_err(not_run)?.code())
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let mut program = Command::new(&self.program);
        program.args(arguments).env("ACPX_HOME", &self.home).current_dir(&self.work);
        program.stdin(std::process::Stdio::null());
        if self.is_stepped && OutputMode::of_program(Format::Text, OutputArgs::default()).has_color() {
            // Its output goes through a pipe, to be indented; this has it written as on a terminal.
            program.env("CLICOLOR_FORCE", "1");
        }
        program
    }

    fn kill_agent(&mut self) -> Result<(), CliError> {
        let mut status = String::new();
        self.run(&["--format", "json", "demo", "status"], |line| {
            status.push_str(line);
            Ok(())
        })?;
        let gone = || system("find the agent of the tour", std::io::Error::other("no agent runs"));
        let TourStatus { pid } = serde_json::from_str(&status).map_err(|_| gone())?;
        self.say(&format!("\n   $ kill -9 {pid}"))?;
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        kill_process(pid, Signal::KILL).map_err(|error| system("kill the agent", error.into()))
    }

    fn delete_agent_files(&mut self) -> Result<(), CliError> {
        let files = self.home.join("demo");
        self.say("   $ rm -r \"$ACPX_HOME/demo\"")?;
        std::fs::remove_dir_all(&files)
            .map_err(|source| system(&format!("delete {}", files.display()), source))
    }
}

/// What a key does between two steps.
fn step_of(key: KeyEvent) -> Option<Result<TourStep, CliError>> {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if is_control => Some(Err(CliError::Signalled)),
        KeyCode::Char('d') if is_control => Some(Ok(TourStep::End)),
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => Some(Ok(TourStep::End)),
        KeyCode::Enter | KeyCode::Char(' ') => Some(Ok(TourStep::Continue)),
        _ => None,
    }
}

fn not_run(source: std::io::Error) -> CliError {
    system("run a command of the tour", source)
}

fn system(doing: &str, source: std::io::Error) -> CliError {
    CliError::System { doing: doing.to_owned(), source }
}
