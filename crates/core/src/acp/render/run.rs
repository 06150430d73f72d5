//! Chunks of one message that differ in their text alone, joined into one.

use super::entities::MessageRef;
use crate::model::{LineageIndex, MessageKind, Seq, Timestamp};

/// How much text is joined at most. A longer message goes out in several pieces, so that no line and no memory grows
/// with it.
const MOST: usize = 256 * 1024;

/// The chunks so far.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) kind: MessageKind,
    pub(super) message: MessageRef,
    /// The agent's id, as it wrote it.
    pub(super) given: Option<Box<str>>,
    pub(super) row: LineageIndex,
    pub(super) last: Seq,
    pub(super) at: Timestamp,
    /// As JSON has it between quotes.
    pub(super) text: String,
}

impl Run {
    /// Whether another chunk goes on with this text.
    pub(super) fn goes_on_with(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.row == other.row
            && self.message == other.message
            && self.given == other.given
            && self.text.len() + other.text.len() <= MOST
    }

    pub(super) fn join(&mut self, other: &Self) {
        self.text.push_str(&other.text);
        (self.last, self.at) = (other.last, other.at);
    }

    /// The update object, as version 1 has it. `id` is JSON.
    pub(super) fn update(&self, id: Option<&str>) -> String {
        let kind = match self.kind {
            MessageKind::User => "user_message_chunk",
            MessageKind::Agent => "agent_message_chunk",
            MessageKind::Thought => "agent_thought_chunk",
        };
        let id = id.map(|id| format!(r#","messageId":{id}"#)).unwrap_or_default();
        format!(r#"{{"sessionUpdate":"{kind}","content":{{"type":"text","text":"{}"}}{id}}}"#, self.text)
    }
}
