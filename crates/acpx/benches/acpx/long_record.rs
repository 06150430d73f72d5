//! A record of a million events, against one of a few thousand: an agent gets it back, and its end is shown. All turns
//! are alike, so both show the same.

use std::sync::Arc;
use std::time::{Duration, Instant};

use acpx_core::engine::{Engine, EngineSettings, RestoreSession};
use acpx_core::model::{HostId, RecordId};
use acpx_core::store::{Access, SqliteStore};
use acpx_testkit::{Script, ScriptStep};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use crate::agents::{self, Agents, BareAgent};
use crate::budgets::{self, Budget, Measure};
use crate::programs::Program;
use crate::report::{Report, Row};
use crate::samples::Race;
use crate::updates::chunk;

/// How many turns the records have. With the updates of each, its prompt and its end, the longer one has a million
/// events.
const TURNS: u32 = 10_000;
const SHORT_TURNS: u32 = 40;
const UPDATES: u32 = 97;
const ROUNDS: usize = 10;

/// A session of a program.
struct LongSession {
    program: Program,
    agent: Vec<String>,
    id: String,
}

impl LongSession {
    /// A session with so many turns, as an editor has it.
    fn with_turns(agents: &Agents, turns: u32) -> Self {
        let flood =
            ScriptStep::Flood { update: chunk("agent_message_chunk"), count: Some(u64::from(UPDATES)) };
        let agent = agents.with_turn(Script::new().step(flood).end("end_turn"));
        let program = Program::ours();
        let mut client = program.editor(&agents::line(&agent), 1);
        let id = client.open();
        for _ in 0..turns {
            client.prompt(&id, UPDATES.into());
        }
        client.end();
        program.stop();
        Self { program, agent, id }
    }

    fn run(&self, arguments: &[&str]) -> Duration {
        let line = agents::line(&self.agent);
        self.program.run(&[&["--agent", &line, "sessions"], arguments, &[&self.id]].concat())
    }

    /// Starts an agent and gives it the session.
    fn restore(&self, runtime: &Runtime) -> Duration {
        let path = self.program.files().join("acpx.db");
        let store = SqliteStore::open(&path, Access::ReadWrite).expect("the store opens");
        let host = HostId::new("bench").expect("the name is not empty");
        let engine = Engine::new(Arc::new(store), host, EngineSettings::default());
        let record = RecordId::new(self.id.as_str()).expect("an id is not empty");
        runtime.block_on(async {
            let started = Instant::now();
            let restore = RestoreSession::new(std::env::vars_os().collect());
            engine.restore(&record, restore).await.expect("the agent resumes the session");
            let time = started.elapsed();
            engine.shutdown().await;
            time
        })
    }
}

/// Times what a long record is used for.
pub(crate) fn measure(agents: &Agents, report: &mut Report) {
    let [short, long] = [SHORT_TURNS, TURNS].map(|turns| LongSession::with_turns(agents, turns));
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let race = Race::run(ROUNDS, &mut || bare_start(&long.agent), &mut || long.restore(&runtime), None);
    let net = race.ours.least().saturating_sub(race.floor.least()).as_secs_f64() * 1000.0;
    let found = vec![(Measure::MillisNet, net)];
    report.add(Row::new(&budgets::LONG_RESTORE, None, race.ours.to_string(), found));
    let mut add = |budget: &'static Budget, race: &Race| {
        let found = [(Measure::OverShortRecord, Some(race.ours.over(&race.floor)))];
        report.add(Row::of_race(budget, race, &found));
    };
    let commands: [(_, &[&str]); 2] =
        [(&budgets::LONG_HISTORY, &["history"]), (&budgets::LONG_REPLAY, &["replay", "--last", "1"])];
    for (budget, arguments) in commands {
        add(budget, &Race::run(ROUNDS, &mut || short.run(arguments), &mut || long.run(arguments), None));
    }
    add(&budgets::LONG_LOAD, &loads(&short, &long));
}

/// An editor that loads the last turns of a session whose agent runs.
fn loads(short: &LongSession, long: &LongSession) -> Race {
    let last = json!({ "_meta": { "acpx": { "replay": { "turns": 5 } } } });
    let mut holders = Vec::new();
    for session in [short, long] {
        let mut holder = session.program.editor(&agents::line(&session.agent), 1);
        holder.take_up("session/load", &session.id, &last);
        holders.push(holder);
    }
    let load = |session: &LongSession| {
        let mut client = session.program.editor(&agents::line(&session.agent), 1);
        let (time, received) = client.take_up("session/load", &session.id, &last);
        client.end();
        // Of each turn the prompt and the joined answer.
        assert_eq!(received, 10, "the last turns are received");
        time
    };
    let race = Race::run(ROUNDS, &mut || load(short), &mut || load(long), None);
    holders.into_iter().for_each(crate::client::Client::end);
    race
}

/// The start of an agent with nothing between, and a session.
fn bare_start(agent: &[String]) -> Duration {
    let started = Instant::now();
    let agent = BareAgent::start(agent);
    let time = started.elapsed();
    agent.end();
    time
}
