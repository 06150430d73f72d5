//! Drives any agent through the library, once through everything a lasting session promises: a session is
//! opened in the current directory and prompted twice, its agent is killed without warning, the session is
//! brought back and prompted a third time, and closed. What happened is printed step by step.
//!
//!     cargo run -p acpx-core --example drive -- [OPTIONS] -- AGENT [ARGS…]
//!
//! The store is kept in the directory given with `--home`; without one it is gone afterwards. `--say TEXT`,
//! given three times, replaces the prompts; `--mid-turn` kills the agent while it answers the second one;
//! `--approve-all` allows it everything it asks for.

#![expect(clippy::print_stdout, reason = "an example's output is its purpose")]

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use acpx_core::acp;
use acpx_core::engine::{Engine, EngineSettings, NewSession, Prompt, RestoreSession, Session};
use acpx_core::machine::WakeOutcome;
use acpx_core::model::{
    AbsolutePath, AgentSpec, Content, Entry, HostId, MessageKind, PermissionMode, RecordId, Seq, Turn,
    TurnId, TurnOutcome, TurnState, Update,
};
use acpx_core::store::{Access, SqliteStore, Store};
use acpx_core::tools::Environment;
use rustix::process::{Pid, Signal, kill_process};

type Outcome<T> = Result<T, Box<dyn Error>>;

const USAGE: &str = "usage: drive [--home DIR] [--say TEXT]... [--mid-turn] [--approve-all] -- AGENT [ARGS…]";
const PROMPTS: [&str; 3] =
    ["Remember the word ALPHA.", "Remember the word BETA, too.", "Which words were you asked to remember?"];

fn main() -> ExitCode {
    let run = || -> Outcome<()> {
        let arguments = Arguments::read(std::env::args().skip(1))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(drive(arguments))
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("failed    {error}");
            ExitCode::FAILURE
        }
    }
}

struct Arguments {
    home: Option<PathBuf>,
    prompts: [String; 3],
    mid_turn: bool,
    policy: PermissionMode,
    agent: AgentSpec,
}

impl Arguments {
    fn read(mut given: impl Iterator<Item = String>) -> Outcome<Self> {
        let mut home = None;
        let mut said = Vec::new();
        let mut mid_turn = false;
        let mut policy = PermissionMode::default();
        loop {
            match given.next().ok_or(USAGE)?.as_str() {
                "--home" => home = Some(PathBuf::from(given.next().ok_or(USAGE)?)),
                "--say" => said.push(given.next().ok_or(USAGE)?),
                "--mid-turn" => mid_turn = true,
                "--approve-all" => policy = PermissionMode::ApproveAll,
                "--" => break,
                _ => return Err(USAGE.into()),
            }
        }
        if said.is_empty() {
            said = PROMPTS.map(String::from).to_vec();
        }
        let prompts = <[String; 3]>::try_from(said).map_err(|_| "--say wants to be given three times")?;
        let agent = AgentSpec::new(given.next().ok_or(USAGE)?, given);
        Ok(Self { home, prompts, mid_turn, policy, agent })
    }
}

async fn drive(arguments: Arguments) -> Outcome<()> {
    let temporary = tempfile::tempdir()?;
    let home = arguments.home.unwrap_or_else(|| temporary.path().to_owned());
    let environment: Environment = std::env::vars_os().collect();
    let cwd = AbsolutePath::from_path(&std::env::current_dir()?)?;
    std::fs::create_dir_all(&home)?;
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&home.join("drive.db"), Access::ReadWrite)?);
    let engine =
        Engine::new(store, HostId::new(format!("drive-{}", std::process::id()))?, EngineSettings::default());

    println!("agent     {} {}", arguments.agent.program, arguments.agent.args.join(" "));
    let new = NewSession::new(arguments.agent, cwd, environment.clone());
    let session = engine.open(new).await?;
    println!("opened    in the store at {}", home.display());
    print_ids(&session);
    let driver = Driver { engine, session, policy: arguments.policy };

    let [first, second, third] = &arguments.prompts;
    driver.prompt(first, false).await?;
    driver.prompt(second, arguments.mid_turn).await?;
    if !arguments.mid_turn {
        driver.kill_agent().await?;
    }
    let how = driver.session.wake(RestoreSession::new(environment)).await;
    println!("restored  {}", how.as_ref().map_or_else(ToString::to_string, |how| in_words(*how)));
    how?;
    print_ids(&driver.session);
    driver.prompt(third, false).await?;
    driver.print_lineage().await?;
    driver.session.close().await?;
    println!("closed");
    driver.engine.shutdown().await;
    Ok(())
}

struct Driver {
    engine: Engine,
    session: Session,
    policy: PermissionMode,
}

impl Driver {
    /// Prompts and prints the whole turn. With `kill`, the agent does not live to end it.
    async fn prompt(&self, text: &str, kill: bool) -> Outcome<()> {
        println!("prompt    {text}");
        let ticket = self.session.prompt(Prompt::text(text)?.with_policy(self.policy)).await?;
        if kill {
            self.agent_speaks(ticket.turn).await?;
            self.kill_agent().await?;
        }
        let turn = ticket.finished().await?;
        self.print_turn(turn.id).await?;
        println!("  stop    {}", ending(&turn));
        Ok(())
    }

    /// Waits for the first piece of the agent's answer in a turn.
    async fn agent_speaks(&self, turn: TurnId) -> Outcome<()> {
        let mut events = self.session.follow(Seq::FIRST);
        while let Some(event) = events.next().await? {
            let content = acp::content(&event);
            let is_answer =
                matches!(content, Content::Update(Update::Chunk { kind: MessageKind::Agent, .. }));
            if event.turn == Some(turn) && is_answer {
                return Ok(());
            }
        }
        Err("the session ended before its agent said anything".into())
    }

    async fn kill_agent(&self) -> Outcome<()> {
        let pid = self.session.status().agent_pid.ok_or("no agent runs")?;
        kill_process(Pid::from_raw(i32::try_from(pid)?).ok_or("no process has the id 0")?, Signal::KILL)?;
        self.session.wait_for(|status| status.agent_pid.is_none()).await;
        println!("killed    process {pid} with signal 9");
        Ok(())
    }

    async fn print_turn(&self, turn: TurnId) -> Outcome<()> {
        let conversation = self.engine.conversation(self.session.record_id()).await?;
        for entry in conversation.entries() {
            match entry {
                Entry::Message(message) if message.turn == Some(turn) => match message.kind {
                    MessageKind::Agent => println!("  agent   {}", indented(&message.text)),
                    MessageKind::Thought => println!("  thought {}", indented(&message.text)),
                    MessageKind::User => {}
                },
                Entry::Tool(tool) if tool.turn == Some(turn) => {
                    let field = |name: &str| tool.fields.get(name).and_then(|value| value.as_str());
                    println!(
                        "  tool    {} ({})",
                        field("title").unwrap_or("?"),
                        field("status").unwrap_or("?")
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn print_lineage(&self) -> Outcome<()> {
        let id: &RecordId = self.session.record_id();
        let record = self.engine.record(id).await?.ok_or("the record is gone")?;
        for (number, row) in (1..).zip(record.lineage.rows()) {
            println!("lineage   {number}. {} ({})", row.session, row.reason.as_str());
        }
        Ok(())
    }
}

fn print_ids(session: &Session) {
    if let Some(ids) = session.identity() {
        println!("  record  {}", ids.record);
        println!("  session {}", ids.session);
        if let Some(inner) = ids.agent_session {
            println!("  inner   {inner}");
        }
    }
}

fn in_words(how: WakeOutcome) -> String {
    match how {
        WakeOutcome::Live => "not needed: the agent has the session".to_owned(),
        WakeOutcome::Created => "as a new session".to_owned(),
        WakeOutcome::Forked => "as a fork of another session".to_owned(),
        WakeOutcome::Returned => "in an earlier session".to_owned(),
        WakeOutcome::Restored { rung, replay: Some(verdict) } => {
            format!("by {}, which replayed: {verdict:?}", rung.method())
        }
        WakeOutcome::Restored { rung, replay: None } => format!("by {}, without a replay", rung.method()),
        WakeOutcome::Fresh { reason, announced } => {
            let told = if announced { "and that must be told" } else { "with nothing forgotten" };
            format!("as a fresh session ({}), {told}", reason.as_str())
        }
    }
}

fn ending(turn: &Turn) -> String {
    match &turn.state {
        TurnState::Ended { outcome: TurnOutcome::Stopped(reason), .. } => reason.as_str().to_owned(),
        TurnState::Ended { outcome: TurnOutcome::Failed(error), .. } => {
            format!("{}: {}", error.code, error.message)
        }
        TurnState::Queued | TurnState::Dispatched { .. } | TurnState::Interrupted { .. } => {
            "never".to_owned()
        }
    }
}

fn indented(text: &str) -> String {
    text.trim_end().replace('\n', "\n          ")
}
