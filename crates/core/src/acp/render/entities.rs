//! Which message a chunk belongs to, and under which ids messages and tool calls are told.
//!
//! An agent's ids are its ACP session's. A record goes through several, and an id that two of them use means two
//! things, so the later one is told under another id, made of the id and the lineage row.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

use super::line::{UpdateLine, text_of};
use crate::model::{
    Direction, Event, EventKind, LineageIndex, MessageKind, RecordId, Seq, TurnId, run_message_id,
};
use crate::wire::encode::json_string;

/// The ids that agents have used in a record, each with the lineage row it came in first. Only a record with more than
/// one row needs them.
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
        // Most lines have neither, and need not be read to know it.
        if memchr::memmem::find(event.body.as_bytes(), b"Id\"").is_none() {
            return;
        }
        let Some(UpdateLine { head, .. }) = UpdateLine::read(&event.body) else { return };
        for (sort, id) in [(EntityKind::Message, head.message_id), (EntityKind::ToolCall, head.tool_call)] {
            if let Some(id) = id.and_then(text_of) {
                self.first.entry((sort, id.into())).or_insert(event.lineage);
            }
        }
    }

    /// The id that a tool call's id, both as JSON, is told under, if it is another.
    pub(crate) fn other_call(&self, id: &str, row: LineageIndex) -> Option<String> {
        let id: &RawValue = serde_json::from_str(id).ok()?;
        self.other(EntityKind::ToolCall, id, row).map(|other| json_string(&other))
    }

    /// The id that an agent's id is told under, if it is another.
    pub(super) fn other(&self, sort: EntityKind, id: &RawValue, row: LineageIndex) -> Option<String> {
        if self.first.is_empty() {
            return None;
        }
        self.other_text(sort, &text_of(id)?, row)
    }

    /// The same for an id that was read.
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

/// Which message it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum MessageRef {
    /// One the agent named.
    Given(Box<str>),
    /// One without a name, by its first event.
    First(Seq),
}

impl MessageContinuation {
    /// Takes a chunk: the message it belongs to is the open one.
    pub(super) fn chunk(&mut self, event: &Event, kind: MessageKind, id: Option<Cow<'_, str>>) {
        let message = match (id, &self.0) {
            (Some(id), _) => MessageRef::Given(id.into()),
            (None, Some(open)) if open.kind == kind && open.turn == event.turn => open.message.clone(),
            (None, _) => MessageRef::First(event.seq),
        };
        self.0 = Some(ContinuedMessage { kind, turn: event.turn, message });
    }

    /// The message that the last chunk belongs to.
    pub(super) fn message(&self) -> Option<&MessageRef> {
        self.0.as_ref().map(|open| &open.message)
    }

    /// Nothing continues it.
    pub(super) fn end(&mut self) {
        self.0 = None;
    }
}

impl MessageRef {
    /// Its id as it is told.
    pub(super) fn id(&self, record: &RecordId, known: &KnownIds, row: LineageIndex) -> String {
        match self {
            Self::First(first) => run_message_id(record, *first),
            Self::Given(id) => {
                known.other_text(EntityKind::Message, id, row).unwrap_or_else(|| id.to_string())
            }
        }
    }
}
