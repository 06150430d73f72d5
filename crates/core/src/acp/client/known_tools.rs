//! Remembers an agent's most recent tool calls, for permission requests that only name the id of a call.

use std::collections::VecDeque;

use crate::model::ToolUse;
use crate::wire::json;

use super::permission::{self, PermissionRequest};
use super::tools::ToolRequest;

/// How many tool calls are remembered.
const KNOWN_TOOLS: usize = 256;

/// The most recent tool calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownTools {
    last: VecDeque<KnownTool>,
    /// Whether older tool calls were evicted.
    has_forgotten: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownTool {
    call: Box<str>,
    tool: ToolUse,
    /// Whether a version 2 agent allows cancelling it.
    can_be_cancelled: bool,
}

impl KnownTools {
    /// Remembers a tool call from one of its updates. Later members replace earlier ones; a new call with the same id
    /// replaces all of them.
    pub fn remember(&mut self, call: &str, fields: &str) {
        let (mut tool, is_new) = permission::reported_tool(fields);
        let mut cancels = cancel_capability(fields);
        if let Some(index) = self.last.iter().position(|known| &*known.call == call)
            && let Some(earlier) = self.last.remove(index)
            && !is_new
        {
            tool = tool.or(&earlier.tool);
            cancels = cancels.or(Some(earlier.can_be_cancelled));
        }
        self.last.push_back(KnownTool {
            call: call.into(),
            tool,
            can_be_cancelled: cancels.unwrap_or(false),
        });
        if self.last.len() > KNOWN_TOOLS {
            self.last.pop_front();
            self.has_forgotten = true;
        }
    }

    /// Reads the params of a `session/request_permission`.
    pub fn permission(&self, params: &str) -> PermissionRequest {
        PermissionRequest::read(params, |call| self.known(call).map(|known| &known.tool))
    }

    /// Whether a tool call may be cancelled. An unknown call may be if calls were evicted.
    pub(super) fn can_be_cancelled(&self, call: &str) -> bool {
        self.known(call).map_or(self.has_forgotten, |known| known.can_be_cancelled)
    }

    fn known(&self, call: &str) -> Option<&KnownTool> {
        self.last.iter().find(|known| &*known.call == call)
    }

    /// Clears all. In a restored session, unknown calls may exist.
    pub(super) fn clear(&mut self, goes_on: bool) {
        *self = Self { has_forgotten: goes_on, ..Self::default() };
    }
}

/// Whether an update says that its tool call can be cancelled; `None` if it has no `capabilities`.
fn cancel_capability(update: &str) -> Option<bool> {
    let capabilities = json::get(update, &["capabilities"])?;
    let cancel = json::get(capabilities, &["cancel"]);
    Some(cancel.is_some_and(|cancel| cancel.starts_with('{')))
}

/// The tool use that a policy decides for a file or terminal request; `None` if policies do not apply to it.
pub fn tool_request_use(method: &str, params: &str) -> Option<ToolUse> {
    ToolRequest::read(method, params)?.ok()?.tool_use()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_call_cancel_needs_the_agents_last_capability() {
        let mut tools = KnownTools::default();
        assert!(!tools.can_be_cancelled("t"));
        for (update, expected) in [
            (r#"{"title":"T"}"#, false),
            (r#"{"capabilities":{"cancel":{}}}"#, true),
            (r#"{"status":"in_progress"}"#, true),
            (r#"{"capabilities":{"cancel":null}}"#, false),
            (r#"{"capabilities":{"cancel":{"x":1}}}"#, true),
            (r#"{"capabilities":null}"#, false),
        ] {
            tools.remember("t", update);
            assert_eq!(tools.can_be_cancelled("t"), expected, "{update}");
        }
        // An evicted call may be cancellable.
        for number in 0..=KNOWN_TOOLS {
            tools.remember(&number.to_string(), "{}");
        }
        assert!(tools.can_be_cancelled("t"));
        for goes_on in [true, false] {
            tools.clear(goes_on);
            assert_eq!(tools.can_be_cancelled("t"), goes_on);
        }
    }
}
