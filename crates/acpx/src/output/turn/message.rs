//! Tells the chunks of different messages apart, and labels whose they are.
//!
//! Messages are those of a [`acpx_core::model::Conversation`], except that a tool call ends no message here: streamed
//! words would be cut in two at every call.

use acpx_core::model::{ClientName, MessageKind, TurnId};

use crate::output::sanitize::{ellipsize, on_one_line};

/// How much of a client's name is shown.
const NAME_CHARS: usize = 40;

/// The message whose chunks are arriving.
#[derive(Debug, Default)]
pub(super) struct MessageTracker(Option<MessageKey>);

/// What distinguishes a chunk's message from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MessageKey {
    pub(super) kind: MessageKind,
    pub(super) turn: Option<TurnId>,
    /// The agent's id for the message, where it gives one.
    pub(super) id: Option<Box<str>>,
}

impl MessageTracker {
    /// Takes the next chunk; returns whether it begins a message. A chunk without an id continues the current message.
    pub(super) fn begins(&mut self, piece: MessageKey) -> bool {
        let goes_on = self.0.as_ref().is_some_and(|open| {
            let is_same = piece.id.is_none() || piece.id == open.id;
            is_same && (open.kind, open.turn) == (piece.kind, piece.turn)
        });
        if !goes_on {
            self.0 = Some(piece);
        }
        !goes_on
    }
}

/// The label of the user's words: their turn and client. The client's own name can neither end the label nor begin
/// another.
pub(super) fn user_label(turn: Option<TurnId>, client: Option<&ClientName>) -> String {
    let turn = turn.map(|turn| format!(", turn {}", turn.0)).unwrap_or_default();
    let name = client.map(|client| on_one_line(&client.name).replace('[', "(").replace(']', ")"));
    let name = name.filter(|name| !name.trim().is_empty());
    let client = name.map(|name| format!(", {}", ellipsize(&name, NAME_CHARS))).unwrap_or_default();
    format!("[user{turn}{client}] ")
}

/// A line break within labelled words, which indents the next line.
pub(super) fn line_end_below(label: &str) -> String {
    format!("\n{:1$}", "", label.chars().count())
}
