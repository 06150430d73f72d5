//! The state of a turn. In version 1 the response to the prompt ends it; in version 2 the session reports that it is
//! running, and later that it is idle and why it stopped.

use crate::wire::json::RawObject;

/// The stop reasons of version 1. The set is closed.
const REASONS: [&str; 5] = ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"];

/// The version 2 `update` object for a running session.
pub(crate) fn running_update() -> Box<str> {
    r#"{"sessionUpdate":"state_update","state":"running"}"#.into()
}

/// The version 2 `update` object for a session that waits for its user.
pub(crate) fn requires_action_update() -> Box<str> {
    r#"{"sessionUpdate":"state_update","state":"requires_action"}"#.into()
}

/// The version 2 `update` object for a version 1 response to a prompt: the session is idle, with the stop reason and
/// the usage.
pub(crate) fn idle_update(answer: &str) -> Box<str> {
    let mut update = RawObject::new();
    update.set_text("sessionUpdate", "state_update");
    update.set_text("state", "idle");
    let answer = RawObject::parse(answer).unwrap_or_default();
    if let Some(reason) = answer.text("stopReason") {
        update.set_text("stopReason", &reason);
    }
    for name in ["usage", "_meta"] {
        if let Some(value) = answer.get_non_null(name) {
            update.set(name, value);
        }
    }
    update.to_string().into()
}

/// The stop reason for version 1, and the agent's original reason if it differs: a version 1 client cannot read a
/// reason outside its closed set.
pub(crate) fn stop_reason_to_v1(reason: &str) -> (&str, Option<&str>) {
    if REASONS.contains(&reason) { (reason, None) } else { ("end_turn", Some(reason)) }
}
