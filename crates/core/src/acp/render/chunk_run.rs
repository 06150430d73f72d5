//! Joins chunks of one message that differ only in their text.

use super::entities::MessageRef;
use crate::model::{LineageIndex, MessageKind, ProtocolVersion, Seq, Timestamp};

/// How many bytes of text are joined at most. A longer message is sent in several pieces, which bounds lines and
/// memory.
const MOST: usize = 256 * 1024;

/// The chunks joined so far.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) kind: MessageKind,
    pub(super) message: MessageRef,
    /// Whether it begins the message.
    pub(super) begins: bool,
    /// The agent's message id, as received.
    pub(super) given: Option<Box<str>>,
    pub(super) row: LineageIndex,
    /// The protocol version of the chunks.
    pub(super) protocol: ProtocolVersion,
    pub(super) last: Seq,
    pub(super) at: Timestamp,
    /// The text as JSON, without its quotes.
    pub(super) text: String,
}

impl Run {
    /// Whether another chunk continues this text.
    pub(super) fn goes_on_with(&self, other: &Self) -> bool {
        self.kind == other.kind
            && (self.row, self.protocol) == (other.row, other.protocol)
            && !other.begins
            && self.message == other.message
            && self.given == other.given
            && self.text.len() + other.text.len() <= MOST
    }

    pub(super) fn join(&mut self, other: &Self) {
        self.text.push_str(&other.text);
        (self.last, self.at) = (other.last, other.at);
    }

    /// The update object that appends it. `id` is JSON.
    pub(super) fn chunk(&self, id: Option<&str>) -> String {
        let kind = match self.kind {
            MessageKind::User => "user_message_chunk",
            MessageKind::Agent => "agent_message_chunk",
            MessageKind::Thought => "agent_thought_chunk",
        };
        let id = id.map(|id| format!(r#","messageId":{id}"#)).unwrap_or_default();
        format!(r#"{{"sessionUpdate":"{kind}","content":{{"type":"text","text":"{}"}}{id}}}"#, self.text)
    }
    /// The version 2 update object that begins the message with it, and replaces what the client had of it.
    pub(super) fn whole(&self, id: &str) -> String {
        whole(self.kind, id, &format!(r#"{{"type":"text","text":"{}"}}"#, self.text))
    }
}

/// A whole message of version 2. `id` and `content` are JSON.
pub(super) fn whole(kind: MessageKind, id: &str, content: &str) -> String {
    let kind = match kind {
        MessageKind::User => "user_message",
        MessageKind::Agent => "agent_message",
        MessageKind::Thought => "agent_thought",
    };
    format!(r#"{{"sessionUpdate":"{kind}","messageId":{id},"content":[{content}]}}"#)
}
