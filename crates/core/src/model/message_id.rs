//! Ids for messages without an id of the agent. They are made of values that never change, so a message has the same
//! id in every replay, after every restart, for every client.

use super::{RecordId, Seq, TurnId};

/// The id of a user message, made from the turn that its prompt began or joined. It is known as soon as the prompt is
/// accepted.
pub fn prompt_message_id(record: &RecordId, turn: TurnId) -> String {
    format!("{record}:turn:{turn}")
}

/// The id of a message that an agent sent without one, by its first event.
pub fn run_message_id(record: &RecordId, first: Seq) -> String {
    format!("{record}:{first}")
}

/// The meaning of an id of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnMessageId {
    /// The prompt of a turn.
    Prompt(TurnId),
    /// The message that begins with this event.
    Run(Seq),
}

impl OwnMessageId {
    /// Parses an id that we may have made for this record; `None` for any other.
    pub fn read(record: &RecordId, id: &str) -> Option<Self> {
        let rest = id.strip_prefix(record.as_str())?.strip_prefix(':')?;
        match rest.strip_prefix("turn:") {
            Some(turn) => Some(Self::Prompt(TurnId(turn.parse().ok()?))),
            None => Some(Self::Run(Seq(rest.parse().ok()?))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_message_ids_round_trip_and_foreign_ones_are_refused() {
        let record = RecordId::new("r").unwrap();
        let prompt = prompt_message_id(&record, TurnId(3));
        assert_eq!(OwnMessageId::read(&record, &prompt), Some(OwnMessageId::Prompt(TurnId(3))));
        let run = run_message_id(&record, Seq(8));
        assert_eq!(OwnMessageId::read(&record, &run), Some(OwnMessageId::Run(Seq(8))));
        for other in ["", "r", "r:", "r:x", "r:turn:", "q:8", "r8"] {
            assert_eq!(OwnMessageId::read(&record, other), None, "{other}");
        }
    }
}
