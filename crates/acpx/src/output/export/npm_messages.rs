//! The last part of a conversation as npm acpx keeps it in its records, cut as npm acpx cuts it.

use std::collections::VecDeque;

use acpx_core::acp;
use acpx_core::model::MessageKind;
use serde_json::{Map, Value, json};

use super::section::{ConversationSection, SectionItem};
use super::tool::{ToolPart, ToolView};

/// How many messages npm acpx keeps.
const MESSAGES: usize = 200;
/// How many characters of a text it keeps, and of a thought, an input or a result.
const TEXT: usize = 8000;
const BRIEF: usize = 4000;

/// The last messages so far.
#[derive(Debug, Default)]
pub(super) struct NpmMessages(VecDeque<Value>);

impl NpmMessages {
    /// Adds the messages of a section: each prompt, then what the agent said and did.
    pub(super) fn section(&mut self, section: &ConversationSection) {
        let (mut content, mut results) = (Vec::new(), Map::new());
        for (index, item) in section.items.iter().enumerate() {
            match item {
                SectionItem::Message { kind: MessageKind::User, text, blocks, .. } => {
                    self.agent(&mut content, &mut results);
                    let turn = section.turn.map_or(0, |turn| turn.0);
                    let id = section.request_id.clone().unwrap_or_else(|| format!("{turn}-{index}"));
                    let mut parts = vec![json!({ "Text": cut(text, TEXT) })];
                    parts.extend(acp::blocks_words(blocks).map(|words| json!({ "Text": cut(&words, TEXT) })));
                    self.push(json!({ "User": { "id": id, "content": parts } }));
                }
                SectionItem::Message { kind: MessageKind::Agent, text, .. } => {
                    content.push(json!({ "Text": cut(text, TEXT) }));
                }
                SectionItem::Message { kind: MessageKind::Thought, text, .. } => {
                    content.push(json!({ "Thinking": { "text": cut(text, BRIEF), "signature": null } }));
                }
                SectionItem::Tool { fields, terminals, .. } => {
                    let view = ToolView::new(fields, terminals);
                    tool(fields, &view, &mut content, &mut results);
                }
                _ => {}
            }
        }
        self.agent(&mut content, &mut results);
    }

    /// All messages.
    pub(super) fn take(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.0).into()
    }

    fn agent(&mut self, content: &mut Vec<Value>, results: &mut Map<String, Value>) {
        if !content.is_empty() {
            let (content, tool_results) = (std::mem::take(content), std::mem::take(results));
            self.push(json!({ "Agent": { "content": content, "tool_results": tool_results } }));
        }
    }

    fn push(&mut self, message: Value) {
        if self.0.len() == MESSAGES {
            self.0.pop_front();
        }
        self.0.push_back(message);
    }
}

fn tool(
    fields: &Map<String, Value>,
    view: &ToolView,
    content: &mut Vec<Value>,
    results: &mut Map<String, Value>,
) {
    let Some(id) = fields.get("toolCallId").and_then(Value::as_str) else { return };
    let input = fields.get("rawInput").cloned().unwrap_or_else(|| json!({}));
    content.push(json!({ "ToolUse": {
        "id": id,
        "name": view.title,
        "raw_input": cut(&input.to_string(), BRIEF),
        "input": input,
        "is_input_complete": true,
        "thought_signature": null,
    } }));
    let Some(status @ ("completed" | "failed")) = view.status.as_deref() else { return };
    let words = view.parts.iter().filter_map(|part| match part {
        ToolPart::Code { label: "Input", .. } | ToolPart::Image(_) => None,
        ToolPart::Code { text, .. } | ToolPart::Text(text) => Some(text.as_str()),
    });
    let words = words.collect::<Vec<_>>().join("\n");
    let mut result = json!({
        "tool_use_id": id,
        "tool_name": view.title,
        "is_error": status == "failed",
        "content": { "Text": cut(&words, BRIEF) },
    });
    if let Some(output) = fields.get("rawOutput") {
        result["output"] = output.clone();
    }
    results.insert(id.to_owned(), result);
}

/// The beginning of a text, as npm acpx cuts it.
fn cut(text: &str, limit: usize) -> String {
    if text.chars().nth(limit).is_none() {
        return text.to_owned();
    }
    text.chars().take(limit - 3).chain("...".chars()).collect()
}
