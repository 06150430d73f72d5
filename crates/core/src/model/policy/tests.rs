use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn tool(kind: &str, title: &str, name: &str) -> ToolUse {
    let said = |text: &str| (!text.is_empty()).then(|| text.into());
    ToolUse { protocol_kind: said(kind), title: said(title), name: said(name) }
}

fn policy(mode: PermissionMode, rules: &Value) -> PermissionPolicy {
    let tools = Some(Arc::new(ToolPolicy::of(rules).unwrap()));
    PermissionPolicy { mode, tools, unasked: UnattendedPolicy::Deny }
}

#[test]
fn every_mode_decides_by_kind_and_is_read_as_it_is_written() {
    let decided = PermissionMode::ALL
        .map(|mode| (mode.as_str(), mode.decide(ToolKind::Reads), mode.decide(ToolKind::Other)));
    let expected = [
        ("approve-all", Decision::Approve, Decision::Approve),
        ("approve-reads", Decision::Approve, Decision::Ask),
        ("deny-all", Decision::Reject, Decision::Reject),
        ("ask", Decision::Ask, Decision::Ask),
    ];
    assert_eq!(decided, expected);
    let read = PermissionMode::ALL.map(|mode| PermissionMode::parse(mode.as_str()));
    assert_eq!(read, PermissionMode::ALL.map(Some));
    assert_eq!(PermissionMode::parse("perhaps"), None);
    assert_eq!(
        UnattendedPolicy::ALL.map(|rule| UnattendedPolicy::parse(rule.as_str())),
        UnattendedPolicy::ALL.map(Some)
    );
    assert_eq!(UnattendedPolicy::parse("perhaps"), None);
}

#[test]
fn missing_tool_kind_is_the_first_word_of_the_title() {
    let cases = [
        ("read", "Run it", "read"),
        ("other", "Read it", "other"),
        ("", "Read notes.txt", "read"),
        ("", "cat: notes.txt", "read"),
        ("", "GREP x", "search"),
        ("", "find", "search"),
        ("", "Write file", "edit"),
        ("", "patch(a)", "edit"),
        ("", "Remove a", "delete"),
        ("", "rename a b", "move"),
        ("", "Bash(ls)", "execute"),
        ("", "  url", "fetch"),
        ("", "think", "think"),
        ("", "Reading", "other"),
        ("", "`ls`", "other"),
        ("", "", "other"),
    ];
    for (kind, title, expected) in cases {
        assert_eq!(tool(kind, title, "").kind_name(), expected, "{kind:?} {title:?}");
    }
}

#[test]
fn policy_order_is_deny_approve_ask_default_mode() {
    use Decision::{Approve, Ask, Reject};
    let all = json!({ "autoDeny": ["a"], "autoApprove": ["a", "b"], "escalate": ["a", "b", "c"], "defaultAction": "deny" });
    let cases = [
        (all.clone(), "a", Reject, None),
        (all.clone(), "b", Approve, None),
        (all.clone(), "c", Ask, Some("c")),
        (all, "d", Reject, None),
        (json!({ "defaultAction": "approve" }), "d", Approve, None),
        (json!({ "defaultAction": "escalate" }), "d", Ask, Some("*")),
        (json!({}), "d", Ask, None),
    ];
    for (rules, title, decision, escalated_by) in cases {
        let policy = policy(PermissionMode::ApproveReads, &rules);
        assert_eq!(
            policy.rule(&tool("edit", title, "")),
            Ruling { decision, escalated_by },
            "{rules} {title}"
        );
    }
    let denied = policy(PermissionMode::DenyAll, &json!({ "autoApprove": ["x"] }));
    assert_eq!(denied.rule(&tool("read", "y", "")).decision, Reject);
    assert_eq!(denied.rule(&tool("read", "x", "")).decision, Approve);
}

#[test]
fn policy_rule_matches_kind_title_word_or_name_in_any_case() {
    let tools = [tool("edit", "Write the notes", "str_replace"), tool("", "Bash(ls -l)", "")];
    let cases = [
        ("EDIT", [true, false]),
        ("execute", [false, true]),
        ("write THE notes", [true, false]),
        (" Write ", [true, false]),
        ("bash", [false, true]),
        ("Str_Replace", [true, false]),
        ("*", [true, true]),
        ("notes", [false, false]),
        ("wri", [false, false]),
        ("**", [false, false]),
    ];
    for (rule, expected) in cases {
        let policy = policy(PermissionMode::DenyAll, &json!({ "autoApprove": [rule] }));
        let met = tools.each_ref().map(|tool| policy.rule(tool).decision == Decision::Approve);
        assert_eq!(met, expected, "{rule}");
    }
}

#[test]
fn later_members_of_a_tool_call_override_earlier_ones() {
    let later = tool("", "Write", "").or(&tool("edit", "Pending", "write"));
    assert_eq!(later, tool("edit", "Write", "write"));
}

#[test]
fn policy_error_names_its_member() {
    let object = "the policy must be a JSON object";
    let known = "must be one of autoApprove, autoDeny, escalate and defaultAction";
    let cases = [
        ("", object.to_owned()),
        ("{", object.to_owned()),
        ("[]", object.to_owned()),
        (r#"{"autodeny":[]}"#, format!("autodeny {known}")),
        (r#"{"autoDeny":"x"}"#, "autoDeny must be an array of strings".to_owned()),
        (r#"{"autoDeny":null}"#, "autoDeny must be an array of strings".to_owned()),
        (r#"{"escalate":["a",7]}"#, "escalate[1] must be a non-empty string".to_owned()),
        (r#"{"autoApprove":[" "]}"#, "autoApprove[0] must be a non-empty string".to_owned()),
        (
            r#"{"defaultAction":"Deny"}"#,
            r#"defaultAction must be "approve", "deny" or "escalate""#.to_owned(),
        ),
    ];
    for (text, expected) in cases {
        let error = ToolPolicy::parse(text).unwrap_err().to_string();
        assert_eq!(error.split("; found ").next(), Some(expected.as_str()), "{text}");
    }
}

/// Any JSON, often with the members of a policy.
fn json_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof!["approve", "deny", "escalate", ".{0,8}"].prop_map(Value::from),
    ];
    let name = prop_oneof!["autoApprove", "autoDeny", "escalate", "defaultAction", ".{0,4}"];
    leaf.prop_recursive(3, 24, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_is_a_round_tripping_tool_policy_or_an_error(
        value in json_values(), kind in ".{0,6}", title in ".{0,12}", name in ".{0,6}",
    ) {
        if let Ok(read) = ToolPolicy::of(&value) {
            prop_assert_eq!(ToolPolicy::parse(&read.to_value().to_string()), Ok(read.clone()));
            let tool = tool(&kind, &title, &name);
            let policy = PermissionPolicy { tools: Some(Arc::new(read.clone())), ..PermissionMode::DenyAll.into() };
            // A policy without approving rules approves nothing.
            let ruling = policy.rule(&tool);
            prop_assert!(read.approves() || ruling.decision != Decision::Approve);
        }
    }

    #[test]
    fn any_text_is_a_policy_or_an_error(text in ".{0,64}") {
        drop(ToolPolicy::parse(&text));
    }
}
