//! `--suppress-reads`: replaces what an agent read by a placeholder, before any view sees the line. A line without
//! reads stays as it is, byte for byte.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use acpx_core::model::Direction;
use acpx_core::wire::{RpcMessage, json};
use serde_json::value::RawValue;

use crate::output::WatchedEvent;
use crate::output::console::ReadOutput;

const PLACEHOLDER: &str = "\"[read output suppressed]\"";
/// First words of the titles of tools that read.
const READING: [&str; 4] = ["read", "cat", "open", "view"];
const READ_FILE: &str = "fs/read_text_file";

/// Replaces what an agent read.
#[derive(Debug, Default)]
pub(super) struct ReadSuppressor {
    reads: ReadOutput,
    /// Ids of the agent's requests for files.
    requests: HashSet<String>,
    /// Tool calls by their ids, and whether each reads by its kind and by its title.
    tools: HashMap<String, (bool, bool)>,
}

impl ReadSuppressor {
    pub(super) fn new(reads: ReadOutput) -> Self {
        Self { reads, ..Self::default() }
    }

    /// The event to show.
    pub(super) fn apply<'a>(&mut self, event: &'a WatchedEvent) -> Cow<'a, WatchedEvent> {
        if self.reads == ReadOutput::Shown || event.direction == Direction::Ours {
            return Cow::Borrowed(event);
        }
        let changed = RpcMessage::parse(event.message.get()).ok().and_then(|message| match event.direction {
            Direction::FromAgent => self.agent_message(&message),
            Direction::ToAgent | Direction::Ours => self.response(&message),
        });
        match changed.and_then(|line| RawValue::from_string(line).ok()) {
            Some(message) => Cow::Owned(WatchedEvent { message, ..event.clone() }),
            None => Cow::Borrowed(event),
        }
    }

    /// Our response to a request for a file, without the file.
    fn response(&mut self, message: &RpcMessage) -> Option<String> {
        message.result()?;
        if !self.requests.remove(message.id()?.as_str()) {
            return None;
        }
        json::get(message.line(), &["result", "content"])?;
        json::set(message.line(), &["result", "content"], PLACEHOLDER)
    }

    /// A tool call that reads, without its output. A request for a file is noted.
    fn agent_message(&mut self, message: &RpcMessage) -> Option<String> {
        match (message.method()?, message.id()) {
            (READ_FILE, Some(id)) => {
                self.requests.insert(id.as_str().to_owned());
                None
            }
            ("session/update", None) => self.tool_update(message.line()),
            _ => None,
        }
    }

    fn tool_update(&mut self, line: &str) -> Option<String> {
        let member = |name: &str| json::get(line, &["params", "update", name]);
        let text = |name: &str| serde_json::from_str::<String>(member(name)?).ok();
        if !["tool_call", "tool_call_update"].contains(&text("sessionUpdate")?.as_str()) {
            return None;
        }
        let (by_kind, by_title) = self.tools.entry(text("toolCallId")?).or_default();
        if let Some(kind) = member("kind") {
            *by_kind =
                serde_json::from_str::<String>(kind).is_ok_and(|kind| kind.eq_ignore_ascii_case("read"));
        }
        if let Some(title) = text("title") {
            let first = title.trim().split([':', ' ', '\t', '\n']).next().unwrap_or_default().to_lowercase();
            *by_title = READING.contains(&first.as_str());
        }
        if !*by_kind && !*by_title {
            return None;
        }
        let block = format!(r#"[{{"type":"content","content":{{"type":"text","text":{PLACEHOLDER}}}}}]"#);
        let replacements = [("rawOutput", format!(r#"{{"content":{PLACEHOLDER}}}"#)), ("content", block)];
        let present = replacements.into_iter().filter(|(name, _)| {
            member(name).is_some_and(|value| *name != "content" || value.starts_with('['))
        });
        let mut changed: Option<String> = None;
        for (name, value) in present {
            let line = changed.as_deref().unwrap_or(line);
            changed = json::set(line, &["params", "update", name], &value);
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use acpx_core::model::{ProtocolVersion, Seq, Timestamp};
    use serde_json::{Value, json};

    use super::*;

    fn event(direction: Direction, line: &str) -> WatchedEvent {
        WatchedEvent {
            seq: Seq(1),
            at: Timestamp::from_millis(0).unwrap(),
            direction,
            turn: None,
            version: ProtocolVersion::V1,
            is_outside_conversation: false,
            message: RawValue::from_string(line.to_owned()).unwrap(),
        }
    }

    fn update(update: &Value) -> String {
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": update } })
            .to_string()
    }

    #[test]
    fn contents_of_reads_are_replaced_and_every_other_line_stays() {
        let mut reads = ReadSuppressor::new(ReadOutput::Suppressed);
        let mut shown = |direction, line: &str| reads.apply(&event(direction, line)).message.get().to_owned();
        let placeholder = "[read output suppressed]";
        let request = r#"{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{"path":"/a"}}"#;
        assert_eq!(shown(Direction::FromAgent, request), request);
        let answer = |content: &str| {
            json!({ "jsonrpc": "2.0", "id": 7, "result": { "content": content } }).to_string()
        };
        assert_eq!(shown(Direction::ToAgent, &answer("secret")), answer(placeholder));
        assert_eq!(shown(Direction::ToAgent, &answer("another")), answer("another"));
        let block = |text: &str| json!([{ "type": "content", "content": { "type": "text", "text": text } }]);
        let tool = |id: &str, title: &str, text: &str| {
            json!({
                "sessionUpdate": "tool_call", "toolCallId": id, "title": title, "content": block(text),
                "rawOutput": { "content": text },
            })
        };
        let cases = [
            (tool("1", "Read a.txt", "secret"), tool("1", "Read a.txt", placeholder)),
            (tool("2", "Run ls", "plain"), tool("2", "Run ls", "plain")),
            (
                json!({ "sessionUpdate": "tool_call_update", "toolCallId": "2", "kind": "read", "rawOutput": 1 }),
                json!({
                    "sessionUpdate": "tool_call_update", "toolCallId": "2", "kind": "read",
                    "rawOutput": { "content": placeholder },
                }),
            ),
            (
                json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "read" } }),
                json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "read" } }),
            ),
        ];
        for (sent, expected) in cases {
            let line: Value = serde_json::from_str(&shown(Direction::FromAgent, &update(&sent))).unwrap();
            assert_eq!(line["params"]["update"], expected);
        }
        let mut all = ReadSuppressor::default();
        let line = update(&tool("1", "Read a.txt", "secret"));
        assert_eq!(all.apply(&event(Direction::FromAgent, &line)).message.get(), line);
    }
}
