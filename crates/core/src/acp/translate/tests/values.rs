//! Generators for the property tests: JSON made of protocol words, and updates that a version can express.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Words of the protocol, and some unknown ones.
const WORDS: &[&str] = &[
    "sessionUpdate",
    "user_message_chunk",
    "agent_message_chunk",
    "agent_message",
    "agent_thought",
    "state_update",
    "tool_call",
    "tool_call_update",
    "tool_call_content_chunk",
    "terminal_update",
    "terminal_output_chunk",
    "plan",
    "plan_update",
    "plan_removed",
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
    "notice",
    "compaction_update",
    "compaction_summary_chunk",
    "_odd",
    "messageId",
    "content",
    "toolCallId",
    "terminalId",
    "planId",
    "entries",
    "type",
    "text",
    "items",
    "diff",
    "changes",
    "patch",
    "format",
    "git_patch",
    "operation",
    "modify",
    "path",
    "oldText",
    "newText",
    "terminal",
    "status",
    "cancelled",
    "title",
    "kind",
    "data",
    "output",
    "availableCommands",
    "configOptions",
    "currentModeId",
    "modes",
    "availableModes",
    "id",
    "configId",
    "category",
    "mode",
    "select",
    "options",
    "currentValue",
    "value",
    "name",
    "_meta",
    "acpx",
    "state",
    "idle",
    "mcpServers",
    "stdio",
    "replayFrom",
    "toolCall",
    "subject",
    "command",
    "capabilities",
    "agentCapabilities",
    "clientCapabilities",
    "session",
    "prompt",
    "authMethods",
    "env",
    "sessionId",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![8 => proptest::sample::select(WORDS).prop_map(str::to_owned), 1 => ".{0,4}"]
}

/// Any JSON, mostly of protocol words.
pub(super) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => word().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(4, 24, 6, |inner| {
        prop_oneof![
            1 => proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => proptest::collection::vec((word(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Any update object of a kind that one of the versions has.
pub(super) fn any_update() -> impl Strategy<Value = String> {
    let kinds = WORDS.get(1..23).unwrap_or_default();
    (proptest::sample::select(kinds), proptest::collection::vec((word(), any_json()), 0..6)).prop_map(
        |(kind, members)| {
            let mut update: serde_json::Map<String, Value> = members.into_iter().collect();
            update.insert("sessionUpdate".to_owned(), kind.into());
            Value::Object(update).to_string()
        },
    )
}

pub(super) fn block() -> impl Strategy<Value = Value> {
    prop_oneof![
        "[ab\n]{0,3}".prop_map(|text| json!({"type": "text", "text": text})),
        "[ab]{0,3}".prop_map(|text| json!({"type": "text", "text": text, "annotations": {"priority": 0.5}})),
        Just(json!({"type": "image", "data": "", "mimeType": "image/png"})),
        Just(json!({"type": "resource_link", "name": "n", "uri": "u", "icons": [], "_meta": {"k": 1}})),
    ]
}

/// Members that neither version knows, and that must pass through.
fn beside() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    prop_oneof![
        Just(vec![]),
        Just(vec![("_meta", json!({"k": [1, {"n": 1.5}]}))]),
        Just(vec![("future", json!([])), ("_meta", json!({"acpx": {"seq": 1}}))]),
    ]
}

fn with(mut update: Value, members: Vec<(&'static str, Value)>) -> Value {
    for (name, member) in members {
        update[name] = member;
    }
    update
}

pub(super) fn tool_fields() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let item = prop_oneof![
        2 => block().prop_map(|block| json!({"type": "content", "content": block})),
        1 => (proptest::option::of("[ab\n]{0,4}"), "[ab\n]{0,4}").prop_map(|(old, new)| {
            let mut diff = json!({"type": "diff", "path": "/p", "newText": new});
            if let Some(old) = old {
                diff["oldText"] = json!(old);
            }
            diff
        }),
    ];
    let content = proptest::collection::vec(item, 0..3).prop_map(|items| ("content", json!(items)));
    let field = prop_oneof![
        content,
        proptest::sample::select(vec!["pending", "in_progress", "completed", "failed"])
            .prop_map(|status| ("status", json!(status))),
        proptest::sample::select(vec!["read", "edit", "other"]).prop_map(|kind| ("kind", json!(kind))),
        Just(("rawInput", json!({"n": 1}))),
        Just(("locations", json!([{"path": "/p", "line": 1}]))),
        Just(("name", json!("n"))),
    ];
    (proptest::collection::vec(field, 0..4), beside()).prop_map(|(fields, beside)| [fields, beside].concat())
}

fn chunk() -> impl Strategy<Value = Value> {
    let kind =
        proptest::sample::select(vec!["user_message_chunk", "agent_message_chunk", "agent_thought_chunk"]);
    (kind, "[mn]", block(), beside()).prop_map(|(kind, id, block, beside)| {
        with(json!({"sessionUpdate": kind, "messageId": id, "content": block}), beside)
    })
}

fn option(id: &'static str, group: &'static str) -> impl Strategy<Value = Value> {
    let choices = json!([{"value": "v", "name": "V"}]);
    let grouped = with(json!({"name": "G", "options": choices}), vec![(group, json!("g"))]);
    let select = json!({"name": "O", "type": "select", "currentValue": "v", "options": choices});
    let in_groups = json!({"name": "P", "category": "model", "type": "select", "currentValue": "v", "options": [grouped]});
    let boolean = json!({"name": "B", "type": "boolean", "currentValue": true});
    ("[xyz]", proptest::sample::select(vec![select, in_groups, boolean]))
        .prop_map(move |(name, option)| with(option, vec![(id, json!(name))]))
}

/// Updates that are the same in both versions.
fn same() -> impl Strategy<Value = Value> {
    prop_oneof![
        chunk(),
        beside().prop_map(|it| with(json!({"sessionUpdate": "session_info_update", "title": null}), it)),
        beside().prop_map(|it| with(json!({"sessionUpdate": "usage_update", "used": 1, "size": 2}), it)),
        Just(json!({"sessionUpdate": "notice", "severity": "_odd", "title": "t"})),
        Just(json!({"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed"})),
        block().prop_map(
            |it| json!({"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": it})
        ),
    ]
}

/// Version 1 updates that version 2 can express; a tool call precedes its updates.
pub(super) fn updates_of_v1() -> impl Strategy<Value = Vec<Value>> {
    let call = |kind: &'static str, title: bool| {
        ("[st]", tool_fields()).prop_map(move |(id, fields)| {
            let mut call = with(json!({"sessionUpdate": kind, "toolCallId": id}), fields);
            if title {
                call["title"] = json!("T");
            }
            call
        })
    };
    let entry = json!({"content": "c", "priority": "high", "status": "pending", "_meta": {"k": 1}});
    let command = json!({"name": "c", "description": "d", "input": {"hint": "h"}, "future": 1});
    let update = prop_oneof![
        same(),
        call("tool_call", true),
        call("tool_call_update", false),
        beside().prop_map(move |it| with(json!({"sessionUpdate": "plan", "entries": [entry]}), it)),
        beside().prop_map(move |it| {
            with(json!({"sessionUpdate": "available_commands_update", "availableCommands": [command]}), it)
        }),
        (proptest::collection::vec(option("id", "group"), 0..3), beside()).prop_map(|(options, it)| {
            with(json!({"sessionUpdate": "config_option_update", "configOptions": options}), it)
        }),
    ];
    proptest::collection::vec(update, 1..8).prop_map(|updates| {
        let mut known = std::collections::HashSet::new();
        updates
            .into_iter()
            .filter(|update| {
                let Some(call) = update.get("toolCallId") else { return true };
                let is_first = update["sessionUpdate"] == "tool_call";
                if is_first { known.insert(call.to_string()) } else { known.contains(&call.to_string()) }
            })
            .collect()
    })
}

/// Version 2 updates that version 1 can express.
pub(super) fn updates_of_v2() -> impl Strategy<Value = Vec<Value>> {
    let content = proptest::collection::vec(block(), 0..3).prop_map(|blocks| {
        blocks.into_iter().map(|block| json!({"type": "content", "content": block})).collect()
    });
    let call = ("[st]", proptest::option::of(content), beside()).prop_map(
        |(id, content, beside): (String, Option<Vec<Value>>, _)| {
            let mut call =
                json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "title": "T", "kind": "_odd"});
            if let Some(content) = content {
                call["content"] = json!(content);
            }
            with(call, beside)
        },
    );
    let entry = json!({"content": "c", "priority": "high", "status": "pending"});
    let plan = json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "acpx.plan", "entries": [entry]}});
    let command =
        json!({"type": "command", "name": "c", "description": "d", "input": {"type": "text", "hint": "h"}});
    let update = prop_oneof![
        same(),
        call,
        beside().prop_map(move |it| with(plan.clone(), it)),
        Just(json!({"sessionUpdate": "available_commands_update", "availableCommands": [command]})),
        proptest::collection::vec(option("configId", "groupId"), 0..3)
            .prop_map(|options| json!({"sessionUpdate": "config_option_update", "configOptions": options})),
    ];
    proptest::collection::vec(update, 1..8)
}
