//! Clients that go away or stall. A turn belongs to its record, and nobody else waits for a client.

use std::time::Duration;

use acpx_core::home::published;
use acpx_core::protocol::HostMessage;
use acpx_testkit::Script;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

use super::{Bench, eventually, prompt, prompt_params, until};
use crate::engine::everything;

#[tokio::test]
async fn client_that_disconnects_in_mid_turn_leaves_the_turn_running() {
    let bench = Bench::new();
    let script = Script::new().initialize(everything()).session_new("s1").prompt(|turn| {
        let half = turn.say("half").touch(&bench.home.join("began"));
        half.await_file(&bench.home.join("go")).say("whole").end("end_turn")
    });
    let argv = bench.agent(&script);
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &argv).await;
    let params = prompt_params(&record, "do it", json!({}));
    client.request("session/prompt", &params).await.unwrap();
    eventually("the turn began", || bench.home.join("began").exists()).await;
    client.close().await;

    let mut other = bench.client().await;
    let watch = json!({ "sessionId": record, "from": 1 });
    other.call::<Value>("_acpx/watch", &watch).await.unwrap();
    std::fs::write(bench.home.join("go"), "").unwrap();
    let ended = until(&mut other, |said| match said {
        HostMessage::Event(event) if event.message.get().contains("turn_ended") => Some(event),
        _ => None,
    });
    let ended: Value = serde_json::from_str(ended.await.message.get()).unwrap();
    assert_eq!((&ended["stopReason"], ended.get("error")), (&json!("end_turn"), None));
}

#[tokio::test]
async fn client_that_does_not_read_blocks_no_other_turn() {
    let bench = Bench::new();
    let script = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().flood(Some(5_000)).end("end_turn")),
    ]);
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &bench.agent(&script)).await;

    // It wants everything and takes nothing.
    let mut stalled = UnixStream::connect(published(&bench.paths).unwrap().socket).await.unwrap();
    let lines = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "session/resume", "params": bench.resume_params(&record) }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "_acpx/watch", "params": { "sessionId": record, "from": 1 } }),
    ];
    for line in lines {
        stalled.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }
    for _ in 0..2 {
        assert_eq!(prompt(&mut client, &record, "flood").await["stopReason"], "end_turn");
    }
    drop(stalled);
}

/// How much memory a process has, in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn clients_that_do_not_read_cost_the_host_no_memory() {
    const LINE: usize = 4096;
    const LINES: u64 = 6_000;
    let bench = Bench::new();
    let long = "x".repeat(LINE);
    let script = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().repeat(LINES, |turn| turn.say(&long)).end("end_turn")),
    ]);
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &bench.agent(&script)).await;
    let mut stalled = Vec::new();
    for _ in 0..4 {
        let mut socket = UnixStream::connect(published(&bench.paths).unwrap().socket).await.unwrap();
        let mut load = bench.resume_params(&record);
        load["mcpServers"] = json!([]);
        let lines = [
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } }),
            json!({ "jsonrpc": "2.0", "id": 2, "method": "session/load", "params": load }),
            json!({ "jsonrpc": "2.0", "id": 3, "method": "_acpx/watch", "params": { "sessionId": record, "from": 1 } }),
        ];
        for line in lines {
            socket.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        }
        stalled.push(socket);
    }
    // The first turn fills what there is to fill.
    assert_eq!(prompt(&mut client, &record, "once").await["stopReason"], "end_turn");
    let before = resident(bench.host_process().pid);
    for _ in 0..2 {
        assert_eq!(prompt(&mut client, &record, "more").await["stopReason"], "end_turn");
    }
    let grown = resident(bench.host_process().pid).saturating_sub(before) * 1024;
    let said = LINES * LINE as u64 * 2 * stalled.len() as u64;
    assert!(grown < said / 10, "the host has grown by {grown} bytes for {said} that nobody took");
}

#[tokio::test]
async fn client_that_never_reads_is_dropped_and_its_turn_continues() {
    let bench = Bench::with_client_timeouts(Duration::from_mins(10), Duration::from_millis(200));
    let turn = Script::new().flood(Some(20_000)).say("done").end("end_turn");
    let script = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", turn),
    ]);
    let argv = bench.agent(&script);
    let mut stopped = bench.editor(&argv).await;
    let record = stopped.open(&bench).await;
    let mut other = bench.editor(&argv).await;
    other.call("session/resume", bench.load_params(&record)).await.unwrap();
    stopped.ask("session/prompt", prompt_params(&record, "x", json!({}))).await;
    other.until(|line| line["params"]["update"]["content"]["text"] == "done").await;
    let mut clients = json!(2);
    while clients != json!(1) {
        clients = other.call("_acpx/host/status", json!({})).await.unwrap()["clients"].clone();
    }
    assert_eq!(other.turn(&record, "y").await.stop_reason, "end_turn");
}
