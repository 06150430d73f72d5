use serde_json::json;

use super::*;
use crate::model::{Direction, Timestamp};

fn event(lineage: u64, version: ProtocolVersion, update: &Value) -> Event {
    let line = json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": update } });
    Event {
        seq: Seq::FIRST,
        at: Timestamp::from_millis(0).unwrap(),
        turn: None,
        lineage: LineageIndex(lineage),
        protocol: version.number(),
        direction: Direction::FromAgent,
        kind: EventKind::Update,
        body: line.to_string().into(),
    }
}

fn members(call: ToolCallSnapshot) -> Value {
    Value::Object(call.members)
}

#[test]
fn earlier_updates_of_one_tool_call_are_collected_in_version_1_form() {
    use ProtocolVersion::{V1, V2};
    let mut earlier = EarlierUpdates::new("t", LineageIndex(1));
    let begun = json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "Look", "kind": "edit" });
    earlier.on_event(&event(1, V1, &begun));
    let more = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "title": null, "rawInput": { "command": "ls" } });
    earlier.on_event(&event(1, V1, &more));
    let other = json!({ "sessionUpdate": "tool_call", "toolCallId": "u", "title": "Other" });
    earlier.on_event(&event(1, V1, &other));
    earlier.on_event(&event(
        2,
        V1,
        &json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "Later" }),
    ));
    let again =
        json!({ "sessionUpdate": "tool_call", "toolCallId": "again", "title": "First", "kind": "edit" });
    let mut begun_twice = EarlierUpdates::new("again", LineageIndex(1));
    begun_twice.on_event(&event(1, V1, &again));
    let second = json!({ "sessionUpdate": "tool_call", "toolCallId": "again", "title": "Second" });
    begun_twice.on_event(&event(1, V1, &second));
    assert_eq!(members(begun_twice.call), json!({ "toolCallId": "again", "title": "Second" }));
    let expected =
        json!({ "toolCallId": "t", "title": "Look", "kind": "edit", "rawInput": { "command": "ls" } });
    assert_eq!(members(earlier.call), expected);
    let mut earlier = EarlierUpdates::new("t", LineageIndex(1));
    let change = json!({ "operation": "modify", "path": "/w/a", "fileType": "text" });
    let text = "--- a/w/a\n+++ b/w/a\n@@ -1,1 +1,1 @@\n-a\n+b\n";
    let diff =
        json!({ "type": "diff", "changes": [change], "patch": { "format": "git_patch", "text": text } });
    let whole =
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "Edit", "content": [diff] });
    earlier.on_event(&event(1, V2, &whole));
    let shown = json!([{ "type": "diff", "path": "/w/a", "oldText": "a\n", "newText": "b\n" }]);
    assert_eq!(earlier.call.members.get("content"), Some(&shown));
}

#[test]
fn tool_call_members_that_are_too_long_are_left_out_and_named() {
    let long = "x".repeat(MAX_MEMBER_BYTES);
    let call =
        json!({ "toolCallId": "t", "rawInput": { "command": long }, "kind": "edit", "status": "pending" });
    let mut whole = ToolCallSnapshot::default();
    whole.merge(call.as_object().unwrap().clone(), &MEMBERS);
    let snapshot = |left: &mut AnswerBytes| {
        let call = left.fitting(&whole);
        (Value::Object(call.members), call.left_out)
    };
    let mut left = AnswerBytes::default();
    let expected = json!({ "toolCallId": "t", "kind": "edit" });
    assert_eq!(snapshot(&mut left), (expected, vec!["rawInput"]));
    assert_eq!(left.0, ANSWER_BYTES - r#""t""edit""#.len());
    let left_out = vec!["kind", "rawInput"];
    assert_eq!(snapshot(&mut AnswerBytes(3)), (json!({ "toolCallId": "t" }), left_out));
}

#[test]
fn a_tool_call_id_with_an_escaped_member_name_is_found() {
    let mut earlier = EarlierUpdates::new("t", LineageIndex(1));
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "rm" });
    let event = event(1, ProtocolVersion::V1, &call);
    let body = event.body.replace("toolCallId", "tool\\u0043allId").into();
    earlier.on_event(&Event { body, ..event });
    assert_eq!(members(earlier.call), json!({ "toolCallId": "t", "title": "rm" }));
}
