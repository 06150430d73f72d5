//! Questions of an agent to the user that are no permission: a form to fill in, an address to open.

use agent_client_protocol_schema::v1 as acp;
use serde_json::Value;

use crate::machine::{AskId, Permit};
use crate::model::is_secret_name;
use crate::wire::encode;

use super::call::json;
use super::{AgentConnection, Outgoing, rpc_id};

impl AgentConnection {
    /// The line that answers an `elicitation/create` with these params: in the client's words where there are any. What
    /// was typed as a secret is kept out of it, and out of what the agent says from then on.
    pub fn elicited(&mut self, ask: &AskId, params: &str, answer: &Permit) -> Outgoing {
        let result = match answer {
            Permit::Elicited(result) => result.to_string(),
            Permit::Cancelled => said(acp::ElicitationAction::Cancel),
            Permit::Declined
            | Permit::Approve
            | Permit::Reject
            | Permit::Escalated(_)
            | Permit::Choose { .. } => said(acp::ElicitationAction::Decline),
        };
        for secret in secrets(params, &result) {
            self.secrets.learn(&secret);
        }
        let line = encode::response(&rpc_id(ask), &result);
        let kept = self.secrets.remove_from_answer(&line);
        Outgoing { kept, ..Outgoing::response(&self.peer, line) }
    }
}

/// What was typed into fields that are nobody's to read.
fn secrets(params: &str, result: &str) -> Vec<String> {
    let (params, result): (Value, Value) =
        (serde_json::from_str(params).unwrap_or_default(), serde_json::from_str(result).unwrap_or_default());
    let filled = result["content"].as_object().into_iter().flatten();
    let secret =
        filled.filter(|(key, _)| is_secret_field(key, &params["requestedSchema"]["properties"][key]));
    secret.filter_map(|(_, value)| value.as_str().map(str::to_owned)).collect()
}

/// Whether what is typed into a field of a form is nobody's to read: by its name, or because its schema says so.
pub fn is_secret_field(key: &str, property: &Value) -> bool {
    is_secret_name(key) || property["format"] == "password" || property["writeOnly"] == true
}

/// The versions of the protocol say this in the same words.
fn said(action: acp::ElicitationAction) -> String {
    json(&acp::CreateElicitationResponse::new(action))
}

/// Whether a client's answer is one: an object that says what the user did.
pub(crate) fn is_elicitation_answer(result: &str) -> bool {
    serde_json::from_str::<acp::CreateElicitationResponse>(result).is_ok()
}
