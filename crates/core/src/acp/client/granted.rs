//! Whether a permission that an agent was given is for the very thing that it then has us do.
//!
//! Many agents ask before they use a tool, and use it by asking for a file or a terminal. Whoever has said yes to a
//! command or to a change is not asked the same again. Only what stands word for word in the permission counts: what
//! could mean something else is asked.

use serde_json::Value;

use super::permission::PermissionRequest;
use super::tools::{TerminalRequest, ToolRequest};

/// What agents call the path of a file that they want to write.
const PATHS: [&str; 5] = ["path", "file", "filePath", "file_path", "filepath"];

impl PermissionRequest {
    /// Whether it is about exactly this, in a session that works in `cwd`.
    pub fn is_about(&self, request: &ToolRequest, cwd: &str) -> bool {
        let params: Value = serde_json::from_str(self.params()).unwrap_or_default();
        let call = params.get("toolCall").unwrap_or(&Value::Null);
        let input = call.get("rawInput").and_then(Value::as_object);
        // Only members that whoever is asked is shown: a word in another one was approved by nobody.
        let says = |names: &[&str], text: &str| {
            input.is_some_and(|input| {
                names.iter().any(|name| input.get(*name).is_some_and(|value| value == text))
            })
        };
        match request {
            ToolRequest::Create(TerminalRequest { command, args, env, cwd: place, .. }) => {
                let is_here = place.as_deref().is_none_or(|place| place == cwd);
                args.is_empty() && env.is_empty() && is_here && says(&["command"], command)
            }
            ToolRequest::Write { path, content } => {
                let diffs = call.get("content").and_then(Value::as_array).into_iter().flatten();
                let is_same = |diff: &Value| diff["path"] == **path && diff["newText"] == **content;
                (says(&PATHS, path) && says(&["content"], content)) || diffs.into_iter().any(is_same)
            }
            ToolRequest::Read { .. }
            | ToolRequest::Output(_)
            | ToolRequest::WaitForExit(_)
            | ToolRequest::Kill(_)
            | ToolRequest::Release(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn permission(call: &Value) -> PermissionRequest {
        PermissionRequest::read(&json!({ "toolCall": call, "options": [] }).to_string(), |_| None)
    }

    fn request(method: &str, params: &Value) -> ToolRequest {
        ToolRequest::read(method, &params.to_string()).unwrap().unwrap()
    }

    #[test]
    fn a_permission_is_for_a_command_that_stands_in_it_word_for_word_and_runs_here() {
        let asked = permission(&json!({ "rawInput": { "command": "make it", "note": "unseen" } }));
        let is_about = |params: Value| {
            let mut whole = json!({ "sessionId": "s", "command": "make it" });
            whole.as_object_mut().unwrap().extend(params.as_object().unwrap().clone());
            asked.is_about(&request("terminal/create", &whole), "/w")
        };
        assert!(is_about(json!({})));
        assert!(is_about(json!({ "cwd": "/w", "outputByteLimit": 50_000 })));
        let others = [
            json!({ "command": "make" }),
            json!({ "command": "make it so" }),
            json!({ "command": "unseen" }),
            json!({ "args": ["so"] }),
            json!({ "env": [{ "name": "LD_PRELOAD", "value": "x" }] }),
            json!({ "cwd": "/w/below" }),
        ];
        for other in others {
            assert!(!is_about(other.clone()), "{other}");
        }
    }

    #[test]
    fn a_permission_is_for_a_write_whose_path_and_text_stand_in_it() {
        let write = |path: &str, content: &str| {
            request("fs/write_text_file", &json!({ "sessionId": "s", "path": path, "content": content }))
        };
        let by_input = permission(&json!({ "rawInput": { "path": "/w/a", "content": "new" } }));
        let diff = json!({ "type": "diff", "path": "/w/a", "oldText": "old", "newText": "new" });
        let by_diff = permission(&json!({ "rawInput": { "filepath": "/w/a" }, "content": [diff] }));
        for asked in [by_input, by_diff] {
            assert!(asked.is_about(&write("/w/a", "new"), "/w"));
            assert!(!asked.is_about(&write("/w/b", "new"), "/w"));
            assert!(!asked.is_about(&write("/w/a", "newer"), "/w"));
        }
        for nothing in [json!(null), json!([]), json!({ "rawInput": "/w/a" }), json!({ "content": "new" })] {
            assert!(!permission(&nothing).is_about(&write("/w/a", "new"), "/w"), "{nothing}");
        }
    }
}
