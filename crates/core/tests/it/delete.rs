//! A session is deleted, whatever it is doing and whoever has it in use: by the engine, and by clients of a host.
#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use acpx_core::client::HostClient;
use acpx_core::engine::{
    AtAgent, Engine, EngineSettings, NewSession, Prompt, RestoreSession, Session, SessionError,
};
use acpx_core::host::{ClientTimeouts, Host};
use acpx_core::model::{
    AbsolutePath, AgentKey, AgentSpec, HostId, Lifecycle, Record, RecordId, Scope, Seq, TurnId, TurnOutcome,
    TurnState,
};
use acpx_core::protocol::{HostError, HostMessage};
use acpx_core::store::{Access, Change, Durability, MemoryStore, RecordFilter, SqliteStore, Store};
use acpx_core::tools::{Environment, GracePeriods};
use acpx_testkit::{Script, TempHome, received_lines, scripted_agent_command, starts_of};
use serde_json::{Value, json};

use crate::store_contract::samples;

/// How long an agent has that is started to delete a session.
const LIMIT: Duration = Duration::from_secs(20);

/// An engine, and a host over it, in a home of their own.
struct Bench {
    home: TempHome,
    store: Arc<dyn Store>,
    engine: Engine,
    host: Arc<Host>,
}

impl Bench {
    fn new() -> Self {
        Self::with(Duration::from_secs(20))
    }

    /// One whose agents have so long to answer a close or a delete.
    fn with(close_grace: Duration) -> Self {
        Self::over(Arc::new(MemoryStore::new()), close_grace)
    }

    fn over(store: Arc<dyn Store>, close_grace: Duration) -> Self {
        let engine = Self::engine_over(&store, close_grace);
        let host = Arc::new(Host::new(engine.clone(), store.clone(), "1.2.3", ClientTimeouts::default()));
        Self { home: TempHome::new(), store, engine, host }
    }

    fn engine_over(store: &Arc<dyn Store>, close_grace: Duration) -> Engine {
        let process = GracePeriods { eof: Duration::from_millis(500), term: Duration::from_millis(500) };
        let settings = EngineSettings { close_grace, process, ..EngineSettings::default() };
        Engine::new(store.clone(), HostId::new("host").unwrap(), settings)
    }

    fn agent(&self, script: &Script) -> (NewSession, Vec<String>) {
        let command = scripted_agent_command(script, &self.home);
        let agent = AgentSpec::new(&command[0], &command[1..]).named("scripted");
        let cwd = AbsolutePath::from_path(self.home.path()).unwrap();
        let scope = Some(Scope { agent: AgentKey::new("scripted"), name: None });
        (NewSession { scope, ..NewSession::new(agent, cwd, std::env::vars_os().collect()) }, command)
    }

    async fn open(&self, script: &Script) -> (Session, Vec<String>) {
        let (new, command) = self.agent(script);
        (self.engine.open(new).await.expect("the session opens"), command)
    }

    /// What an agent is started with that does not run.
    fn given() -> RestoreSession {
        RestoreSession::new(std::env::vars_os().collect())
    }

    async fn kept(&self, record: &RecordId) -> Record {
        self.store.record(record.clone()).await.unwrap().expect("the id is taken")
    }

    async fn listed(&self) -> Vec<RecordId> {
        let records = self.store.records(RecordFilter::default(), None, 10).await.unwrap();
        records.into_iter().map(|record| record.id).collect()
    }

    /// Makes sure that a record is deleted, with nothing left to do, and that nobody gets it back.
    async fn is_gone(&self, record: &RecordId) {
        let kept = self.kept(record).await;
        assert!(kept.lifecycle.is_deleted(), "{kept:?}");
        assert!(kept.agent_run.is_none_or(|run| run.ended.is_some()));
        assert_eq!(self.store.open_turns(record.clone()).await.unwrap(), []);
        assert_eq!(self.store.exchanges(record.clone()).await.unwrap(), None);
        assert_eq!(samples::all_events(&*self.store, record, 100).await.unwrap(), []);
        assert!(!self.listed().await.contains(record));
        assert_eq!(self.engine.record(record).await.unwrap(), None);
        let attached = self.engine.attach(record, &RestoreSession::new(Environment::default())).await;
        let restored = self.engine.restore(record, RestoreSession::new(Environment::default())).await;
        for refused in [attached.err().unwrap(), restored.err().unwrap()] {
            assert!(matches!(&refused, SessionError::NoRecord(id) if id == record), "{refused:?}");
        }
    }

    async fn client(&self) -> HostClient {
        HostClient::over(self.host.connect()).await.unwrap()
    }

    fn new_params(&self, command: &[String]) -> Value {
        let environment: Vec<(String, String)> = std::env::vars().collect();
        let agent = json!({ "name": "scripted", "argv": command });
        let acpx = json!({ "agent": agent, "environment": environment, "shell": {} });
        json!({ "cwd": self.home.path(), "mcpServers": [], "_meta": { "acpx": acpx } })
    }

    fn restore_params(&self, record: &str) -> Value {
        json!({ "sessionId": record, "cwd": self.home.path(), "mcpServers": [] })
    }
}

/// An agent that answers everything, and advertises these session capabilities.
fn obliging(capabilities: &Value) -> Script {
    Script::new().initialize(json!({ "sessionCapabilities": capabilities })).serve([
        ("session/new", Script::new().reply(json!({"sessionId": "s1"}))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().say("hello").end("end_turn")),
        ("session/close", Script::new().reply(json!({}))),
        ("session/delete", Script::new().reply(json!({}))),
    ])
}

/// An agent that is busy from its first prompt on.
fn busy(capabilities: &Value, then: impl FnOnce(Script) -> Script) -> Script {
    let script = Script::new().initialize(json!({ "sessionCapabilities": capabilities }));
    script.session_new("s1").prompt(|turn| then(turn.say("busy").expect("session/cancel")))
}

/// What the agent was told, from its first session on.
fn told(command: &[String]) -> Vec<String> {
    let method = |line: String| {
        let message: Value = serde_json::from_str(&line).unwrap();
        message["method"].as_str().unwrap_or("answer").to_owned()
    };
    received_lines(command).into_iter().map(method).skip(2).collect()
}

async fn until_busy(session: &Session) {
    let mut follower = session.follow(Seq::FIRST);
    while !follower.next().await.unwrap().unwrap().body.contains("busy") {}
}

fn text(text: &str) -> Prompt {
    Prompt::text(text).unwrap()
}

#[tokio::test]
async fn deleted_session_is_closed_deleted_at_its_agent_and_never_restored() {
    let cases = [
        (json!({"close": {}, "delete": {}}), vec!["session/close", "session/delete"]),
        (json!({"delete": {}}), vec!["session/delete"]),
        (json!({"close": {}}), vec!["session/close"]),
        (json!({}), vec![]),
    ];
    for (capabilities, expected) in cases {
        let bench = Bench::new();
        let (session, command) = bench.open(&obliging(&capabilities)).await;
        let record = session.record_id().clone();
        bench.engine.delete(&record).await.unwrap();
        assert_eq!(told(&command), expected, "{capabilities}");
        bench.is_gone(&record).await;
        // Whoever still has it in hand is told the same.
        for refused in [session.prompt(text("more")).await.err(), session.close().await.err()] {
            assert_eq!(refused.unwrap().to_string(), format!("there is no record {record}"));
        }
        // What is gone is done with, and so is what never was.
        bench.engine.delete(&record).await.unwrap();
        bench.engine.delete(&RecordId::new("never was").unwrap()).await.unwrap();
        assert_eq!(starts_of(&command), 1);
    }
}

#[tokio::test]
async fn a_delete_cancels_the_running_turn_and_those_that_wait() {
    let cases = [
        (json!({}), vec!["session/prompt", "session/cancel"]),
        (json!({"delete": {}}), vec!["session/prompt", "session/cancel", "session/delete"]),
    ];
    for (capabilities, expected) in cases {
        let bench = Bench::new();
        let delete = Script::new().reply(json!({}));
        let script = busy(&capabilities, |turn| turn.serve([("session/delete", delete)]));
        let (session, command) = bench.open(&script).await;
        let running = session.prompt(text("run")).await.unwrap();
        let waiting = session.prompt(text("wait")).await.unwrap();
        until_busy(&session).await;
        bench.engine.delete(session.record_id()).await.unwrap();
        for ticket in [running, waiting] {
            match ticket.finished().await.unwrap().state {
                TurnState::Ended { outcome: TurnOutcome::Stopped(reason), .. } => {
                    assert_eq!(reason.as_str(), "cancelled");
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(told(&command), expected, "{capabilities}");
        bench.is_gone(session.record_id()).await;
    }
}

#[tokio::test]
async fn delete_succeeds_though_its_agent_refuses_or_never_answers() {
    let both = json!({"close": {}, "delete": {}});
    let start = || Script::new().initialize(json!({ "sessionCapabilities": both })).session_new("s1");
    let no = || Script::new().reply_error(json!({"code": -32603, "message": "no"}));
    let closed = || ("session/close", Script::new().reply(json!({})));
    let cases = [
        (start().serve([closed(), ("session/delete", no())]), 2),
        (start().serve([closed(), ("session/delete", Script::new().exit(1))]), 2),
        (start().serve([closed(), ("session/delete", Script::new().hang())]), 2),
        // One that does not even close is asked for nothing more.
        (start().serve([("session/close", Script::new().hang())]), 1),
    ];
    for (script, asked) in cases {
        let bench = Bench::with(Duration::from_millis(200));
        let (session, command) = bench.open(&script).await;
        bench.engine.delete(session.record_id()).await.unwrap();
        assert_eq!(told(&command), ["session/close", "session/delete"][..asked]);
        bench.is_gone(session.record_id()).await;
    }
}

#[tokio::test]
async fn parked_closed_and_orphaned_sessions_are_deleted_without_an_agent() {
    for left in ["parked", "closed", "left"] {
        let bench = Bench::new();
        let (session, command) = bench.open(&obliging(&json!({"delete": {}}))).await;
        let engine = match left {
            "parked" => session.park().await.map(|()| bench.engine.clone()).unwrap(),
            "closed" => session.close().await.map(|()| bench.engine.clone()).unwrap(),
            _ => {
                bench.engine.shutdown().await;
                Bench::engine_over(&bench.store, Duration::from_secs(20))
            }
        };
        engine.delete(session.record_id()).await.unwrap();
        assert_eq!((told(&command), starts_of(&command)), (Vec::new(), 1), "{left}");
        Bench { engine, ..bench }.is_gone(session.record_id()).await;
    }
}

#[tokio::test]
async fn an_agent_that_does_not_run_is_started_to_delete_its_session() {
    for left in ["parked", "closed", "left"] {
        let bench = Bench::new();
        let (session, command) = bench.open(&obliging(&json!({"delete": {}}))).await;
        let engine = match left {
            "parked" => session.park().await.map(|()| bench.engine.clone()).unwrap(),
            "closed" => session.close().await.map(|()| bench.engine.clone()).unwrap(),
            _ => {
                bench.engine.shutdown().await;
                Bench::engine_over(&bench.store, Duration::from_secs(20))
            }
        };
        let at_agent = engine.delete_everywhere(session.record_id(), Bench::given(), LIMIT).await.unwrap();
        assert!(matches!(at_agent, AtAgent::Deleted), "{left}: {at_agent:?}");
        // The second process is told nothing else.
        assert_eq!(
            (told(&command), starts_of(&command)),
            (vec!["initialize".to_owned(), "session/delete".to_owned()], 2),
            "{left}"
        );
        Bench { engine, ..bench }.is_gone(session.record_id()).await;
    }
}

#[tokio::test]
async fn delete_reports_why_an_agent_still_has_the_session() {
    let both = json!({"close": {}, "delete": {}});
    let start = || Script::new().initialize(json!({ "sessionCapabilities": both })).session_new("s1");
    let closed = || ("session/close", Script::new().reply(json!({})));
    let no = Script::new().reply_error(json!({"code": -32603, "message": "no"}));
    let unending = Script::new().initialize(json!({ "sessionCapabilities": both })).serve([
        ("session/new", Script::new().reply(json!({"sessionId": "s1"}))),
        ("session/delete", Script::new().hang()),
    ]);
    let cases = [
        ("NOT_OFFERED", obliging(&json!({})), false),
        ("NOT_OFFERED", obliging(&json!({})), true),
        ("AGENT_REFUSED", start().serve([closed(), ("session/delete", no)]), false),
        ("AGENT_UNRESPONSIVE", start().serve([closed(), ("session/delete", Script::new().hang())]), false),
        // One that is started for it and goes away, and one that never answers.
        ("AGENT_DIED", start().serve([closed()]), true),
        ("AGENT_UNRESPONSIVE", unending, true),
    ];
    for (code, script, parked) in cases {
        let bench = Bench::with(Duration::from_millis(200));
        let (session, _) = bench.open(&script).await;
        if parked {
            session.park().await.unwrap();
        }
        let limit = Duration::from_millis(500);
        match bench.engine.delete_everywhere(session.record_id(), Bench::given(), limit).await.unwrap() {
            AtAgent::Kept(why) => assert_eq!(why.code().as_str(), code, "{why:?}"),
            AtAgent::Deleted => panic!("{code}"),
        }
        bench.is_gone(session.record_id()).await;
    }
}

#[tokio::test]
async fn delete_of_a_closed_session_reaches_its_agent_or_reports_why_not() {
    let cases = [
        (json!({"close": {}, "delete": {}}), None),
        (json!({"close": {}}), Some("the agent \"scripted\" does not offer session/delete")),
    ];
    for (capabilities, why) in cases {
        let bench = Bench::new();
        let (_, command) = bench.agent(&obliging(&capabilities));
        let mut client = bench.client().await;
        let made = ask(&mut client, "session/new", &bench.new_params(&command)).await;
        let of_session = json!({ "sessionId": made["sessionId"] });
        ask(&mut client, "_acpx/close", &of_session).await;
        let answer = ask(&mut client, "session/delete", &of_session).await;
        match why {
            None => assert_eq!(answer, json!({})),
            Some(why) => assert_eq!(answer, json!({ "_meta": { "acpx": { "keptByAgent": why } } })),
        }
        let asked = told(&command).iter().any(|method| method == "session/delete");
        assert_eq!(asked, why.is_none());
        bench.is_gone(&RecordId::new(made["sessionId"].as_str().unwrap()).unwrap()).await;
        bench.host.shut_down().await;
    }
}

#[tokio::test]
async fn queued_prompts_of_a_dead_host_are_deleted_with_their_record() {
    let bench = Bench::new();
    let (session, command) = bench.open(&obliging(&json!({}))).await;
    let record = session.record_id().clone();
    bench.engine.shutdown().await;
    let lease = bench.store.lease(record.clone(), samples::host("dead")).await.unwrap();
    let left = |number, state| Change::Turn(samples::turn(number, &format!("q{number}"), state));
    let changes = vec![left(1, samples::dispatched()), left(2, TurnState::Queued)];
    bench.store.append(lease, changes, Durability::Process).await.unwrap();
    let next = Bench::engine_over(&bench.store, Duration::from_secs(20));
    next.delete(&record).await.unwrap();
    for number in [1, 2] {
        assert_eq!(bench.store.turn_numbered(record.clone(), TurnId(number)).await.unwrap(), None);
    }
    assert_eq!(starts_of(&command), 1);
    Bench { engine: next, ..bench }.is_gone(&record).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_delete_close_and_restore_end_with_a_deleted_record() {
    for _ in 0..10 {
        let bench = Bench::new();
        let script = obliging(&json!({"close": {}, "delete": {}, "resume": {}}));
        let (session, _) = bench.open(&script).await;
        let record = session.record_id();
        let engine = &bench.engine;
        let (first, second, closed, restored) = tokio::join!(
            engine.delete(record),
            engine.delete(record),
            session.close(),
            engine.restore(record, RestoreSession::new(Environment::default())),
        );
        first.unwrap();
        second.unwrap();
        for error in [closed.err(), restored.err()].into_iter().flatten() {
            assert!(
                ["NO_SESSION", "SESSION_CLOSING", "SHUT_DOWN"].contains(&error.code().as_str()),
                "{error:?}"
            );
        }
        bench.is_gone(record).await;
    }
}

#[tokio::test]
async fn the_scope_of_a_deleted_session_is_free_at_once() {
    let bench = Bench::new();
    let script = obliging(&json!({}));
    let (first, _) = bench.open(&script).await;
    let (second, _) = bench.agent(&script);
    let refused = bench.engine.open(second).await.err().unwrap();
    assert_eq!(refused.code().as_str(), "SCOPE_TAKEN");
    bench.engine.delete(first.record_id()).await.unwrap();
    let (second, _) = bench.open(&script).await;
    assert_eq!(bench.listed().await, [second.record_id().clone()]);
    bench.engine.shutdown().await;
}

#[tokio::test]
async fn an_engine_that_was_shut_down_deletes_nothing() {
    let bench = Bench::new();
    let (session, _) = bench.open(&obliging(&json!({}))).await;
    bench.engine.shutdown().await;
    assert_eq!(bench.engine.delete(session.record_id()).await.unwrap_err().code().as_str(), "SHUT_DOWN");
    assert_eq!(bench.kept(session.record_id()).await.lifecycle, Lifecycle::Open);
}

/// The number of the error with which a host refuses.
async fn number(client: &mut HostClient, method: &str, params: &Value) -> i64 {
    match client.call::<Value>(method, params).await {
        Err(HostError::Refused(refusal)) => refusal.number,
        other => panic!("{method} was not refused: {other:?}"),
    }
}

async fn ask(client: &mut HostClient, method: &str, params: &Value) -> Value {
    client.call(method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
}

fn prompt_params(record: &str) -> Value {
    json!({ "sessionId": record, "prompt": [{ "type": "text", "text": "go" }] })
}

#[tokio::test]
async fn to_every_client_of_a_host_a_deleted_session_is_unknown() {
    let bench = Bench::new();
    let (_, command) = bench.agent(&obliging(&json!({"resume": {}, "delete": {}})));
    let (mut deleting, mut other) = (bench.client().await, bench.client().await);
    let new = bench.new_params(&command);
    let made = ask(&mut deleting, "session/new", &new).await;
    let record = made["sessionId"].as_str().unwrap();
    ask(&mut other, "session/resume", &bench.restore_params(record)).await;
    let of_session = json!({ "sessionId": record });
    assert_eq!(ask(&mut deleting, "session/delete", &of_session).await, json!({}));
    for client in [&mut deleting, &mut other] {
        let refusals = [
            number(client, "session/prompt", &prompt_params(record)).await,
            number(client, "session/load", &bench.restore_params(record)).await,
            number(client, "session/resume", &bench.restore_params(record)).await,
            number(client, "_acpx/watch", &of_session).await,
            number(client, "_acpx/cancel", &of_session).await,
            number(client, "_acpx/close", &of_session).await,
        ];
        assert_eq!(refusals, [-32002; 6]);
        assert_eq!(ask(client, "session/list", &json!({})).await, json!({ "sessions": [] }));
        // It is gone, and so is what never was.
        assert_eq!(ask(client, "session/delete", &of_session).await, json!({}));
        assert_eq!(ask(client, "session/delete", &json!({ "sessionId": "x" })).await, json!({}));
    }
    bench.is_gone(&RecordId::new(record).unwrap()).await;
    // A shell gets a session of its own in its place.
    let made = ask(&mut other, "session/new", &new).await;
    assert_eq!(made["_meta"]["acpx"]["created"], json!(true));
    assert_eq!(made["_meta"]["acpx"].get("replacedRecordId"), None);
    assert_eq!(bench.listed().await, [RecordId::new(made["sessionId"].as_str().unwrap()).unwrap()]);
    bench.host.shut_down().await;
}

#[tokio::test]
async fn turn_in_a_session_that_another_client_deletes_is_cancelled() {
    let bench = Bench::new();
    let (_, command) = bench.agent(&busy(&json!({}), Script::hang));
    let (mut prompting, mut deleting) = (bench.client().await, bench.client().await);
    let made = ask(&mut prompting, "session/new", &bench.new_params(&command)).await;
    let record = made["sessionId"].as_str().unwrap();
    let turn = prompting.request("session/prompt", &prompt_params(record)).await.unwrap();
    let session = bench
        .engine
        .attach(&RecordId::new(record).unwrap(), &RestoreSession::new(Environment::default()))
        .await
        .unwrap();
    until_busy(&session).await;
    ask(&mut deleting, "session/delete", &json!({ "sessionId": record })).await;
    let answer = loop {
        match prompting.next().await.unwrap() {
            HostMessage::Answer { id, result } if id == turn => break result.unwrap(),
            _ => {}
        }
    };
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["stopReason"], json!("cancelled"));
    bench.is_gone(session.record_id()).await;
    bench.host.shut_down().await;
}

#[tokio::test]
async fn prune_keeps_open_changed_and_busy_records_and_reports_why() {
    let bench = Bench::new();
    let (_, command) = bench.agent(&busy(&json!({}), Script::hang));
    let mut client = bench.client().await;
    let made = ask(&mut client, "session/new", &bench.new_params(&command)).await;
    let record = made["sessionId"].as_str().unwrap();
    let kept = |reason: &str| json!({ "pruned": [], "skipped": [{ "sessionId": record, "reason": reason }] });
    let closed = json!({ "sessionIds": [record] });
    assert_eq!(ask(&mut client, "_acpx/prune", &closed).await, kept("open"));
    let unchanged =
        json!({ "sessionIds": [record], "includeOpen": true, "unchangedSince": "2020-01-01T00:00:00Z" });
    assert_eq!(ask(&mut client, "_acpx/prune", &unchanged).await, kept("changed"));
    let id = RecordId::new(record).unwrap();
    let session = bench.engine.attach(&id, &RestoreSession::new(Environment::default())).await.unwrap();
    client.request("session/prompt", &prompt_params(record)).await.unwrap();
    until_busy(&session).await;
    let any = json!({ "sessionIds": [record], "includeOpen": true });
    let mut other = bench.client().await;
    assert_eq!(ask(&mut other, "_acpx/prune", &any).await, kept("busy"));
    ask(&mut other, "_acpx/close", &json!({ "sessionId": record })).await;
    assert_eq!(ask(&mut other, "_acpx/prune", &closed).await, json!({ "pruned": [record], "skipped": [] }));
    bench.is_gone(&id).await;
    bench.host.shut_down().await;
}

#[tokio::test]
async fn prune_deletes_the_other_records_when_one_deletion_fails() {
    let home = TempHome::new();
    let path = home.path().join("acpx.db");
    let store = SqliteStore::open(&path, Access::ReadWrite).unwrap();
    let bench = Bench::over(Arc::new(store), Duration::from_secs(20));
    for record in ["r1", "r2", "r3"] {
        let closed = vec![Change::Lifecycle(Lifecycle::Closed { at: samples::at(9) })];
        bench.store.create(samples::record(record, 5), closed, samples::host("host")).await.unwrap();
    }
    let without_lease = "DELETE FROM leases WHERE record = (SELECT key FROM records WHERE id = 'r2')";
    rusqlite::Connection::open(&path).unwrap().execute_batch(without_lease).unwrap();
    let mut client = bench.client().await;
    let mut answer = ask(&mut client, "_acpx/prune", &json!({ "sessionIds": ["r1", "r2", "r3"] })).await;
    let error = answer["skipped"][0].as_object_mut().unwrap().remove("error").unwrap();
    assert!(error.as_str().unwrap().contains("is damaged"), "{error}");
    let expected = json!({ "pruned": ["r1", "r3"], "skipped": [{ "sessionId": "r2", "reason": "failed" }] });
    assert_eq!(answer, expected);
    bench.host.shut_down().await;
}
