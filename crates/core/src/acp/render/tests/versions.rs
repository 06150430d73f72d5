//! What version 2 clients receive from version 1 agents, and the reverse.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Log, asked, record};
use crate::acp::agent::ClientFacts;
use crate::acp::render::{RecordRenderer, SessionIds, SessionState};
use crate::model::{Direction, EventKind, Fact, FactError, ProtocolVersion, Seq};

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
fn v1_turn_has_states_and_stable_ids_for_a_v2_client() {
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
    // The end of a turn always carries its seq.
    assert_eq!(lines[7]["params"]["_meta"]["acpx"]["seq"], 8);

    let whole = |id: &str, text: &str| json!({ "sessionUpdate": "agent_message", "messageId": id, "content": [block(text)] });
    let expected =
        [prompt, whole("r:3", "a"), usage, chunk("r:3", "b"), tool(Some("cancelled")), whole("r:7", "c")];
    assert_eq!(said(&log.replay_to(second(), 1)), expected);
    // A client that has the beginning of a message receives the rest of that message.
    assert_eq!(said(&log.replay_to(second(), 5))[0], chunk("r:3", "b"));
}

#[test]
fn failed_turn_ends_with_its_error_state() {
    let mut log = Log::new();
    log.begin(1, "x");
    let ended = |turn| Fact::TurnEnded {
        turn,
        stop_reason: None,
        error: Some(FactError { code: "AGENT_DIED".into(), message: "it died".to_owned() }),
    };
    log.push(Direction::Ours, EventKind::Fact, &ended(2).to_body());
    let mut rendering = RecordRenderer::new(&record(), second());
    log.events.iter().for_each(|event| rendering.apply_silently(event));
    log.push(Direction::Ours, EventKind::Fact, &ended(1).to_body());
    let mut idle = state("idle");
    idle["stopReason"] = json!("error");
    let hint = "the conversation is kept; the next prompt restores it";
    let mut data = json!({ "details": format!("it died; {hint}") });
    idle["error"] = json!({ "code": -32603, "message": "it died", "data": data });
    assert_eq!(said(&live(&log, second())).last(), Some(&idle));
    // A client that wants all data of an error receives all of it.
    let turn = json!({ "turn": 1, "requestId": "q1" });
    data["acpx"] = json!({ "code": "AGENT_DIED", "hint": hint, "turn": turn });
    idle["error"]["data"] = data;
    let wanting = ClientFacts { error_data: true, ..ClientFacts::clone(&second()) };
    assert_eq!(said(&live(&log, wanting.into())).last(), Some(&idle));
}

#[test]
fn v2_agent_state_is_forwarded_once_unchanged() {
    let mut log = Log::new();
    log.protocol = 2;
    log.begin(1, "x");
    log.update(
        r#"{"sessionUpdate":"user_message","messageId":"theirs","content":[{"type":"text","text":"x"}]}"#,
    );
    log.answer(1, r#""result":{"messageId":"theirs"}"#);
    log.update(r#"{"sessionUpdate":"state_update","state":"requires_action"}"#);
    log.update(
        r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"a"}}"#,
    );
    log.update(r#"{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn","background":[]}"#);
    log.end(1);
    let told: Vec<_> = said(&live(&log, second())).iter().map(Value::to_string).collect();
    let kinds = ["r:turn:1", "running", "requires_action", "\"m\"", "background"];
    assert_eq!(told.len(), kinds.len(), "{told:?}");
    assert!(told.iter().zip(kinds).all(|(told, kind)| told.contains(kind)), "{told:?}");
    let first: Vec<_> = said(&live(&log, Arc::default()));
    let chunk = |kind: &str, text: &str| json!({ "sessionUpdate": kind, "content": block(text) });
    let mut answer = chunk("agent_message_chunk", "a");
    answer["messageId"] = json!("m");
    assert_eq!(first, [asked(1, "x"), answer]);
}

#[test]
fn v2_replay_restarts_a_message_that_begins_with_a_block() {
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

/// A permission request of an agent, within the turn.
fn ask(log: &mut Log, id: u64) {
    let line =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{{}}}}"#);
    log.push(Direction::FromAgent, EventKind::Request, &line);
}

/// A file request of an agent, within the turn.
fn want(log: &mut Log, id: u64) {
    let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"fs/write_text_file","params":{{}}}}"#);
    log.push(Direction::FromAgent, EventKind::Request, &line);
}

fn answer(log: &mut Log, id: u64) {
    let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
    log.push(Direction::ToAgent, EventKind::Response, &line);
}

#[test]
fn session_requires_action_until_its_last_request_is_answered() {
    let mut log = Log::new();
    log.begin(1, "x");
    let mut state = SessionState::default();
    let mut told = |log: &Log, from: usize| {
        let mut updates: Vec<_> = log.events[from..].iter().filter_map(|event| state.take(event)).collect();
        updates.extend(state.pause());
        let names =
            updates.iter().map(|update| serde_json::from_str::<Value>(update).unwrap()["state"].clone());
        (
            names.collect::<Vec<_>>(),
            serde_json::from_str::<Value>(&state.standing(None)).unwrap()["state"].clone(),
        )
    };
    assert_eq!(told(&log, 0), (vec![json!("running")], json!("running")));
    // A policy answers the request at once.
    let from = log.events.len();
    ask(&mut log, 7);
    answer(&mut log, 7);
    assert_eq!(told(&log, from), (Vec::new(), json!("running")));
    let from = log.events.len();
    ask(&mut log, 8);
    ask(&mut log, 9);
    assert_eq!(told(&log, from), (vec![json!("requires_action")], json!("requires_action")));
    let from = log.events.len();
    answer(&mut log, 8);
    assert_eq!(told(&log, from), (Vec::new(), json!("requires_action")));
    let from = log.events.len();
    answer(&mut log, 9);
    assert_eq!(told(&log, from), (vec![json!("running")], json!("running")));
    // A file or terminal request counts only after a `PermissionAsked` fact.
    let from = log.events.len();
    want(&mut log, 11);
    assert_eq!(told(&log, from), (Vec::new(), json!("running")));
    let from = log.events.len();
    log.fact(&Fact::PermissionAsked { request: "11".to_owned() });
    assert_eq!(told(&log, from), (vec![json!("requires_action")], json!("requires_action")));
    let from = log.events.len();
    answer(&mut log, 11);
    assert_eq!(told(&log, from), (vec![json!("running")], json!("running")));
    let from = log.events.len();
    ask(&mut log, 10);
    log.end(1);
    assert_eq!(told(&log, from), (vec![json!("idle")], json!("idle")));
}

#[test]
fn client_that_missed_the_turn_end_receives_it() {
    let mut log = Log::new();
    log.begin(1, "x");
    log.end(1);
    let mut stand = SessionState::default();
    log.events.iter().for_each(|event| drop(stand.take(event)));
    let end = log.events.last().unwrap().seq;
    let standing = |missed| serde_json::from_str::<Value>(&stand.standing(missed)).unwrap();
    let mut ended = state("idle");
    ended["stopReason"] = json!("end_turn");
    assert_eq!([standing(Some(Seq(1))), standing(Some(end))], [ended.clone(), ended]);
    assert_eq!([standing(Some(end.next())), standing(None)], [state("idle"), state("idle")]);
}

#[test]
fn running_state_is_sent_once_when_the_v2_agent_reports_it() {
    for (running, times) in [
        (r#"{ "state":"running", "sessionUpdate":"state_update" }"#, 1),
        (r#"{"sessionUpdate":"state_update","state":"running","background":[]}"#, 2),
    ] {
        let mut log = Log::new();
        log.protocol = 2;
        log.begin(1, "x");
        log.answer(1, r#""result":{"messageId":"theirs"}"#);
        log.update(running);
        let told = said(&live(&log, second()));
        assert_eq!(told.iter().filter(|update| update["state"] == "running").count(), times, "{told:?}");
        // A later repetition is sent again.
        log.update(r#"{"sessionUpdate":"state_update","state":"requires_action"}"#);
        log.update(running);
        let told = said(&live(&log, second()));
        assert_eq!(told.iter().filter(|update| update["state"] == "running").count(), times + 1, "{told:?}");
    }
}

#[test]
fn ended_v2_agent_is_idle_outside_of_turns() {
    let mut log = Log::new();
    log.protocol = 2;
    log.update(r#"{"sessionUpdate":"state_update","state":"running"}"#);
    let ended = Fact::AgentEnded { how: "signal 9".to_owned() };
    log.push(Direction::Ours, EventKind::Fact, &ended.to_body());
    assert_eq!(said(&live(&log, second())), [state("running"), state("idle")]);
}

#[test]
fn chunk_without_content_begins_no_message_in_a_replay() {
    let mut log = Log::new();
    log.begin(1, "x");
    log.update(r#"{"sessionUpdate":"agent_message_chunk"}"#);
    log.end(1);
    let messages = |lines: &[Value]| -> Vec<Value> {
        said(lines).into_iter().filter(|update| update["sessionUpdate"] == "agent_message").collect()
    };
    assert_eq!(messages(&live(&log, second())), [] as [Value; 0]);
    assert_eq!(messages(&log.replay_to(second(), 1)), [] as [Value; 0]);
}

#[test]
fn a_child_session_cannot_have_the_id_of_a_session_in_use() {
    let mut log = Log::new();
    let record = record();
    for id in ["child", "other", record.as_str()] {
        log.update(&json!({ "sessionUpdate": "subagent_update", "sessionId": id }).to_string());
        let update =
            json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": id } });
        let params =
            json!({ "sessionId": id, "update": update, "_meta": { "acpx": { "seq": 9 }, "own": 1 } });
        let line = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
        log.push(Direction::FromAgent, EventKind::Notification, &line.to_string());
    }
    let client = ClientFacts { subagents: true, ..ClientFacts::default() };
    let sessions = SessionIds::new(|id| id == "other");
    let mut rendering = RecordRenderer::new(&record, Arc::new(client)).excluding_sessions(sessions);
    let lines = log.events.iter().flat_map(|event| rendering.render(event, &|_| false));
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(&line).unwrap()).collect();
    let chunks =
        lines.iter().filter(|line| line["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
    let chunks: Vec<_> =
        chunks.map(|line| (&line["params"]["sessionId"], &line["params"]["_meta"])).collect();
    assert_eq!(chunks, [(&json!("child"), &json!({ "own": 1 }))]);
}
