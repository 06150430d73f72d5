//! The identity contract, as a check of one line of JSON output: the canonical names, nothing unknown said as
//! null, no `id` and no bare `sessionId` among the keys that are ours.

use serde_json::{Map, Value};

/// Names that other programs, or earlier ones, have for the three ids.
const FOREIGN: [&str; 6] =
    ["id", "sessionId", "runtimeSessionId", "acpSessionId", "recordId", "replacedSessionId"];
/// Members whose value is an agent's own, passed on as it is.
const PASSED_ON: [&str; 4] = ["usage", "acp", "message", "configOptions"];
/// Objects that are about no record.
const ABOUT_NONE: [&str; 10] = [
    "auth_methods",
    "host_status",
    "host_stopped",
    "host_restarted",
    "pending",
    "sessions_migrated",
    "serving",
    "token_created",
    "token_revoked",
    "tokens",
];

/// Checks a line of stdout. Messages exchanged with the agent keep the protocol's names.
pub(crate) fn check(line: &Value) {
    match line {
        Value::Array(rows) => rows.iter().for_each(about_a_session),
        Value::Object(object) if object.contains_key("jsonrpc") => envelope(object),
        // A page of an agent's own list.
        Value::Object(object) if object.get("source").is_some_and(|source| source == "agent") => {
            names(line);
            check(&object["sessions"]);
        }
        Value::Object(object) => {
            let action = object.get("action").and_then(Value::as_str).unwrap_or_default();
            let is_without = object.get("status").is_some_and(|status| status == "no-session")
                || action == "cancel_result" && object.get("cancelled") == Some(&Value::Bool(false));
            if ABOUT_NONE.contains(&action) || is_without && !object.contains_key("acpxRecordId") {
                names(line);
            } else {
                about_a_session(line);
            }
        }
        other => panic!("neither an object nor an array: {other}"),
    }
}

/// An error of ours has the protocol's envelope, and its data is ours.
fn envelope(object: &Map<String, Value>) {
    let Some(data) = object.get("error").and_then(|error| error.get("data")) else { return };
    if data.get("acpxCode").is_some() {
        names(data);
    }
}

/// A record has both ids. One of the agent's own sessions, and the turn of an `exec`, have no record.
fn about_a_session(value: &Value) {
    names(value);
    let id = |name: &str| value.get(name).map(|id| id.as_str().is_some_and(|id| !id.is_empty()));
    assert_eq!(id("acpxSessionId"), Some(true), "{value}");
    assert_ne!(id("acpxRecordId"), Some(false), "{value}");
    assert_ne!(id("agentSessionId"), Some(false), "{value}");
}

/// Every key of ours is well named, and every value is known.
fn names(value: &Value) {
    match value {
        Value::Null => panic!("there is a null"),
        Value::Array(items) => items.iter().for_each(names),
        Value::Object(object) => {
            for (key, value) in object.iter().filter(|(key, _)| !PASSED_ON.contains(&key.as_str())) {
                assert!(!FOREIGN.contains(&key.as_str()) && !key.contains('_'), "{key} in {object:?}");
                names(value);
            }
        }
        _ => {}
    }
}

#[test]
#[should_panic(expected = "sessionId")]
fn foreign_member_name_is_found_at_any_depth() {
    check(&serde_json::json!({"action": "x", "acpxSessionId": "s", "rows": [{"sessionId": "s"}]}));
}

#[test]
#[should_panic(expected = "there is a null")]
fn null_is_found_in_error_data() {
    check(
        &serde_json::json!({"jsonrpc": "2.0", "id": null, "error": {"data": {"acpxCode": "X", "hint": null}}}),
    );
}
