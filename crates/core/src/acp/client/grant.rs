//! Decides whether a granted permission covers a later file or terminal request of the agent.
//!
//! Many agents request permission for a tool call and then perform it through `fs/*` or `terminal/*`. A user who
//! approved a command or a change is not asked again. The permission must contain the request word for word, and must
//! have shown the user exactly that and nothing more; anything ambiguous is asked again.

use serde_json::{Map, Value};

use crate::model::PreviousContent;

use super::permission::PermissionRequest;
use super::tools::{TerminalRequest, ToolRequest};

/// Names that agents use for the path of a file to write.
const PATHS: [&str; 5] = ["path", "file", "filePath", "file_path", "filepath"];

impl PermissionRequest {
    /// Whether it covers exactly this request, in a session with this `cwd`; `old` is the current content of the file.
    pub(crate) fn is_about(&self, request: &ToolRequest, old: Option<&PreviousContent>, cwd: &str) -> bool {
        let params: Value = serde_json::from_str(self.params()).unwrap_or_default();
        let call = params.get("toolCall").unwrap_or(&Value::Null);
        let input = call.get("rawInput").and_then(Value::as_object);
        match request {
            ToolRequest::Create(TerminalRequest { command, args, env, cwd: place, .. }) => {
                let is_here = place.as_deref().is_none_or(|place| place == cwd);
                let is_bare = args.is_empty() && env.is_empty();
                is_here && is_bare && input.is_some_and(|input| is_command(input, command, cwd))
            }
            ToolRequest::Write { path, content } => {
                let items = call.get("content").and_then(Value::as_array).into_iter().flatten();
                let mut diffs = items.filter(|item| item["type"] == "diff");
                match (diffs.next(), diffs.next()) {
                    (None, _) => input.is_some_and(|input| is_write(input, path, content)),
                    (Some(diff), None) => {
                        diff["path"] == **path && diff["newText"] == **content && starts_from(diff, old)
                    }
                    // With several diffs, not all are shown, and one may undo another.
                    (Some(_), Some(_)) => false,
                }
            }
            ToolRequest::Read { .. }
            | ToolRequest::Output(_)
            | ToolRequest::WaitForExit(_)
            | ToolRequest::Kill(_)
            | ToolRequest::Release(_) => false,
        }
    }
}

/// Whether an input is exactly this command, without arguments, variables or another directory.
fn is_command(input: &Map<String, Value>, command: &str, cwd: &str) -> bool {
    let is_nothing = |name: &str| match input.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(members)) => members.is_empty(),
        Some(_) => false,
    };
    let is_here = is_nothing("cwd") || input.get("cwd").is_some_and(|place| place == cwd);
    is_here
        && is_nothing("args")
        && is_nothing("env")
        && input.get("command").is_some_and(|value| value == command)
}

/// Whether an input is exactly this path and this content: if it also has a command, only the command is shown.
fn is_write(input: &Map<String, Value>, path: &str, content: &str) -> bool {
    let has = |name: &str, text: &str| input.get(name).is_some_and(|value| value == text);
    input.len() == 2 && has("content", content) && PATHS.iter().any(|name| has(name, path))
}

/// Whether a diff shows everything that changes. Without an old text it shows the whole new one. With an old text that
/// differs from the file, it hides lines that it wrongly presents as existing.
fn starts_from(diff: &Value, old: Option<&PreviousContent>) -> bool {
    match &diff["oldText"] {
        Value::Null => true,
        Value::String(value) => {
            value.is_empty() || matches!(old, Some(PreviousContent::Text(old)) if old == value)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
