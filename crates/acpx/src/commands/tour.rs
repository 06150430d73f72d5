//! `acpx tour`: the main job, seen from beginning to end in a home of its own.

use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use acpx_core::engine::{Engine, NewSession, Prompt, RestoreSession, Session, SessionError, Settings};
use acpx_core::machine::{Awakening, Fallback, WakeOptions};
use acpx_core::model::{
    AbsolutePath, AgentSpec, Entry, HostId, Lifecycle, MessageKind, Record, Seq, Turn, TurnOutcome, TurnState,
};
use acpx_core::store::{Access, SqliteStore};
use acpx_core::tools::Environment;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};

use crate::error::CliError;
use crate::output::Printer;

/// See a session live, die, come back, get lost and go on, in a few seconds and with no account
#[derive(Debug, Args)]
#[command(long_about = ABOUT)]
pub(crate) struct TourArgs {
    /// Keep the tour's files in this directory, which must not exist yet
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

const ABOUT: &str = "\
See a session live, die, come back, get lost and go on, in a few seconds and with no account

Opens a session with the built-in agent, prompts it, kills the agent with SIGKILL, restores the \
session, replays the conversation from the store, shows the three ids and the lineage, deletes the \
agent's own files so that the session is lost for good, falls back openly, and closes.\n\
Everything happens in a temporary directory that is removed at the end, or kept with --home.";

/// Shows everything once.
pub(crate) fn run(args: &TourArgs) -> Result<ExitCode, CliError> {
    let place = match &args.home {
        Some(home) => {
            let mut builder = std::fs::DirBuilder::new();
            builder
                .mode(0o700)
                .create(home)
                .map_err(|source| system(&format!("make {}", home.display()), source))?;
            let home =
                home.canonicalize().map_err(|source| system(&format!("use {}", home.display()), source))?;
            Place::Kept(home)
        }
        None => Place::Temporary(
            tempfile::tempdir().map_err(|source| system("make a temporary directory", source))?,
        ),
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    runtime.block_on(tour(&place))?;
    Ok(ExitCode::SUCCESS)
}

/// Where the tour takes place.
enum Place {
    Temporary(tempfile::TempDir),
    Kept(PathBuf),
}

impl Place {
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
            Self::Kept(directory) => format!("The store is {}.", directory.join("acpx.db").display()),
        }
    }
}

async fn tour(place: &Place) -> Result<(), CliError> {
    let started = Instant::now();
    let home = place.path();
    let store = SqliteStore::open(&home.join("acpx.db"), Access::ReadWrite)?;
    let host = HostId::new(format!("tour-{}", std::process::id())).expect("the name is not empty");
    let engine = Engine::new(Arc::new(store), host, Settings::default());
    let mut guide = Guide { printer: Printer::stdout(), home: home.to_owned(), engine, step: 0 };
    let shown = guide.show().await;
    guide.engine.shutdown().await;
    shown?;
    let seconds = started.elapsed().as_secs_f32();
    guide.say(&format!("\nThat was everything, in {seconds:.2} s. {}", place.last_word()))
}

/// Shows the steps one after another.
struct Guide {
    printer: Printer,
    home: PathBuf,
    engine: Engine,
    step: usize,
}

impl Guide {
    async fn show(&mut self) -> Result<(), CliError> {
        self.say("  >  you    <  the agent    ~  its thoughts    *  its tools    =  what happened    !  an error\n")?;
        let session = self.open().await?;
        self.converse(&session).await?;
        self.kill_and_restore(&session).await?;
        self.replay(&session).await?;
        self.lose_and_fall_back(&session).await?;
        self.close(&session).await
    }

    async fn open(&mut self) -> Result<Session, CliError> {
        self.begin("A new session with the built-in agent. It has three ids:")?;
        let program = std::env::current_exe().map_err(|source| system("find the program itself", source))?;
        let program = AbsolutePath::from_path(&program)?;
        let agent = AgentSpec::new(program.as_str(), ["demo-agent", "--agent-session-id"]).named("demo");
        let cwd = AbsolutePath::from_path(&self.home)?;
        let new = NewSession::new(agent, cwd, self.environment());
        let session = self.engine.open(new).await?;
        self.ids(&session)?;
        Ok(session)
    }

    async fn converse(&mut self, session: &Session) -> Result<(), CliError> {
        self.begin("Two prompts. Each line is in the store before it is shown:")?;
        self.prompt(session, "My name is Ada.").await?;
        self.prompt(session, "Please think, then use a tool.").await
    }

    async fn kill_and_restore(&mut self, session: &Session) -> Result<(), CliError> {
        let pid = session.status().agent_pid;
        self.begin(&format!(
            "kill -9 of the agent (pid {}). The session is brought back, and goes on:",
            pid.unwrap_or(0)
        ))?;
        self.kill(session).await?;
        let how = session.wake(self.restore(Fallback::Fresh)).await?;
        self.awakening(how)?;
        self.prompt(session, "recall").await
    }

    async fn replay(&mut self, session: &Session) -> Result<(), CliError> {
        self.begin("The conversation, replayed from our store and not from the agent:")?;
        let conversation = self.engine.conversation(session.record_id()).await?;
        for entry in conversation.entries() {
            self.entry(entry)?;
        }
        let mut events = self.engine.replay(session.record_id(), Seq::FIRST);
        let mut count = 0;
        while events.next().await?.is_some() {
            count += 1;
        }
        self.say(&format!("     ({count} events, every line exchanged with the agent among them)"))
    }

    async fn lose_and_fall_back(&mut self, session: &Session) -> Result<(), CliError> {
        self.begin("The agent's own files are deleted and it is killed: the session is lost for good.")?;
        let files = self.home.join("demo");
        std::fs::remove_dir_all(&files)
            .map_err(|source| system(&format!("delete {}", files.display()), source))?;
        self.kill(session).await?;
        self.say("     Asked to restore it or fail:")?;
        match session.wake(self.restore(Fallback::Refuse)).await {
            Err(SessionError::Agent(error)) => self.say(&format!("     ! {error}"))?,
            Err(other) => return Err(other.into()),
            Ok(how) => self.awakening(how)?,
        }
        self.say("     Asked to go on all the same:")?;
        let how = session.wake(self.restore(Fallback::Fresh)).await?;
        self.awakening(how)?;
        self.prompt(session, "recall").await?;
        self.say("     The record is the same, the ACP session is another, and the lineage says why:")?;
        self.ids(session)?;
        let record = self.record(session).await?;
        for row in record.lineage.rows() {
            self.say(&format!("     lineage  {:<16} {}", row.reason.as_str(), row.session))?;
        }
        Ok(())
    }

    async fn close(&mut self, session: &Session) -> Result<(), CliError> {
        self.begin("Closed. The agent is told and ended; the record stays in the store and can be restored by its id:")?;
        session.close().await?;
        let record = self.record(session).await?;
        let state = match record.lifecycle {
            Lifecycle::Open => "open".to_owned(),
            Lifecycle::Closed { at } => format!("closed at {at}"),
            Lifecycle::Deleted { at } => format!("deleted at {at}"),
        };
        self.say(&format!("     {} {state}", record.id))
    }

    async fn prompt(&mut self, session: &Session, text: &str) -> Result<(), CliError> {
        self.message(MessageKind::User, text)?;
        let turn = session.prompt(Prompt::text(text)?).await?.over().await?;
        let conversation = self.engine.conversation(session.record_id()).await?;
        for entry in conversation.entries() {
            match entry {
                Entry::Message(message)
                    if message.kind == MessageKind::User || message.turn != Some(turn.id) => {}
                Entry::Tool(tool) if tool.turn != Some(turn.id) => {}
                other => self.entry(other)?,
            }
        }
        self.trouble(&turn)
    }

    fn entry(&mut self, entry: &Entry) -> Result<(), CliError> {
        match entry {
            Entry::Message(message) => self.message(message.kind, &message.text),
            Entry::Tool(tool) => {
                let field =
                    |name: &str| tool.fields.get(name).and_then(|value| value.as_str()).unwrap_or("?");
                self.say(&format!("     * {} ({})", field("title"), field("status")))
            }
            Entry::Plan { .. } | Entry::TurnEnd { .. } | Entry::Reset { .. } => Ok(()),
        }
    }

    fn trouble(&mut self, turn: &Turn) -> Result<(), CliError> {
        match &turn.state {
            TurnState::Ended { outcome: TurnOutcome::Failed(error), .. } => {
                self.say(&format!("     ! {}", error.message))
            }
            _ => Ok(()),
        }
    }

    async fn kill(&self, session: &Session) -> Result<(), CliError> {
        let pid = session.status().agent_pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        if let Some(pid) = pid {
            kill_process(pid, Signal::KILL).map_err(|errno| system("kill the agent", errno.into()))?;
            session.wait_for(|status| status.agent_pid.is_none()).await;
        }
        Ok(())
    }

    async fn record(&self, session: &Session) -> Result<Record, CliError> {
        let id = session.record_id();
        Ok(self.engine.record(id).await?.ok_or_else(|| SessionError::NoRecord(id.clone()))?)
    }

    fn restore(&self, fallback: Fallback) -> RestoreSession {
        let options = WakeOptions { fallback, carry_history: false };
        RestoreSession { options, environment: self.environment(), mcp_servers: None }
    }

    /// The agent gets this program's environment, and keeps its own files in the tour's home.
    fn environment(&self) -> Environment {
        let home = (OsString::from("ACPX_HOME"), self.home.clone().into_os_string());
        std::env::vars_os().filter(|(name, _)| name != "ACPX_HOME").chain([home]).collect()
    }

    fn begin(&mut self, what: &str) -> Result<(), CliError> {
        self.step += 1;
        let gap = if self.step == 1 { "" } else { "\n" };
        self.say(&format!("{gap}{:>2}.  {what}", self.step))
    }

    fn ids(&mut self, session: &Session) -> Result<(), CliError> {
        let Some(identity) = session.identity() else { return Ok(()) };
        self.say(&format!("     acpxRecordId    {}", identity.record))?;
        self.say(&format!("     acpxSessionId   {}", identity.session))?;
        match identity.agent_session {
            Some(inner) => self.say(&format!("     agentSessionId  {inner}")),
            None => Ok(()),
        }
    }

    fn awakening(&mut self, how: Awakening) -> Result<(), CliError> {
        let text = match how {
            Awakening::Live => "the agent had it all along".to_owned(),
            Awakening::Created => "created".to_owned(),
            Awakening::Restored { rung, .. } => format!("restored by {}", rung.method()),
            Awakening::Fresh { reason, .. } => {
                format!("fresh session ({}): the agent does not remember what came before", reason.as_str())
            }
        };
        self.say(&format!("     = {text}"))
    }

    fn message(&mut self, kind: MessageKind, text: &str) -> Result<(), CliError> {
        let mark = match kind {
            MessageKind::User => '>',
            MessageKind::Agent => '<',
            MessageKind::Thought => '~',
        };
        for line in text.lines() {
            self.say(&format!("     {mark} {line}"))?;
        }
        Ok(())
    }

    fn say(&mut self, line: &str) -> Result<(), CliError> {
        Ok(self.printer.line(line)?)
    }
}

fn system(doing: &str, source: std::io::Error) -> CliError {
    CliError::System { doing: doing.to_owned(), source }
}
