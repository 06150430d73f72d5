//! Tracks what an agent was denied in a turn, so that the result can report it with a hint.
//!
//! It reads the lines of the turn, in every format, and evaluates the policy with the same code as the host.

use acpx_core::acp::client::{KnownTools, PermissionRequest, tool_request_use};
use acpx_core::model::{Direction, Permit, ToolUse, Update};
use acpx_core::wire::RpcMessage;

use super::UpdateReader;
use crate::output::WatchedEvent;
use crate::output::agent_request::{RequestOutcome, UnansweredRequests};

/// What the agent was denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DenialSummary {
    /// The first denied tool use.
    pub(crate) tool: ToolUse,
    /// How many followed it.
    pub(crate) more: usize,
}

/// Collects denials.
#[derive(Debug, Default)]
pub(super) struct DenialTracker {
    known: KnownTools,
    updates: UpdateReader,
    open: UnansweredRequests<DeniableRequest>,
    denied: Option<DenialSummary>,
}

/// A request that may be denied.
#[derive(Debug)]
enum DeniableRequest {
    Permission(PermissionRequest),
    /// A file or a terminal.
    Tool(ToolUse),
}

impl DenialTracker {
    /// Takes the next message; returns the tool use that it requests.
    pub(super) fn observe(&mut self, event: &WatchedEvent, message: &RpcMessage) -> Option<ToolUse> {
        match event.direction {
            Direction::FromAgent => self.on_agent_message(event, message),
            Direction::ToAgent => {
                self.on_response(message);
                None
            }
            Direction::Ours => None,
        }
    }

    /// The first denial.
    pub(super) fn denied(&self) -> Option<&DenialSummary> {
        self.denied.as_ref()
    }

    fn on_agent_message(&mut self, event: &WatchedEvent, message: &RpcMessage) -> Option<ToolUse> {
        for update in self.updates.read(event, message) {
            if let Update::Tool { call, fields } = update {
                self.known.remember(&call, &fields);
            }
        }
        let (method, id) = (message.method()?, message.id()?);
        let params = message.params().unwrap_or("null");
        let request = match method {
            "session/request_permission" => Some(DeniableRequest::Permission(self.known.permission(params))),
            _ => tool_request_use(method, params).map(DeniableRequest::Tool),
        };
        let tool = request.as_ref().map(|request| match request {
            DeniableRequest::Permission(permission) => permission.tool.clone(),
            DeniableRequest::Tool(tool) => tool.clone(),
        });
        self.open.begin(id, request);
        tool
    }

    fn on_response(&mut self, response: &RpcMessage) {
        let Some(request) = self.open.end(response) else { return };
        let denied = match request {
            DeniableRequest::Tool(tool) => {
                matches!(RequestOutcome::read(response), RequestOutcome::Denied(_)).then_some(tool)
            }
            DeniableRequest::Permission(permission) => {
                let permit = permission.client_choice(&response.result().unwrap_or("null").into());
                let is_approved = matches!(permit, Permit::Approve | Permit::Choose { approves: true, .. });
                (!is_approved).then_some(permission.tool)
            }
        };
        match (&mut self.denied, denied) {
            (Some(first), Some(_)) => first.more += 1,
            (first @ None, Some(tool)) => *first = Some(DenialSummary { tool, more: 0 }),
            (_, None) => {}
        }
    }
}
