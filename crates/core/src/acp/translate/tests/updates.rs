//! Updates, alone and in sequence.

use serde_json::json;

use super::*;

fn to_v2(updates: &[Value]) -> Vec<Value> {
    let mut translator = UpdatesToV2::new();
    updates.iter().flat_map(|update| values(&translator.update(&update.to_string(), "made"))).collect()
}

fn to_v1(updates: &[Value]) -> Vec<Value> {
    let mut translator = UpdatesToV1::new();
    updates.iter().flat_map(|update| values(&translator.update(&update.to_string()))).collect()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Text in a tool call.
fn item(shown: &str) -> Value {
    json!({"type": "content", "content": text(shown)})
}

#[test]
fn chunk_without_a_message_id_gets_the_given_one() {
    let chunk =
        json!({"sessionUpdate": "agent_message_chunk", "content": text("a"), "_meta": {"k": 1}, "new": 1});
    let mut expected = chunk.clone();
    expected["messageId"] = json!("made");
    let with_id = json!({"sessionUpdate": "user_message_chunk", "content": text("a"), "messageId": "own"});
    assert_eq!(to_v2(&[chunk, with_id.clone()]), [expected, with_id]);
}

#[test]
fn v1_tool_calls_become_updates_and_null_means_unchanged() {
    let told = to_v2(&[
        json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "kind": null, "rawInput": {"n": 1}}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": null, "status": "failed", "_meta": null}),
    ]);
    let expected = [
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "T", "rawInput": {"n": 1}}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "failed"}),
    ];
    assert_eq!(told, expected);
}

#[test]
fn diffs_and_terminals_of_version_1_are_changes_and_text() {
    let content = json!([
        {"type": "diff", "path": "/f", "newText": "n\n", "_meta": {"k": 1}},
        {"type": "terminal", "terminalId": "x"},
    ]);
    let told = to_v2(&[json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "content": content})]);
    let expected = json!([
        {
            "type": "diff",
            "_meta": {"k": 1},
            "changes": [{"operation": "add", "path": "/f", "fileType": "text"}],
            "patch": {
                "format": "git_patch",
                "text": "diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1,1 @@\n+n\n",
            },
        },
        item("[terminal x]"),
    ]);
    assert_eq!(told, [json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "content": expected})]);
}

#[test]
fn sent_acpx_terminal_stays_a_terminal_in_v2() {
    let call = json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "t", "content": [{"type": "terminal", "terminalId": "x"}],
    });
    let mut translation = UpdatesToV2::new();
    translation.note_terminal("x");
    assert_eq!(values(&translation.update(&call.to_string(), "")), [call]);
}

#[test]
fn v2_only_update_kinds_of_a_v1_agent_are_dropped() {
    let state = json!({"sessionUpdate": "state_update", "state": "idle"});
    let unknown = json!({"sessionUpdate": "_ours", "n": 1});
    assert_eq!(to_v2(&[state.clone(), unknown.clone()]), std::slice::from_ref(&unknown));
    assert_eq!(to_v1(&[state, unknown]), [] as [Value; 0]);
}

#[test]
fn unreported_mode_becomes_a_single_choice() {
    let told = to_v2(&[json!({"sessionUpdate": "current_mode_update", "currentModeId": "plan"})]);
    let option = json!({
        "configId": MODE_OPTION, "name": "Mode", "category": "mode", "type": "select",
        "currentValue": "plan", "options": [{"value": "plan", "name": "plan"}],
    });
    assert_eq!(told, [json!({"sessionUpdate": "config_option_update", "configOptions": [option]})]);
}

#[test]
fn first_v2_tool_call_update_creates_the_v1_call() {
    let update = |members: Value| {
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t"});
        update.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        update
    };
    let told = to_v1(&[
        update(json!({"name": "run", "title": null, "capabilities": {"cancel": {}}})),
        update(json!({"status": "cancelled", "title": "T", "_meta": {"k": 1}})),
        update(json!({"status": "_odd", "content": null, "rawInput": null, "kind": null})),
    ]);
    let mut first = update(json!({"name": "run", "title": "run"}));
    first["sessionUpdate"] = json!("tool_call");
    let expected = [
        first,
        update(json!({"status": "failed", "title": "T", "_meta": {"k": 1, "acpx": {"status": "cancelled"}}})),
        update(json!({"content": [], "kind": "other", "_meta": {"acpx": {"status": "_odd"}}})),
    ];
    assert_eq!(told, expected);
}

#[test]
fn tool_content_chunks_are_sent_whole_before_the_next_update() {
    let piece = |shown| json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "t", "content": item(shown)});
    let update =
        |content: Value| json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "content": content});
    let odd = json!({"type": "_odd", "n": 1});
    let named = json!({
        "type": "content", "content": text("[content of the kind _odd]"), "_meta": {"acpx": {"content": odd}},
    });
    let usage = json!({"sessionUpdate": "usage_update", "used": 1, "size": 2});
    let ended = |members: Value| {
        let mut ended =
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"});
        ended.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        ended
    };
    let told = to_v1(&[
        piece("a"),
        piece("b"),
        piece("b2"),
        usage.clone(),
        update(json!([item("c"), odd])),
        piece("d"),
        ended(json!({})),
        ended(json!({})),
        piece("e"),
    ]);
    let first = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "", "content": [item("a")]});
    let expected = [
        first,
        update(json!([item("a"), item("b"), item("b2")])),
        usage,
        update(json!([item("c"), named])),
        ended(json!({"content": [item("c"), named, item("d")]})),
        ended(json!({})),
    ];
    assert_eq!(told, expected);
}

#[test]
fn long_tool_content_keeps_its_end_and_a_truncation_note() {
    let mut translator = UpdatesToV1::new();
    let mut last = Vec::new();
    for index in 0..40 {
        let shown = format!("{index}:{}", "x".repeat(4000));
        let piece =
            json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "t", "content": item(&shown)});
        let mut told = translator.update(&piece.to_string());
        assert_eq!(translator.has_pending(), index > 0);
        told.extend(translator.settle());
        last = values(&told);
        assert!(last.len() == 1 && last[0].to_string().len() < 80_000);
    }
    let content = last[0]["content"].as_array().unwrap();
    assert_eq!(content[0], item("[earlier content is left out]"));
    assert_eq!(content.last().unwrap(), &item(&format!("39:{}", "x".repeat(4000))));
}

#[test]
fn patch_becomes_a_diff_per_hunk_and_names_other_changes() {
    let patch = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n@@ -7 +7 @@\n-c\n+d\n";
    let diff = json!({
        "type": "diff",
        "changes": [{"operation": "modify", "path": "/f"}, {"operation": "move", "oldPath": "/g", "path": "/h"}],
        "patch": {"format": "git_patch", "text": patch},
    });
    let told = to_v1(&[
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "T", "content": [diff]}),
    ]);
    let expected = json!([
        {"type": "diff", "path": "/f", "oldText": "a\n", "newText": "b\n"},
        {"type": "diff", "path": "/f", "oldText": "c\n", "newText": "d\n"},
        item("moved /g to /h"),
    ]);
    assert_eq!(told[0]["content"], expected);
}

#[test]
fn v2_terminal_is_text_in_the_tool_calls_that_refer_to_it() {
    let call = json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "T",
        "content": [{"type": "terminal", "terminalId": "x"}],
    });
    let told = to_v1(&[
        json!({"sessionUpdate": "terminal_update", "terminalId": "x", "command": "ls", "output": {"data": "YQo="}}),
        call,
        json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "x", "data": "Yg=="}),
        json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "x", "data": "Yg=="}),
        json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "y", "data": "Yg=="}),
        json!({"sessionUpdate": "terminal_update", "terminalId": "x", "exitStatus": {"exitCode": 1}}),
        json!({"sessionUpdate": "state_update", "state": "idle"}),
    ]);
    let shown = |kind: &str, shown: &str| {
        let mut call = json!({"sessionUpdate": kind, "toolCallId": "t", "content": [item(shown)]});
        if kind == "tool_call" {
            call["title"] = json!("T");
        }
        call
    };
    let expected = [shown("tool_call", "$ ls\na\n"), shown("tool_call_update", "$ ls\na\nbb\n[exit code 1]")];
    assert_eq!(told, expected);
}

#[test]
fn announced_tool_call_stays_announced_after_many_others() {
    let update = |id: usize, members: Value| {
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": format!("t{id}")});
        update.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        update
    };
    let mut translator = UpdatesToV1::new();
    let mut tell = |update: &Value| values(&translator.update(&update.to_string()));
    for id in 0..200 {
        assert_eq!(tell(&update(id, json!({"title": "T"})))[0]["sessionUpdate"], "tool_call");
    }
    let ended = update(0, json!({"title": "T", "status": "completed"}));
    assert_eq!(tell(&ended), [ended]);
    // Once ids have been evicted, an update without a title does not create a call.
    for id in 200..5000 {
        tell(&update(id, json!({"title": "T"})));
    }
    let ended = update(1, json!({"status": "completed"}));
    assert_eq!(tell(&ended), [ended]);
    let piece = json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "t2", "content": item("a")});
    assert_eq!(tell(&piece), [] as [Value; 0]);
    let content = json!([item("[earlier content is left out]"), item("a")]);
    assert_eq!(values(&translator.settle()), [update(2, json!({"content": content}))]);
}

#[test]
fn whole_message_sends_the_rest_or_a_new_message() {
    let chunk = |id: &str, said: &str| json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": text(said)});
    let whole =
        |content: Value| json!({"sessionUpdate": "agent_message", "messageId": "m", "content": content});
    let told = to_v1(&[
        whole(json!([])),
        chunk("m", "a"),
        whole(json!([text("ab")])),
        whole(json!([text("ab")])),
        json!({"sessionUpdate": "agent_message", "messageId": "m", "_meta": {"k": 1}}),
        whole(json!([text("x")])),
        chunk("m", "y"),
        whole(Value::Null),
        chunk("m", "z"),
    ]);
    let expected =
        [chunk("m", "a"), chunk("m", "b"), chunk("m#2", "x"), chunk("m#2", "y"), chunk("m#3", "z")];
    assert_eq!(told, expected);
}

#[test]
fn several_plans_are_one_in_the_order_they_came() {
    let entry =
        |content: &str, status: &str| json!({"content": content, "priority": "low", "status": status});
    let plan = |id: &str, entries: Value| json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": id, "entries": entries}});
    let told = to_v1(&[
        plan("p", json!([entry("a", "pending")])),
        plan("q", json!([entry("b", "cancelled")])),
        json!({"sessionUpdate": "plan_removed", "planId": "p"}),
        json!({"sessionUpdate": "plan_update", "plan": {"type": "markdown", "planId": "q", "content": "x"}}),
    ]);
    let mut done = entry("b", "completed");
    done["_meta"] = json!({"acpx": {"status": "cancelled"}});
    let one = |entries: Value| json!({"sessionUpdate": "plan", "entries": entries});
    let expected =
        [one(json!([entry("a", "pending")])), one(json!([entry("a", "pending"), done])), one(json!([done]))];
    assert_eq!(told, expected);
}

#[test]
fn unknown_content_is_named_in_a_text() {
    let told = to_v1(&[
        json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "_x"}}),
    ]);
    let mut block = text("[content of the kind _x]");
    block["_meta"] = json!({"acpx": {"content": {"type": "_x"}}});
    assert_eq!(told, [json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": block})]);
}

#[test]
fn pending_tool_content_is_sent_before_its_call_is_evicted() {
    let call = |id: usize| json!({"sessionUpdate": "tool_call_update", "toolCallId": format!("t{id}"), "title": "T"});
    let piece = |id: usize, shown: &str| json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": format!("t{id}"), "content": item(shown)});
    // Fills the tracker; the first call has owed content.
    let mut said: Vec<Value> = (0..128).map(call).collect();
    said.push(piece(0, "owed"));
    let owed = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t0", "content": [item("owed")]});
    for last in [call(128), piece(128, "first")] {
        let told = to_v1(&[&said[..], &[last]].concat());
        assert_eq!((told.len(), &told[128]), (130, &owed));
        assert_eq!(
            (&told[129]["sessionUpdate"], &told[129]["toolCallId"]),
            (&json!("tool_call"), &json!("t128"))
        );
    }
}
