//! What an agent was not allowed in a turn, so that its end can say what that was, and what would have helped.
//!
//! It is read from the lines of the turn, in every format: what a policy says of a request is decided by the very code
//! that the host decides by.

use acpx_core::acp::client::{KnownTools, PermissionRequest, tool_request_use};
use acpx_core::machine::Permit;
use acpx_core::model::{Direction, ToolUse, Update};
use acpx_core::wire::Message;

use super::updates::Updates;
use crate::output::WatchedEvent;
use crate::output::errand::{End, Errands};

/// What the agent was not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Denied {
    /// The first thing.
    pub(crate) tool: ToolUse,
    /// How many there were after it.
    pub(crate) more: usize,
}

/// Gathers what is not allowed.
#[derive(Debug, Default)]
pub(super) struct Denials {
    known: KnownTools,
    updates: Updates,
    open: Errands<Asked>,
    denied: Option<Denied>,
}

/// What is asked for.
#[derive(Debug)]
enum Asked {
    Permission(PermissionRequest),
    /// A file or a terminal.
    Tool(ToolUse),
}

impl Denials {
    /// Takes the next line; what is asked for with it.
    pub(super) fn take(&mut self, event: &WatchedEvent) -> Option<ToolUse> {
        let line = event.message.get();
        // Most lines are pieces of a message, and need not be read to know it. A request has an id, and may have any words
        // in it.
        let may_be_told =
            !line.contains("session/update") || line.contains("toolCallId") || line.contains(r#""id""#);
        match event.direction {
            Direction::FromAgent if may_be_told => self.told(event, &Message::parse(line).ok()?),
            Direction::ToAgent => {
                self.answered(&Message::parse(line).ok()?);
                None
            }
            Direction::FromAgent | Direction::Ours => None,
        }
    }

    /// The first thing that was not allowed.
    pub(super) fn denied(&self) -> Option<&Denied> {
        self.denied.as_ref()
    }

    fn told(&mut self, event: &WatchedEvent, message: &Message) -> Option<ToolUse> {
        for update in self.updates.read(event) {
            if let Update::Tool { call, fields } = update {
                self.known.remember(&call, &fields);
            }
        }
        let (method, id) = (message.method()?, message.id()?);
        let params = message.params().unwrap_or("null");
        let asked = match method {
            "session/request_permission" => Some(Asked::Permission(self.known.permission(params))),
            _ => tool_request_use(method, params).map(Asked::Tool),
        };
        let wanted = asked.as_ref().map(|asked| match asked {
            Asked::Permission(request) => request.tool.clone(),
            Asked::Tool(tool) => tool.clone(),
        });
        self.open.begin(id, asked);
        wanted
    }

    fn answered(&mut self, answer: &Message) {
        let Some(asked) = self.open.end(answer) else { return };
        let denied = match asked {
            Asked::Tool(tool) => matches!(End::read(answer), End::Denied(_)).then_some(tool),
            Asked::Permission(request) => {
                let said = request.said(&answer.result().unwrap_or("null").into());
                let is_approved = matches!(said, Permit::Approve | Permit::Choose { approves: true, .. });
                (!is_approved).then_some(request.tool)
            }
        };
        match (&mut self.denied, denied) {
            (Some(first), Some(_)) => first.more += 1,
            (first @ None, Some(tool)) => *first = Some(Denied { tool, more: 0 }),
            (_, None) => {}
        }
    }
}
