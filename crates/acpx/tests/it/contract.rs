//! The contract of JSON output, as a check of one line: the object has the members of its schema and no others, the
//! canonical names of ids, nothing unknown said as null, no `id` and no bare `sessionId` among the keys that are ours.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::acpx::Place;

/// The schemas that the program prints.
static SCHEMAS: LazyLock<Value> = LazyLock::new(|| {
    let printed = Place::new().ok(&["--format", "json", "schema"]);
    serde_json::from_str(&printed).unwrap()
});

/// Checks an object against the schema of this name.
pub(crate) fn validate(name: &str, object: &Value) {
    let schema = &SCHEMAS["$defs"][name];
    assert!(schema.is_object(), "there is no schema {name}: {object}");
    validate_value(schema, object, name);
}

/// Checks a value with the keywords that the schemas use. Unlike the schemas, it allows no members that they lack.
fn validate_value(schema: &Value, value: &Value, place: &str) {
    for (keyword, wanted) in schema.as_object().unwrap() {
        match keyword.as_str() {
            "$ref" => {
                let name = wanted.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                validate_value(&SCHEMAS["$defs"][name], value, place);
            }
            "const" => assert_eq!(value, wanted, "{place}"),
            "type" => {
                let is = |kind: &Value| kind == type_of(value);
                assert!(
                    wanted.as_array().map_or(is(wanted), |kinds| kinds.iter().any(is)),
                    "{place}: {value}"
                );
            }
            "properties" => {
                for (member, value) in value.as_object().unwrap() {
                    let schema =
                        wanted.get(member).unwrap_or_else(|| panic!("{place} lacks {member}: {value}"));
                    validate_value(schema, value, &format!("{place}.{member}"));
                }
            }
            "required" => {
                for member in wanted.as_array().unwrap().iter().filter_map(Value::as_str) {
                    assert!(value.get(member).is_some(), "{place} without {member}: {value}");
                }
            }
            "items" => {
                for item in value.as_array().unwrap() {
                    validate_value(wanted, item, &format!("{place}[]"));
                }
            }
            "format" | "description" => {}
            other => panic!("{place} has the unknown keyword {other}"),
        }
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Names that other programs, or earlier ones, have for the three ids.
const FOREIGN: [&str; 6] =
    ["id", "sessionId", "runtimeSessionId", "acpSessionId", "recordId", "replacedSessionId"];
/// Members whose value is an agent's own, passed on as it is.
const PASSED_ON: [&str; 6] = ["usage", "acp", "message", "configOptions", "toolCall", "blocks"];
/// Objects that are about no record.
const ABOUT_NONE: [&str; 32] = [
    "damaged_session_deleted",
    "search",
    "index_status",
    "notify_status",
    "notify_tested",
    "index_updated",
    "index_rebuilt",
    "usage",
    "auth_methods",
    "host_log",
    "host_status",
    "host_stopped",
    "host_restarted",
    "pending",
    "queue",
    "queue_dropped",
    "sessions_migrated",
    "sessions_prune_dry_run",
    "sessions_pruned",
    "serving",
    "store_backed_up",
    "store_verified",
    "private_sessions",
    "token_created",
    "token_revoked",
    "tokens",
    "trusted",
    "trusted_files",
    "trust_revoked",
    "web_link",
    "web_status",
    "web_stopped",
];
/// Objects without an action that are about no record, by a member that only they have.
const WITHOUT_ACTION: [(&str, &str); 2] = [("origins", "config"), ("created", "config_init")];

/// Checks a line of stdout. Messages exchanged with the agent keep the protocol's names.
pub(crate) fn check(line: &Value) {
    match line {
        // The rows of a comparison are those of npm acpx.
        Value::Array(rows) if rows.iter().all(|row| row.get("wall_ms").is_some()) && !rows.is_empty() => {
            for row in rows {
                validate("compare", row);
            }
        }
        Value::Array(rows) => {
            for row in rows {
                // An agent's own session has no record and no ACP session of ours.
                if row.get("nativeSessionId").is_some() {
                    names(row);
                    validate("native_session", row);
                } else {
                    about_a_session(row);
                    validate("record", row);
                }
            }
        }
        Value::Object(object) if object.contains_key("jsonrpc") => {
            envelope(object);
            if line["error"]["data"].get("acpxCode").is_some() {
                validate("error", line);
            }
        }
        // A page of an agent's own list.
        Value::Object(object)
            if object.get("source").is_some_and(|source| source == "agent" || source == "local") =>
        {
            names(line);
            object["sessions"].as_array().unwrap().iter().for_each(about_a_session);
            validate("agent_sessions", line);
        }
        // Their members are those of npm acpx, or keys of the configuration.
        Value::Object(object)
            if !object.contains_key("action")
                && WITHOUT_ACTION.iter().any(|(member, _)| object.contains_key(*member)) =>
        {
            let named = WITHOUT_ACTION.iter().find(|(member, _)| object.contains_key(*member));
            validate(named.unwrap().1, line);
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
            let without_action = if object.contains_key("entries") { "history" } else { "record" };
            validate(if action.is_empty() { without_action } else { action }, line);
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
