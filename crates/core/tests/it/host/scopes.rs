//! Sessions that a shell finds: one at a time in one place.

use acpx_core::client::HostClient;
use acpx_core::model::Lifecycle;
use acpx_core::store::{RecordFilter, Store};
use acpx_testkit::{Script, starts_of};
use serde_json::{Value, json};

use super::{Bench, prompt, refusal};
use crate::engine::everything;

/// An agent that gives every session an id of its own, and every turn a word.
fn agent() -> Script {
    let start = |script: Script, session: &str| {
        script.initialize(everything()).serve([
            ("session/new", Script::new().reply(json!({ "sessionId": session }))),
            ("session/resume", Script::new().reply(json!({}))),
            ("session/close", Script::new().reply(json!({}))),
            ("session/prompt", Script::new().say("hello").end("end_turn")),
        ])
    };
    (2..=9)
        .fold(start(Script::new(), "s1"), |script, number| start(script.next_start(), &format!("s{number}")))
}

impl Bench {
    /// The params of `session/new` in a shell's scope.
    pub(super) fn shell_params(&self, argv: &[String], shell: Value) -> Value {
        let mut params = self.new_params(argv);
        params["_meta"]["acpx"]["shell"] = shell;
        params
    }

    /// The open records, each with its name.
    pub(super) async fn open_records(&self) -> Vec<(String, Option<String>)> {
        let records = self.store().records(RecordFilter::default(), None, 100).await.unwrap();
        let open = records.into_iter().filter(|record| record.lifecycle == Lifecycle::Open);
        let name = |record: acpx_core::model::Record| {
            let name = record.scope.and_then(|scope| scope.name).map(|name| name.to_string());
            (record.id.to_string(), name)
        };
        open.map(name).collect()
    }
}

/// Makes a session; its record, and what is said of it.
pub(super) async fn make(client: &mut HostClient, params: &Value) -> (String, Value) {
    let answer: Value = client.call("session/new", params).await.unwrap();
    (answer["sessionId"].as_str().unwrap().to_owned(), answer["_meta"]["acpx"].clone())
}

#[tokio::test]
async fn new_session_replaces_only_the_session_of_its_scope() {
    let bench = Bench::new();
    let argv = bench.agent(&agent());
    let mut client = bench.client().await;
    let (first, _) = make(&mut client, &bench.shell_params(&argv, json!({}))).await;
    let (named, meta) = make(&mut client, &bench.shell_params(&argv, json!({ "name": "work" }))).await;
    assert_eq!((&meta["created"], meta.get("replacedRecordId")), (&json!(true), None));
    let (second, meta) = make(&mut client, &bench.shell_params(&argv, json!({}))).await;
    let expected = json!({
        "acpxRecordId": second, "acpxSessionId": "s3", "created": true, "replacedRecordId": first, "seq": 0,
    });
    assert_eq!(meta, expected);
    let mut open = bench.open_records().await;
    open.sort();
    let mut expected = [(named, Some("work".to_owned())), (second, None)];
    expected.sort();
    assert_eq!(open, expected);
    assert!(matches!(bench.record(&first).await.lifecycle, Lifecycle::Closed { .. }));
}

#[tokio::test]
async fn new_session_whose_agent_fails_leaves_the_existing_one() {
    let bench = Bench::new();
    let argv = bench.agent(&agent());
    let mut client = bench.client().await;
    let (first, _) = make(&mut client, &bench.shell_params(&argv, json!({}))).await;
    let mut params = bench.shell_params(&argv, json!({}));
    params["_meta"]["acpx"]["agent"]["argv"] = json!(["/no/such/agent"]);
    assert_eq!(refusal(&mut client, "session/new", &params).await.code().as_str(), "AGENT_NOT_FOUND");
    assert_eq!(bench.open_records().await, [(first.clone(), None)]);
    assert_eq!(prompt(&mut client, &first, "still there?").await["stopReason"], "end_turn");
}

#[tokio::test]
async fn ensure_returns_the_existing_session_without_starting_it() {
    let bench = Bench::new();
    let argv = bench.agent(&agent());
    let here = bench.home.path().canonicalize().unwrap();
    let mut client = bench.client().await;
    let inside = bench.home.join("inside");
    std::fs::create_dir(&inside).unwrap();
    let mut params = bench.shell_params(&argv, json!({ "unlessIn": [inside, here] }));
    params["cwd"] = json!(inside);
    let outside = bench.shell_params(&argv, json!({ "unlessIn": [here] }));
    let (first, meta) = make(&mut client, &outside).await;
    assert_eq!(meta["created"], true);
    bench.kill_host().await;

    let mut client = bench.client().await;
    let (again, meta) = make(&mut client, &params).await;
    let expected = json!({ "acpxRecordId": first, "acpxSessionId": "s1", "created": false, "seq": 4 });
    assert_eq!((&again, meta), (&first, expected));
    assert_eq!(starts_of(&argv), 1);
    // Started by this client's prompt, it gets what this client has given.
    assert_eq!(prompt(&mut client, &first, "hello").await["stopReason"], "end_turn");
    assert_eq!(starts_of(&argv), 2);
}

#[tokio::test]
async fn concurrent_session_new_in_one_scope_leaves_one_open() {
    for shell in [json!({}), json!({ "unlessIn": [] })] {
        let bench = Bench::new();
        let argv = bench.agent(&agent());
        let mut params = bench.shell_params(&argv, shell);
        if params["_meta"]["acpx"]["shell"].get("unlessIn").is_some() {
            let here = bench.home.path().canonicalize().unwrap();
            params["_meta"]["acpx"]["shell"]["unlessIn"] = json!([here]);
        }
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(bench.client().await);
        }
        let made = clients.iter_mut().map(|client| make(client, &params));
        let mut made = futures_of(made).await;
        let open = bench.open_records().await;
        assert_eq!(open.len(), 1);
        made.retain(|(record, _)| *record == open[0].0);
        assert!(!made.is_empty());
    }
}

/// Runs futures beside each other.
async fn futures_of<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *done = Some(value);
            }
        }
        if done.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}
