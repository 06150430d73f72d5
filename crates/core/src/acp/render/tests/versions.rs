//! What clients of version 2 are told of agents of version 1, and the other way round.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Log, record};
use crate::acp::agent::ClientFacts;
use crate::acp::render::Rendering;
use crate::model::{Direction, EventKind, Fact, FactError, ProtocolVersion};

fn second() -> Arc<ClientFacts> {
    let all =
        ClientFacts { notices: true, compaction: true, boolean_options: true, ..ClientFacts::default() };
    Arc::new(ClientFacts { protocol: ProtocolVersion::V2, ..all })
}

fn said(lines: &[Value]) -> Vec<Value> {
    lines.iter().map(|line| line["params"]["update"].clone()).collect()
}

fn live(log: &Log, client: Arc<ClientFacts>) -> Vec<Value> {
    log.live(client).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn state(state: &str) -> Value {
    json!({ "sessionUpdate": "state_update", "state": state })
}

#[test]
fn a_turn_of_a_first_agent_is_told_a_second_client_with_states_and_stable_ids() {
    let mut log = Log::new();
    log.begin(1, "do it");
    log.say("a");
    log.update(r#"{"sessionUpdate":"usage_update","used":1,"size":2}"#);
    log.say("b");
    log.update(r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"look"}"#);
    log.say("c");
    log.end(1);
    let chunk = |id: &str, text: &str| json!({ "sessionUpdate": "agent_message_chunk", "content": block(text), "messageId": id });
    let prompt =
        json!({ "sessionUpdate": "user_message", "messageId": "r:turn:1", "content": [block("do it")] });
    let usage = json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2 });
    let tool = |status: Option<&str>| {
        let mut tool = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "look" });
        if let Some(status) = status {
            tool["status"] = json!(status);
        }
        tool
    };
    let mut idle = state("idle");
    idle["stopReason"] = json!("end_turn");
    let lines = live(&log, second());
    let expected = [
        state("running"),
        prompt.clone(),
        chunk("r:3", "a"),
        usage.clone(),
        chunk("r:3", "b"),
        tool(None),
        chunk("r:7", "c"),
        idle,
    ];
    assert_eq!(said(&lines), expected);
    // The end of a turn tells where to go on, whoever asked for it.
    assert_eq!(lines[7]["params"]["_meta"]["acpx"]["seq"], 8);

    let whole = |id: &str, text: &str| json!({ "sessionUpdate": "agent_message", "messageId": id, "content": [block(text)] });
    let expected =
        [prompt, whole("r:3", "a"), usage, chunk("r:3", "b"), tool(Some("cancelled")), whole("r:7", "c")];
    assert_eq!(said(&log.replay_to(second(), 1)), expected);
    // Whoever has the beginning of a message is told the rest of that message.
    assert_eq!(said(&log.replay_to(second(), 5))[0], chunk("r:3", "b"));
}

#[test]
fn a_failed_turn_ends_with_its_error_and_one_that_never_began_ends_nothing() {
    let mut log = Log::new();
    log.begin(1, "x");
    let ended = |turn| Fact::TurnEnded {
        turn,
        stop_reason: None,
        error: Some(FactError { code: "AGENT_DIED".to_owned(), message: "it died".to_owned() }),
    };
    log.push(Direction::Ours, EventKind::Fact, &ended(2).to_body());
    let mut rendering = Rendering::new(&record(), second());
    log.events.iter().for_each(|event| rendering.pass_over(event));
    log.push(Direction::Ours, EventKind::Fact, &ended(1).to_body());
    let mut idle = state("idle");
    idle["stopReason"] = json!("error");
    idle["error"] =
        json!({ "code": -32603, "message": "it died", "data": { "acpx": { "code": "AGENT_DIED" } } });
    assert_eq!(said(&live(&log, second())).last(), Some(&idle));
}

#[test]
fn what_a_second_agent_says_of_its_state_is_told_once_and_as_it_said_it() {
    let mut log = Log::new();
    log.protocol = 2;
    log.begin(1, "x");
    log.update(r#"{"sessionUpdate":"user_message","messageId":"theirs","content":[]}"#);
    log.update(r#"{"sessionUpdate":"state_update","state":"requires_action"}"#);
    log.update(
        r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"a"}}"#,
    );
    log.update(r#"{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn","background":[]}"#);
    log.end(1);
    let told: Vec<_> = said(&live(&log, second())).iter().map(Value::to_string).collect();
    let kinds = ["running", "r:turn:1", "requires_action", "\"m\"", "background"];
    assert_eq!(told.len(), kinds.len(), "{told:?}");
    assert!(told.iter().zip(kinds).all(|(told, kind)| told.contains(kind)), "{told:?}");
    let first: Vec<_> = said(&live(&log, Arc::default()));
    let chunk = |kind: &str, text: &str| json!({ "sessionUpdate": kind, "content": block(text) });
    let mut answer = chunk("agent_message_chunk", "a");
    answer["messageId"] = json!("m");
    assert_eq!(first, [chunk("user_message_chunk", "x"), answer]);
}

#[test]
fn a_message_that_begins_with_more_than_text_begins_anew_for_a_second_client() {
    let mut log = Log::new();
    log.update(
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"","mimeType":"i"}}"#,
    );
    log.say("a");
    let image = json!({ "type": "image", "data": "", "mimeType": "i" });
    let expected = [
        json!({ "sessionUpdate": "agent_message", "messageId": "r:1", "content": [] }),
        json!({ "sessionUpdate": "agent_message_chunk", "content": image, "messageId": "r:1" }),
        json!({ "sessionUpdate": "agent_message_chunk", "content": block("a"), "messageId": "r:1" }),
    ];
    let lines = log.replay_to(second(), 1);
    assert_eq!(said(&lines), expected);
    let seqs: Vec<_> = lines.iter().map(|line| line["params"]["_meta"]["acpx"]["seq"].as_u64()).collect();
    assert_eq!(seqs, [None, Some(1), Some(2)]);
}
