//! Which message a piece belongs to, so that one message is not shown as the end of another.
//!
//! It is that of a [`acpx_core::model::Conversation`] but for tool calls, which end nothing here: whoever shows words as
//! they come would cut them in two where a call is told of meanwhile.

use acpx_core::model::{MessageKind, TurnId};

/// The message whose pieces come.
#[derive(Debug, Default)]
pub(super) struct OpenMessage(Option<Piece>);

/// What tells a piece's message from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) kind: MessageKind,
    pub(super) turn: Option<TurnId>,
    /// The agent's id for the message, where it gives one.
    pub(super) id: Option<Box<str>>,
}

impl OpenMessage {
    /// Takes the next piece; whether a message begins with it. One without an id goes on with what is there.
    pub(super) fn begins(&mut self, piece: Piece) -> bool {
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
