//! The conversation of a native transcript as events of a record: one `session/update` of the agent for each part.
//!
//! The events have no turns, because acpx did not send the prompts. A record that begins with them is that of an adopted
//! session: the agent restores it under its own id, and its replay is compared with them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{ItemContent, TranscriptItem, TranscriptItems, TranscriptReader, TranscriptSource, Unread};
use crate::model::{AcpSessionId, Direction, Event, EventKind, LineageIndex, Secrets, Seq, Timestamp};

/// A batch ends with the event that makes it this large.
const BATCH_BYTES: usize = 1024 * 1024;

/// What a transcript says about its session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TranscriptSummary {
    /// The agent's title, or else none.
    pub title: Option<String>,
    /// The text of the first prompt.
    pub first_prompt: Option<String>,
    /// The directory that the session worked in last.
    pub directory: Option<String>,
    /// The time of the first item.
    pub created_at: Option<Timestamp>,
    /// The time of the last item.
    pub updated_at: Option<Timestamp>,
    /// How many prompts there are.
    pub prompts: u64,
    /// How many tokens the agent has used, if it says so.
    pub tokens: Option<u64>,
    /// The session that this one is a copy of.
    pub fork_of: Option<AcpSessionId>,
}

impl TranscriptSummary {
    /// How many bytes of a prompt are kept for a title.
    const TITLE_BYTES: usize = 1024;

    /// Adds the next item.
    pub fn add(&mut self, item: &TranscriptItem) {
        if let Some(at) = item.at {
            self.created_at = Some(self.created_at.map_or(at, |first| first.min(at)));
            self.updated_at = Some(self.updated_at.map_or(at, |last| last.max(at)));
        }
        match &item.content {
            ItemContent::Prompt { blocks, .. } => {
                self.prompts += 1;
                if self.first_prompt.is_none() {
                    let text = blocks.iter().filter_map(|block| block.get("text")?.as_str());
                    let mut text = text.collect::<Vec<_>>().join(" ");
                    text.truncate(text.floor_char_boundary(Self::TITLE_BYTES));
                    self.first_prompt = Some(text).filter(|text| !text.trim().is_empty());
                }
            }
            ItemContent::Title(title) => self.title = Some(title.clone()),
            ItemContent::Directory(directory) => self.directory = Some(directory.clone()),
            ItemContent::Tokens(tokens) => {
                self.tokens = Some(self.tokens.unwrap_or(0).saturating_add(*tokens));
            }
            ItemContent::ForkOf(session) => self.fork_of = Some(session.clone()),
            ItemContent::Reply { .. }
            | ItemContent::Thought { .. }
            | ItemContent::ToolCall { .. }
            | ItemContent::ToolResult { .. }
            | ItemContent::Plan(_)
            | ItemContent::Compaction { .. } => {}
        }
    }
}

impl TranscriptItem {
    /// How many [updates](Self::updates) there are.
    pub fn updates_count(&self) -> u64 {
        match &self.content {
            ItemContent::Prompt { blocks, .. } => blocks.len() as u64,
            ItemContent::Directory(_) | ItemContent::Tokens(_) | ItemContent::ForkOf(_) => 0,
            ItemContent::Reply { .. }
            | ItemContent::Thought { .. }
            | ItemContent::ToolCall { .. }
            | ItemContent::ToolResult { .. }
            | ItemContent::Plan(_)
            | ItemContent::Compaction { .. }
            | ItemContent::Title(_) => 1,
        }
    }

    /// The updates of ACP that say the same, each as a JSON object.
    pub fn updates(&self) -> Vec<Value> {
        let chunk = |kind: &str, id: &Option<String>, content: Value| {
            let mut update = json!({"sessionUpdate": kind, "content": content});
            if let Some(id) = id {
                update["messageId"] = id.as_str().into();
            }
            update
        };
        let text = |text: &str| json!({"type": "text", "text": text});
        match &self.content {
            ItemContent::Prompt { id, blocks } => {
                blocks.iter().map(|block| chunk("user_message_chunk", id, block.clone())).collect()
            }
            ItemContent::Reply { id, text: words } => vec![chunk("agent_message_chunk", id, text(words))],
            ItemContent::Thought { id, text: words } => vec![chunk("agent_thought_chunk", id, text(words))],
            ItemContent::ToolCall { id, name, title, kind, input, paths } => {
                let locations: Vec<Value> = paths.iter().map(|path| json!({"path": path})).collect();
                vec![json!({
                    "sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": kind,
                    "status": "pending", "rawInput": input, "locations": locations,
                    "_meta": {"toolName": name},
                })]
            }
            ItemContent::ToolResult { id, is_error, content } => {
                let status = if *is_error { "failed" } else { "completed" };
                vec![json!({
                    "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status, "content": content,
                })]
            }
            ItemContent::Plan(entries) => vec![json!({"sessionUpdate": "plan", "entries": entries})],
            ItemContent::Compaction { id } => {
                vec![json!({"sessionUpdate": "compaction_update", "compactionId": id, "status": "completed"})]
            }
            ItemContent::Title(title) => {
                vec![json!({"sessionUpdate": "session_info_update", "title": title})]
            }
            ItemContent::Directory(_) | ItemContent::Tokens(_) | ItemContent::ForkOf(_) => Vec::new(),
        }
    }
}

/// The events of a transcript, numbered from 1.
pub struct TranscriptEvents {
    items: Box<dyn TranscriptItems>,
    session: AcpSessionId,
    secrets: Arc<Secrets>,
    /// The time of an item that has none: that of the one before it.
    at: Timestamp,
    seq: Seq,
    /// Events before this one are counted only.
    from: Seq,
    summary: TranscriptSummary,
}

impl TranscriptEvents {
    /// Opens a transcript from its beginning. Secrets are masked as the store masks them.
    pub fn open(
        reader: &dyn TranscriptReader,
        source: &TranscriptSource,
        secrets: Arc<Secrets>,
    ) -> io::Result<Self> {
        let at = Timestamp::from_millis(source.stamp.modified / 1_000_000).unwrap_or_else(|_| epoch());
        Ok(Self {
            items: reader.open(source, 0)?,
            session: source.session.clone(),
            secrets,
            at,
            seq: Seq(0),
            from: Seq::FIRST,
            summary: TranscriptSummary::default(),
        })
    }

    /// Leaves out the events before this one.
    pub fn skip_to(&mut self, from: Seq) {
        self.from = from;
    }

    /// The number of the last event so far.
    pub fn last(&self) -> Seq {
        self.seq
    }

    /// The next events; `None` at the end. This blocks.
    pub fn next_batch(&mut self) -> io::Result<Option<Vec<Event>>> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES {
            let Some(item) = self.items.next()? else { break };
            self.summary.add(&item);
            self.at = item.at.unwrap_or(self.at);
            let end = Seq(self.seq.0 + item.updates_count());
            if end < self.from {
                self.seq = end;
                continue;
            }
            for update in item.updates() {
                let event = self.event(&update);
                if event.seq < self.from {
                    continue;
                }
                bytes += event.body.len();
                batch.push(event);
            }
        }
        Ok((!batch.is_empty()).then_some(batch))
    }

    fn event(&mut self, update: &Value) -> Event {
        let meta = json!({"acpx": {"madeFrom": "transcript"}});
        let params = json!({"sessionId": self.session, "update": update, "_meta": meta});
        let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string();
        let body: Arc<str> = self.secrets.redact_json(&line).unwrap_or(line).into();
        self.seq = self.seq.next();
        event(self.seq, self.at, body)
    }

    /// What the items so far say about the session.
    pub fn summary(&self) -> &TranscriptSummary {
        &self.summary
    }

    /// What could not be read so far.
    pub fn unread(&self) -> Unread {
        self.items.unread()
    }
}

/// An update of the agent outside of all turns.
fn event(seq: Seq, at: Timestamp, body: Arc<str>) -> Event {
    let (direction, kind) = (Direction::FromAgent, EventKind::Update);
    Event { seq, at, turn: None, lineage: LineageIndex::FIRST, protocol: 1, direction, kind, body }
}

fn epoch() -> Timestamp {
    Timestamp::since_1970(Duration::ZERO)
}

#[cfg(test)]
mod tests;
