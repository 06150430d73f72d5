//! The tool calls that an agent has told of, for permission requests that do not repeat what they are about. So many are
//! remembered, the last ones.

use std::collections::VecDeque;

use crate::model::ToolUse;

use super::permission::{self, PermissionRequest};
use super::tools::ToolRequest;

/// How many are remembered.
const KNOWN_TOOLS: usize = 256;

/// What is known of the last tool calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownTools(VecDeque<(Box<str>, ToolUse)>);

impl KnownTools {
    /// Remembers what a tool call is, from an update of it. Of one that changes its words the last ones count, and of one
    /// that is begun again none of those before.
    pub fn remember(&mut self, call: &str, fields: &str) {
        let (mut tool, is_new) = permission::told_tool(fields);
        if let Some(index) = self.0.iter().position(|(known, _)| &**known == call)
            && let Some((_, earlier)) = self.0.remove(index)
            && !is_new
        {
            tool = tool.or(&earlier);
        }
        self.0.push_back((call.into(), tool));
        if self.0.len() > KNOWN_TOOLS {
            self.0.pop_front();
        }
    }

    /// Reads the params of a `session/request_permission`.
    pub fn permission(&self, params: &str) -> PermissionRequest {
        let known = |call: &str| self.0.iter().find(|(id, _)| &**id == call).map(|(_, tool)| tool);
        PermissionRequest::read(params, known)
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// What a policy is asked about a request for a file or a terminal; `None` if it is not asked about it.
pub fn tool_request_use(method: &str, params: &str) -> Option<ToolUse> {
    ToolRequest::read(method, params)?.ok()?.tool_use()
}
