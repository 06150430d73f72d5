//! Tracks an agent's activity in a turn, so that a timeout can report what was missing: any activity, or a person's
//! answer.
//!
//! It parses the messages, because an agent's text may contain the name of any method.

use acpx_core::model::Direction;
use acpx_core::wire::RpcMessage;

use crate::output::agent_request::UnansweredRequests;

/// The requests that a person answers.
const QUESTIONS: [&str; 2] = ["session/request_permission", "elicitation/create"];
/// The method that cancels a turn.
const CANCEL: &str = "session/cancel";
/// Every request and every reply contains this.
const ID: &str = r#""id""#;

/// What was missing when the time of a turn was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeoutCause {
    /// Any sign that the agent works on the prompt.
    Sign,
    /// A person's answer to a request.
    Answer,
}

/// Tracks the agent's activity until the turn is cancelled. Later messages, such as usage, are no work on the prompt,
/// and open requests are answered by the cancel.
#[derive(Debug, Default)]
pub(super) struct AgentActivity {
    is_heard: bool,
    is_over: bool,
    /// The unanswered requests.
    open: UnansweredRequests<()>,
}

impl AgentActivity {
    /// Takes the next line.
    pub(super) fn take(&mut self, direction: Direction, line: &str) {
        // Most lines are message chunks, and one of them suffices as a sign.
        if self.is_over || (self.is_heard && !line.contains(ID) && !line.contains(CANCEL)) {
            return;
        }
        let Ok(message) = RpcMessage::parse(line) else { return };
        match (direction, message.method()) {
            (Direction::FromAgent, Some(method)) => {
                self.is_heard = true;
                if let Some(id) = message.id() {
                    self.open.begin(id, QUESTIONS.contains(&method).then_some(()));
                }
            }
            (Direction::ToAgent, Some(method)) => self.is_over = method == CANCEL,
            (Direction::ToAgent, None) => drop(self.open.end(&message)),
            (Direction::FromAgent, None) | (Direction::Ours, _) => {}
        }
    }

    /// What is missing now, or was when the turn was cancelled.
    pub(super) fn missing(&self) -> Option<TimeoutCause> {
        match (self.open.is_empty(), self.is_heard) {
            (false, _) => Some(TimeoutCause::Answer),
            (true, false) => Some(TimeoutCause::Sign),
            (true, true) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use acpx_core::model::Direction::{FromAgent, ToAgent};

    use super::*;

    const PROMPT: (Direction, &str) = (ToAgent, r#"{"id":7,"method":"session/prompt","params":{}}"#);
    const UPDATE: (Direction, &str) = (FromAgent, r#"{"method":"session/update","params":{}}"#);
    const ASK: (Direction, &str) =
        (FromAgent, r#"{"id":1,"method":"session/request_permission","params":{}}"#);
    const FORM: (Direction, &str) = (FromAgent, r#"{"id":"f","method":"elicitation/create","params":{}}"#);
    const READ: (Direction, &str) = (FromAgent, r#"{"id":2,"method":"fs/read_text_file","params":{}}"#);
    const YES: (Direction, &str) =
        (ToAgent, r#"{"id":1,"result":{"outcome":{"outcome":"selected","optionId":"cancel"}}}"#);
    const CANCELLED: (Direction, &str) =
        (ToAgent, r#"{"id":1,"result":{"outcome":{"outcome":"cancelled"}}}"#);
    const STOP: (Direction, &str) = (ToAgent, r#"{"method":"session/cancel","params":{}}"#);

    fn missing(lines: &[(Direction, &str)]) -> Option<TimeoutCause> {
        let mut signs = AgentActivity::default();
        for (direction, line) in lines {
            signs.take(*direction, line);
        }
        signs.missing()
    }

    #[test]
    fn what_was_heard_of_an_agent_tells_what_was_missing_when_its_time_was_over() {
        assert_eq!(missing(&[PROMPT, STOP, UPDATE]), Some(TimeoutCause::Sign));
        for lines in [&[UPDATE, STOP][..], &[READ, STOP], &[UPDATE, ASK, YES, STOP], &[ASK, YES, STOP]] {
            assert_eq!(missing(lines), None, "{lines:?}");
        }
        for lines in [&[PROMPT, ASK, STOP, CANCELLED, UPDATE][..], &[UPDATE, FORM, STOP], &[UPDATE, ASK]] {
            assert_eq!(missing(lines), Some(TimeoutCause::Answer), "{lines:?}");
        }
    }

    #[test]
    fn words_of_messages_are_no_questions_no_answers_and_no_end() {
        let quoted =
            r#"{"method":"session/update","params":{"text":"a \"method\": session/request_permission"}}"#;
        let file = r#"{"id":2,"result":{"content":"cancel, session/cancel and elicitation/create"}}"#;
        assert_eq!(missing(&[(FromAgent, quoted), STOP]), None);
        // A request stays open until its own reply arrives.
        let reading = [UPDATE, ASK, READ, (ToAgent, file)];
        assert_eq!(missing(&reading), Some(TimeoutCause::Answer));
        assert_eq!(missing(&[&reading[..], &[YES, STOP]].concat()), None);
        // A policy without an option to reject replies `cancelled`; no person was involved.
        assert_eq!(missing(&[ASK, CANCELLED, UPDATE, STOP]), None);
        let prompt = (ToAgent, r#"{"id":7,"method":"session/prompt","params":{"text":"session/cancel"}}"#);
        assert_eq!(missing(&[UPDATE, prompt, ASK, STOP]), Some(TimeoutCause::Answer));
    }
}
