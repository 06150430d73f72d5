//! Renders a tool call as text: once when it is first seen, once when it has ended.

use std::fmt::Write;

use acpx_core::acp::block_words;
use acpx_core::model::{TerminalText, TerminalTexts};
use serde_json::{Map, Value};

use crate::output::sanitize::{agent_text, ellipsize, on_one_line};

const INPUT_CHARS: usize = 220;
const FILES: usize = 5;
const OUTPUT_LINES: usize = 28;
const OUTPUT_CHARS: usize = 2000;

/// A tool call with its merged fields.
#[derive(Debug, Default)]
pub(super) struct ToolCallView {
    pub(super) fields: Map<String, Value>,
    is_seen: bool,
    is_ended: bool,
}

/// Why a tool call is worth a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolCallPhase {
    /// It is seen for the first time.
    Started,
    /// It has ended.
    Ended,
}

impl ToolCallView {
    /// Merges an update of the call; returns what there is to show.
    pub(super) fn merge(&mut self, fields: &str) -> Option<ToolCallPhase> {
        let Ok(Value::Object(update)) = serde_json::from_str(fields) else { return None };
        // A null field is unchanged.
        self.fields.extend(update.into_iter().filter(|(_, value)| !value.is_null()));
        let ends = matches!(self.text("status"), Some("completed" | "failed"));
        if ends && !self.is_ended {
            (self.is_seen, self.is_ended) = (true, true);
            return Some(ToolCallPhase::Ended);
        }
        let first = !std::mem::replace(&mut self.is_seen, true);
        first.then_some(ToolCallPhase::Started)
    }

    /// Whether it has begun and not ended.
    pub(super) fn is_open(&self) -> bool {
        self.is_seen && !self.is_ended
    }

    /// The section of a call that begins.
    pub(super) fn start_section(&self) -> String {
        [self.head(), self.input(), self.files()].concat()
    }

    /// The section of a call that has ended.
    pub(super) fn end_section(&self, terminals: &TerminalTexts) -> String {
        let kind =
            self.text("kind").map_or_else(String::new, |kind| format!("  kind: {}\n", agent_text(kind)));
        [self.head(), kind, self.input(), self.files(), self.output(terminals)].concat()
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str)
    }

    fn head(&self) -> String {
        let title = self.text("title").or_else(|| self.text("toolCallId")).unwrap_or("-");
        let is_shown = |status: &&str| matches!(*status, "pending" | "completed" | "failed");
        let status = self.text("status").filter(is_shown).unwrap_or("running");
        format!("[tool] {} ({status})\n", on_one_line(title))
    }

    fn input(&self) -> String {
        let Some(input) = self.fields.get("rawInput") else { return String::new() };
        let text = command_line(input).or_else(|| first_named(input)).unwrap_or_else(|| match input {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        if text.is_empty() || text == "{}" {
            return String::new();
        }
        format!("  input: {}\n", ellipsize(&on_one_line(&text), INPUT_CHARS))
    }

    fn files(&self) -> String {
        let locations = self.fields.get("locations").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let file = |location: &Value| {
            let path = location.get("path")?.as_str()?;
            let line = location.get("line").and_then(Value::as_u64);
            Some(line.map_or_else(|| path.to_owned(), |line| format!("{path}:{line}")))
        };
        let files: Vec<String> = locations.iter().filter_map(file).collect();
        if files.is_empty() {
            return String::new();
        }
        let shown = files.iter().take(FILES).map(|file| on_one_line(file)).collect::<Vec<_>>().join(", ");
        let more = files.len().saturating_sub(FILES);
        let rest = if more > 0 { format!(", +{more} more") } else { String::new() };
        format!("  files: {shown}{rest}\n")
    }

    fn output(&self, terminals: &TerminalTexts) -> String {
        let content = self.fields.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut parts: Vec<String> =
            content.iter().map(|item| part(item, terminals)).filter(|part| !part.is_empty()).collect();
        if parts.is_empty() {
            parts.extend(self.fields.get("rawOutput").map(|output| match output {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            }));
        }
        output(&parts.join("\n"))
    }

    /// Whether its content refers to this terminal.
    pub(super) fn refers_to(&self, terminal: &str) -> bool {
        let content = self.fields.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        content.iter().any(|item| item.get("terminalId").and_then(Value::as_str) == Some(terminal))
    }
}

/// The output of a tool, shortened.
pub(super) fn output(text: &str) -> String {
    let text = ellipsize(text.trim_end(), OUTPUT_CHARS);
    if text.is_empty() {
        return String::new();
    }
    let count = text.lines().count();
    let mut shown = String::from("  output:\n");
    for line in text.lines().take(OUTPUT_LINES) {
        shown.push_str("    ");
        shown.push_str(line);
        shown.push('\n');
    }
    if count > OUTPUT_LINES {
        // Writing to a string cannot fail.
        let _ = writeln!(shown, "    ... ({} more lines)", count - OUTPUT_LINES);
    }
    shown
}

/// The command line in an input.
pub(crate) fn command_line(input: &Value) -> Option<String> {
    let words = |name: &str| match input.get(name) {
        Some(Value::String(word)) => vec![word.clone()],
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let line = [words("command"), words("args")].concat();
    let (command, args) = line.split_first().filter(|_| input.get("command").is_some())?;
    Some(acpx_core::model::command_line(command, args.iter().map(String::as_str)))
}

/// The first path, URL or query in an input.
pub(crate) fn first_named(input: &Value) -> Option<String> {
    let names = ["path", "file", "filePath", "file_path", "filepath", "url", "query"];
    names.iter().find_map(|name| input.get(*name)?.as_str()).map(str::to_owned)
}

/// One part of a tool's content.
fn part(content: &Value, terminals: &TerminalTexts) -> String {
    let text = |name: &str| content.get(name).and_then(Value::as_str);
    match text("type") {
        Some("content") => content.get("content").map_or_else(String::new, block_words),
        Some("diff") => {
            let lines = |name| text(name).map_or(0, |text| text.lines().count());
            let (old, new) = (lines("oldText"), lines("newText"));
            let change = match new.cmp(&old) {
                std::cmp::Ordering::Greater => format!("+{} lines", new - old),
                std::cmp::Ordering::Less => format!("-{} lines", old - new),
                std::cmp::Ordering::Equal => "line count unchanged".to_owned(),
            };
            format!("diff {} ({change})", text("path").unwrap_or("-"))
        }
        Some("terminal") => {
            let id = text("terminalId").unwrap_or("-");
            terminals.get(id).map_or_else(|| format!("[terminal] {id}"), terminal)
        }
        _ => String::new(),
    }
}

/// A terminal's output.
pub(super) fn terminal(TerminalText { command, output, exit }: &TerminalText) -> String {
    let exit = exit.as_ref().map(|exit| format!("[{exit}]"));
    let parts = [Some(format!("$ {command}")), Some(output.trim_end().to_owned()), exit];
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}
