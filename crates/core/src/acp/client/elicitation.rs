//! Questions of an agent to the user that are no permission: a form to fill in, an address to open.

use agent_client_protocol_schema::v1 as acp;

use crate::machine::{AskId, Permit};
use crate::wire::encode;

use super::call::json;
use super::{AgentConnection, Outgoing, rpc_id};

impl AgentConnection {
    /// The line that answers an `elicitation/create`: in the client's words where there are any.
    pub fn elicited(&self, ask: &AskId, answer: &Permit) -> Outgoing {
        let result = match answer {
            Permit::Elicited(result) => result.to_string(),
            Permit::Cancelled => said(acp::ElicitationAction::Cancel),
            Permit::Declined
            | Permit::Approve
            | Permit::Reject
            | Permit::Escalated(_)
            | Permit::Choose { .. } => said(acp::ElicitationAction::Decline),
        };
        self.said_by_client(encode::response(&rpc_id(ask), &result))
    }
}

/// The versions of the protocol say this in the same words.
fn said(action: acp::ElicitationAction) -> String {
    json(&acp::CreateElicitationResponse::new(action))
}

/// Whether a client's answer is one: an object that says what the user did.
pub(crate) fn is_elicitation_answer(result: &str) -> bool {
    serde_json::from_str::<acp::CreateElicitationResponse>(result).is_ok()
}
