//! Updates of an agent that is as fast as it can be: stored and forwarded, replayed, and the floors of both.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use acpx_core::engine::{Engine, EngineSettings, NewSession, Prompt};
use acpx_core::model::{AbsolutePath, AgentSpec, HostId, RecordId, Seq};
use acpx_core::store::{Access, SqliteStore};
use acpx_testkit::{Script, ScriptStep, TempHome, scripted_agent_command};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use crate::agents::BareAgent;
use crate::budgets::{self, Measure};
use crate::replay::Replay;
use crate::report::{Report, Row};
use crate::samples::{Race, alone};

pub(crate) const UPDATES: u32 = 100_000;
const ROUNDS: usize = 5;
/// A replay is short, and a machine is slow at times: the shortest of a few is a matter of luck.
const REPLAYS: usize = 30;
/// How many rows a bare program commits at a time.
const GROUP: u32 = 64;
/// How often a commit that is synced is timed.
const COMMITS: usize = 50;

/// Times what is kept and what is replayed. `npm_rate` is how many updates a second npm acpx keeps.
pub(crate) fn measure(npm_rate: Option<f64>, report: &mut Report) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let stored = Race::run(ROUNDS, &mut bare_pipe, &mut || runtime.block_on(stored_and_forwarded()), None);
    let rate = f64::from(UPDATES) / stored.ours.least().as_secs_f64();
    let npm = npm_rate.map(|rate| format!("{rate:.0} a second, by the chunks above"));
    report.add(Row::new(&budgets::STORED, npm, stored.ours.to_string(), vec![(Measure::PerSecond, rate)]));
    report.add_floor("100,000 updates of 280 bytes through a bare pipe", &stored.floor);
    report.add_floor("the same lines into SQLite, 64 a commit", &alone(ROUNDS, bare_commits));
    report.add_floor("one commit that is synced to the disk", &synced_commits());
    replay(&runtime, report);
}

fn replay(runtime: &Runtime, report: &mut Report) {
    let replay = Replay::prepare(runtime);
    let race = Race::run(REPLAYS, &mut || replay.bare(), &mut || runtime.block_on(replay.ours()), None);
    let found = vec![(Measure::OverBareLoop, race.ours.over(&race.floor))];
    report.add(Row::new(&budgets::REPLAY, None, race.ours.to_string(), found));
    report.add_floor("a bare loop over the same rows, parsed", &race.floor);
}

/// A piece of a message as agents send it, 280 bytes with its envelope.
pub(crate) fn chunk(kind: &str) -> serde_json::Value {
    let text = "The quick brown fox jumps over the lazy dog, again and again, until the dog wakes up and asks what this is all about now.";
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
}

fn line() -> String {
    let params = json!({"sessionId": "s1", "update": chunk("agent_message_chunk")});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string()
}

fn flooding_agent(home: &TempHome) -> Vec<String> {
    let flood = ScriptStep::Flood { update: chunk("agent_message_chunk"), count: Some(u64::from(UPDATES)) };
    let script =
        Script::new().initialize(json!({})).session_new("s1").prompt(|turn| turn.step(flood).end("end_turn"));
    scripted_agent_command(&script, home)
}

fn engine(home: &Path) -> Engine {
    let store = SqliteStore::open(&home.join("acpx.db"), Access::ReadWrite).expect("a store");
    Engine::new(Arc::new(store), HostId::new("bench").expect("not empty"), EngineSettings::default())
}

async fn stored_and_forwarded() -> Duration {
    let home = TempHome::new();
    let (engine, _, time) = flood(&home).await;
    engine.shutdown().await;
    time
}

/// One turn of many updates: from the prompt until a follower has seen the last of them.
pub(crate) async fn flood(home: &TempHome) -> (Engine, RecordId, Duration) {
    let engine = engine(home.path());
    let command = flooding_agent(home);
    let agent = AgentSpec::new(&command[0], &command[1..]);
    let cwd = AbsolutePath::from_path(home.path()).expect("absolute");
    let new = NewSession::new(agent, cwd, std::env::vars_os().collect());
    let session = engine.open(new).await.expect("a session");
    let mut follower = session.follow(Seq::FIRST);
    let counting = tokio::spawn(async move {
        let mut seen = 0;
        while seen < UPDATES {
            let event = follower.next().await.expect("the store").expect("the session goes on");
            seen += u32::from(event.body.contains("agent_message_chunk"));
        }
    });
    let started = Instant::now();
    let ticket = session.prompt(Prompt::text("go").expect("a prompt")).await.expect("accepted");
    counting.await.expect("the follower counts");
    let time = started.elapsed();
    ticket.finished().await.expect("the turn ends");
    (engine, session.record_id().clone(), time)
}

/// The same turn of the same agent, lines split and counted, nothing kept.
fn bare_pipe() -> Duration {
    let home = TempHome::new();
    let mut agent = BareAgent::start(&flooding_agent(&home));
    let time = agent.prompt(u64::from(UPDATES));
    agent.end();
    time
}

/// The same lines into one SQLite table, a group at a time.
fn bare_commits() -> Duration {
    let home = TempHome::new();
    let mut database = bare_database(&home);
    let line = line();
    let started = Instant::now();
    for group in 0..UPDATES / GROUP {
        let transaction = database.transaction().expect("a transaction");
        let mut insert = transaction.prepare_cached(INSERT).expect("a statement");
        for row in 0..GROUP {
            insert.execute((group * GROUP + row, &line)).expect("a row");
        }
        drop(insert);
        transaction.commit().expect("a commit");
    }
    started.elapsed()
}

/// One line at a time, each on the disk before the next.
fn synced_commits() -> crate::samples::Samples {
    let home = TempHome::new();
    let database = bare_database(&home);
    database.pragma_update(None, "synchronous", "FULL").expect("a setting");
    let line = line();
    let mut key = 0;
    alone(COMMITS, || {
        key += 1;
        let started = Instant::now();
        database.prepare_cached(INSERT).and_then(|mut insert| insert.execute((key, &line))).expect("a row");
        started.elapsed()
    })
}

fn bare_database(home: &TempHome) -> rusqlite::Connection {
    let database = rusqlite::Connection::open(home.join("bare.db")).expect("a database");
    database.execute_batch(BARE_SCHEMA).expect("a table");
    database
}

const BARE_SCHEMA: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
    CREATE TABLE events (key INTEGER PRIMARY KEY, body TEXT);";
const INSERT: &str = "INSERT INTO events VALUES (?1, ?2)";
