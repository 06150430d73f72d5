//! Permission requests to the client's user, and their outcomes.

use agent_client_protocol_schema::{v1 as acp, v2};

use super::update::ToolReport;
use crate::model::AcpSessionId;

/// A permission request for a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPermissionRequest {
    /// The session.
    pub session: AcpSessionId,
    /// The tool call.
    pub tool_call: ToolReport,
    /// The user's options.
    pub options: Vec<PermissionOption>,
}

/// One option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionOption {
    /// Its id, returned when it is chosen.
    pub id: String,
    /// Its display name.
    pub name: String,
    /// What it means.
    pub kind: PermissionOptionKind,
}

/// What an option means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionOptionKind {
    /// Allow once.
    AllowOnce,
    /// Allow, and do not ask again.
    AllowAlways,
    /// Reject once.
    RejectOnce,
    /// Reject, and do not ask again.
    RejectAlways,
}

/// The outcome of a permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionOutcome {
    /// The user chose the option with this id.
    Selected(String),
    /// The turn was cancelled, or the user dismissed the request.
    Cancelled,
    /// An unknown outcome. It grants nothing.
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
    /// Parses the client's result; `None` if it is invalid. The known outcomes are the same in both versions.
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
