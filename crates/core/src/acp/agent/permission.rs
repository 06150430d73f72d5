//! Asking the client's user before a tool call: what is asked, and what may come back.

use agent_client_protocol_schema::{v1 as acp, v2};

use super::update::ToolReport;
use crate::model::AcpSessionId;

/// A question whether a tool call may go ahead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPermissionRequest {
    /// The session that asks.
    pub session: AcpSessionId,
    /// The tool call in question.
    pub tool_call: ToolReport,
    /// What the user may choose from.
    pub options: Vec<PermissionOption>,
}

/// One choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionOption {
    /// Its id, which comes back when it is chosen.
    pub id: String,
    /// Its name, for a person.
    pub name: String,
    /// What it means.
    pub kind: PermissionOptionKind,
}

/// What a choice means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionOptionKind {
    /// Yes, this time.
    AllowOnce,
    /// Yes, and do not ask again.
    AllowAlways,
    /// No, this time.
    RejectOnce,
    /// No, and do not ask again.
    RejectAlways,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionOutcome {
    /// The option with this id was chosen.
    Selected(String),
    /// Nobody chose: the turn was cancelled, or whoever was asked did not want to.
    Cancelled,
    /// Something that the protocol as we know it has no word for. It chooses nothing.
    Unknown,
}

impl ToolPermissionRequest {
    pub(super) fn to_params(&self) -> String {
        let option = |option: &PermissionOption| {
            let kind = match option.kind {
                PermissionOptionKind::AllowOnce => acp::PermissionOptionKind::AllowOnce,
                PermissionOptionKind::AllowAlways => acp::PermissionOptionKind::AllowAlways,
                PermissionOptionKind::RejectOnce => acp::PermissionOptionKind::RejectOnce,
                PermissionOptionKind::RejectAlways => acp::PermissionOptionKind::RejectAlways,
            };
            acp::PermissionOption::new(option.id.clone(), option.name.clone(), kind)
        };
        let session = acp::SessionId::new(self.session.as_str());
        let options = self.options.iter().map(option).collect();
        let request = acp::RequestPermissionRequest::new(session, self.tool_call.clone().into(), options);
        serde_json::to_string(&request).expect("a permission request has only text and lists")
    }
}

impl PermissionOutcome {
    /// Reads the client's answer; `None` if it is none. Both versions say what is known in the same words.
    pub(crate) fn read(result: &str) -> Option<Self> {
        let response: v2::RequestPermissionResponse = serde_json::from_str(result).ok()?;
        match response.outcome {
            v2::RequestPermissionOutcome::Cancelled(_) => Some(Self::Cancelled),
            v2::RequestPermissionOutcome::Selected(selected) => {
                Some(Self::Selected(selected.option_id.0.as_ref().into()))
            }
            v2::RequestPermissionOutcome::Other(_) => Some(Self::Unknown),
            _ => None,
        }
    }
}
