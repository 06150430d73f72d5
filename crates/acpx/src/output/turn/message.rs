//! Which message a piece belongs to, so that one message is not shown as the end of another, and whose it is.
//!
//! A piece's message is that of a [`acpx_core::model::Conversation`] but for tool calls, which end nothing here: whoever shows words as
//! they come would cut them in two where a call is told of meanwhile.

use acpx_core::model::{ClientName, MessageKind, TurnId};

use super::text::cut;
use crate::output::clean::on_one_line;

/// How much of a client's name is shown.
const NAME_CHARS: usize = 40;

/// The message whose pieces come.
#[derive(Debug, Default)]
pub(super) struct MessageTracker(Option<MessageKey>);

/// What tells a piece's message from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MessageKey {
    pub(super) kind: MessageKind,
    pub(super) turn: Option<TurnId>,
    /// The agent's id for the message, where it gives one.
    pub(super) id: Option<Box<str>>,
}

impl MessageTracker {
    /// Takes the next piece; whether a message begins with it. One without an id goes on with what is there.
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

/// What stands before the user's words: in which turn they were said, and with which client. That is called as it calls
/// itself, which neither ends the label nor begins another.
pub(super) fn user_label(turn: Option<TurnId>, client: Option<&ClientName>) -> String {
    let turn = turn.map(|turn| format!(", turn {}", turn.0)).unwrap_or_default();
    let name = client.map(|client| on_one_line(&client.name).replace('[', "(").replace(']', ")"));
    let name = name.filter(|name| !name.trim().is_empty());
    let client = name.map(|name| format!(", {}", cut(&name, NAME_CHARS))).unwrap_or_default();
    format!("[user{turn}{client}] ")
}

/// The end of a line in words that stand behind a label: the next one begins below them.
pub(super) fn line_end_below(label: &str) -> String {
    format!("\n{:1$}", "", label.chars().count())
}
