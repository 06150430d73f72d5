//! Clients that send nonsense, too much, or nothing: nobody else notices.

use acpx_core::client::HostClient;
use acpx_core::home::published;
use acpx_testkit::Script;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::{Bench, prompt, prompt_params};
use crate::engine::{everything, faithful};

impl Bench {
    async fn raw(&self) -> UnixStream {
        UnixStream::connect(published(&self.paths).unwrap().socket).await.unwrap()
    }
}

/// A host with a session, of which somebody else makes use.
async fn served(bench: &Bench) -> (HostClient, String) {
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &bench.agent(&faithful(everything()))).await;
    (client, record)
}

/// The others are still served, and nobody else is left.
async fn is_well(bench: &Bench, client: &mut HostClient, record: &str) {
    assert_eq!(prompt(client, record, "well?").await["stopReason"], "end_turn");
    let mut alone = json!(0);
    while alone["clients"] != 1 {
        alone = client.call::<Value>("_acpx/host/status", &json!({})).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(alone["pid"], bench.host_process().pid);
}

#[tokio::test]
async fn garbage_and_torn_lines_are_skipped_and_later_requests_served() {
    let bench = Bench::new();
    let (mut client, record) = served(&bench).await;
    for garbage in [&b"\0\xff\xfe no JSON\n\n{}\n[1,2\n"[..], b"null\n\"x\"\n{\"jsonrpc\":\"2.0\"}\n", b"\n"]
    {
        let mut stream = bench.raw().await;
        stream.write_all(garbage).await.unwrap();
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#;
        stream.write_all(format!("{initialize}\n").as_bytes()).await.unwrap();
        let answer = BufReader::new(&mut stream).lines().next_line().await.unwrap().unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(1), &json!(1)));
        stream.write_all(br#"{"jsonrpc":"2.0","id":2,"method":"#).await.unwrap();
    }
    is_well(&bench, &mut client, &record).await;
}

#[tokio::test]
async fn ten_thousand_silent_connections_do_not_disturb_the_host() {
    let bench = Bench::new();
    let (mut client, record) = served(&bench).await;
    let socket = published(&bench.paths).unwrap().socket;
    for _ in 0..10_000 {
        // With too many before the door there is no room in the queue, which is theirs to wait for.
        while UnixStream::connect(&socket).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
    is_well(&bench, &mut client, &record).await;
}

#[tokio::test]
async fn two_thousand_requests_of_a_client_that_never_reads_disturb_no_other() {
    let bench = Bench::new();
    let (mut client, record) = served(&bench).await;
    let mut stream = bench.raw().await;
    let line = |id: u64, method: &str, params: Value| {
        format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
    };
    let first = line(0, "initialize", json!({ "protocolVersion": 1 }));
    stream.write_all(first.as_bytes()).await.unwrap();
    // Each is answered with the whole of what it was asked with, so the answers fill whatever is between.
    let unknown = format!("_acpx/{}", "x".repeat(4000));
    let mut sent: u64 = 0;
    let flood = async {
        for id in 1..=2000 {
            stream.write_all(line(id, &unknown, json!({})).as_bytes()).await.unwrap();
            sent = id;
        }
        std::future::pending::<()>().await;
    };
    // Meanwhile others work; the host takes what it has room for and then reads no more.
    tokio::select! {
        () = flood => {}
        () = async {
            for _ in 0..20 {
                assert_eq!(prompt(&mut client, &record, "well?").await["stopReason"], "end_turn");
            }
        } => {}
    }
    assert!(sent > 0);
    drop(stream);
    is_well(&bench, &mut client, &record).await;
}

#[tokio::test]
async fn connection_limit_leaves_room_for_agents_and_admits_waiting_clients() {
    let bench = Bench::new().with_files(120);
    let (mut client, record) = served(&bench).await;
    let mut crowd = Vec::new();
    for _ in 0..60 {
        crowd.push(bench.raw().await);
    }
    assert_eq!(prompt(&mut client, &record, "well?").await["stopReason"], "end_turn");
    let mut late = Box::pin(bench.client());
    tokio::select! {
        _ = &mut late => panic!("there is room for more than there should be"),
        answer = prompt(&mut client, &record, "well?") => assert_eq!(answer["stopReason"], "end_turn"),
    }
    drop(crowd);
    drop(late.await);
    is_well(&bench, &mut client, &record).await;
}

#[tokio::test]
async fn requests_for_an_agent_that_reads_nothing_are_bounded_and_refused() {
    let bench = Bench::new();
    let mode = json!({ "id": "code", "name": "Code" });
    let modes = json!({ "currentModeId": "code", "availableModes": [mode] });
    let opened = Script::new().initialize(json!({})).expect("session/new");
    let opened = opened.reply(json!({ "sessionId": "s1", "modes": modes }));
    let script = opened.prompt(|turn| turn.say("begun").hang());
    let mut editor = bench.editor(&bench.agent(&script)).await;
    let record = editor.open(&bench).await;
    let turn = editor.ask("session/prompt", prompt_params(&record, "go", json!({}))).await;
    while editor.next().await["params"]["update"]["content"]["text"] != "begun" {}

    // Together they are half as long again as what may wait.
    let large = json!({ "sessionId": record, "modeId": "code", "large": "x".repeat(8 << 20) });
    for _ in 0..12 {
        editor.ask("session/set_mode", large.clone()).await;
    }
    let refused = editor.until(|line| line.get("error").is_some()).await;
    assert_eq!(refused["error"]["data"]["acpx"]["code"], "QUEUE_FULL", "{refused}");
    let waiting: Value =
        bench.client().await.call("_acpx/waiting", &json!({ "sessionId": record })).await.unwrap();
    assert_eq!(waiting["waitingFor"]["what"], "agent-read", "{waiting}");
    editor.notify("session/cancel", json!({ "sessionId": record })).await;
    assert_eq!(editor.answer(turn).await.0.unwrap()["stopReason"], "cancelled");
}
