//! The engine against real processes: the scripted agent plays whatever an agent may do.

use std::sync::Arc;
use std::time::Duration;

use acpx_core::engine::{Engine, EngineSettings, NewSession, Prompt, RestoreSession, Session, SessionError};
use acpx_core::machine::WakeOutcome;
use acpx_core::model::{
    AbsolutePath, AgentError, AgentSpec, Direction, Entry, Event, Fallback, HostId, McpServer, MessageKind,
    RecordId, Seq, Turn, TurnOutcome, TurnState, WakeOptions,
};
use acpx_core::store::{MemoryStore, Store};
use acpx_core::tools::{Environment, GracePeriods};
use acpx_testkit::{Script, TempHome, received_lines, scripted_agent_command};
use serde_json::{Value, json};

mod agent_runs;
mod bad_agents;
mod bad_input;
mod commit_order;
mod follow;
mod forward;
mod identity;
mod move_session;
mod permissions;
mod probe;
mod real_agents;
mod restore;
mod settings;
mod setup;
mod shutdown;
mod store_faults;
mod timeouts;
mod tools;
mod turns;
mod unknown_session;
mod version_2;

/// An engine in a home of its own.
struct Bench {
    home: TempHome,
    store: Arc<dyn Store>,
    engine: Engine,
}

impl Bench {
    fn new() -> Self {
        Self::with(quick())
    }

    fn with(settings: EngineSettings) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let engine = Engine::new(store.clone(), HostId::new("host").unwrap(), settings);
        Self { home: TempHome::new(), store, engine }
    }

    /// Another host over the same store, as after a crash of the first.
    fn next_host(&self) -> Engine {
        Engine::new(self.store.clone(), HostId::new("next").unwrap(), quick())
    }

    fn cwd(&self) -> AbsolutePath {
        AbsolutePath::from_path(self.home.path()).unwrap()
    }

    fn agent(&self, script: &Script) -> (AgentSpec, Vec<String>) {
        let command = scripted_agent_command(script, &self.home);
        let spec = AgentSpec::new(&command[0], &command[1..]).named("scripted");
        (spec, command)
    }

    fn new_session(&self, agent: AgentSpec, mcp_servers: Vec<McpServer>) -> NewSession {
        NewSession { mcp_servers: mcp_servers.into(), ..NewSession::new(agent, self.cwd(), environment()) }
    }

    /// Opens a session with an agent that plays `script`.
    async fn open(&self, script: &Script) -> (Session, Vec<String>) {
        let (agent, command) = self.agent(script);
        let session = self.engine.open(self.new_session(agent, Vec::new())).await.expect("the session opens");
        (session, command)
    }

    async fn open_error(&self, script: &Script) -> AgentError {
        let (agent, _) = self.agent(script);
        match self.engine.open(self.new_session(agent, Vec::new())).await {
            Err(SessionError::Agent(error)) => error,
            Err(other) => panic!("another error: {other:?}"),
            Ok(_) => panic!("the session opened"),
        }
    }

    async fn events(&self, record: &RecordId) -> Vec<Event> {
        let mut replay = self.engine.replay(record, Seq::FIRST);
        let mut events = Vec::new();
        while let Some(event) = replay.next().await.unwrap() {
            events.push(event);
        }
        events
    }

    /// Who said what, message by message: `> ` is the user, `< ` the agent.
    async fn said(&self, session: &Session) -> Vec<String> {
        let conversation = self.engine.conversation(session.record_id()).await.unwrap();
        let message = |entry: &Entry| match entry {
            Entry::Message(message) if message.kind == MessageKind::User => {
                Some(format!("> {}", message.text))
            }
            Entry::Message(message) => Some(format!("< {}", message.text)),
            _ => None,
        };
        conversation.entries().iter().filter_map(message).collect()
    }

    /// The kept lines and facts in short: direction and method, answer, or fact.
    async fn story(&self, record: &RecordId) -> Vec<String> {
        self.events(record).await.iter().map(brief).collect()
    }
}

fn quick() -> EngineSettings {
    let millis = Duration::from_millis;
    EngineSettings {
        cancel_grace: millis(300),
        close_grace: millis(2000),
        process: GracePeriods { eof: millis(500), term: millis(500) },
        ..EngineSettings::default()
    }
}

pub(crate) fn environment() -> Environment {
    std::env::vars_os().collect()
}

fn brief(event: &Event) -> String {
    let body: Value = serde_json::from_str(&event.body).expect("every kept body is JSON");
    let what = match (&body["method"], &body["params"]["update"]["sessionUpdate"], &body["fact"]) {
        (Value::String(method), Value::String(kind), _) => format!("{method} {kind}"),
        (Value::String(method), _, _) => method.clone(),
        (_, _, Value::String(fact)) => return format!("# {fact}"),
        _ if body.get("error").is_some() => "error".to_owned(),
        _ => "result".to_owned(),
    };
    match event.direction {
        Direction::ToAgent => format!("> {what}"),
        Direction::FromAgent => format!("< {what}"),
        Direction::Ours => what,
    }
}

/// Prompts with text and waits for the turn to end.
async fn prompt(session: &Session, text: &str) -> Turn {
    let ticket = session.prompt(Prompt::text(text).unwrap()).await.expect("the prompt is accepted");
    ticket.finished().await.expect("the turn ends")
}

fn outcome(turn: &Turn) -> &TurnOutcome {
    match &turn.state {
        TurnState::Ended { outcome, .. } => outcome,
        other => panic!("the turn has not ended: {other:?}"),
    }
}

fn stop_reason(turn: &Turn) -> &str {
    match outcome(turn) {
        TurnOutcome::Stopped(reason) => reason.as_str(),
        TurnOutcome::Failed(error) => panic!("the turn failed: {error:?}"),
    }
}

fn failure(turn: &Turn) -> (&str, &str) {
    match outcome(turn) {
        TurnOutcome::Failed(error) => (error.code.as_str(), &error.message),
        TurnOutcome::Stopped(reason) => panic!("the turn stopped: {reason:?}"),
    }
}

/// What the agent received, as method (or "answer") and params or result.
pub(crate) fn received(command: &[String]) -> Vec<(String, Value)> {
    let read = |line: String| {
        let message: Value = serde_json::from_str(&line).expect("we send JSON");
        match message.get("method").and_then(Value::as_str) {
            Some(method) => (method.to_owned(), message["params"].clone()),
            None => (
                "answer".to_owned(),
                message.get("result").or(message.get("error")).cloned().unwrap_or_default(),
            ),
        }
    };
    received_lines(command).into_iter().map(read).collect()
}

pub(crate) fn methods(command: &[String]) -> Vec<String> {
    received(command).into_iter().map(|(method, _)| method).collect()
}

/// An agent that can do everything, for as long as it is asked, and never forgets.
pub(crate) fn faithful(capabilities: Value) -> Script {
    Script::new().initialize(capabilities).serve([
        ("session/new", Script::new().reply(json!({"sessionId": "s1"}))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/load", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().say("hello").end("end_turn")),
        ("session/close", Script::new().reply(json!({}))),
    ])
}

pub(crate) fn everything() -> Value {
    json!({"loadSession": true, "sessionCapabilities": {"resume": {}, "close": {}}})
}

fn restore() -> RestoreSession {
    RestoreSession::new(environment())
}

fn restore_or_refuse() -> RestoreSession {
    RestoreSession { options: WakeOptions { fallback: Fallback::Never, carry_history: false }, ..restore() }
}

/// Ends the agent as the world does.
async fn kill_agent(session: &Session) {
    let pid = session.status().agent_pid.expect("an agent runs");
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    session.wait_for(|status| status.agent_pid.is_none()).await;
}
