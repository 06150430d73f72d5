//! Converts the messages of a record without a journal into journal lines.
//!
//! npm acpx stores the last part of the conversation in the record itself, truncated and without times. Each line
//! made here is marked in its `_meta`, because it was never sent in this form.

use serde_json::{Map, Value, json};

use super::transcript::Transcript;
use crate::model::AcpSessionId;

/// A journal made from messages.
#[derive(Debug, Default, PartialEq)]
pub(super) struct MessageJournal {
    pub(super) lines: Vec<String>,
    /// How many messages, or parts of them, have an unknown shape.
    pub(super) unknown: u64,
}

/// Converts messages into steps of a transcript. Returns the numbers of unknown messages and of unreadable lines.
pub(super) fn convert(messages: &[Value], session: &AcpSessionId, transcript: &mut Transcript) -> (u64, u64) {
    let made = journal(messages, session);
    let unread = made.lines.iter().filter(|line| transcript.convert_line(line).is_err()).count();
    transcript.finish();
    (made.unknown, unread as u64)
}

/// Converts messages to journal lines. A prompt counts as answered if an agent message follows it.
pub(super) fn journal(messages: &[Value], session: &AcpSessionId) -> MessageJournal {
    let mut writer =
        MessageJournalWriter { session, made: MessageJournal::default(), prompts: 0, turn: None };
    for message in messages {
        let known = match message {
            Value::String(text) => text == "Resume",
            Value::Object(fields) => writer.message(fields),
            _ => false,
        };
        writer.made.unknown += u64::from(!known);
    }
    writer.end_turn();
    writer.made
}

struct MessageJournalWriter<'a> {
    session: &'a AcpSessionId,
    made: MessageJournal,
    prompts: u64,
    /// The open turn, and whether it was answered.
    turn: Option<(String, bool)>,
}

impl MessageJournalWriter<'_> {
    fn message(&mut self, fields: &Map<String, Value>) -> bool {
        let content = |name: &str| Some((fields.get(name)?, fields.get(name)?.get("content")?.as_array()?));
        if let Some((user, content)) = content("User") {
            self.user(user, content);
        } else if let Some((agent, content)) = content("Agent") {
            self.agent(agent, content);
        } else {
            return false;
        }
        true
    }

    fn user(&mut self, user: &Value, content: &[Value]) {
        self.end_turn();
        self.prompts += 1;
        let request = match user.get("id").and_then(Value::as_str) {
            Some(id) if !id.is_empty() => id.to_owned(),
            _ => format!("imported-{}", self.prompts),
        };
        let prompt: Vec<Value> = content.iter().filter_map(block).collect();
        self.made.unknown += (content.len() - prompt.len()) as u64;
        self.marker(&json!({"type": "turn_started", "request_id": request}));
        let params = json!({"sessionId": self.session, "prompt": prompt, "_meta": made()});
        let id = self.prompts;
        self.line(&json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params}));
        self.turn = Some((request, false));
    }

    fn agent(&mut self, agent: &Value, content: &[Value]) {
        for part in content {
            let Some(update) = update(part, agent.get("tool_results")) else {
                self.made.unknown += 1;
                continue;
            };
            if let Some((_, answered)) = &mut self.turn {
                *answered = true;
            }
            let params = json!({"sessionId": self.session, "update": update, "_meta": made()});
            self.line(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
        }
    }

    /// Ends the open turn. The stop reason is unknown; a prompt without an answer gets no end.
    fn end_turn(&mut self) {
        if let Some((request, true)) = self.turn.take() {
            let result = json!({"status": "completed", "stopReason": "unknown"});
            self.marker(&json!({"type": "turn_result", "request_id": request, "result": result}));
        }
    }

    fn marker(&mut self, marker: &Value) {
        let mut marker = marker.clone();
        marker["schema"] = "acpx.session.journal.v1".into();
        self.line(&marker);
    }

    fn line(&mut self, line: &Value) {
        self.made.lines.push(line.to_string());
    }
}

/// Marks a line that was made from messages.
fn made() -> Value {
    json!({"acpx": {"madeFrom": "messages"}})
}

/// A part of a user's message as a content block of the protocol.
fn block(part: &Value) -> Option<Value> {
    let of = |name: &str, field: &str| part.get(name)?.get(field)?.as_str();
    if let Some(text) = part.get("Text").and_then(Value::as_str) {
        return Some(json!({"type": "text", "text": text}));
    }
    if let Some(uri) = of("Mention", "uri") {
        return Some(
            json!({"type": "resource_link", "uri": uri, "name": of("Mention", "content").unwrap_or(uri)}),
        );
    }
    // npm acpx does not store the image type, but the protocol requires one; this type claims nothing.
    if let Some(data) = of("Image", "source") {
        return Some(json!({"type": "image", "data": data, "mimeType": "application/octet-stream"}));
    }
    let (data, kind) = (of("Audio", "source")?, of("Audio", "mime_type")?);
    Some(json!({"type": "audio", "data": data, "mimeType": kind}))
}

/// A part of an agent's message as an update of the protocol.
fn update(part: &Value, results: Option<&Value>) -> Option<Value> {
    let chunk =
        |kind: &str, text: &str| json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}});
    if let Some(text) = part.get("Text").and_then(Value::as_str) {
        return Some(chunk("agent_message_chunk", text));
    }
    if let Some(thinking) = part.get("Thinking") {
        return Some(chunk("agent_thought_chunk", thinking.get("text")?.as_str()?));
    }
    // Redacted thinking has no readable text.
    if part.get("RedactedThinking").is_some() {
        return Some(chunk("agent_thought_chunk", "[redacted_thinking]"));
    }
    tool_call(part.get("ToolUse")?, results)
}

fn tool_call(tool: &Value, results: Option<&Value>) -> Option<Value> {
    let id = tool.get("id")?.as_str()?;
    let name = tool.get("name").and_then(Value::as_str).unwrap_or("a tool");
    let mut update = json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": name});
    if let Some(input) = tool.get("input").filter(|input| !input.is_null()) {
        update["rawInput"] = input.clone();
    }
    let Some(result) = results.and_then(|results| results.get(id)) else { return Some(update) };
    let failed = result.get("is_error").and_then(Value::as_bool).unwrap_or(false);
    update["status"] = if failed { "failed".into() } else { "completed".into() };
    let text = result.get("content").and_then(|content| content.get("Text")).and_then(Value::as_str);
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        update["content"] = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    }
    if let Some(output) = result.get("output").filter(|output| !output.is_null()) {
        update["rawOutput"] = output.clone();
    }
    Some(update)
}

#[cfg(test)]
mod tests;
