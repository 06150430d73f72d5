//! How a turn goes. In version 1 it is over when the prompt is answered; in version 2 the session says that it
//! runs and that it is idle, and why it stopped.

use super::members::ObjectMembers;

/// Why an agent of version 1 may stop. It knows no other reason.
const REASONS: [&str; 5] = ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"];

/// The `update` object that tells a client of version 2 that the session works.
pub fn running_update() -> Box<str> {
    r#"{"sessionUpdate":"state_update","state":"running"}"#.into()
}

/// The `update` object that tells a client of version 2 that the session waits for its user.
pub fn requires_action_update() -> Box<str> {
    r#"{"sessionUpdate":"state_update","state":"requires_action"}"#.into()
}

/// The `update` object that tells a client of version 2 what the answer to a prompt of version 1 tells: that the
/// session is idle, why it stopped and what it used.
pub fn idle_update(answer: &str) -> Box<str> {
    let mut update = ObjectMembers::new();
    update.set_text("sessionUpdate", "state_update");
    update.set_text("state", "idle");
    let answer = ObjectMembers::parse(answer).unwrap_or_default();
    if let Some(reason) = answer.text("stopReason") {
        update.set_text("stopReason", &reason);
    }
    for name in ["usage", "_meta"] {
        if let Some(value) = answer.told(name) {
            update.set(name, value);
        }
    }
    update.to_string().into()
}

/// Why a turn stopped in version 1's words, and the agent's own word if that is another: the set of version 1 is
/// closed, and a client of it could not read the answer.
pub fn stop_reason_to_v1(reason: &str) -> (&str, Option<&str>) {
    if REASONS.contains(&reason) { (reason, None) } else { ("end_turn", Some(reason)) }
}
