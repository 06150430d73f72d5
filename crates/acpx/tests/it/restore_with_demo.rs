//! Every rung of the restore ladder and every way down it, once for real: the engine over a SQLite file, and the
//! demo agent as a process that is killed without warning.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use acpx_core::engine::{Engine, EngineSettings, NewSession, Prompt, RestoreSession, Session};
use acpx_core::machine::{Rung, WakeOutcome};
use acpx_core::model::{
    AbsolutePath, AgentMemory, AgentSpec, Entry, Fact, Fallback, HostId, LineageReason, MessageKind,
    PermissionMode, ReplayVerdict, RequestId, Seq, Timestamp, Turn, TurnOutcome, TurnState, WakeOptions,
};
use acpx_core::store::{Access, SqliteStore, Store};
use acpx_core::tools::{Environment, GracePeriods};
use acpx_testkit::TempHome;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::demo_process::RawClient;

mod hosts;
mod replay;
mod restore_steps;
mod turns;

const RESUMED: WakeOutcome = WakeOutcome::Restored { rung: Rung::Resume, replay: None };

const fn loaded(verdict: ReplayVerdict) -> WakeOutcome {
    WakeOutcome::Restored { rung: Rung::Load, replay: Some(verdict) }
}

const fn fresh(reason: LineageReason) -> WakeOutcome {
    WakeOutcome::Fresh { reason, announced: true }
}

/// A home with a store, a demo agent and a directory to work in.
struct Bench {
    home: TempHome,
    engine: Engine,
}

impl Bench {
    /// With an agent of these flags.
    fn new(flags: &str) -> Self {
        Self::with(flags, quick())
    }

    fn with(flags: &str, settings: EngineSettings) -> Self {
        let home = TempHome::new();
        fs::create_dir(home.join("work")).unwrap();
        let engine = host("one", &home, settings);
        let bench = Self { home, engine };
        bench.set_flags(flags);
        bench
    }

    /// The flags of every demo agent that is started from now on.
    fn set_flags(&self, flags: &str) {
        fs::write(self.home.join("flags"), flags).unwrap();
    }

    fn cwd(&self) -> AbsolutePath {
        AbsolutePath::from_path(&self.home.join("work")).unwrap()
    }

    async fn open(&self) -> Session {
        let new = NewSession::new(demo(&self.home), self.cwd(), environment(&self.home));
        self.engine.open(new).await.unwrap()
    }

    /// A session in which `one` and `two` were said, and whose agent is gone.
    async fn killed(&self) -> Session {
        let session = self.open().await;
        say(&session, "one").await;
        say(&session, "two").await;
        kill(&session).await;
        session
    }

    fn restore(&self) -> RestoreSession {
        RestoreSession::new(environment(&self.home))
    }

    fn restore_or_refuse(&self) -> RestoreSession {
        let options = WakeOptions { fallback: Fallback::Never, carry_history: false };
        RestoreSession { options, ..self.restore() }
    }

    async fn wake(&self, session: &Session) -> WakeOutcome {
        session.wake(self.restore()).await.unwrap()
    }

    /// What was said, as kept.
    async fn said(&self, session: &Session) -> Vec<String> {
        let conversation = self.engine.conversation(session.record_id()).await.unwrap();
        conversation.entries().iter().filter_map(in_words).collect()
    }

    /// What the agent answers to `recall`: what it remembers.
    async fn recalled(&self, session: &Session) -> String {
        say(session, "recall").await;
        self.said(session).await.pop().unwrap()
    }

    async fn facts(&self, session: &Session) -> Vec<Fact> {
        let mut events = self.engine.replay(session.record_id(), Seq::FIRST);
        let mut facts = Vec::new();
        while let Some(event) = events.next().await.unwrap() {
            facts.extend(Fact::from_body(&event.body));
        }
        facts
    }

    async fn lineage(&self, session: &Session) -> Vec<(String, LineageReason)> {
        let record = self.engine.record(session.record_id()).await.unwrap().unwrap();
        record.lineage.rows().iter().map(|row| (row.session.to_string(), row.reason)).collect()
    }

    /// The demo agent's own file of a session.
    fn memory(&self, session: &Session) -> PathBuf {
        self.home.join("demo").join(format!("{}.jsonl", session_id(session)))
    }
}

/// An engine over the store of a home, as a host makes it.
fn host(name: &str, home: &TempHome, settings: EngineSettings) -> Engine {
    let store = SqliteStore::open(&home.join("acpx.db"), Access::ReadWrite).unwrap();
    Engine::new(Arc::new(store), HostId::new(name).unwrap(), settings)
}

/// The demo agent. The shell reads its flags anew at every start, and is gone before the agent speaks.
fn demo(home: &TempHome) -> AgentSpec {
    let flags = home.join("flags");
    let script = r#"exec "$1" demo-agent $(cat "$2")"#;
    let args = ["-c", script, "sh", env!("CARGO_BIN_EXE_acpx"), flags.to_str().unwrap()];
    AgentSpec::new("sh", args).named("demo")
}

fn environment(home: &TempHome) -> Environment {
    std::env::vars_os().chain([("ACPX_HOME".into(), home.path().into())]).collect()
}

fn quick() -> EngineSettings {
    let grace = Duration::from_millis(500);
    EngineSettings { process: GracePeriods { eof: grace, term: grace }, ..EngineSettings::default() }
}

fn session_id(session: &Session) -> String {
    session.identity().unwrap().session.to_string()
}

async fn say(session: &Session, text: &str) -> Turn {
    session.prompt(Prompt::text(text).unwrap()).await.unwrap().finished().await.unwrap()
}

fn stop_reason(turn: &Turn) -> &str {
    match &turn.state {
        TurnState::Ended { outcome: TurnOutcome::Stopped(reason), .. } => reason.as_str(),
        other => panic!("the turn did not stop: {other:?}"),
    }
}

/// Ends the agent as the world does.
async fn kill(session: &Session) {
    let pid = i32::try_from(session.status().agent_pid.expect("an agent runs")).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    session.wait_for(|status| status.agent_pid.is_none()).await;
}

/// Waits until the agent has said this.
async fn heard(session: &Session, text: &str) {
    let mut events = session.follow(Seq::FIRST);
    while let Some(event) = events.next().await.unwrap() {
        if event.body.contains(text) {
            return;
        }
    }
    panic!("the session ended before {text:?} was said");
}

fn in_words(entry: &Entry) -> Option<String> {
    match entry {
        Entry::Message(message) => Some(match message.kind {
            MessageKind::User => format!("user: {}", message.text),
            MessageKind::Agent => format!("agent: {}", message.text),
            MessageKind::Thought => format!("thought: {}", message.text),
        }),
        Entry::Reset { reason, .. } => Some(format!("reset: {reason}")),
        Entry::Tool(_) | Entry::Plan { .. } | Entry::TurnEnd { .. } => None,
    }
}

/// An exchange of the demo agent's, as kept.
fn exchange(text: &str) -> [String; 2] {
    [format!("user: {text}"), format!("agent: You said: {text}")]
}
