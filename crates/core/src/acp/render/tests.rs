//! Tests of the lines that clients receive, and that a replay shows the same conversation as the live updates.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Bounds, ClientState, RecordRenderer, ReplayIndex, ReplayRenderer};
use crate::acp::agent::ClientFacts;
use crate::model::{
    ClientName, Direction, Event, EventKind, Fact, LineageIndex, ProtocolVersion, RecordId, Seq, Timestamp,
    TurnId,
};

use crate::wire::RpcMessage;

mod properties;
mod terminals;
mod turns;
mod v2_agents;
mod v2_properties;
mod versions;

/// Builds the events of a record.
struct Log {
    events: Vec<Event>,
    turn: Option<TurnId>,
    row: LineageIndex,
    protocol: u16,
}

impl Log {
    fn new() -> Self {
        Self { events: Vec::new(), turn: None, row: LineageIndex::FIRST, protocol: 1 }
    }

    fn push(&mut self, direction: Direction, kind: EventKind, body: &str) {
        let seq = Seq(self.events.len() as u64 + 1);
        let at = Timestamp::from_millis(i64::try_from(seq.0).unwrap() * 1000).unwrap();
        let (turn, lineage, protocol, body) = (self.turn, self.row, self.protocol, body.into());
        self.events.push(Event { seq, at, turn, lineage, protocol, direction, kind, body });
    }

    fn update(&mut self, update: &str) {
        let line = format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s1","update":{update}}}}}"#
        );
        self.push(Direction::FromAgent, EventKind::Update, &line);
    }

    fn say(&mut self, text: &str) {
        self.chunk("agent_message_chunk", text);
    }

    fn chunk(&mut self, what: &str, text: &str) {
        let text = json!(text);
        self.update(&format!(r#"{{"sessionUpdate":"{what}","content":{{"type":"text","text":{text}}}}}"#));
    }

    fn begin(&mut self, turn: u64, prompt: &str) {
        self.turn = Some(TurnId(turn));
        let client = Some(ClientName { name: "zed".to_owned(), version: "1".to_owned() });
        let fact = Fact::TurnStarted { turn, request_id: format!("q{turn}"), client };
        self.push(Direction::Ours, EventKind::Fact, &fact.to_body());
        let params = json!({ "sessionId": "s1", "prompt": [{ "type": "text", "text": prompt }] });
        let line = json!({ "jsonrpc": "2.0", "id": turn, "method": "session/prompt", "params": params });
        self.push(Direction::ToAgent, EventKind::Request, &line.to_string());
    }

    /// The agent's response to one of our requests: its result or its error.
    fn answer(&mut self, id: u64, how: &str) {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},{how}}}"#);
        self.push(Direction::FromAgent, EventKind::Response, &line);
    }

    fn fact(&mut self, fact: &Fact) {
        self.push(Direction::Ours, EventKind::Fact, &fact.to_body());
    }

    fn end(&mut self, turn: u64) {
        let fact = Fact::TurnEnded { turn, stop_reason: Some("end_turn".to_owned()), error: None };
        self.push(Direction::Ours, EventKind::Fact, &fact.to_body());
        self.turn = None;
    }

    /// A replay from an event on.
    fn replay_from(&self, from: u64, bounds: Bounds) -> Vec<Value> {
        self.replay_as(Arc::default(), from, bounds)
    }

    fn replay_to(&self, client: Arc<ClientFacts>, from: u64) -> Vec<Value> {
        self.replay_as(client, from, Bounds::default())
    }

    fn replay_as(&self, client: Arc<ClientFacts>, from: u64, bounds: Bounds) -> Vec<Value> {
        let (survey, events) = self.survey(client.protocol, Seq(from));
        let rendering = RecordRenderer::new(&record(), client);
        let begins_late = survey.begins_late();
        let mut replay = ReplayRenderer::new(rendering, survey, Seq(from), bounds);
        if begins_late {
            replay = replay.with_title(self.title().as_deref());
        }
        let mut lines: Vec<String> = events.iter().flat_map(|event| replay.take(event)).collect();
        lines.extend(replay.finish());
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The title as the record has it.
    fn title(&self) -> Option<String> {
        self.events.iter().rev().find_map(|event| {
            let line: Value = serde_json::from_str(&event.body).ok()?;
            let update = line.pointer("/params/update")?;
            let is_info = update["sessionUpdate"] == "session_info_update";
            update["title"].as_str().filter(|_| is_info).map(str::to_owned)
        })
    }

    /// The index and events of a replay from an event on: from the start of the last turn before it, or all events if
    /// that is not enough.
    fn survey(&self, client: ProtocolVersion, from: Seq) -> (ReplayIndex, &[Event]) {
        let begins = |event: &Event| matches!(Fact::from_body(&event.body), Some(Fact::TurnStarted { .. }));
        let last = self.events.iter().rfind(|event| event.seq < from && begins(event));
        let last = last.map_or(Seq::FIRST, |event| event.seq);
        let look = |first: Seq| {
            let events = &self.events[usize::try_from(first.0 - 1).unwrap()..];
            let mut survey = ReplayIndex::of(client, first, ClientState::Earlier);
            for event in events {
                survey.take(event);
            }
            (survey, events)
        };
        let (survey, events) = look(last);
        if survey.lacks_beginning() { look(Seq::FIRST) } else { (survey, events) }
    }

    fn replay(&self) -> Vec<Value> {
        self.replay_from(1, Bounds::default())
    }

    /// The live lines for a client that sent none of the prompts.
    fn live(&self, client: Arc<ClientFacts>) -> Vec<String> {
        let mut rendering = RecordRenderer::new(&record(), client);
        self.events.iter().flat_map(|event| rendering.render(event, &|_| false)).collect()
    }
}

fn record() -> RecordId {
    RecordId::new("r").unwrap()
}

/// The updates of lines, each with its seq.
fn updates(lines: &[Value]) -> Vec<(u64, Value)> {
    let update = |line: &Value| {
        assert_eq!(line["params"]["sessionId"], "r", "{line}");
        let acpx = &line["params"]["_meta"]["acpx"];
        (acpx["seq"].as_u64().unwrap(), line["params"]["update"].clone())
    };
    lines.iter().map(update).collect()
}

/// A prompt as a version 1 client receives it.
fn asked(turn: u64, words: &str) -> Value {
    json!({ "sessionUpdate": "user_message_chunk", "messageId": format!("r:turn:{turn}"), "content": { "type": "text", "text": words } })
}

fn text(kind: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
}

#[test]
fn a_prompt_that_is_resent_is_shown_once() {
    let mut log = Log::new();
    log.begin(1, "hello");
    log.answer(1, r#""error":{"code":-32002,"message":"Resource not found"}"#);
    log.fact(&Fact::AgentEnded { how: "it no longer had the session and was ended".to_owned() });
    log.fact(&Fact::PromptResent { turn: 1, retry: None });
    let params = json!({ "sessionId": "s1", "prompt": [{ "type": "text", "text": "hello" }] });
    let line = json!({ "jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": params });
    log.push(Direction::ToAgent, EventKind::Request, &line.to_string());
    log.say("hi");
    log.answer(2, r#""result":{"stopReason":"end_turn"}"#);
    log.end(1);
    let kinds = |lines: Vec<Value>| -> Vec<String> {
        let kind =
            |line: Value| line["params"]["update"]["sessionUpdate"].as_str().unwrap_or_default().to_owned();
        lines.into_iter().map(kind).collect()
    };
    assert_eq!(kinds(log.replay()), ["user_message_chunk", "agent_message_chunk"]);
}

#[test]
fn replay_joins_chunks_and_renders_each_tool_call_once() {
    let mut log = Log::new();
    log.begin(1, "do it");
    log.chunk("agent_thought_chunk", "h");
    log.chunk("agent_thought_chunk", "m");
    log.say("a\n");
    log.update(r#"{"sessionUpdate":"usage_update","used":0,"size":2}"#);
    log.say("\"b\"");
    log.update(
        r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"look","status":"pending","n":1.50}"#,
    );
    log.update(r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","title":null}"#);
    log.say("c");
    log.update(r#"{"sessionUpdate":"usage_update","used":1,"size":2}"#);
    log.say("d");
    log.end(1);
    let lines = log.replay();
    let tool = json!({
        "sessionUpdate": "tool_call", "toolCallId": "t", "title": "look", "status": "completed", "n": 1.5,
    });
    let expected = [
        (2, asked(1, "do it")),
        (4, text("agent_thought_chunk", "hm")),
        (7, text("agent_message_chunk", "a\n\"b\"")),
        (9, tool),
        (10, text("agent_message_chunk", "c")),
        (11, json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2 })),
        (12, text("agent_message_chunk", "d")),
    ];
    assert_eq!(updates(&lines), expected);
    let asked = json!({
        "seq": 2, "at": "1970-01-01T00:00:02.000Z", "turn": 1, "requestId": "q1",
        "client": { "name": "zed", "version": "1" },
    });
    assert_eq!(lines[0]["params"]["_meta"]["acpx"], asked);
}

#[test]
fn agents_own_acpx_meta_is_dropped_and_does_not_split_chunks() {
    let mut log = Log::new();
    log.begin(1, "x");
    let said = |words: &str, meta: &str| {
        let update = text("agent_message_chunk", words);
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s1","update":{update},"_meta":{meta}}}}}"#
        )
    };
    let theirs = r#"{"acpx":{"seq":900,"at":"2020-01-01T00:00:00.000Z"}}"#;
    for (words, meta) in [("a", theirs), ("b", theirs), ("c", r#"{"x":1.0,"acpx":{"seq":902}}"#)] {
        log.push(Direction::FromAgent, EventKind::Update, &said(words, meta));
    }
    let live = log.live(Arc::default());
    let alone = |words| format!(r#"{{"sessionId":"r","update":{}}}"#, text("agent_message_chunk", words));
    let beside = alone("c").replace("}}}", r#"}},"_meta":{"x":1.0}}"#);
    let expected = [alone("a"), alone("b"), beside];
    let params = |line: &String| RpcMessage::parse(line.as_str()).unwrap().params().unwrap().to_owned();
    assert_eq!(live[1..].iter().map(params).collect::<Vec<_>>(), expected);
    let told = updates(&log.replay());
    let text = |words| text("agent_message_chunk", words);
    assert_eq!(told[1..], [(4, text("ab")), (5, text("c"))]);
}

#[test]
fn chunk_with_extra_members_is_forwarded_unchanged() {
    let mut log = Log::new();
    log.say("a");
    let odd = [
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"b"},"_meta":{"x":1}}"#,
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"c","annotations":null}}"#,
        r#"{"sessionUpdate":"agent_message_chunk","messageId":7,"content":{"type":"text","text":"c"}}"#,
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"","mimeType":"i"}}"#,
        r#"{"sessionUpdate":"from_the_future","deep":{"n":1e3}}"#,
    ];
    for update in odd {
        log.update(update);
    }
    log.say("d");
    log.say("e");
    let came = |update: &&str| serde_json::from_str::<Value>(update).unwrap();
    let mut expected = vec![(1, text("agent_message_chunk", "a"))];
    expected.extend((2..).zip(odd.iter().map(came)));
    expected.push((8, text("agent_message_chunk", "de")));
    assert_eq!(updates(&log.replay()), expected);
}

#[test]
fn replay_sends_only_the_last_state_and_no_notices() {
    let mut log = Log::new();
    let mode = |id: &str| format!(r#"{{"sessionUpdate":"current_mode_update","currentModeId":"{id}"}}"#);
    log.begin(1, "x");
    log.update(&mode("ask"));
    log.update(r#"{"sessionUpdate":"plan","entries":[]}"#);
    log.update(r#"{"sessionUpdate":"plan","entries":[1]}"#);
    log.update(r#"{"sessionUpdate":"notice","text":"psst"}"#);
    log.end(1);
    log.begin(2, "y");
    log.update(r#"{"sessionUpdate":"plan","entries":[2]}"#);
    log.update(&mode("code"));
    log.end(2);
    let expected = [
        (2, asked(1, "x")),
        (5, json!({ "sessionUpdate": "plan", "entries": [1] })),
        (9, asked(2, "y")),
        (10, json!({ "sessionUpdate": "plan", "entries": [2] })),
        (11, json!({ "sessionUpdate": "current_mode_update", "currentModeId": "code" })),
    ];
    assert_eq!(updates(&log.replay()), expected);
}

#[test]
fn replay_includes_the_last_option_change_of_a_client() {
    let mut log = Log::new();
    let mode = |mode: &str| json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode });
    let ours = |log: &mut Log, to: &str| {
        let params = json!({ "sessionId": "s1", "update": mode(to) });
        let line = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
        log.push(Direction::Ours, EventKind::Update, &line.to_string());
    };
    ours(&mut log, "plan");
    log.update(&mode("ask").to_string());
    ours(&mut log, "code");
    ours(&mut log, "plan");
    assert_eq!(updates(&log.replay()), [(4, mode("plan"))]);
}

#[test]
fn replay_merges_the_last_value_of_each_session_info_field() {
    let mut log = Log::new();
    log.update(r#"{"sessionUpdate":"session_info_update","title":"old","n":1.50}"#);
    log.update(r#"{"sessionUpdate":"session_info_update","title":"T"}"#);
    log.say("a");
    log.update(r#"{"sessionUpdate":"session_info_update","updatedAt":"2026-01-01T00:00:00Z"}"#);
    let info = json!({
        "sessionUpdate": "session_info_update", "title": "T", "n": 1.5, "updatedAt": "2026-01-01T00:00:00Z",
    });
    assert_eq!(updates(&log.replay()), [(3, text("agent_message_chunk", "a")), (4, info)]);
}

#[test]
fn user_chunks_are_sent_after_they_stop_repeating_the_prompt() {
    let mut log = Log::new();
    log.begin(1, "do it");
    log.chunk("user_message_chunk", "do ");
    log.chunk("user_message_chunk", "it");
    log.say("a");
    log.chunk("user_message_chunk", "and that");
    log.end(1);
    let expected = [
        (2, asked(1, "do it")),
        (5, text("agent_message_chunk", "a")),
        (6, text("user_message_chunk", "and that")),
    ];
    assert_eq!(updates(&log.replay()), expected);
    let live: Vec<Value> =
        log.live(Arc::default()).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = live.iter().map(|line| line["params"]["update"].clone()).collect();
    assert_eq!(told, expected.map(|(_, update)| update));
}

#[test]
fn session_reset_is_a_notice_or_a_marked_message() {
    let mut log = Log::new();
    log.say("a");
    let (from, to) = ("s1".to_owned(), "s2".to_owned());
    let reset = |announced| Fact::SessionReset {
        reason: "load-failed".to_owned(),
        from_acpx_session_id: from.clone(),
        acpx_session_id: to.clone(),
        agent_session_id: None,
        announced,
        carried: None,
        error: None,
    };
    log.fact(&reset(false));
    log.fact(&reset(true));
    let title = "The agent does not remember what came before this";
    let detail = "It goes on in a fresh session (load-failed).";
    let meta = json!({ "acpx": { "reset": "load-failed" } });
    let notice = json!({
        "sessionUpdate": "notice", "severity": "warning", "title": title, "description": detail, "_meta": meta,
    });
    let mut message = text("agent_message_chunk", &format!("[acpx] {title}. {detail}"));
    message["messageId"] = json!("r:3");
    message["_meta"] = meta;
    let shows = Arc::new(ClientFacts { notices: true, ..ClientFacts::default() });
    for (client, told) in [(shows, notice), (Arc::default(), message)] {
        let expected = [(1, text("agent_message_chunk", "a")), (3, told)];
        assert_eq!(updates(&log.replay_to(Arc::clone(&client), 1)), expected);
        let mut live = RecordRenderer::new(&record(), client).with_seq(true);
        let lines = log.events.iter().flat_map(|event| live.render(event, &|_| false));
        let lines: Vec<Value> = lines.map(|line| serde_json::from_str(&line).unwrap()).collect();
        assert_eq!(updates(&lines), expected);
    }
}

#[test]
fn unfinished_tool_call_is_cancelled_when_its_turn_is_over() {
    let mut log = Log::new();
    log.begin(1, "x");
    log.update(r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"look","_meta":{"x":1}}"#);
    let running =
        json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "look", "_meta": { "x": 1 } });
    assert_eq!(updates(&log.replay())[1], (3, running));
    log.end(1);
    let cancelled = json!({
        "sessionUpdate": "tool_call", "toolCallId": "t", "title": "look", "status": "failed",
        "_meta": { "acpx": { "status": "cancelled" }, "x": 1 },
    });
    assert_eq!(updates(&log.replay())[1], (3, cancelled));
}

#[test]
fn tool_call_id_reused_in_a_later_turn_is_another_call() {
    let call = |title: &str, more: &str| {
        format!(
            r#"{{"sessionUpdate":"tool_call","toolCallId":"c","title":"{title}","status":"pending"{more}}}"#
        )
    };
    let done = r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}"#;
    let mut log = Log::new();
    log.begin(1, "one");
    log.update(&call("A", r#","rawOutput":"of A""#));
    // Some agents announce a new call twice.
    log.update(&call("A", ""));
    log.update(done);
    log.end(1);
    log.begin(2, "two");
    log.update(&call("B", ""));
    log.update(done);
    log.end(2);
    let calls: Vec<(u64, Value)> =
        updates(&log.replay()).into_iter().filter(|(_, update)| update["toolCallId"].is_string()).collect();
    let told = |title: &str| json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": title, "status": "completed" });
    let mut first = told("A");
    first["rawOutput"] = "of A".into();
    assert_eq!(calls, [(5, first), (10, told("B"))]);
}

#[test]
fn too_long_tool_output_is_left_out_and_named() {
    let mut log = Log::new();
    let output = "x".repeat(64);
    log.update(&format!(
        r#"{{"sessionUpdate":"tool_call","toolCallId":"t","title":"look","status":"completed","content":[],"rawOutput":"{output}"}}"#
    ));
    let expected = json!({
        "sessionUpdate": "tool_call", "toolCallId": "t", "title": "look", "status": "completed", "content": [],
        "_meta": { "acpx": { "leftOut": ["rawOutput"] } },
    });
    let lines = log.replay_from(1, Bounds { tool_output_bytes: Some(16) });
    assert_eq!(updates(&lines), [(1, expected)]);
}

#[test]
fn many_tool_content_chunks_are_joined_once() {
    let mut log = Log::new();
    log.protocol = 2;
    let item = json!({ "type": "content", "content": { "type": "text", "text": "x".repeat(100) } });
    log.update(&format!(
        r#"{{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"look","status":"completed","content":[ {item} ]}}"#
    ));
    let count = 20_000;
    for _ in 1..count {
        log.update(&format!(
            r#"{{"sessionUpdate":"tool_call_content_chunk","toolCallId":"t","content":{item}}}"#
        ));
    }
    let client =
        Arc::new(ClientFacts { protocol: crate::model::ProtocolVersion::V2, ..ClientFacts::default() });
    let told = updates(&log.replay_to(Arc::clone(&client), 1));
    let mut expected = json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "look", "status": "completed",
        "content": vec![item; count],
    });
    assert_eq!(told, [(count as u64, expected.clone())]);
    let less = updates(&log.replay_as(client, 1, Bounds { tool_output_bytes: Some(4096) }));
    expected.as_object_mut().unwrap().remove("content");
    expected["_meta"] = json!({ "acpx": { "leftOut": ["content"] } });
    assert_eq!(less, [(count as u64, expected)]);
}

#[test]
fn ids_of_a_later_acp_session_have_its_lineage_row() {
    let mut log = Log::new();
    let tool = |id: &str| {
        format!(r#"{{"sessionUpdate":"tool_call","toolCallId":"{id}","title":"a","status":"completed"}}"#)
    };
    let chunk =
        r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"a"}}"#;
    log.update(&tool("t"));
    log.update(chunk);
    log.row = LineageIndex(2);
    log.update(&tool("t"));
    log.update(&tool("u"));
    log.update(chunk);
    let ids = |update: &(u64, Value)| {
        let id = update.1.get("toolCallId").or_else(|| update.1.get("messageId"));
        id.and_then(Value::as_str).unwrap().to_owned()
    };
    let told: Vec<_> = updates(&log.replay()).iter().map(ids).collect();
    assert_eq!(told, ["t", "m", "t~2", "u~2", "m~2"]);
}

#[test]
fn forwarded_update_changes_only_the_session_id() {
    let mut log = Log::new();
    let line = r#"{"params": {"update":{"sessionId":"s1","n":1.0e2}, "sessionId" : "s1","_meta":{} },"jsonrpc":"2.0","method":"session/update"}"#;
    log.push(Direction::FromAgent, EventKind::Update, line);
    log.push(Direction::FromAgent, EventKind::Update, r#"{"params":{"update":{}}}"#);
    log.push(Direction::FromAgent, EventKind::Notification, line);
    let renamed = line.replacen(r#""sessionId" : "s1""#, r#""sessionId" : "r""#, 1);
    assert_eq!(log.live(Arc::default()), [renamed.as_str()]);
    let mut with_seq = RecordRenderer::new(&record(), Arc::default()).with_seq(true);
    let said =
        renamed.replacen(r#""_meta":{}"#, r#""_meta":{"acpx":{"seq":1,"at":"1970-01-01T00:00:01.000Z"}}"#, 1);
    assert_eq!(with_seq.render(&log.events[0], &|_| false), [said]);
}

#[test]
fn client_receives_negotiated_updates_and_prompts_of_other_clients() {
    let mut log = Log::new();
    log.begin(1, "theirs");
    log.update(r#"{"sessionUpdate":"notice","text":"psst"}"#);
    log.update(r#"{"sessionUpdate":"compaction_update"}"#);
    log.update(r#"{"sessionUpdate":"config_option_update","configOptions":[{"id":"a","type":"select"},{"id":"b","type":"boolean"}]}"#);
    log.chunk("user_message_chunk", "theirs");
    let kinds = |lines: &[String]| -> Vec<String> {
        let update = |line: &String| serde_json::from_str::<Value>(line).unwrap()["params"]["update"].clone();
        lines.iter().map(|line| update(line).to_string()).collect()
    };
    let prompt = asked(1, "theirs").to_string();
    let select = json!({ "sessionUpdate": "config_option_update", "configOptions": [{ "id": "a", "type": "select" }] });
    assert_eq!(kinds(&log.live(Arc::default())), [prompt, select.to_string()]);
    let all =
        ClientFacts { notices: true, compaction: true, boolean_options: true, ..ClientFacts::default() };
    assert_eq!(log.live(all.into()).len(), 4);
    // The client that sent the prompt does not receive it, but receives the agent's echo, as it would without acpx.
    let mut own = RecordRenderer::new(&record(), Arc::default());
    let told: Vec<_> =
        log.events.iter().flat_map(|event| own.render(event, &|request| request == "q1")).collect();
    let echo = text("user_message_chunk", "theirs").to_string();
    assert_eq!(kinds(&told), [select.to_string(), echo]);
}
