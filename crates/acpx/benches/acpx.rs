//! The benchmark: what acpx does, against the least that any program would have to do, in one run.
//!
//! Absolute figures drift with the machine; the ratios are what counts. Each figure is the best of several
//! rounds. `./bench` builds what is needed and runs this.

#![expect(clippy::print_stdout, reason = "a report for people, not part of the program")]
#![expect(clippy::cast_precision_loss, reason = "a rate is shown, not computed with")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use acpx_core::engine::{Engine, NewSession, Prompt, Settings};
use acpx_core::model::{AbsolutePath, AgentSpec, HostId, RecordId, Seq};
use acpx_core::store::{Access, SqliteStore};
use acpx_testkit::{Script, Step, TempHome, scripted_agent_command};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

const UPDATES: u64 = 100_000;
const ROUNDS: usize = 5;
/// How many rows a bare program commits at a time.
const GROUP: i64 = 64;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let kept = best(|| runtime.block_on(kept_and_passed_on()));
    let pipe = best(bare_pipe);
    let commit = best(bare_commit);
    let replay = Replay::prepare(&runtime);
    let replayed = best(|| runtime.block_on(replay.ours()));
    let bare = best(|| replay.bare());

    println!("{UPDATES} updates of {} bytes, the best of {ROUNDS} rounds", line().len());
    println!();
    row("kept and passed on to a follower that counts", kept, "target: at least 100000 a second");
    row("  floor: the same agent through a bare pipe", pipe, &ratio(kept, pipe));
    row(&format!("  floor: the same lines, committed {GROUP} at a time"), commit, &ratio(kept, commit));
    println!();
    row(
        "replayed from the store to a sink",
        replayed,
        &format!("target: at most 2x the floor; {}", ratio(replayed, bare)),
    );
    row("  floor: a bare loop over the same rows, parsed", bare, "");
}

fn row(what: &str, time: Duration, note: &str) {
    let rate = UPDATES as f64 / time.as_secs_f64();
    println!("{what:<52} {:>8.1} ms {rate:>10.0}/s   {note}", time.as_secs_f64() * 1000.0);
}

fn ratio(ours: Duration, floor: Duration) -> String {
    format!("{:.1}x the floor's time", ours.as_secs_f64() / floor.as_secs_f64())
}

fn best(mut round: impl FnMut() -> Duration) -> Duration {
    (0..ROUNDS).map(|_| round()).min().unwrap_or_default()
}

/// An update as agents send it, 280 bytes with its envelope.
fn update() -> serde_json::Value {
    let text = "The quick brown fox jumps over the lazy dog, again and again, until the dog wakes up and asks what this is all about now.";
    json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
}

fn line() -> String {
    let params = json!({"sessionId": "s1", "update": update()});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string()
}

fn flooding_agent(home: &TempHome) -> Vec<String> {
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.step(Step::Flood { update: update(), count: Some(UPDATES) }).end("end_turn"));
    scripted_agent_command(&script, home)
}

fn engine(home: &Path) -> Engine {
    let store = SqliteStore::open(&home.join("acpx.db"), Access::ReadWrite).expect("a store");
    Engine::new(Arc::new(store), HostId::new("bench").expect("not empty"), Settings::default())
}

async fn kept_and_passed_on() -> Duration {
    let home = TempHome::new();
    let (engine, _, time) = flood(&home).await;
    engine.shutdown().await;
    time
}

/// One turn of many updates: from the prompt until a follower has seen the last of them.
async fn flood(home: &TempHome) -> (Engine, RecordId, Duration) {
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
            seen += u64::from(event.body.contains("agent_message_chunk"));
        }
    });
    let started = Instant::now();
    let ticket = session.prompt(Prompt::text("go").expect("a prompt")).await.expect("accepted");
    counting.await.expect("the follower counts");
    let time = started.elapsed();
    ticket.over().await.expect("the turn ends");
    (engine, session.record_id().clone(), time)
}

/// The same exchange with the same agent, lines split and counted, nothing kept.
fn bare_pipe() -> Duration {
    let home = TempHome::new();
    let command = flooding_agent(&home);
    let mut agent = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the agent starts");
    let mut stdin = agent.stdin.take().expect("a pipe");
    let mut lines = BufReader::with_capacity(64 * 1024, agent.stdout.take().expect("a pipe"));
    let mut buffer = String::new();
    let mut ask = |id: u64, method: &str, params: serde_json::Value| {
        writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .expect("written");
    };
    ask(0, "initialize", json!({"protocolVersion": 1}));
    ask(1, "session/new", json!({"cwd": "/", "mcpServers": []}));
    for _ in 0..2 {
        lines.read_line(&mut buffer).expect("an answer");
    }
    let started = Instant::now();
    ask(2, "session/prompt", json!({"sessionId": "s1", "prompt": []}));
    for _ in 0..=UPDATES {
        buffer.clear();
        lines.read_line(&mut buffer).expect("a line");
    }
    let time = started.elapsed();
    drop(stdin);
    agent.wait().expect("the agent ends");
    time
}

/// The same lines into one SQLite table, a group at a time.
fn bare_commit() -> Duration {
    let home = TempHome::new();
    let mut database = rusqlite::Connection::open(home.join("bare.db")).expect("a database");
    database.execute_batch(BARE_SCHEMA).expect("a table");
    let line = line();
    let started = Instant::now();
    for group in 0..UPDATES.cast_signed() / GROUP {
        let transaction = database.transaction().expect("a transaction");
        let mut insert =
            transaction.prepare_cached("INSERT INTO events VALUES (?1, ?2)").expect("a statement");
        for row in 0..GROUP {
            insert.execute((group * GROUP + row, &line)).expect("a row");
        }
        drop(insert);
        transaction.commit().expect("a commit");
    }
    started.elapsed()
}

const BARE_SCHEMA: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
    CREATE TABLE events (key INTEGER PRIMARY KEY, body TEXT);";

/// A store with one long turn in it.
struct Replay {
    home: TempHome,
    engine: Engine,
    record: RecordId,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

impl Replay {
    fn prepare(runtime: &tokio::runtime::Runtime) -> Self {
        let home = TempHome::new();
        let (engine, record, _) = runtime.block_on(flood(&home));
        Self { home, engine, record }
    }

    async fn ours(&self) -> Duration {
        let started = Instant::now();
        let mut replay = self.engine.replay(&self.record, Seq::FIRST);
        let (mut seen, mut bytes) = (0, 0);
        loop {
            let page = replay.page().await.expect("the store");
            if page.is_empty() {
                break;
            }
            for event in page {
                let envelope: Envelope<'_> = serde_json::from_str(&event.body).expect("an envelope");
                bytes += envelope.params.map_or(0, |params| params.get().len());
                seen += 1;
            }
        }
        assert!(seen > UPDATES && bytes > 0);
        started.elapsed()
    }

    /// All columns of all rows in one statement.
    fn bare(&self) -> Duration {
        let database = rusqlite::Connection::open(self.home.join("acpx.db")).expect("a database");
        let started = Instant::now();
        let mut select = database
            .prepare("SELECT key, at, turn, lineage, protocol, direction, kind, checksum, body FROM events ORDER BY key")
            .expect("a statement");
        let mut rows = select.query([]).expect("rows");
        let (mut seen, mut bytes) = (0, 0);
        while let Some(row) = rows.next().expect("a row") {
            let body: Arc<str> = row.get(8).expect("a body");
            let facts: [Option<i64>; 8] = std::array::from_fn(|column| row.get(column).expect("a number"));
            let envelope: Envelope<'_> = serde_json::from_str(&body).expect("an envelope");
            bytes += envelope.params.map_or(0, |params| params.get().len()) + facts.len();
            seen += 1;
        }
        assert!(seen > UPDATES && bytes > 0);
        started.elapsed()
    }
}
