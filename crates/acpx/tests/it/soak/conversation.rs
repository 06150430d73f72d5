//! A conversation as somebody put it together: from the updates of either version of the protocol, from events as they
//! were exchanged with the agent, or from the store by the library. All of them come down to the same lines.
//!
//! Nothing is thrown away on the way: what comes twice stands there twice, or makes a message longer than it was.
//! Whatever the agent of the soak says names the prompt that it answers, as [`about`] reads it.

use std::collections::{HashMap, VecDeque};

use acpx_core::acp;
use acpx_core::model::{Conversation as Folded, Entry as FoldedEntry, Event, MessageKind, RecordId};
use serde_json::{Map, Value};

/// Everything that was said, in order.
#[derive(Default)]
pub(super) struct Conversation {
    entries: Vec<Entry>,
    /// Where the messages and tool calls are that have an id.
    named: HashMap<String, usize>,
}

enum Entry {
    Words { kind: MessageKind, text: String },
    Tool { id: String, fields: Map<String, Value> },
}

/// The prompt that a piece of an answer is about: what stands before its stroke.
fn about(text: &str) -> &str {
    text.split_once('/').map_or(text, |(prompt, _)| prompt)
}

impl Entry {
    /// The prompt that it is or answers.
    fn about(&self) -> &str {
        match self {
            Self::Words { text, .. } => about(text),
            Self::Tool { id, .. } => about(id),
        }
    }

    fn line(&self) -> String {
        match self {
            Self::Words { kind, text } => format!("{}: {text}", word(*kind)),
            Self::Tool { id, fields } => {
                let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or("-");
                let output = &fields.get("content").unwrap_or(&Value::Null)[0]["content"]["text"];
                format!("tool: {id} {:?} {} {output}", text("title"), ending(fields))
            }
        }
    }
}

/// How a tool call ended. One that did not has ended with its turn, which each version says in its own way, and only
/// when it is told again.
fn ending(fields: &Map<String, Value>) -> &str {
    let ours = fields.get("_meta").map_or(&Value::Null, |meta| &meta["acpx"]["status"]);
    match ours.as_str().or_else(|| fields.get("status")?.as_str()) {
        Some(status @ ("completed" | "failed" | "cancelled")) => status,
        _ => "cancelled",
    }
}

fn word(kind: MessageKind) -> &'static str {
    match kind {
        MessageKind::User => "user",
        MessageKind::Agent => "agent",
        MessageKind::Thought => "thought",
    }
}

impl Conversation {
    /// As updates of version 1 tell it.
    pub(super) fn of_v1<'a>(updates: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut conversation = Self::default();
        updates.into_iter().for_each(|update| conversation.update_v1(update));
        conversation
    }

    /// As updates of version 2 tell it.
    pub(super) fn of_v2<'a>(updates: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut conversation = Self::default();
        updates.into_iter().for_each(|update| conversation.update_v2(update));
        conversation
    }

    /// As it was exchanged with an agent of a version. One of version 2 repeats what it is asked.
    pub(super) fn of_exchange(version: u64, events: &[Value]) -> Self {
        let mut conversation = Self::default();
        for event in events {
            let (message, direction) = (&event["message"], event["direction"].as_str().unwrap());
            match (direction, message["method"].as_str()) {
                ("to_agent", Some("session/prompt")) => {
                    let text = message["params"]["prompt"][0]["text"].as_str().unwrap();
                    conversation.say(MessageKind::User, text);
                }
                ("from_agent", Some("session/update")) => {
                    let update = &message["params"]["update"];
                    match version {
                        1 => conversation.update_v1(update),
                        _ if update["sessionUpdate"] == "user_message" => {}
                        _ => conversation.update_v2(update),
                    }
                }
                _ => {}
            }
        }
        conversation
    }

    /// As the library reads the store.
    pub(super) fn of_store(record: &RecordId, events: &[Event]) -> Self {
        let mut folded = Folded::new(record.clone());
        for event in events {
            folded.apply(event, acp::content(event));
        }
        let entry = |entry: &FoldedEntry| match entry {
            FoldedEntry::Message(said) => Some(Entry::Words { kind: said.kind, text: said.text.clone() }),
            FoldedEntry::Tool(tool) => {
                Some(Entry::Tool { id: tool.id.clone().into(), fields: tool.fields.clone() })
            }
            FoldedEntry::TurnEnd { .. } => None,
            other => panic!("the agent of the soak never makes this: {other:?}"),
        };
        Self { entries: folded.entries().iter().filter_map(entry).collect(), named: HashMap::new() }
    }

    /// Puts the user's own words in their places: a client of version 1 is not told them. They come with their turns, in
    /// the order of these; `turns` says which turn every prompt has.
    pub(super) fn put_own(&mut self, own: &[(u64, String)], turns: &HashMap<String, u64>) {
        let mut own: VecDeque<_> = own.iter().collect();
        for entry in std::mem::take(&mut self.entries) {
            let turn = turns.get(entry.about());
            while own.front().is_some_and(|(own, _)| turn.is_some_and(|turn| own <= turn)) {
                self.put_next(&mut own);
            }
            self.entries.push(entry);
        }
        while !own.is_empty() {
            self.put_next(&mut own);
        }
    }

    fn put_next(&mut self, own: &mut VecDeque<&(u64, String)>) {
        if let Some((_, text)) = own.pop_front() {
            self.say(MessageKind::User, text);
        }
    }

    /// Everything, a line for each message and each tool call.
    pub(super) fn lines(&self) -> Vec<String> {
        self.entries.iter().map(Entry::line).collect()
    }

    fn update_v1(&mut self, update: &Value) {
        let kind = match update["sessionUpdate"].as_str().unwrap() {
            "user_message_chunk" => MessageKind::User,
            "agent_message_chunk" => MessageKind::Agent,
            "agent_thought_chunk" => MessageKind::Thought,
            "tool_call" | "tool_call_update" => return self.tool(update),
            other => panic!("the agent of the soak never says {other}: {update}"),
        };
        let text = update["content"]["text"].as_str().unwrap();
        match self.entries.last_mut() {
            Some(Entry::Words { kind: last, text: said })
                if *last == kind && kind != MessageKind::User && about(said) == about(text) =>
            {
                said.push_str(text);
            }
            _ => self.say(kind, text),
        }
    }

    fn update_v2(&mut self, update: &Value) {
        let (kind, is_whole) = match update["sessionUpdate"].as_str().unwrap() {
            "user_message" => (MessageKind::User, true),
            "agent_message" => (MessageKind::Agent, true),
            "agent_thought" => (MessageKind::Thought, true),
            "agent_message_chunk" => (MessageKind::Agent, false),
            "agent_thought_chunk" => (MessageKind::Thought, false),
            "tool_call_update" => return self.tool(update),
            "state_update" => return,
            other => panic!("the agent of the soak never says {other}: {update}"),
        };
        let content = if is_whole { &update["content"][0] } else { &update["content"] };
        let text = content["text"].as_str().unwrap();
        let id = update["messageId"].as_str().unwrap().to_owned();
        let begun = self.named.get(&id).copied();
        match begun.map(|index| &mut self.entries[index]) {
            Some(Entry::Words { text: said, .. }) if !is_whole => said.push_str(text),
            // A message that is told whole a second time is a repeat, and stands there twice.
            _ => {
                self.named.insert(id, self.entries.len());
                self.say(kind, text);
            }
        }
    }

    fn say(&mut self, kind: MessageKind, text: &str) {
        self.entries.push(Entry::Words { kind, text: text.to_owned() });
    }

    fn tool(&mut self, update: &Value) {
        let id = update["toolCallId"].as_str().unwrap();
        let index = *self.named.entry(id.to_owned()).or_insert(self.entries.len());
        if index == self.entries.len() {
            self.entries.push(Entry::Tool { id: id.to_owned(), fields: Map::new() });
        }
        let Entry::Tool { fields, .. } = &mut self.entries[index] else { panic!("{id} is no tool call") };
        fields.extend(update.as_object().unwrap().clone());
    }
}
