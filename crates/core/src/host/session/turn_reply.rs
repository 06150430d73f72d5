//! The agent's last message of one turn, read backwards from the end of the record, with a bound on the events.

use super::rows::{MessagePart, part};
use crate::model::{Record, Seq, TurnId};
use crate::store::{Store, StoreError};

/// How many events are read at a time, and how many times.
const PAGE: u64 = 256;
const PAGES: usize = 16;

/// The agent's last message of a turn. It begins with `…` if its beginning is not among the events that are read; it is
/// `None` if no part of it is.
pub async fn turn_reply(
    store: &dyn Store,
    record: &Record,
    turn: TurnId,
) -> Result<Option<String>, StoreError> {
    let mut reply = TurnReply { turn, texts: Vec::new(), is_whole: false };
    let mut until = record.last_seq.unwrap_or(Seq(0));
    for _ in 0..PAGES {
        if until < Seq::FIRST {
            reply.is_whole = true;
            break;
        }
        let from = Seq(until.0.saturating_sub(PAGE - 1).max(1));
        if reply.prepend(parts(store, record, from, until).await?) {
            break;
        }
        until = Seq(from.0 - 1);
    }
    Ok(reply.text())
}

/// What the events of a range mean for a reply, with their turns. The bodies of only one page are held at a time.
async fn parts(
    store: &dyn Store,
    record: &Record,
    from: Seq,
    until: Seq,
) -> Result<Vec<(Option<TurnId>, MessagePart)>, StoreError> {
    let (mut next, mut parts) = (from, Vec::new());
    while next <= until {
        let limit = usize::try_from(until.0 - next.0 + 1).unwrap_or(1);
        let events = store.events(record.id.clone(), next, limit).await?;
        let Some(last) = events.last() else { break };
        next = last.seq.next();
        parts.extend(events.iter().map(|event| (event.turn, part(event))));
    }
    Ok(parts)
}

/// A reply that is read backwards.
#[derive(Clone)]
struct TurnReply {
    turn: TurnId,
    /// Its texts, the last one first.
    texts: Vec<String>,
    is_whole: bool,
}

impl TurnReply {
    /// Adds what precedes; true if that is the beginning of the reply or of the turn.
    fn prepend(&mut self, parts: Vec<(Option<TurnId>, MessagePart)>) -> bool {
        for (turn, part) in parts.into_iter().rev() {
            match (turn, part) {
                (Some(turn), _) if turn < self.turn => self.is_whole = true,
                (Some(turn), MessagePart::Text(text)) if turn == self.turn => self.texts.push(text),
                (Some(turn), MessagePart::Prompt) if turn == self.turn => self.is_whole = true,
                (Some(turn), MessagePart::Boundary) if turn == self.turn => {
                    self.is_whole = !self.texts.is_empty();
                }
                _ => {}
            }
            if self.is_whole {
                return true;
            }
        }
        false
    }

    fn text(self) -> Option<String> {
        let mark = if self.is_whole { "" } else { "…" };
        let text: String = self.texts.into_iter().rev().collect();
        (!text.trim().is_empty()).then(|| format!("{mark}{text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(turn: u64, text: &str) -> (Option<TurnId>, MessagePart) {
        (Some(TurnId(turn)), MessagePart::Text(text.to_owned()))
    }

    #[test]
    fn last_message_of_a_turn_is_read_backwards_to_its_beginning() {
        let of = |turn, part| (Some(TurnId(turn)), part);
        let end =
            vec![text(2, "c"), (None, MessagePart::Boundary), of(2, MessagePart::Aside), text(3, "later")];
        let before = vec![text(2, "a"), of(2, MessagePart::Boundary), text(2, "b")];
        let mut reply = TurnReply { turn: TurnId(2), texts: Vec::new(), is_whole: false };
        assert!(!reply.prepend(end));
        assert_eq!(reply.clone().text().as_deref(), Some("…c"));
        assert!(reply.prepend(before));
        assert_eq!(reply.text().as_deref(), Some("bc"));
    }

    #[test]
    fn turn_without_a_message_has_no_reply() {
        for parts in [
            vec![text(1, "earlier"), (Some(TurnId(2)), MessagePart::Prompt)],
            vec![text(1, "earlier"), (Some(TurnId(2)), MessagePart::Boundary)],
            vec![text(2, " \n")],
        ] {
            let mut reply = TurnReply { turn: TurnId(2), texts: Vec::new(), is_whole: false };
            reply.prepend(parts);
            assert_eq!(reply.text(), None);
        }
    }
}
