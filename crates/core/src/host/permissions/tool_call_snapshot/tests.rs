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

#[test]
fn what_was_told_of_a_call_in_either_version_is_known_as_version_1_has_it_and_of_no_other_call() {
    use ProtocolVersion::{V1, V2};
    let mut earlier = Earlier::new("t", LineageIndex(1));
    let begun = json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "Look", "kind": "edit" });
    earlier.take(&event(1, V1, &begun));
    let more = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "title": null, "rawInput": { "command": "ls" } });
    earlier.take(&event(1, V1, &more));
    let other = json!({ "sessionUpdate": "tool_call", "toolCallId": "u", "title": "Other" });
    earlier.take(&event(1, V1, &other));
    earlier.take(&event(
        2,
        V1,
        &json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "Later" }),
    ));
    let again =
        json!({ "sessionUpdate": "tool_call", "toolCallId": "again", "title": "First", "kind": "edit" });
    let mut begun_twice = Earlier::new("again", LineageIndex(1));
    begun_twice.take(&event(1, V1, &again));
    let second = json!({ "sessionUpdate": "tool_call", "toolCallId": "again", "title": "Second" });
    begun_twice.take(&event(1, V1, &second));
    assert_eq!(Value::Object(begun_twice.call), second);
    let told = |call: &Map<String, Value>| MEMBERS.map(|name| call.get(name).cloned().unwrap_or_default());
    let expected =
        json!({ "toolCallId": "t", "title": "Look", "kind": "edit", "rawInput": { "command": "ls" } });
    assert_eq!(told(&earlier.call), told(expected.as_object().unwrap()));
    let mut earlier = Earlier::new("t", LineageIndex(1));
    let change = json!({ "operation": "modify", "path": "/w/a", "fileType": "text" });
    let text = "--- a/w/a\n+++ b/w/a\n@@ -1,1 +1,1 @@\n-a\n+b\n";
    let diff =
        json!({ "type": "diff", "changes": [change], "patch": { "format": "git_patch", "text": text } });
    let whole =
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "Edit", "content": [diff] });
    earlier.take(&event(1, V2, &whole));
    let shown = json!([{ "type": "diff", "path": "/w/a", "oldText": "a\n", "newText": "b\n" }]);
    assert_eq!(earlier.call.get("content"), Some(&shown));
}

#[test]
fn what_is_too_long_to_be_told_is_left_out_and_named_and_so_is_what_the_answer_has_no_room_for() {
    let long = "x".repeat(MEMBER_BYTES);
    let call =
        json!({ "toolCallId": "t", "rawInput": { "command": long }, "kind": "edit", "status": "pending" });
    let call = call.as_object().unwrap();
    let told = |left: &mut AnswerBytes| {
        let ToolCallSnapshot { call, left_out } = ToolCallSnapshot::of(call).within(left);
        (Value::Object(call), left_out)
    };
    let mut left = AnswerBytes::default();
    let expected = json!({ "toolCallId": "t", "kind": "edit" });
    assert_eq!(told(&mut left), (expected, vec!["rawInput".to_owned()]));
    assert_eq!(left.0, ANSWER_BYTES - r#""t""edit""#.len());
    let left_out = vec!["kind".to_owned(), "rawInput".to_owned()];
    assert_eq!(told(&mut AnswerBytes(3)), (json!({ "toolCallId": "t" }), left_out));
}

#[test]
fn a_call_is_known_however_its_members_name_is_written() {
    let mut earlier = Earlier::new("t", LineageIndex(1));
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "rm" });
    let told = event(1, ProtocolVersion::V1, &call);
    let body = told.body.replace("toolCallId", "tool\\u0043allId").into();
    earlier.take(&Event { body, ..told });
    assert_eq!(Value::Object(earlier.call), call);
}
