//! What clients of both versions receive from version 2 agents: prompts that the agent may reject, background work,
//! plans with ids, and terminals.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Log, record};
use crate::acp::agent::ClientFacts;
use crate::acp::render::{RecordRenderer, SessionState};
use crate::model::{Event, Fact, FactError, ProtocolVersion, Timestamp};

fn log() -> Log {
    Log { protocol: 2, ..Log::new() }
}

fn second() -> Arc<ClientFacts> {
    let facts = ClientFacts { notices: true, compaction: true, ..ClientFacts::default() };
    Arc::new(ClientFacts { protocol: ProtocolVersion::V2, ..facts })
}

fn said(lines: &[Value]) -> Vec<Value> {
    lines.iter().map(|line| line["params"]["update"].clone()).collect()
}

fn live(log: &Log, client: Arc<ClientFacts>) -> Vec<Value> {
    let lines = log.live(client);
    lines
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["params"]["update"].clone())
        .collect()
}

fn whole(kind: &str, id: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "messageId": id, "content": [{ "type": "text", "text": text }] })
}

fn state(state: &str) -> Value {
    json!({ "sessionUpdate": "state_update", "state": state })
}

#[test]
fn only_the_repeated_prompt_is_dropped_from_user_messages() {
    let mut log = log();
    log.begin(1, "x");
    log.update(&whole("user_message", "early", "another").to_string());
    log.update(&whole("user_message", "u1", "x, as the agent has it").to_string());
    log.answer(1, r#""result":{"messageId":"u1"}"#);
    log.update(&state("running").to_string());
    log.update(&whole("user_message", "u1", "x").to_string());
    log.update(&whole("user_message", "steer", "x").to_string());
    log.end(1);
    let prompt = |words: &str| whole("user_message", "r:turn:1", words);
    let (early, steer) = (whole("user_message", "early", "another"), whole("user_message", "steer", "x"));
    // The agent's change of the prompt replaces it, and so does the change back.
    let messages = [prompt("x"), early, prompt("x, as the agent has it"), prompt("x"), steer];
    let mut expected = messages.to_vec();
    // The reply to the prompt implies `running`, so the agent's own `running` update is not sent again.
    expected.insert(3, state("running"));
    expected.push(json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn" }));
    assert_eq!(live(&log, second()), expected);
    assert_eq!(said(&log.replay_to(second(), 1)), messages);
    let words = |update: Value| update["content"]["text"].as_str().map(str::to_owned);
    let first: Vec<_> = live(&log, Arc::default()).into_iter().filter_map(words).collect();
    assert_eq!(first, ["x", "another", "x"]);
}

#[test]
fn changed_prompt_keeps_its_message_id_in_every_turn() {
    let mut log = log();
    log.begin(1, "x");
    log.answer(1, r#""result":{"messageId":"u1"}"#);
    log.update(&whole("user_message", "u1", "x").to_string());
    let with = |id: &str, words: &str, meta: Value| {
        let mut told = whole("user_message", id, words);
        told["_meta"] = meta;
        told
    };
    log.update(&with("u1", "x", json!({ "k": 1 })).to_string());
    log.end(1);
    log.begin(2, "y");
    log.answer(2, r#""result":{"messageId":"u2"}"#);
    log.update(&whole("user_message", "u1", "EXPANDED").to_string());
    log.end(2);
    let (first, second_prompt) =
        (whole("user_message", "r:turn:1", "x"), whole("user_message", "r:turn:2", "y"));
    let expected = [
        first,
        with("r:turn:1", "x", json!({ "k": 1 })),
        second_prompt,
        whole("user_message", "r:turn:1", "EXPANDED"),
    ];
    let messages = |told: Vec<Value>| -> Vec<Value> {
        told.into_iter().filter(|update| update["sessionUpdate"] == "user_message").collect()
    };
    assert_eq!(messages(live(&log, second())), expected);
    assert_eq!(said(&log.replay_to(second(), 1)), expected);
    // Version 1 already has the prompt and cannot change it.
    let words = |update: Value| update["content"]["text"].as_str().map(str::to_owned);
    let told: Vec<_> = live(&log, Arc::default()).into_iter().filter_map(words).collect();
    assert_eq!(told, ["x", "y"]);
    assert_eq!(
        said(&log.replay_to(Arc::default(), 1)).into_iter().filter_map(words).collect::<Vec<_>>(),
        ["x", "y"]
    );
}

#[test]
fn prompt_repeated_before_the_reply_has_a_seq() {
    let echo = whole("user_message", "u1", "x").to_string();
    let works = state("running").to_string();
    for (before, seq) in
        [(vec![], 3), (vec![echo.clone()], 4), (vec![works.clone()], 3), (vec![echo, works], 4)]
    {
        let mut log = log();
        log.begin(1, "x");
        for update in &before {
            log.update(update);
        }
        log.answer(1, r#""result":{"messageId":"u1"}"#);
        let mut rendering = RecordRenderer::new(&record(), Arc::default()).with_seq(true);
        let told: Vec<String> =
            log.events.iter().flat_map(|event| rendering.render(event, &|_| false)).collect();
        let numbers = |line: &Value| line["params"]["_meta"]["acpx"]["seq"].clone();
        let followed: Vec<Value> =
            told.iter().map(|line| numbers(&serde_json::from_str(line).unwrap())).collect();
        let again: Vec<Value> = log.replay_to(Arc::default(), 1).iter().map(numbers).collect();
        assert_eq!((followed, again), (vec![json!(seq)], vec![json!(seq)]), "{before:?}");
    }
}

#[test]
fn refused_v2_prompt_is_not_part_of_the_conversation() {
    let mut log = log();
    log.begin(1, "refused");
    log.answer(1, r#""error":{"code":-32602,"message":"no"}"#);
    let error = FactError { code: "AGENT".into(), message: "no".to_owned() };
    log.fact(&Fact::TurnEnded { turn: 1, stop_reason: None, error: Some(error) });
    log.turn = None;
    assert_eq!(live(&log, second()), [] as [Value; 0]);
    assert_eq!(said(&log.replay_to(second(), 1)), [] as [Value; 0]);
    log.begin(2, "answered late");
    log.update(&state("running").to_string());
    let idle = json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn" });
    log.update(&idle.to_string());
    log.end(2);
    log.answer(2, r#""result":{"messageId":"u2"}"#);
    let prompt = whole("user_message", "r:turn:2", "answered late");
    assert_eq!(live(&log, second()), [prompt.clone(), state("running"), idle]);
    assert_eq!(said(&log.replay_to(second(), 1)), [prompt]);
}

#[test]
fn late_refusal_keeps_its_error_code_in_the_state() {
    let mut log = log();
    log.begin(1, "x");
    log.update(&state("running").to_string());
    log.answer(1, r#""error":{"code":-32602,"message":"no"}"#);
    let error = FactError { code: "AGENT".into(), message: "no".to_owned() };
    log.fact(&Fact::TurnEnded { turn: 1, stop_reason: None, error: Some(error) });
    let told = live(&log, second());
    let error = &told.last().unwrap()["error"];
    assert_eq!((&error["code"], &error["message"]), (&json!(-32602), &json!("no")));
    assert_eq!(error["data"], json!({ "details": "no" }));
}

#[test]
fn replay_closes_only_open_tool_calls_without_later_updates() {
    let call = |id: &str, status: &str| json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "title": "T", "status": status });
    let term = json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "by-terminal", "title": "T", "status": "in_progress",
        "content": [{ "type": "terminal", "terminalId": "T1" }],
    });
    let mut log = log();
    log.begin(1, "x");
    log.answer(1, r#""result":{"messageId":"u1"}"#);
    for told in [call("bg", "in_progress"), term, call("left", "pending"), call("odd", "_waits")] {
        log.update(&told.to_string());
    }
    let statuses = |log: &Log| -> Vec<String> {
        let lines = said(&log.replay_to(second(), 1));
        let calls = lines.iter().filter(|update| update["toolCallId"].is_string());
        calls.map(|update| update["status"].as_str().unwrap().to_owned()).collect()
    };
    let list = r#"[{"type":"tool_call","toolCallId":"bg"},{"type":"terminal","terminalId":"T1"}]"#;
    log.update(r#"{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}"#);
    log.end(1);
    // If an agent never lists background work, its calls are over when the turn ends.
    assert_eq!(statuses(&log), ["cancelled", "cancelled", "cancelled", "_waits"]);
    log.update(&format!(r#"{{"sessionUpdate":"state_update","state":"idle","background":{list}}}"#));
    assert_eq!(statuses(&log), ["in_progress", "in_progress", "cancelled", "_waits"]);
    let standing = |log: &Log| -> Value {
        let mut state = SessionState::default();
        log.events.iter().for_each(|event| drop(state.take(event)));
        serde_json::from_str(&state.standing(None)).unwrap()
    };
    let mut idle = state("idle");
    idle["background"] = serde_json::from_str(list).unwrap();
    assert_eq!(standing(&log), idle);
    log.fact(&Fact::AgentEnded { how: "signal 9".to_owned() });
    assert_eq!(statuses(&log), ["cancelled", "cancelled", "cancelled", "_waits"]);
    assert_eq!(standing(&log), state("idle"));
}

#[test]
fn tool_call_outside_acpx_turns_is_open_until_idle() {
    let mut log = log();
    log.update(&state("running").to_string());
    let call = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "T", "status": "in_progress" });
    log.update(&call.to_string());
    let status = |log: &Log| said(&log.replay_to(second(), 1))[0]["status"].clone();
    assert_eq!(status(&log), "in_progress");
    log.update(&state("_compacting").to_string());
    assert_eq!(status(&log), "in_progress");
    log.update(&state("idle").to_string());
    assert_eq!(status(&log), "cancelled");
}

#[test]
fn late_client_receives_the_agents_own_state() {
    let standing = |log: &Log| -> Value {
        let mut state = SessionState::default();
        log.events.iter().for_each(|event| drop(state.take(event)));
        serde_json::from_str(&state.standing(None)).unwrap()
    };
    let odd = json!({ "sessionUpdate": "state_update", "state": "_compacting", "pct": 5, "background": [] });
    let mut log = log();
    log.update(&odd.to_string());
    assert_eq!((live(&log, second()), standing(&log)), (vec![odd.clone()], odd.clone()));
    // An accepted prompt implies `running`, unless the agent reports another state.
    log.begin(1, "x");
    log.answer(1, r#""result":{"messageId":"u1"}"#);
    assert_eq!(live(&log, second())[2], state("running"));
    log.update(&odd.to_string());
    assert_eq!(standing(&log), odd);
    log.end(1);
    assert_eq!(standing(&log)["state"], "idle");
}

#[test]
fn replay_sends_the_last_update_of_each_plan_per_turn() {
    let plan = |id: &str, entry: &str| {
        let plan = json!({ "type": "items", "planId": id, "entries": [entry] });
        json!({ "sessionUpdate": "plan_update", "plan": plan })
    };
    let removed = json!({ "sessionUpdate": "plan_removed", "planId": "p2" });
    let mut log = log();
    for told in [plan("p1", "a"), plan("p2", "b"), plan("p1", "c"), removed.clone()] {
        log.update(&told.to_string());
    }
    assert_eq!(said(&log.replay_to(second(), 1)), [plan("p1", "c"), removed]);
}

/// A call with a terminal that produces output a hundred times, one millisecond apart.
fn with_terminal() -> Log {
    let mut log = log();
    log.begin(1, "x");
    log.answer(1, r#""result":{"messageId":"u1"}"#);
    log.update(r#"{"sessionUpdate":"terminal_update","terminalId":"T1","command":"ls"}"#);
    log.update(
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"T","status":"completed","content":[{"type":"terminal","terminalId":"T1"}]}"#,
    );
    for _ in 0..100 {
        log.update(r#"{"sessionUpdate":"terminal_output_chunk","terminalId":"T1","data":"YQ=="}"#);
    }
    for event in &mut log.events {
        event.at = Timestamp::from_millis(i64::try_from(event.seq.0).unwrap()).unwrap();
    }
    log
}

fn shown(kind: &str, chars: usize) -> Value {
    let text = format!("$ ls\n{}", "a".repeat(chars));
    let content = json!([{ "type": "content", "content": { "type": "text", "text": text } }]);
    let mut call = json!({ "sessionUpdate": kind, "toolCallId": "t", "content": content });
    if kind == "tool_call" {
        call["title"] = json!("T");
        call["status"] = json!("completed");
    }
    call
}

#[test]
fn v1_client_receives_terminal_output_at_pauses_and_turn_end() {
    let mut log = with_terminal();
    let mut rendering = RecordRenderer::new(&record(), Arc::default());
    let mut told = |event: &Event, pauses: bool| -> Vec<Value> {
        let mut lines = rendering.render(event, &|_| false);
        if pauses {
            lines.extend(rendering.pause());
        }
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let lines: Vec<Value> = log.events.iter().flat_map(|event| told(event, true)).collect();
    // The first change is sent at once, and later ones are delayed.
    let expected = [shown("tool_call", 0), shown("tool_call_update", 1)];
    assert_eq!(said(&lines)[1..], expected);
    log.update(r#"{"sessionUpdate":"terminal_output_chunk","terminalId":"T1","data":"YQ=="}"#);
    let mut later = log.events.pop().unwrap();
    later.at = Timestamp::from_millis(1000).unwrap();
    assert_eq!(said(&told(&later, true)), [shown("tool_call_update", 101)]);
    log.update(r#"{"sessionUpdate":"terminal_output_chunk","terminalId":"T1","data":"YQ=="}"#);
    let mut last = log.events.pop().unwrap();
    last.at = Timestamp::from_millis(1001).unwrap();
    assert_eq!(told(&last, true), [] as [Value; 0]);
    log.end(1);
    assert_eq!(said(&told(log.events.last().unwrap(), false)), [shown("tool_call_update", 102)]);
}

#[test]
fn joined_content_has_the_seq_of_its_last_event() {
    let mut log = log();
    log.begin(1, "x");
    log.answer(1, r#""result":{"messageId":"u1"}"#);
    log.update(r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"T"}"#);
    let piece = json!({ "type": "content", "content": { "type": "text", "text": "a" } });
    let piece = json!({ "sessionUpdate": "tool_call_content_chunk", "toolCallId": "t", "content": piece });
    for _ in 0..2 {
        log.update(&piece.to_string());
    }
    let last = log.events.last().unwrap().seq.0;
    for with_seq in [true, false] {
        let mut rendering = RecordRenderer::new(&record(), Arc::default()).with_seq(with_seq);
        log.events.iter().for_each(|event| drop(rendering.render(event, &|_| false)));
        let told: Vec<Value> =
            rendering.pause().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let numbers: Vec<_> =
            told.iter().map(|line| line["params"]["_meta"]["acpx"]["seq"].as_u64()).collect();
        assert_eq!(numbers, [with_seq.then_some(last)]);
    }
}

#[test]
fn v1_replay_renders_a_v2_terminal_call_once() {
    let mut log = with_terminal();
    log.end(1);
    let told = log.replay_to(Arc::default(), 1);
    assert_eq!(said(&told)[1..], [shown("tool_call", 100)]);
    assert_eq!(told.last().unwrap()["params"]["_meta"]["acpx"]["seq"], 105);
}
