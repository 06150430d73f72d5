//! Messages of every kind as journal lines.

use super::*;

fn made_from(messages: &[Value]) -> MessageJournal {
    journal(messages, &AcpSessionId::new("s").unwrap())
}

#[test]
fn every_kind_of_message_becomes_lines_that_are_marked_as_made() {
    let messages = [
        json!("Resume"),
        json!({"User": {"id": "u", "content": [
            {"Text": "see"}, {"Mention": {"uri": "file:///a", "content": "a"}},
            {"Image": {"source": "aW1n", "size": null}}, {"Audio": {"source": "YQ==", "mime_type": "audio/wav"}},
            {"Unknown": 1},
        ]}}),
        json!({"Agent": {"content": [
            {"Thinking": {"text": "hm", "signature": null}}, {"RedactedThinking": "x"},
            {"ToolUse": {"id": "t", "name": "Read a", "raw_input": "{}", "input": {"path": "a"}}},
            {"ToolUse": {"id": "open", "name": "Wait", "input": null}},
            {"Text": "done"},
        ], "tool_results": {"t": {
            "tool_use_id": "t", "tool_name": "Read a", "is_error": true, "content": {"Text": "no"}, "output": {"e": 1},
        }}}}),
    ];
    let update = |update: Value| {
        let params = json!({"sessionId": "s", "update": update, "_meta": {"acpx": {"madeFrom": "messages"}}});
        json!({"jsonrpc": "2.0", "method": "session/update", "params": params})
    };
    let chunk = |kind: &str, text: &str| {
        update(json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}}))
    };
    let marker = |fields: Value| {
        let mut fields = fields;
        fields["schema"] = json!("acpx.session.journal.v1");
        fields
    };
    let expected = [
        marker(json!({"type": "turn_started", "request_id": "u"})),
        json!({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {"sessionId": "s", "prompt": [
            {"type": "text", "text": "see"}, {"type": "resource_link", "uri": "file:///a", "name": "a"},
            {"type": "image", "data": "aW1n", "mimeType": "application/octet-stream"},
            {"type": "audio", "data": "YQ==", "mimeType": "audio/wav"},
        ], "_meta": {"acpx": {"madeFrom": "messages"}}}}),
        chunk("agent_thought_chunk", "hm"),
        chunk("agent_thought_chunk", "[redacted_thinking]"),
        update(json!({
            "sessionUpdate": "tool_call", "toolCallId": "t", "title": "Read a", "rawInput": {"path": "a"},
            "status": "failed", "rawOutput": {"e": 1},
            "content": [{"type": "content", "content": {"type": "text", "text": "no"}}],
        })),
        update(json!({"sessionUpdate": "tool_call", "toolCallId": "open", "title": "Wait"})),
        chunk("agent_message_chunk", "done"),
        marker(json!({
            "type": "turn_result", "request_id": "u", "result": {"status": "completed", "stopReason": "unknown"},
        })),
    ];
    let made = made_from(&messages);
    let lines: Vec<Value> = made.lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines, made.unknown), (expected.to_vec(), 1));
}

#[test]
fn unknown_messages_are_counted_and_unanswered_prompts_have_no_end() {
    let messages = [
        json!(7),
        json!({"User": {"content": "not a list"}}),
        json!({"Agent": {"content": [{"Text": "the beginning is gone"}]}}),
        json!({"User": {"content": [{"Text": "a"}]}}),
        json!({"User": {"id": "", "content": []}}),
        json!({"Agent": {"content": [{"New": 1}]}}),
    ];
    let made = made_from(&messages);
    let told = made.lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told: Vec<Value> =
        told.map(|line| line.get("method").or(line.get("type")).cloned().unwrap()).collect();
    let expected = ["session/update", "turn_started", "session/prompt", "turn_started", "session/prompt"]
        .map(Value::from);
    assert_eq!((told, made.unknown), (expected.to_vec(), 3));
}
