//! Tracks an agent's activity in a turn, so that a timeout can report what was missing: any activity, or a person's
//! answer.

use acpx_core::model::Direction;
use acpx_core::wire::RpcMessage;

use crate::output::agent_request::UnansweredRequests;

/// The requests that a person answers.
const QUESTIONS: [&str; 2] = ["session/request_permission", "elicitation/create"];
/// The method that cancels a turn.
const CANCEL: &str = "session/cancel";

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
    is_active: bool,
    is_cancelled: bool,
    /// The unanswered requests.
    open: UnansweredRequests<()>,
}

impl AgentActivity {
    /// Takes the next message.
    pub(super) fn observe(&mut self, direction: Direction, message: &RpcMessage) {
        if self.is_cancelled {
            return;
        }
        match (direction, message.method()) {
            (Direction::FromAgent, Some(method)) => {
                self.is_active = true;
                if let Some(id) = message.id() {
                    self.open.begin(id, QUESTIONS.contains(&method).then_some(()));
                }
            }
            (Direction::ToAgent, Some(method)) => self.is_cancelled = method == CANCEL,
            (Direction::ToAgent, None) => drop(self.open.end(message)),
            (Direction::FromAgent, None) | (Direction::Ours, _) => {}
        }
    }

    /// What is missing now, or was when the turn was cancelled.
    pub(super) fn timeout_cause(&self) -> Option<TimeoutCause> {
        match (self.open.is_empty(), self.is_active) {
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
        let mut activity = AgentActivity::default();
        for (direction, line) in lines {
            activity.observe(*direction, &RpcMessage::parse(*line).unwrap());
        }
        activity.timeout_cause()
    }

    #[test]
    fn timeout_cause_is_no_activity_or_an_unanswered_request() {
        assert_eq!(missing(&[PROMPT, STOP, UPDATE]), Some(TimeoutCause::Sign));
        for lines in [&[UPDATE, STOP][..], &[READ, STOP], &[UPDATE, ASK, YES, STOP], &[ASK, YES, STOP]] {
            assert_eq!(missing(lines), None, "{lines:?}");
        }
        for lines in [&[PROMPT, ASK, STOP, CANCELLED, UPDATE][..], &[UPDATE, FORM, STOP], &[UPDATE, ASK]] {
            assert_eq!(missing(lines), Some(TimeoutCause::Answer), "{lines:?}");
        }
    }

    #[test]
    fn method_names_inside_message_text_do_not_count() {
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
