//! Which message a chunk belongs to, and which ids clients see for messages and tool calls.
//!
//! An agent's ids are unique only within its ACP session, and a record has several. If a later session reuses an id,
//! clients see it as the id plus the lineage row.

use std::borrow::Cow;
use std::collections::HashMap;

use super::line::UpdateLine;
use crate::model::{
    Direction, Event, EventKind, LineageIndex, MessageKind, RecordId, Seq, TurnId, run_message_id,
};
use crate::wire::encode::json_string;
use crate::wire::json;

/// The ids that agents used in a record, each with the first lineage row that used it. Only a record with several
/// rows needs them.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownIds {
    first: HashMap<(EntityKind, Box<str>), LineageIndex>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum EntityKind {
    Message,
    ToolCall,
}

impl KnownIds {
    /// Takes the ids of the next event.
    pub(crate) fn take(&mut self, event: &Event) {
        if (event.direction, event.kind) != (Direction::FromAgent, EventKind::Update) {
            return;
        }
        // Most lines contain no id, and need not be parsed.
        if memchr::memmem::find(event.body.as_bytes(), b"Id\"").is_none() {
            return;
        }
        let Some(UpdateLine { head, .. }) = UpdateLine::read(&event.body) else { return };
        for (sort, id) in [(EntityKind::Message, head.message_id), (EntityKind::ToolCall, head.tool_call)] {
            if let Some(id) = id.and_then(json::string) {
                self.first.entry((sort, id.into())).or_insert(event.lineage);
            }
        }
    }

    /// The other id that clients see for a tool call id, if any; both are JSON.
    pub(crate) fn other_call(&self, id: &str, row: LineageIndex) -> Option<String> {
        self.other(EntityKind::ToolCall, id, row).map(|other| json_string(&other))
    }

    /// The other id that clients see for an agent's id, if any.
    pub(super) fn other(&self, sort: EntityKind, id: &str, row: LineageIndex) -> Option<String> {
        if self.first.is_empty() {
            return None;
        }
        self.other_text(sort, &json::string(id)?, row)
    }

    /// The same for a decoded id.
    pub(super) fn other_text(&self, sort: EntityKind, id: &str, row: LineageIndex) -> Option<String> {
        let first = self.first.get(&(sort, id.into()))?;
        (*first != row).then(|| format!("{id}~{row}"))
    }
}

/// The message that the next chunk without an id continues.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct MessageContinuation(Option<ContinuedMessage>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct ContinuedMessage {
    kind: MessageKind,
    turn: Option<TurnId>,
    message: MessageRef,
}

/// Identifies a message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum MessageRef {
    /// By the agent's id.
    Given(Box<str>),
    /// Without an id, by its first event.
    First(Seq),
}

impl MessageContinuation {
    /// Takes a chunk; its message becomes the open one.
    pub(super) fn chunk(&mut self, event: &Event, kind: MessageKind, id: Option<Cow<'_, str>>) {
        let message = match (id, &self.0) {
            (Some(id), _) => MessageRef::Given(id.into()),
            (None, Some(open)) if open.kind == kind && open.turn == event.turn => open.message.clone(),
            (None, _) => MessageRef::First(event.seq),
        };
        self.0 = Some(ContinuedMessage { kind, turn: event.turn, message });
    }

    /// The message of the last chunk.
    pub(super) fn message(&self) -> Option<&MessageRef> {
        self.0.as_ref().map(|open| &open.message)
    }

    /// Closes the message: the next chunk does not continue it.
    pub(super) fn end(&mut self) {
        self.0 = None;
    }
}

impl MessageRef {
    /// The id that clients see.
    pub(super) fn id(&self, record: &RecordId, known: &KnownIds, row: LineageIndex) -> String {
        match self {
            Self::First(first) => run_message_id(record, *first),
            Self::Given(id) => {
                known.other_text(EntityKind::Message, id, row).unwrap_or_else(|| id.to_string())
            }
        }
    }
}
