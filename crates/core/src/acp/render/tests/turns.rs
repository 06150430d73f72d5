//! Updates that span turns: a client that attaches in a later turn receives the rest of them, and a reused id is a
//! different entity.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Log, record, text, updates};
use crate::acp::agent::ClientFacts;
use crate::acp::render::{Bounds, RecordRenderer};
use crate::model::ProtocolVersion;

fn second() -> Arc<ClientFacts> {
    Arc::new(ClientFacts { protocol: ProtocolVersion::V2, ..ClientFacts::default() })
}

fn live(log: &Log, client: Arc<ClientFacts>) -> Vec<Value> {
    let read = |line: &String| serde_json::from_str::<Value>(line).unwrap()["params"]["update"].clone();
    log.live(client).iter().map(read).collect()
}

fn named(id: &str, words: &str) -> String {
    let mut chunk = text("agent_message_chunk", words);
    chunk["messageId"] = json!(id);
    chunk.to_string()
}

#[test]
fn resumed_replay_does_not_restart_a_continued_message() {
    for protocol in [1, 2] {
        let mut log = Log { protocol, ..Log::new() };
        log.begin(1, "x");
        log.update(&named("m", "one "));
        log.end(1);
        log.begin(2, "y");
        log.update(&named("o", "hm"));
        log.update(&named("m", "two"));
        let told = updates(&log.replay_to(second(), 8));
        assert_eq!(told, [(8, serde_json::from_str(&named("m", "two")).unwrap())], "{protocol}");
    }
}

#[test]
fn tool_call_retitled_in_a_later_turn_is_rendered_whole() {
    let call = r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"Build","kind":"execute"}"#;
    let whole = json!({ "toolCallId": "t", "title": "Built", "kind": "execute", "status": "completed" });
    for (protocol, first, kind) in
        [(1, "tool_call", "tool_call"), (2, "tool_call_update", "tool_call_update")]
    {
        let mut log = Log { protocol, ..Log::new() };
        log.begin(1, "x");
        log.update(&call.replace("tool_call\"", &format!("{first}\"")));
        log.end(1);
        log.begin(2, "y");
        log.say("hm");
        log.update(
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"Built","status":"completed"}"#,
        );
        let client = if protocol == 1 { Arc::default() } else { second() };
        let mut expected = whole.clone();
        expected["sessionUpdate"] = json!(kind);
        assert_eq!(updates(&log.replay_as(client, 8, Bounds::default())), [(8, expected)], "{protocol}");
    }
}

#[test]
fn resumed_replay_sends_all_session_info_fields() {
    for client in [Arc::default(), second()] {
        let mut log = Log::new();
        log.begin(1, "x");
        log.update(r#"{"sessionUpdate":"session_info_update","title":"A"}"#);
        log.end(1);
        log.begin(2, "y");
        log.say("hm");
        log.update(r#"{"sessionUpdate":"session_info_update","updatedAt":"2026-01-01T00:00:00Z"}"#);
        let whole = json!({ "sessionUpdate": "session_info_update", "title": "A", "updatedAt": "2026-01-01T00:00:00Z" });
        assert_eq!(updates(&log.replay_to(client, 8)), [(8, whole)]);
    }
}

#[test]
fn v2_chunks_without_a_message_id_reach_a_v1_client() {
    let mut log = Log { protocol: 2, ..Log::new() };
    log.begin(1, "x");
    log.answer(1, r#""result":{"messageId":"u"}"#);
    log.say("the answer");
    let answer = text("agent_message_chunk", "the answer");
    assert_eq!(live(&log, Arc::default()).last(), Some(&answer));
    assert_eq!(updates(&log.replay()).last(), Some(&(4, answer)));
}

#[test]
fn v2_only_update_kinds_of_a_v1_agent_are_unknown() {
    let mut log = Log::new();
    log.begin(1, "x");
    log.update(r#"{"sessionUpdate":"state_update","state":"idle"}"#);
    let more = r#"{"sessionUpdate":"tool_call_content_chunk","toolCallId":"t","content":{"type":"content","content":{"type":"text","text":"x"}}}"#;
    log.update(more);
    log.say("a");
    log.end(1);
    let told = live(&log, second());
    let states: Vec<_> = told.iter().filter_map(|update| update["state"].as_str()).collect();
    assert_eq!((states, told.len()), (vec!["running", "idle"], 4), "{told:?}");
    // A version 1 client receives it as sent, live and in a replay.
    let strange = |lines: &[Value]| lines.contains(&serde_json::from_str(more).unwrap());
    let again: Vec<_> = updates(&log.replay()).into_iter().map(|(_, update)| update).collect();
    assert!(strange(&live(&log, Arc::default())) && strange(&again), "{again:?}");
}

#[test]
fn v2_client_sees_a_reused_tool_call_id_as_new() {
    let mut log = Log::new();
    log.begin(1, "x");
    log.update(
        r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"A","status":"completed","rawInput":{"a":1}}"#,
    );
    log.end(1);
    log.begin(2, "y");
    log.update(r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"B","kind":"read"}"#);
    log.update(r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"B","rawInput":{"b":1}}"#);
    let mut another = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "B", "kind": "read",
        "status": "pending", "name": null, "content": null, "locations": null, "rawInput": null, "rawOutput": null,
        "_meta": null });
    let told = live(&log, second());
    let calls: Vec<_> = told.iter().filter(|update| update["toolCallId"] == "t").collect();
    let again = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "B", "rawInput": { "b": 1 } });
    assert_eq!(calls[1..], [&another, &again]);
    let mut late = RecordRenderer::new(&record(), second());
    late.begins_late();
    let told = log.events[4..].iter().flat_map(|event| late.render(event, &|_| false));
    let told: Vec<Value> = told.map(|line| serde_json::from_str(&line).unwrap()).collect();
    assert!(told.iter().any(|line| line["params"]["update"] == another), "{told:?}");
    another["rawInput"] = json!({ "b": 1 });
    // Also in a replay that starts after the earlier call.
    for from in [1, 5, 8] {
        let replayed = updates(&log.replay_to(second(), from)).pop();
        assert_eq!(replayed, Some((8, another.clone())), "from {from}");
    }
}

#[test]
fn two_prompts_with_nothing_between_them_are_two_messages_for_version_1() {
    let mut log = Log::new();
    for (turn, words) in [(1, "fix the tests"), (2, "no, fix the docs")] {
        log.begin(turn, words);
        log.end(turn);
    }
    let prompt = |turn: u64, words: &str| {
        let mut chunk = text("user_message_chunk", words);
        chunk["messageId"] = json!(format!("r:turn:{turn}"));
        chunk
    };
    let prompts = [prompt(1, "fix the tests"), prompt(2, "no, fix the docs")];
    assert_eq!(live(&log, Arc::default()), prompts);
    let told: Vec<_> = updates(&log.replay()).into_iter().map(|(_, update)| update).collect();
    assert_eq!(told, prompts);
}
