//! How a turn goes. In version 1 it is over when the prompt is answered; in version 2 the session says that it
//! runs and that it is idle, and why it stopped.

use agent_client_protocol_schema::v1;

use super::members::Members;
use crate::acp::StateUpdate;
use crate::wire::encode::json_string;

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
    let mut update = Members::new();
    update.set_text("sessionUpdate", "state_update");
    update.set_text("state", "idle");
    let answer = Members::parse(answer).unwrap_or_default();
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

/// The answer to a prompt of version 1 that a state of version 2 stands for: the result, or the error object.
/// `None` for a state that ends no turn.
pub fn prompt_answer(state: &StateUpdate) -> Option<Result<Box<str>, Box<str>>> {
    let StateUpdate::Idle { stop_reason, error, usage } = state else { return None };
    let reason = stop_reason.as_deref().unwrap_or("end_turn");
    if reason == "error" {
        let unsaid = || r#"{"code":-32603,"message":"the agent stopped with an error"}"#.into();
        let is_error = |error: &&str| serde_json::from_str::<v1::Error>(error).is_ok();
        return Some(Err(error.as_deref().filter(is_error).map_or_else(unsaid, Into::into)));
    }
    let mut answer = Members::new();
    if REASONS.contains(&reason) {
        answer.set_text("stopReason", reason);
    } else {
        answer.set_text("stopReason", "end_turn");
        answer.note("stopReason", &json_string(reason));
    }
    if let Some(usage) = usage {
        answer.set("usage", &**usage);
    }
    Some(Ok(answer.to_string().into()))
}
