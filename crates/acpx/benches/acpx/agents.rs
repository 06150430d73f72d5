//! The agents that both programs are measured with: compiled, and as quick as an agent can be. What they take by
//! themselves is measured over a bare pipe.

use std::process::Command;
use std::time::{Duration, Instant};

use acpx_testkit::{Script, TempHome, scripted_agent_command};
use serde_json::json;

use crate::client::Client;

/// How many pieces the long answer has.
pub(crate) const CHUNKS: u32 = 10_000;
/// What each of them says.
pub(crate) const CHUNK: &str = "flood";

/// The commands of the agents, and the directory that has their scripts.
pub(crate) struct Agents {
    home: TempHome,
    /// Answers at once.
    pub(crate) quick: Vec<String>,
}

impl Agents {
    pub(crate) fn new() -> Self {
        let home = TempHome::new();
        Self { quick: quick("s1", &home), home }
    }

    /// One that answers its first prompt at once and every later one in many pieces, each of them one word.
    pub(crate) fn chatty_with(&self, session: &str) -> Vec<String> {
        let long = Script::new().flood(Some(CHUNKS.into())).end("end_turn");
        let first = serving(answering_at_once(), session, long);
        scripted_agent_command(&serving(Script::new(), session, first), &self.home)
    }

    /// One whose turns are all these steps.
    pub(crate) fn with_turn(&self, turn: Script) -> Vec<String> {
        scripted_agent_command(&serving(Script::new(), "s1", turn), &self.home)
    }

    /// One more that answers at once, with another session.
    pub(crate) fn quick_with(&self, session: &str) -> Vec<String> {
        quick(session, &self.home)
    }
}

fn quick(session: &str, home: &TempHome) -> Vec<String> {
    scripted_agent_command(&serving(Script::new(), session, answering_at_once()), home)
}

fn answering_at_once() -> Script {
    Script::new().say("ready").end("end_turn")
}

/// A command as one line, as `--agent` takes it.
pub(crate) fn line(command: &[String]) -> String {
    let quoted =
        command.iter().map(|word| if word.contains(' ') { format!("\"{word}\"") } else { word.clone() });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Goes on with what an agent of one session does, whose turns are all alike.
fn serving(script: Script, session: &str, turn: Script) -> Script {
    let capabilities = json!({ "sessionCapabilities": { "resume": {} } });
    let initialized = json!({ "protocolVersion": 1, "agentCapabilities": capabilities });
    script.serve([
        ("initialize", Script::new().reply(initialized)),
        ("session/new", Script::new().reply(json!({ "sessionId": session }))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", turn),
    ])
}

/// An agent at the other end of a pipe, with nothing between, and its session.
pub(crate) struct BareAgent {
    pub(crate) client: Client,
    pub(crate) session: String,
}

impl BareAgent {
    /// Starts it and makes a session.
    pub(crate) fn start(command: &[String]) -> Self {
        let mut client = Client::start(Command::new(&command[0]).args(&command[1..]), 1);
        let session = client.open();
        Self { client, session }
    }

    /// Prompts it and reads the answer: so many updates, and the end of the turn.
    pub(crate) fn prompt(&mut self, updates: u64) -> Duration {
        self.client.prompt(&self.session, updates)
    }

    /// Lets it go, and waits until it is gone.
    pub(crate) fn end(self) {
        self.client.end();
    }
}

/// Start, one turn, end.
pub(crate) fn whole_life(command: &[String]) -> Duration {
    let started = Instant::now();
    let mut agent = BareAgent::start(command);
    agent.prompt(1);
    agent.end();
    started.elapsed()
}

/// Start and one turn. Its end is not waited for: neither program does when it leaves an agent running.
pub(crate) fn start_and_turn(command: &[String]) -> Duration {
    let started = Instant::now();
    let mut agent = BareAgent::start(command);
    agent.prompt(1);
    let time = started.elapsed();
    agent.end();
    time
}
