//! The messages of a conversation as the index has them: one for each prompt, answer, thought and tool call.

use serde_json::Value;

use super::words::parts;
use crate::model::{ConversationMessage, Entry, MessageKind, ToolCall};
use crate::transcripts::{ItemContent, TranscriptItem};

/// The longest text of one row. A longer message has several rows.
const ROW_BYTES: usize = 32 * 1024;
/// How much of the output of a tool is searched.
const OUTPUT_BYTES: usize = 16 * 1024;

/// Whose words a message has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageRole {
    /// A prompt.
    User,
    /// An answer.
    Agent,
    /// A thought of the agent.
    Thought,
    /// A tool call: its title, its input and its output.
    Tool,
}

impl MessageRole {
    /// All roles, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::User, Self::Agent, Self::Thought, Self::Tool];

    /// The name in commands and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Agent => "agent",
            Self::Thought => "thought",
            Self::Tool => "tool",
        }
    }

    /// The role of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }

    pub(super) fn number(self) -> i64 {
        match self {
            Self::User => 0,
            Self::Agent => 1,
            Self::Thought => 2,
            Self::Tool => 3,
        }
    }

    pub(super) fn of_number(number: i64) -> Self {
        usize::try_from(number).ok().and_then(|index| Self::ALL.get(index)).copied().unwrap_or(Self::Agent)
    }
}

/// A message to index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexedMessage {
    /// Its first event in the record or the transcript.
    pub(super) event: u64,
    pub(super) id: Option<String>,
    /// In milliseconds.
    pub(super) at: Option<i64>,
    pub(super) role: MessageRole,
    /// The kind and the name of a tool.
    pub(super) tool: Option<String>,
    pub(super) text: String,
}

impl IndexedMessage {
    /// A message of a transcript that begins with this event; `None` for an item without words.
    pub(super) fn of_item(item: &TranscriptItem, event: u64) -> Option<Self> {
        let at = item.at.map(crate::model::Timestamp::as_millis);
        let message = |role, id: Option<&str>, tool: Option<String>, text: String| {
            Some(Self { event, id: id.map(str::to_owned), at, role, tool, text })
        };
        match &item.content {
            ItemContent::Prompt { id, blocks } => {
                message(MessageRole::User, id.as_deref(), None, texts(blocks))
            }
            ItemContent::Reply { id, text } => message(MessageRole::Agent, id.as_deref(), None, text.clone()),
            ItemContent::Thought { id, text } => {
                message(MessageRole::Thought, id.as_deref(), None, text.clone())
            }
            ItemContent::ToolCall { id, name, title, kind, input, .. } => {
                let text = join([title.clone(), strings(input)]);
                message(MessageRole::Tool, Some(id), Some(format!("{kind} {name}")), text)
            }
            ItemContent::ToolResult { id, content, .. } => {
                message(MessageRole::Tool, Some(id), None, output(content))
            }
            ItemContent::Plan(_)
            | ItemContent::Compaction { .. }
            | ItemContent::Title(_)
            | ItemContent::Directory(_)
            | ItemContent::Tokens(_)
            | ItemContent::ForkOf(_) => None,
        }
    }

    /// A message of a record; `None` for an entry without words.
    pub(super) fn of_entry(entry: &Entry) -> Option<Self> {
        match entry {
            Entry::Message(message) => Some(Self::of_message(message)),
            Entry::Tool(tool) => Some(Self::of_tool(tool)),
            Entry::Plan { .. } | Entry::TurnEnd { .. } | Entry::Reset { .. } => None,
        }
    }

    fn of_message(message: &ConversationMessage) -> Self {
        let role = match message.kind {
            MessageKind::User => MessageRole::User,
            MessageKind::Agent => MessageRole::Agent,
            MessageKind::Thought => MessageRole::Thought,
        };
        Self {
            event: message.first.0,
            id: Some(message.id.to_string()),
            at: Some(message.at.as_millis()),
            role,
            tool: None,
            text: message.text.clone(),
        }
    }

    fn of_tool(tool: &ToolCall) -> Self {
        let field = |name: &str| tool.fields.get(name).and_then(Value::as_str).unwrap_or_default();
        let name = tool.fields.get("_meta").and_then(tool_name).unwrap_or_default();
        let input = tool.fields.get("rawInput").map(strings).unwrap_or_default();
        let content = tool.fields.get("content").and_then(Value::as_array);
        let text =
            join([field("title").to_owned(), input, content.map(|all| output(all)).unwrap_or_default()]);
        Self {
            event: tool.first.0,
            id: Some(tool.id.to_string()),
            at: Some(tool.at.as_millis()),
            role: MessageRole::Tool,
            tool: Some(format!("{} {name}", field("kind")).trim().to_owned()),
            text,
        }
    }

    /// The texts of its rows, each with its parts; none if there is nothing to search for.
    pub(super) fn rows(&self) -> Vec<(&str, String)> {
        let (mut rows, mut rest) = (Vec::new(), self.text.trim());
        while !rest.is_empty() {
            let mut end = rest.floor_char_boundary(ROW_BYTES);
            if end < rest.len() {
                // A row ends between two words if there is a gap.
                end = rest[..end].rfind(char::is_whitespace).filter(|gap| *gap > 0).unwrap_or(end);
            }
            let (row, after) = rest.split_at(end);
            rows.push((row, parts(row)));
            rest = after.trim_start();
        }
        rows
    }
}

/// The name of a tool in `_meta` of a call: as our readers write it, or as Claude's adapter does.
fn tool_name(meta: &Value) -> Option<&str> {
    meta.get("toolName").or_else(|| meta.get("claudeCode")?.get("toolName"))?.as_str()
}

fn join<const N: usize>(texts: [String; N]) -> String {
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The texts of content blocks.
fn texts(blocks: &[Value]) -> String {
    let texts: Vec<&str> = blocks.iter().filter_map(text_of_block).collect();
    texts.join("\n")
}

fn text_of_block(block: &Value) -> Option<&str> {
    block.get("text").or_else(|| block.get("uri")).or_else(|| block.get("resource")?.get("text"))?.as_str()
}

/// The texts of tool call contents, up to a limit.
fn output(content: &[Value]) -> String {
    let mut all = String::new();
    for piece in content {
        let texts = match piece.get("type").and_then(Value::as_str) {
            Some("diff") => {
                ["path", "oldText", "newText"].map(|name| piece.get(name).and_then(Value::as_str))
            }
            _ => [piece.get("content").and_then(text_of_block), None, None],
        };
        for text in texts.into_iter().flatten() {
            let room = OUTPUT_BYTES.saturating_sub(all.len());
            all.push_str(&text[..text.floor_char_boundary(room)]);
            all.push('\n');
        }
    }
    all.truncate(all.trim_end().len());
    all
}

/// The texts in a tool's input, without the names of its members.
fn strings(input: &Value) -> String {
    fn collect(value: &Value, all: &mut String) {
        match value {
            Value::String(text) if all.len() < OUTPUT_BYTES => {
                let room = OUTPUT_BYTES - all.len();
                all.push_str(&text[..text.floor_char_boundary(room)]);
                all.push('\n');
            }
            Value::Array(values) => values.iter().for_each(|value| collect(value, all)),
            Value::Object(members) => members.values().for_each(|value| collect(value, all)),
            _ => {}
        }
    }
    let mut all = String::new();
    collect(input, &mut all);
    all.truncate(all.trim_end().len());
    all
}
