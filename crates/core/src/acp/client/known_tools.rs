//! Remembers an agent's most recent tool calls, for permission requests that only name the id of a call.

use crate::model::ToolUse;
use crate::wire::json;

use super::super::translate::RecentMap;
use super::permission::{self, PermissionRequest};
use super::tools::ToolRequest;

/// How many tool calls are remembered.
const KNOWN_TOOLS: usize = 256;

/// The most recent tool calls.
#[derive(Debug, Default)]
pub struct KnownTools {
    recent: RecentMap<KnownTool, KNOWN_TOOLS>,
    /// Whether there may be older calls than the first of these.
    continues: bool,
}

#[derive(Debug, Default)]
struct KnownTool {
    tool: ToolUse,
    /// Whether a version 2 agent allows cancelling it.
    can_be_cancelled: bool,
}

impl KnownTools {
    /// No tool call yet. In a restored session, unknown calls may exist.
    pub(super) fn new(continues: bool) -> Self {
        Self { continues, ..Self::default() }
    }

    /// Remembers a tool call from one of its updates. Later members replace earlier ones; a new call with the same id
    /// replaces all of them.
    pub fn remember(&mut self, call: &str, fields: &str) {
        let (tool, is_new) = permission::reported_tool(fields);
        let known = self.recent.touch(call);
        if is_new {
            *known = KnownTool::default();
        }
        known.tool = tool.or(&known.tool);
        known.can_be_cancelled = cancel_capability(fields).unwrap_or(known.can_be_cancelled);
    }

    /// Reads the params of a `session/request_permission`.
    pub fn permission(&self, params: &str) -> PermissionRequest {
        PermissionRequest::read(params, |call| self.recent.get(call).map(|known| &known.tool))
    }

    /// Whether a tool call may be cancelled. An unknown call may be if calls were evicted.
    pub(super) fn can_be_cancelled(&self, call: &str) -> bool {
        let known = self.recent.get(call);
        known.map_or(self.continues || self.recent.has_forgotten(), |known| known.can_be_cancelled)
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
        for continues in [true, false] {
            assert_eq!(KnownTools::new(continues).can_be_cancelled("t"), continues);
        }
    }
}
