//! Collects the agent's answer of a turn: the text of its message chunks, joined, up to a limit.

use acpx_core::model::{ChunkContent, MessageKind, Update};
use acpx_core::wire::RpcMessage;

use super::UpdateReader;
use crate::output::WatchedEvent;

/// How many bytes of an answer a `prompt_result` has at most.
pub(crate) const MAX_ANSWER: usize = 4 << 20;

/// The answer so far.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// Whether the answer is longer than its limit.
    pub(crate) is_truncated: bool,
}

impl Answer {
    /// Adds the words of an update, if it has any, up to `limit` bytes and whole characters.
    pub(super) fn add(&mut self, update: &Update, limit: usize) {
        let Update::Chunk { kind: MessageKind::Agent, content: ChunkContent::Text(words), .. } = update
        else {
            return;
        };
        if self.is_truncated {
            return;
        }
        let room = words.floor_char_boundary(limit.saturating_sub(self.text.len()));
        let (taken, rest) = words.split_at(room);
        self.text.push_str(taken);
        self.is_truncated = !rest.is_empty();
    }
}

/// Reads an answer from the events of its turn.
#[derive(Debug, Default)]
pub(crate) struct AnswerReader {
    updates: UpdateReader,
    answer: Answer,
}

impl AnswerReader {
    /// Adds what an event of the turn has of the answer.
    pub(crate) fn event(&mut self, event: &WatchedEvent, message: &RpcMessage) {
        for update in self.updates.read(event, message) {
            self.answer.add(&update, MAX_ANSWER);
        }
    }

    /// The whole answer.
    pub(crate) fn finish(self) -> Answer {
        self.answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(kind: MessageKind, text: &str) -> Update {
        Update::Chunk { kind, message_id: None, content: ChunkContent::Text(text.into()) }
    }

    #[test]
    fn answer_is_the_agents_text_up_to_whole_characters_within_the_limit() {
        let mut answer = Answer::default();
        answer.add(&chunk(MessageKind::Agent, "abc"), 5);
        answer.add(&chunk(MessageKind::User, "no"), 5);
        assert_eq!(answer, Answer { text: "abc".to_owned(), is_truncated: false });
        answer.add(&chunk(MessageKind::Agent, "dé"), 5);
        answer.add(&chunk(MessageKind::Agent, "f"), 5);
        assert_eq!(answer, Answer { text: "abcd".to_owned(), is_truncated: true });
        let mut exact = Answer::default();
        exact.add(&chunk(MessageKind::Agent, "abcde"), 5);
        assert_eq!(exact, Answer { text: "abcde".to_owned(), is_truncated: false });
    }
}
