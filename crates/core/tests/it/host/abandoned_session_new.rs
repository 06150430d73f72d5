//! Clients that go before `session/new` is answered: what they began is taken back, and nobody else meets it.

use std::path::Path;

use acpx_core::client::HostClient;
use acpx_core::model::{Lifecycle, ProcessIdentity};
use acpx_core::store::{RecordFilter, Store};
use acpx_testkit::Script;
use serde_json::{Value, json};

use super::scopes::make;
use super::{Bench, eventually, prompt};
use crate::engine::{everything, faithful};

impl Bench {
    /// Asks for a session in the shell's scope, and goes as soon as the agent has come this far.
    async fn begin_and_go(&self, argv: &[String], so_far: &Path) {
        let client = self.client().await;
        client.request("session/new", &self.shell_params(argv, json!({}))).await.unwrap();
        eventually("the agent is on its way", || so_far.exists()).await;
        client.close().await;
    }

    /// How all records stand.
    async fn lifecycles(&self) -> Vec<Lifecycle> {
        let records = self.store().records(RecordFilter::default(), None, 100).await.unwrap();
        records.into_iter().map(|record| record.lifecycle).collect()
    }
}

/// The first process that an agent was started as, if it is still there.
fn first_start(argv: &[String]) -> Option<ProcessIdentity> {
    let starts = std::fs::read_to_string(Path::new(argv.last()?).with_extension("starts")).ok()?;
    ProcessIdentity::of(starts.lines().next()?.parse().ok()?)
}

async fn live_sessions(client: &mut HostClient) -> Value {
    let status: Value = client.call("_acpx/host/status", &json!({})).await.unwrap();
    status["liveSessions"].clone()
}

/// Waits until no session has an agent.
async fn all_quiet(client: &mut HostClient) {
    while live_sessions(client).await != 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn client_that_disconnects_during_session_new_leaves_no_record_or_process() {
    let bench = Bench::new();
    let (asked, never) = (bench.home.join("asked"), bench.home.join("never"));
    let starting = Script::new().expect("initialize").touch(&asked).await_file(&never);
    let creating =
        Script::new().initialize(everything()).expect("session/new").touch(&asked).await_file(&never);
    for script in [starting, creating] {
        let argv = bench.agent(&script);
        bench.begin_and_go(&argv, &asked).await;
        let mut client = bench.client().await;
        all_quiet(&mut client).await;
        eventually("the agent is gone", || first_start(&argv).is_none()).await;
        assert_eq!(bench.lifecycles().await, []);
        std::fs::remove_file(&asked).unwrap();
    }
}

#[tokio::test]
async fn session_new_answered_after_its_client_disconnected_is_not_listed() {
    let bench = Bench::new();
    let (asked, go) = (bench.home.join("asked"), bench.home.join("go"));
    let script = Script::new().initialize(everything()).expect("session/new").touch(&asked).await_file(&go);
    let script =
        script.reply(json!({ "sessionId": "s1" })).serve([("session/close", Script::new().reply(json!({})))]);
    let argv = bench.agent(&script);
    bench.begin_and_go(&argv, &asked).await;
    std::fs::write(&go, "").unwrap();
    let mut client = bench.client().await;
    all_quiet(&mut client).await;
    eventually("the agent is gone", || first_start(&argv).is_none()).await;
    assert_eq!(bench.lifecycles().await, []);
}

#[tokio::test]
async fn session_new_after_an_abandoned_one_succeeds() {
    let bench = Bench::new();
    let (asked, never) = (bench.home.join("asked"), bench.home.join("never"));
    let stuck = Script::new().initialize(everything()).expect("session/new").touch(&asked).await_file(&never);
    bench.begin_and_go(&bench.agent(&stuck), &asked).await;
    let mut client = bench.client().await;
    let argv = bench.agent(&faithful(everything()));
    let (record, meta) = make(&mut client, &bench.shell_params(&argv, json!({}))).await;
    assert_eq!((&meta["created"], meta.get("replacedRecordId")), (&json!(true), None));
    assert_eq!(bench.open_records().await, [(record, None)]);
}

#[tokio::test]
async fn existing_session_stays_when_the_client_replacing_it_disconnects() {
    let bench = Bench::new();
    let mut client = bench.client().await;
    let argv = bench.agent(&faithful(everything()));
    let (record, _) = make(&mut client, &bench.shell_params(&argv, json!({}))).await;
    let (asked, never) = (bench.home.join("asked"), bench.home.join("never"));
    let stuck = Script::new().initialize(everything()).expect("session/new").touch(&asked).await_file(&never);
    let stuck = bench.agent(&stuck);
    bench.begin_and_go(&stuck, &asked).await;
    while live_sessions(&mut client).await != 1 {
        tokio::task::yield_now().await;
    }
    eventually("the agent is gone", || first_start(&stuck).is_none()).await;
    assert_eq!(bench.open_records().await, [(record.clone(), None)]);
    assert_eq!(prompt(&mut client, &record, "still there?").await["stopReason"], "end_turn");
}

#[tokio::test]
async fn cancelled_session_new_is_answered_and_undone() {
    for version in [1, 2] {
        let bench = Bench::new();
        let so_far = bench.home.path().join("asked");
        let hanging = Script::new().initialize(json!({})).next_start().initialize(json!({}));
        let hanging = hanging.expect("session/new").touch(&so_far).hang();
        let argv = bench.agent(&hanging.next_start().initialize(json!({})).session_new("s1"));
        let mut editor = bench.speaking(version, 1, &argv).await;
        let new = json!({ "cwd": bench.home.path(), "mcpServers": [] });
        let id = editor.ask("session/new", new).await;
        eventually("the agent is asked", || so_far.exists()).await;
        editor.notify("$/cancel_request", json!({ "requestId": id })).await;
        assert_eq!(editor.answer(id).await.0.unwrap_err()["code"], -32800);

        let starts = std::fs::read_to_string(Path::new(argv.last().unwrap()).with_extension("starts"));
        let started = starts.unwrap().lines().nth(1).and_then(|pid| pid.parse().ok()).unwrap();
        eventually("the agent is gone", || ProcessIdentity::of(started).is_none()).await;
        assert_eq!(bench.lifecycles().await, []);
        editor.open(&bench).await;
        assert_eq!(bench.lifecycles().await, [Lifecycle::Open]);
    }
}
