//! What was said in a session, last entries last: each prompt, and after it what the agent thought, said and
//! used, with the time of its first event.

use std::collections::{HashMap, VecDeque};
use std::io;

use acpx_core::acp;
use acpx_core::model::{
    Content, Conversation, Entry, Event, MessageKind, RecordId, Seq, SessionIdentity, Timestamp, TurnId,
    Update,
};
use serde::Serialize;

use super::{Console, json_line};
use crate::cli::Format;

/// How much of an entry is shown.
const PREVIEW_CHARS: usize = 2000;

/// One thing said, by the user or by the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryEntry {
    pub(crate) role: Role,
    /// When it began.
    pub(crate) timestamp: Timestamp,
    /// Its beginning, on one line.
    pub(crate) text_preview: String,
    /// The turn it was said in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn: Option<u64>,
}

/// Who said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    User,
    Assistant,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// Gathers the entries of a record from its events.
#[derive(Debug)]
pub(crate) struct History {
    conversation: Conversation,
    /// When each tool call was first heard of: the conversation has their events' numbers alone.
    tool_times: HashMap<Seq, Timestamp>,
}

impl History {
    /// The history of a record before its first event.
    pub(crate) fn new(record: RecordId) -> Self {
        Self { conversation: Conversation::new(record), tool_times: HashMap::new() }
    }

    /// Takes the next event.
    pub(crate) fn apply(&mut self, event: &Event) {
        let content = acp::content(event);
        if matches!(content, Content::Update(Update::Tool { .. })) {
            self.tool_times.insert(event.seq, event.at);
        }
        self.conversation.apply(event, content);
    }

    /// The last entries, and how many there are in all.
    pub(crate) fn last(&self, limit: usize) -> (Vec<HistoryEntry>, usize) {
        let mut gathered = Gathered { last: VecDeque::new(), limit, total: 0 };
        for entry in self.conversation.entries() {
            match entry {
                Entry::Message(message) => {
                    let (role, text) = match message.kind {
                        MessageKind::User => (Role::User, &message.text),
                        MessageKind::Agent | MessageKind::Thought => (Role::Assistant, &message.text),
                    };
                    gathered.add(role, message.turn, message.at, text);
                }
                Entry::Tool(tool) => {
                    let field = |name: &str| tool.fields.get(name).and_then(serde_json::Value::as_str);
                    let title = field("title").or_else(|| field("kind")).unwrap_or("-");
                    if let Some(at) = self.tool_times.get(&tool.first) {
                        gathered.add(Role::Assistant, tool.turn, *at, &format!("[tool:{title}]"));
                    }
                }
                Entry::Plan { .. } | Entry::TurnEnd { .. } | Entry::Reset { .. } => {}
            }
        }
        (gathered.last.into(), gathered.total)
    }
}

/// The last entries so far. What an agent says in one turn is one entry.
struct Gathered {
    last: VecDeque<HistoryEntry>,
    limit: usize,
    total: usize,
}

impl Gathered {
    fn add(&mut self, role: Role, turn: Option<TurnId>, at: Timestamp, text: &str) {
        let turn = turn.map(|turn| turn.0);
        let text = one_line(text);
        if let Some(entry) = self.last.back_mut()
            && role == Role::Assistant
            && entry.role == role
            && entry.turn == turn
        {
            entry.text_preview = cut(&format!("{} {text}", entry.text_preview));
            return;
        }
        self.total += 1;
        self.last.push_back(HistoryEntry { role, timestamp: at, text_preview: cut(&text), turn });
        if self.last.len() > self.limit {
            self.last.pop_front();
        }
    }
}

fn one_line(text: &str) -> String {
    // Far more than is shown; the rest need not even be looked at.
    let text: String = text.chars().take(PREVIEW_CHARS * 2).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cut(text: &str) -> String {
    super::turn::cut(text.trim(), PREVIEW_CHARS)
}

#[derive(Serialize)]
struct HistoryObject<'a> {
    #[serde(flatten)]
    identity: &'a SessionIdentity,
    limit: usize,
    count: usize,
    total: usize,
    entries: &'a [HistoryEntry],
}

/// Writes the last entries of a session.
pub(crate) fn history(
    identity: &SessionIdentity,
    history: &History,
    limit: usize,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let (entries, total) = history.last(limit);
    let out = &mut *console.out;
    match console.mode.format {
        Format::Json => {
            let (count, entries) = (entries.len(), &*entries);
            json_line(&HistoryObject { identity, limit, count, total, entries }, out)?;
        }
        Format::Quiet => entries.iter().try_for_each(|entry| writeln!(out, "{}", entry.text_preview))?,
        Format::Text if entries.is_empty() => writeln!(out, "No history")?,
        Format::Text => {
            writeln!(out, "session: {} ({}/{total} shown)", identity.record, entries.len())?;
            for entry in &entries {
                writeln!(out, "{}\t{}\t{}", entry.timestamp, entry.role.word(), entry.text_preview)?;
            }
        }
    }
    console.flush()
}

#[cfg(test)]
mod tests;
