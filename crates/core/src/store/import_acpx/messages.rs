//! The messages of a record that has no journal, written as the journal they could have come from.
//!
//! npm acpx keeps the last part of the conversation in the record itself, cut to a length and without times.
//! Each line made here is marked in its `_meta`, because it was never on a wire in this form.

use serde_json::{Map, Value, json};

use crate::model::AcpSessionId;

/// A journal made from messages.
#[derive(Debug, Default, PartialEq)]
pub(super) struct MessageJournal {
    pub(super) lines: Vec<String>,
    /// How many messages, or parts of them, were of a shape that is not known.
    pub(super) unknown: u64,
}

/// Writes messages as journal lines. A prompt counts as answered when the agent has said something after it.
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
    /// The turn that is open, and whether it was answered.
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

    /// Why the agent stopped is not known; a prompt without an answer has no end that is known.
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

/// The mark of a line that was made from messages.
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
    // npm acpx forgets what kind of image it was; the protocol wants a kind, and this one claims nothing.
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
    // What was redacted is no text for people.
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
