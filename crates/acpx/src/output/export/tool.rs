//! What a tool call shows in an export: its title, and its input and output as parts.

use acpx_core::acp;
use acpx_core::model::TerminalText;
use serde_json::{Map, Value};

use super::image::Image;
use crate::output::diff::{Detail, unified};

/// One part of a tool call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ToolPart {
    /// A text with a label, as code in this language; an empty language is plain text.
    Code { label: &'static str, language: &'static str, text: String },
    /// Text of the agent, as Markdown.
    Text(String),
    /// An image.
    Image(Image),
}

/// A tool call for people.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ToolView {
    pub(super) title: String,
    pub(super) kind: Option<String>,
    pub(super) status: Option<String>,
    pub(super) parts: Vec<ToolPart>,
}

impl ToolView {
    pub(super) fn new(fields: &Map<String, Value>, terminals: &[TerminalText]) -> Self {
        let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
        let mut parts = Vec::new();
        let content = fields.get("content").and_then(Value::as_array).into_iter().flatten();
        let mut shown: Vec<ToolPart> = content.filter_map(part).collect();
        shown.extend(terminals.iter().map(terminal));
        if let Some(input) = fields.get("rawInput").filter(|input| !is_empty(input)) {
            parts.push(json("Input", input));
        }
        let has_content = !shown.is_empty();
        parts.append(&mut shown);
        // Most agents repeat their output as content, which is easier to read.
        if let Some(output) = fields.get("rawOutput").filter(|output| !has_content && !is_empty(output)) {
            parts.push(json("Output", output));
        }
        let title = text("title").or_else(|| text("kind")).unwrap_or_else(|| "a tool".to_owned());
        Self { title, kind: text("kind").filter(|kind| kind != "other"), status: text("status"), parts }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn json(label: &'static str, value: &Value) -> ToolPart {
    match value {
        Value::String(text) => ToolPart::Code { label, language: "", text: text.clone() },
        value => {
            let text = serde_json::to_string_pretty(value).unwrap_or_default();
            ToolPart::Code { label, language: "json", text }
        }
    }
}

fn part(item: &Value) -> Option<ToolPart> {
    let text = |name: &str| item.get(name).and_then(Value::as_str);
    match text("type") {
        Some("diff") => {
            let diff = unified(
                text("path").unwrap_or("-"),
                text("oldText"),
                text("newText").unwrap_or_default(),
                Detail::Whole,
            );
            Some(ToolPart::Code { label: "Diff", language: "diff", text: diff })
        }
        Some("content") => {
            let block = item.get("content")?;
            if let Some(image) = Image::of_block(block) {
                return Some(ToolPart::Image(image));
            }
            Some(acp::block_words(block)).filter(|words| !words.trim().is_empty()).map(ToolPart::Text)
        }
        _ => None,
    }
}

pub(super) fn terminal(terminal: &TerminalText) -> ToolPart {
    let TerminalText { command, output, exit } = terminal;
    let exit = exit.as_ref().map(|exit| format!("[{exit}]\n")).unwrap_or_default();
    let end = if output.is_empty() || output.ends_with('\n') { "" } else { "\n" };
    ToolPart::Code {
        label: "Command",
        language: "console",
        text: format!("$ {command}\n{output}{end}{exit}"),
    }
}
