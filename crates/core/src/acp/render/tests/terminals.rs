//! Terminals that we run for an agent of version 1, as its clients see them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Log;
use crate::acp::agent::ClientFacts;
use crate::model::{Fact, ProtocolVersion};

/// A tool call whose terminal goes on after the call was last told of.
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
fn a_client_of_version_1_has_the_terminal_as_text_in_the_call_whenever_that_is_told() {
    let told = log().live(Arc::default());
    let told: Vec<Value> = told.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let contents: Vec<_> =
        updates(&told).into_iter().filter_map(|update| update.get("content").cloned()).collect();
    let expected = [shown("$ ls\n"), shown("$ ls\na\n"), shown("$ ls\na\nb\n[exit code 0]")];
    assert_eq!(contents[1..], expected);
}

#[test]
fn told_again_a_call_is_told_once_with_all_that_its_terminal_shows_at_the_place_of_the_last_of_it() {
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
