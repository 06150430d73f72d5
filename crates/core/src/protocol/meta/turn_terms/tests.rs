//! Which source wins in the terms of a turn.

use serde_json::json;

use super::*;

fn terms(value: serde_json::Value) -> TurnTermsMeta {
    serde_json::from_value(value).unwrap()
}

#[test]
fn turn_terms_fall_back_to_those_of_the_connection() {
    let connection = json!({
        "policy": "deny-all", "toolPolicy": { "autoDeny": ["execute"] }, "unasked": "fail",
        "timeoutMs": 9, "idleTimeoutMs": 8,
    });
    let connection = terms(connection);
    assert_eq!(TurnTermsMeta::default().or(&connection), connection);
    let own = terms(json!({
        "policy": "approve-reads", "toolPolicy": {}, "unasked": "wait", "timeoutMs": 1, "idleTimeoutMs": 2,
    }));
    assert_eq!(own.clone().or(&connection), own);
}

#[test]
fn a_deny_all_turn_ignores_the_tool_rules_of_its_connection() {
    let connection = terms(json!({ "toolPolicy": { "autoApprove": ["*"] } }));
    let denying = terms(json!({ "policy": "deny-all" }));
    assert_eq!(denying.clone().or(&connection), denying);
}

#[test]
fn turn_terms_stay_within_those_set_for_a_remote_client() {
    let rules = json!({ "autoApprove": ["edit"], "autoDeny": ["fetch"] });
    let own = |policy: &str| json!({ "policy": policy, "toolPolicy": rules, "unasked": "wait", "timeoutMs": 9, "idleTimeoutMs": 2 });
    let cases = [
        (json!({}), "approve-all", own("approve-all")),
        (
            json!({ "policy": "deny-all", "timeoutMs": 5 }),
            "approve-reads",
            json!({ "unasked": "wait", "timeoutMs": 5, "idleTimeoutMs": 2 }),
        ),
        (
            json!({ "policy": "approve-reads", "unasked": "deny", "idleTimeoutMs": 1 }),
            "deny-all",
            json!({
                "policy": "deny-all", "toolPolicy": { "autoDeny": ["fetch"] }, "timeoutMs": 9, "idleTimeoutMs": 1,
            }),
        ),
        (
            json!({ "toolPolicy": { "autoDeny": ["edit"] } }),
            "approve-all",
            json!({ "policy": "approve-all", "unasked": "wait", "timeoutMs": 9, "idleTimeoutMs": 2 }),
        ),
    ];
    for (set, policy, expected) in cases {
        let mut kept = terms(own(policy));
        kept.keep_within(&terms(set.clone()));
        assert_eq!(kept, terms(expected), "{set} {policy}");
    }
}
