//! What a tool call does, by the tool's name and its arguments: a title on one line, a kind of ACP, and the files.
//!
//! Agents name the same tools differently, so a name is compared without its prefix, case and separators. A tool that is
//! not known has its name as the title and the kind `other`.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, from_str, json};

/// The longest title in bytes.
const TITLE_LIMIT: usize = 500;
/// The longest arguments of a call that are kept, because a value in memory is many times as large as its JSON.
const INPUT_LIMIT: usize = 4 * 1024 * 1024;
/// How deep the arguments of a call may be. What is deeper would be too deep for readers of the event that has them.
const DEPTH_LIMIT: usize = 64;

/// What a tool call does.
pub(super) struct ToolDescription {
    pub(super) title: String,
    pub(super) kind: &'static str,
    pub(super) paths: Vec<String>,
}

/// Describes a call of a tool with these arguments.
pub(super) fn describe(name: &str, input: &Value) -> ToolDescription {
    let (known, paths) = (plain_name(name), paths(input));
    let kind = kind(&known);
    let path = paths.first().map(String::as_str);
    let title = match (kind, path) {
        ("execute", _) => command(input),
        ("read", Some(path)) => Some(format!("Read {path}")),
        ("edit", Some(path)) if known.starts_with("write") || known == "create" => {
            Some(format!("Write {path}"))
        }
        ("edit", Some(_)) => Some(format!("Edit {}", paths.join(", "))),
        ("delete", Some(path)) => Some(format!("Delete {path}")),
        ("search", _) => search(&known, path, input),
        ("fetch", _) => {
            let query = || text(input, &["query"]).map(|query| format!("\"{query}\""));
            text(input, &["url"]).map(|url| format!("Fetch {url}")).or_else(query)
        }
        ("think", _) => text(input, &["description", "title"]).map(str::to_owned),
        _ => None,
    };
    let title = title.map(|title| one_line(&title)).filter(|title| !title.is_empty());
    ToolDescription { title: title.unwrap_or_else(|| one_line(name)), kind, paths }
}

/// The entries of the plan that a call sets, if that is what the tool does.
pub(super) fn plan_entries(name: &str, input: &Value) -> Option<Vec<Value>> {
    let entries = match plain_name(name).as_str() {
        "todowrite" | "writetodos" | "todolist" | "settodolist" => input.get("todos")?,
        "updateplan" => input.get("plan")?,
        _ => return None,
    };
    let entry = |entry: &Value| {
        let content = text(entry, &["content", "description", "step", "title"])?;
        let status = match text(entry, &["status"]) {
            Some("completed" | "done") => "completed",
            Some("in_progress") => "in_progress",
            _ => "pending",
        };
        let priority = match text(entry, &["priority"]) {
            Some("high") => "high",
            Some("low") => "low",
            _ => "medium",
        };
        Some(json!({"content": content, "priority": priority, "status": status}))
    };
    Some(entries.as_array()?.iter().filter_map(entry).collect())
}

/// The change that the arguments of a call that edits or writes a file describe.
pub(super) fn diff_of_input(name: &str, input: &Value) -> Option<Value> {
    if kind(&plain_name(name)) != "edit" {
        return None;
    }
    let path = paths(input).into_iter().next()?;
    let old = text(input, &["old_string", "oldString", "old_str", "oldText"]);
    let new = text(input, &["new_string", "newString", "new_str", "newText"]);
    match (old, new) {
        (Some(old), Some(new)) => Some(super::content::diff(&path, Some(old), new)),
        _ => Some(super::content::diff(&path, None, text(input, &["content", "file_text"])?)),
    }
}

/// Reads a member of any form, such as the arguments of a call; nothing if it is too long.
pub(super) fn arguments<'de, D: Deserializer<'de>>(source: D) -> Result<Value, D::Error> {
    Ok(limited_value(<&RawValue>::deserialize(source)?))
}

/// A value of any form; nothing if it is too long.
pub(super) fn limited_value(raw: &RawValue) -> Value {
    if raw.get().len() > INPUT_LIMIT { Value::Null } else { from_str(raw.get()).unwrap_or_default() }
}

/// The arguments of a call, or nothing if they are too deep.
pub(super) fn shallow(input: Value) -> Value {
    fn is_deeper(value: &Value, limit: usize) -> bool {
        match value {
            Value::Array(values) => limit == 0 || values.iter().any(|value| is_deeper(value, limit - 1)),
            Value::Object(values) => limit == 0 || values.values().any(|value| is_deeper(value, limit - 1)),
            _ => false,
        }
    }
    if is_deeper(&input, DEPTH_LIMIT) { Value::Null } else { input }
}

/// A text without line breaks, and not too long.
pub(super) fn one_line(text: &str) -> String {
    let begin = &text[..text.floor_char_boundary(TITLE_LIMIT * 2)];
    let mut line = begin.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > TITLE_LIMIT {
        line.truncate(line.floor_char_boundary(TITLE_LIMIT));
        line.push('…');
    }
    line
}

/// A name without the server or group it begins with, in lower case and without separators.
fn plain_name(name: &str) -> String {
    let last = name.rsplit(['.', '/', ':']).next().unwrap_or(name);
    let last = last.rsplit("__").next().unwrap_or(last);
    last.chars().filter(|char| char.is_alphanumeric()).flat_map(char::to_lowercase).take(64).collect()
}

fn kind(known: &str) -> &'static str {
    match known {
        "bash" | "shell" | "exec" | "runshellcommand" | "execcommand" | "executecommand" | "runcommands"
        | "runcommand" | "localshell" | "localshellcall" | "terminal" | "bashoutput" | "killshell"
        | "writestdin" | "writebash" | "readbash" | "stopbash" => "execute",
        "read" | "readfile" | "readfiles" | "readmanyfiles" | "view" | "viewimage" | "notebookread" => "read",
        "edit" | "write" | "multiedit" | "writefile" | "writetofile" | "editfile" | "replace"
        | "replaceinfile" | "strreplace" | "strreplaceeditor" | "strreplacefile" | "searchreplace"
        | "applypatch" | "create" | "notebookedit" | "texteditor" | "patch" | "insert" | "editor" => "edit",
        "delete" | "deletefile" | "remove" => "delete",
        "move" | "movefile" | "rename" => "move",
        "glob" | "grep" | "ls" | "list" | "find" | "search" | "rg" | "listdirectory" | "listfiles"
        | "searchfiles" | "searchfilecontent" | "grepsearch" | "codesearch" | "searchcodebase"
        | "toolsearch" | "tree" => "search",
        "webfetch" | "websearch" | "fetch" | "fetchurl" | "searchweb" | "googlewebsearch"
        | "fetchwebcontent" => "fetch",
        "task" | "agent" | "think" | "subagent" | "delegate" => "think",
        _ => "other",
    }
}

/// The command line of a call that executes one.
fn command(input: &Value) -> Option<String> {
    let command = ["command", "cmd", "commands"].iter().find_map(|name| input.get(name))?;
    match command {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            match words[..] {
                // A shell that runs one command.
                [_, "-c" | "-lc", command] => Some(command.to_owned()),
                _ => Some(words.join(" ")),
            }
        }
        _ => None,
    }
}

fn search(known: &str, path: Option<&str>, input: &Value) -> Option<String> {
    let pattern = text(input, &["pattern", "query", "regex"]);
    let path = path.map(|path| format!(" {path}")).unwrap_or_default();
    match (known, pattern) {
        ("grep" | "grepsearch" | "searchfilecontent" | "rg", Some(pattern)) => {
            Some(format!("grep \"{pattern}\"{path}"))
        }
        (_, Some(pattern)) => {
            Some(format!("Find {pattern}{}", if path.is_empty() { "" } else { " in" }) + &path)
        }
        (_, None) if path.is_empty() => None,
        (_, None) => Some(format!("List{path}")),
    }
}

/// The files that the arguments name.
fn paths(input: &Value) -> Vec<String> {
    let names =
        ["file_path", "filePath", "path", "absolute_path", "notebook_path", "target_file", "dir_path"];
    if let Some(path) = text(input, &names) {
        return vec![path.to_owned()];
    }
    if let Some(paths) = input.get("paths").and_then(Value::as_array) {
        return paths.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    }
    let patch = text(input, &["patch", "input", "patchText"]).unwrap_or_default();
    let marks = ["*** Add File: ", "*** Update File: ", "*** Delete File: "];
    let of_line = |line: &str| marks.iter().find_map(|mark| line.strip_prefix(mark)).map(str::to_owned);
    patch.lines().filter_map(of_line).take(100).collect()
}

/// The first of these members that is text.
fn text<'a>(input: &'a Value, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| input.get(name)?.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_a_title_on_one_line_a_kind_and_paths() {
        let long = format!("echo {}", "x".repeat(TITLE_LIMIT));
        let cut = format!("echo {}…", "x".repeat(TITLE_LIMIT - 5));
        for (name, input, title, kind, paths) in [
            ("Bash", json!({"command": "a \\\n  && b"}), "a \\ && b", "execute", vec![]),
            ("exec_command", json!({"cmd": "ls"}), "ls", "execute", vec![]),
            ("shell", json!({"command": ["bash", "-lc", "ls -l"]}), "ls -l", "execute", vec![]),
            ("shell", json!({"command": ["ls", "-l"]}), "ls -l", "execute", vec![]),
            ("Bash", json!({}), "Bash", "execute", vec![]),
            ("Bash", json!({"command": long}), cut.as_str(), "execute", vec![]),
            ("Read", json!({"file_path": "/a"}), "Read /a", "read", vec!["/a"]),
            ("Write", json!({"file_path": "/a"}), "Write /a", "edit", vec!["/a"]),
            ("edit", json!({"filePath": "/a"}), "Edit /a", "edit", vec!["/a"]),
            (
                "apply_patch",
                json!({"patch": "*** Add File: a\n+x\n*** Delete File: b"}),
                "Edit a, b",
                "edit",
                vec!["a", "b"],
            ),
            ("Grep", json!({"pattern": "x", "path": "/a"}), "grep \"x\" /a", "search", vec!["/a"]),
            ("Glob", json!({"pattern": "*.rs"}), "Find *.rs", "search", vec![]),
            ("LS", json!({"path": "/a"}), "List /a", "search", vec!["/a"]),
            ("WebFetch", json!({"url": "http://x"}), "Fetch http://x", "fetch", vec![]),
            ("Task", json!({"description": "sub work"}), "sub work", "think", vec![]),
            ("developer__shell", json!({"command": "x"}), "x", "execute", vec![]),
            ("file_system.bash", json!({"command": "x"}), "x", "execute", vec![]),
            ("mystery", json!(null), "mystery", "other", vec![]),
        ] {
            let found = describe(name, &input);
            assert_eq!(
                (found.title.as_str(), found.kind, found.paths),
                (title, kind, paths.into_iter().map(str::to_owned).collect())
            );
        }
    }

    #[test]
    fn arguments_that_are_too_long_are_left_out() {
        #[derive(Deserialize)]
        struct Call {
            #[serde(deserialize_with = "arguments")]
            input: Value,
        }
        let read = |length: usize| {
            let line = json!({"input": "x".repeat(length)}).to_string();
            from_str::<Call>(&line).unwrap().input
        };
        assert_eq!(read(3), json!("xxx"));
        assert_eq!(read(INPUT_LIMIT), Value::Null);
    }

    #[test]
    fn plans_of_different_agents_have_one_form() {
        let expected = Some(vec![json!({"content": "a", "priority": "medium", "status": "in_progress"})]);
        let todo = |name: &str| json!({"todos": [{name: "a", "status": "in_progress"}]});
        assert_eq!(plan_entries("TodoWrite", &todo("content")), expected);
        assert_eq!(plan_entries("write_todos", &todo("description")), expected);
        assert_eq!(
            plan_entries("update_plan", &json!({"plan": [{"step": "a", "status": "in_progress"}]})),
            expected
        );
        assert_eq!(plan_entries("Bash", &todo("content")), None);
        assert_eq!(plan_entries("TodoWrite", &json!({"todos": "x"})), None);
    }

    #[test]
    fn arguments_that_are_too_deep_are_left_out() {
        let nested = |depth| (0..depth).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(shallow(nested(DEPTH_LIMIT)), nested(DEPTH_LIMIT));
        assert_eq!(shallow(nested(DEPTH_LIMIT + 1)), Value::Null);
    }
}
