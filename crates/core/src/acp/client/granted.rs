//! Whether a permission that an agent was given is for the very thing that it then has us do.
//!
//! Many agents ask before they use a tool, and use it by asking for a file or a terminal. Whoever has said yes to a
//! command or to a change is not asked the same again. Only what stands word for word in the permission counts, and only
//! where whoever is asked sees it and nothing beside it: what could mean something else is asked.

use serde_json::{Map, Value};

use crate::model::PreviousContent;

use super::permission::PermissionRequest;
use super::tools::{TerminalRequest, ToolRequest};

/// What agents call the path of a file that they want to write.
const PATHS: [&str; 5] = ["path", "file", "filePath", "file_path", "filepath"];

impl PermissionRequest {
    /// Whether it is about exactly this, in a session that works in `cwd`; `old` is what a file has that is to be written.
    pub fn is_about(&self, request: &ToolRequest, old: Option<&PreviousContent>, cwd: &str) -> bool {
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
                    // Of many not all are shown, and one may undo another.
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

/// Whether an input is this command alone. With arguments or variables, or in another place, it would be another one.
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
        && input.get("command").is_some_and(|said| said == command)
}

/// Whether an input is this file and this text and nothing else: of one with a command, nothing but that is shown.
fn is_write(input: &Map<String, Value>, path: &str, content: &str) -> bool {
    let says = |name: &str, text: &str| input.get(name).is_some_and(|said| said == text);
    input.len() == 2 && says("content", content) && PATHS.iter().any(|name| says(name, path))
}

/// Whether a difference shows what changes. Without an old text it shows all of the new one; with another one than the
/// file has, it leaves out what it pretends to be there already.
fn starts_from(diff: &Value, old: Option<&PreviousContent>) -> bool {
    match &diff["oldText"] {
        Value::Null => true,
        Value::String(said) => {
            said.is_empty() || matches!(old, Some(PreviousContent::Text(old)) if old == said)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
