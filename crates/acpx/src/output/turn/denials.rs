//! Tracks what an agent was denied in a turn, so that the result can report it with a hint.
//!
//! It reads the lines of the turn, in every format, and evaluates the policy with the same code as the host.

use acpx_core::acp::client::{KnownTools, PermissionRequest, tool_request_use};
use acpx_core::model::{Direction, Permit, ToolUse, Update};
use acpx_core::wire::RpcMessage;

use super::updates::UpdateReader;
use crate::output::WatchedEvent;
use crate::output::agent_request::{AgentRequestOutcome, UnansweredRequests};

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
    /// Takes the next line; returns the tool use that it requests.
    pub(super) fn take(&mut self, event: &WatchedEvent) -> Option<ToolUse> {
        let line = event.message.get();
        // Most lines are message chunks and need no parsing. A request has an id, and may contain any words.
        let may_be_told =
            !line.contains("session/update") || line.contains("toolCallId") || line.contains(r#""id""#);
        match event.direction {
            Direction::FromAgent if may_be_told => self.told(event, &RpcMessage::parse(line).ok()?),
            Direction::ToAgent => {
                self.answered(&RpcMessage::parse(line).ok()?);
                None
            }
            Direction::FromAgent | Direction::Ours => None,
        }
    }

    /// The first denial.
    pub(super) fn denied(&self) -> Option<&DenialSummary> {
        self.denied.as_ref()
    }

    fn told(&mut self, event: &WatchedEvent, message: &RpcMessage) -> Option<ToolUse> {
        for update in self.updates.read(event) {
            if let Update::Tool { call, fields } = update {
                self.known.remember(&call, &fields);
            }
        }
        let (method, id) = (message.method()?, message.id()?);
        let params = message.params().unwrap_or("null");
        let asked = match method {
            "session/request_permission" => Some(DeniableRequest::Permission(self.known.permission(params))),
            _ => tool_request_use(method, params).map(DeniableRequest::Tool),
        };
        let wanted = asked.as_ref().map(|asked| match asked {
            DeniableRequest::Permission(request) => request.tool.clone(),
            DeniableRequest::Tool(tool) => tool.clone(),
        });
        self.open.begin(id, asked);
        wanted
    }

    fn answered(&mut self, answer: &RpcMessage) {
        let Some(asked) = self.open.end(answer) else { return };
        let denied = match asked {
            DeniableRequest::Tool(tool) => {
                matches!(AgentRequestOutcome::read(answer), AgentRequestOutcome::Denied(_)).then_some(tool)
            }
            DeniableRequest::Permission(request) => {
                let said = request.said(&answer.result().unwrap_or("null").into());
                let is_approved = matches!(said, Permit::Approve | Permit::Choose { approves: true, .. });
                (!is_approved).then_some(request.tool)
            }
        };
        match (&mut self.denied, denied) {
            (Some(first), Some(_)) => first.more += 1,
            (first @ None, Some(tool)) => *first = Some(DenialSummary { tool, more: 0 }),
            (_, None) => {}
        }
    }
}
