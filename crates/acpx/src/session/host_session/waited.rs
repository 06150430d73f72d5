//! Texts for what a command waits for while an agent starts: the host's wait reason, or by default that the agent is
//! starting.

use acpx_core::protocol::meta::WaitReasonAnswer;

use crate::output::awaited;

/// Shown when an agent takes long to start.
pub(crate) fn waiting_for(agent: &str) -> String {
    format!("waiting for the agent {agent} to start")
}

/// The wait reason in the host's answer to `_acpx/waiting`; `None` if it only says that the agent is starting.
pub(super) fn wait_notice(answer: &str, agent: &str) -> Option<String> {
    let waiting = serde_json::from_str::<WaitReasonAnswer>(answer).ok()?.waiting_for?;
    match (waiting.what.as_str(), waiting.method.as_deref()) {
        ("agent-start", _) => None,
        ("answer", Some("session/prompt")) | ("turn-end" | "permission" | "elicitation" | "command", _) => {
            Some(format!("waiting for the agent {agent}, which works on a turn"))
        }
        _ => Some(format!("waiting for {}", awaited(&waiting))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn wait_notice_names_the_hosts_wait_reason() {
        let notice = |what: Value| {
            let mut waiting = json!({ "since": "2026-11-16T00:00:00.000Z" });
            waiting.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
            wait_notice(&json!({ "waitingFor": waiting }).to_string(), "a")
        };
        let cases = [
            (json!({ "what": "agent-start" }), None),
            (
                json!({ "what": "answer", "method": "session/set_mode" }),
                Some("waiting for the agent's answer to session/set_mode"),
            ),
            (json!({ "what": "agent-end" }), Some("waiting for the end of the agent's process")),
            (
                json!({ "what": "answer", "method": "session/prompt" }),
                Some("waiting for the agent a, which works on a turn"),
            ),
            (json!({ "what": "permission" }), Some("waiting for the agent a, which works on a turn")),
        ];
        for (what, expected) in cases {
            assert_eq!(notice(what.clone()).as_deref(), expected, "{what}");
        }
        for nothing in ["{}", "null", "7"] {
            assert_eq!(wait_notice(nothing, "a"), None);
        }
    }
}
