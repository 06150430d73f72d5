//! Terminals that acpx runs for a version 1 agent, as its clients see them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Bounds, Log};
use crate::acp::agent::ClientFacts;
use crate::model::{Fact, ProtocolVersion};

/// A tool call whose terminal continues after the call's last update.
fn log() -> Log {
    let mut log = Log::new();
    let terminal_id = || "u".to_owned();
    log.begin(1, "go");
    log.fact(&Fact::TerminalStarted { terminal_id: terminal_id(), command: "ls".into() });
    log.update(
        r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","content":[{"type":"terminal","terminalId":"u"},{"type":"future","n":1.0}]}"#,
    );
    log.fact(&Fact::TerminalOutput { terminal_id: terminal_id(), output: "a\n".into() });
    log.update(r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed"}"#);
    log.fact(&Fact::TerminalOutput { terminal_id: terminal_id(), output: "b\n".into() });
    let (exit_code, signal, output) = (Some(0), None, None);
    log.fact(&Fact::TerminalEnded { terminal_id: terminal_id(), exit_code, signal, output });
    log.end(1);
    log
}

fn updates(lines: &[Value]) -> Vec<Value> {
    lines.iter().map(|line| line["params"]["update"].clone()).collect()
}

fn shown(text: &str) -> Value {
    json!([
        { "type": "content", "content": { "type": "text", "text": text } },
        { "type": "future", "n": 1.0 },
    ])
}

#[test]
fn v1_client_sees_terminal_output_as_text_in_the_call() {
    let told = log().live(Arc::default());
    let told: Vec<Value> = told.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let contents: Vec<_> =
        updates(&told).into_iter().filter_map(|update| update.get("content").cloned()).collect();
    let expected = [shown("$ ls\n"), shown("$ ls\na\n"), shown("$ ls\na\nb\n[exit code 0]")];
    assert_eq!(contents[1..], expected);
}

#[test]
fn replay_renders_a_terminal_call_once_at_its_last_event() {
    let log = log();
    let last = log.events.len() as u64 - 1;
    for from in 1..=last {
        let told = log.replay_to(Arc::default(), from);
        let calls: Vec<_> =
            told.iter().filter(|line| line["params"]["update"]["toolCallId"] == "t").collect();
        let update = json!({
            "sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "status": "completed",
            "content": shown("$ ls\na\nb\n[exit code 0]"),
        });
        assert_eq!(calls.iter().map(|line| &line["params"]["update"]).collect::<Vec<_>>(), [&update]);
        assert_eq!(calls[0]["params"]["_meta"]["acpx"]["seq"], last);
    }
    let after = log.replay_to(Arc::default(), last + 1);
    assert!(after.iter().all(|line| line["params"]["update"]["toolCallId"] != "t"), "{after:?}");
}

#[test]
fn a_client_of_version_2_has_the_terminal_as_a_terminal() {
    let client = Arc::new(ClientFacts { protocol: ProtocolVersion::V2, ..ClientFacts::default() });
    let told = log().replay_to(client, 1);
    let told = updates(&told);
    let terminals: Vec<_> = told.iter().filter(|update| update.get("terminalId").is_some()).collect();
    let kinds: Vec<_> = terminals.iter().map(|update| update["sessionUpdate"].as_str().unwrap()).collect();
    let (update, chunk) = ("terminal_update", "terminal_output_chunk");
    assert_eq!(kinds, [update, chunk, chunk, update]);
    let call = told.iter().find(|update| update["toolCallId"] == "t").unwrap();
    assert_eq!(call["content"][0], json!({ "type": "terminal", "terminalId": "u" }));
}

/// The same from a version 2 agent, which runs the terminal itself.
fn second_log() -> Log {
    let mut log = Log::new();
    log.protocol = 2;
    log.begin(1, "go");
    log.answer(1, r#""result":{"messageId":"m"}"#);
    log.update(r#"{"sessionUpdate":"terminal_update","terminalId":"u","command":"ls","_meta":{"x":1}}"#);
    log.update(
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"T","status":"completed","rawOutput":"0123456789012345678901234567890123456789012345678901234567890123","content":[{"type":"terminal","terminalId":"u"}]}"#,
    );
    for _ in 0..2 {
        log.update(r#"{"sessionUpdate":"terminal_output_chunk","terminalId":"u","data":"YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE="}"#);
    }
    log.update(r#"{"sessionUpdate":"terminal_update","terminalId":"u","exitStatus":{"exitCode":0}}"#);
    log.end(1);
    log
}

/// The updates of a bounded replay that are about the terminal or its call.
fn bounded(log: &Log, protocol: ProtocolVersion, most: usize) -> Vec<Value> {
    let client = Arc::new(ClientFacts { protocol, ..ClientFacts::default() });
    let told = log.replay_as(client, 1, Bounds { tool_output_bytes: Some(most) });
    let is_meant = |update: &Value| update.get("terminalId").is_some() || update.get("toolCallId").is_some();
    updates(&told).into_iter().filter(is_meant).collect()
}

#[test]
fn terminal_output_is_bounded_and_its_omission_named() {
    let mut first = log();
    // The same amount of output, from a version 1 agent.
    let output = "c".repeat(60);
    let long = Fact::TerminalOutput { terminal_id: "u".to_owned(), output };
    first.events.truncate(first.events.len() - 2);
    first.fact(&long);
    let (exit_code, signal, output) = (Some(0), None, Some("c".repeat(64)));
    first.fact(&Fact::TerminalEnded { terminal_id: "u".to_owned(), exit_code, signal, output });
    let call = json!({
        "sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "status": "completed",
        "_meta": { "acpx": { "leftOut": ["content"] } },
    });
    assert_eq!(bounded(&first, ProtocolVersion::V1, 63), [call]);
    let lacks = json!({ "acpx": { "leftOut": ["output"] } });
    let started = json!({
        "sessionUpdate": "terminal_update", "terminalId": "u", "command": "ls", "_meta": lacks,
    });
    let ended = json!({
        "sessionUpdate": "terminal_update", "terminalId": "u", "exitStatus": { "exitCode": 0 }, "_meta": lacks,
    });
    let call = json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "T", "status": "completed",
        "_meta": { "acpx": { "leftOut": ["content"] } },
    });
    assert_eq!(bounded(&first, ProtocolVersion::V2, 63), [started, call, ended]);
}

#[test]
fn v2_terminal_output_is_bounded() {
    let log = second_log();
    let call = |kind: &str, left_out: Value| {
        json!({
            "sessionUpdate": kind, "toolCallId": "t", "title": "T", "status": "completed",
            "_meta": { "acpx": { "leftOut": left_out } },
        })
    };
    let told = bounded(&log, ProtocolVersion::V1, 63);
    assert_eq!(told, [call("tool_call", json!(["content", "rawOutput"]))]);
    let lacks = json!({ "acpx": { "leftOut": ["output"] } });
    let mut started = json!({
        "sessionUpdate": "terminal_update", "terminalId": "u", "command": "ls", "_meta": lacks,
    });
    started["_meta"]["x"] = json!(1);
    let ended = json!({
        "sessionUpdate": "terminal_update", "terminalId": "u", "exitStatus": { "exitCode": 0 }, "_meta": lacks,
    });
    let mut with_terminal = call("tool_call_update", json!(["rawOutput"]));
    with_terminal["content"] = json!([{ "type": "terminal", "terminalId": "u" }]);
    assert_eq!(bounded(&log, ProtocolVersion::V2, 63), [started, with_terminal, ended]);
    // Output within the bound is sent, and the call's terminal is sent with its output.
    let all = bounded(&log, ProtocolVersion::V2, 66);
    let kinds: Vec<_> = all.iter().map(|update| update["sessionUpdate"].as_str().unwrap()).collect();
    let (update, chunk) = ("terminal_update", "terminal_output_chunk");
    assert_eq!(kinds, [update, "tool_call_update", chunk, chunk, update]);
    assert!(all.iter().all(|update| update.get("_meta").is_none_or(|meta| meta.get("acpx").is_none())));
}

#[test]
fn terminal_omission_is_named_in_an_output_only_update() {
    let log = second_log();
    let client = Arc::new(ClientFacts { protocol: ProtocolVersion::V2, ..ClientFacts::default() });
    let outputs: Vec<u64> =
        log.events.iter().filter(|event| event.body.contains("_chunk")).map(|it| it.seq.0).collect();
    let told = log.replay_as(client, outputs[0], Bounds { tool_output_bytes: Some(10) });
    let named = json!({
        "sessionUpdate": "terminal_update", "terminalId": "u", "_meta": { "acpx": { "leftOut": ["output"] } },
    });
    assert_eq!(updates(&told)[0], named);
    assert_eq!(told[0]["params"]["_meta"]["acpx"]["seq"], outputs[0]);
    let chunks =
        updates(&told).iter().filter(|update| update["sessionUpdate"] == "terminal_output_chunk").count();
    assert_eq!(chunks, 0);
}
