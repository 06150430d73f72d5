//! Which message a chunk belongs to, and which ids clients see for messages and tool calls.
//!
//! An agent's ids are unique only within its ACP session, and a record may have several. Clients see the ids of the
//! first session as they are, and those of a later one with its lineage row added. So no earlier event has to be read to
//! know whether an id was used before.

use std::borrow::Cow;

use crate::model::{Event, LineageIndex, MessageKind, RecordId, Seq, TurnId, run_message_id};
use crate::wire::encode::json_string;
use crate::wire::json;

/// The other id that clients see for an agent's id, if any.
pub(super) fn client_id(id: &str, row: LineageIndex) -> Option<String> {
    (row > LineageIndex::FIRST).then(|| format!("{id}~{row}"))
}

/// The same with both ids as JSON.
pub(crate) fn client_id_json(id: &str, row: LineageIndex) -> Option<String> {
    Some(json_string(&client_id(&json::string(id)?, row)?))
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
    pub(super) fn id(&self, record: &RecordId, row: LineageIndex) -> String {
        match self {
            Self::First(first) => run_message_id(record, *first),
            Self::Given(id) => client_id(id, row).unwrap_or_else(|| id.to_string()),
        }
    }
}
