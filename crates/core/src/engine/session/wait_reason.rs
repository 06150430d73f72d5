//! Reports what a session waits for and since when, for clients that receive no updates.

use crate::machine::WaitCondition;
use crate::model::Timestamp;

use crate::engine::permissions::request::QuestionKind;

/// What a session waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitReason {
    /// The condition.
    pub what: WaitCondition,
    /// Whether the agent itself waits for a file or a command.
    pub is_served: bool,
    /// Whether the agent's send queue is full, so that it has to read before we read from it.
    pub is_unread: bool,
    /// Whether the connection to a remote agent is lost and being re-established.
    pub is_away: bool,
    /// The kind of the first pending request, if the session waits for an answer.
    pub question: Option<QuestionKind>,
    /// Since when.
    pub since: Timestamp,
    /// When the agent last sent a message, if it has.
    pub heard: Option<Timestamp>,
}

/// A wait condition, and the agent's part in it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WaitState {
    pub(crate) what: WaitCondition,
    pub(crate) is_served: bool,
    pub(crate) is_unread: bool,
    pub(crate) is_away: bool,
}

/// The last observed wait state, and since when it holds.
#[derive(Debug, Default)]
pub(crate) struct WaitClock {
    state: Option<WaitState>,
    since: Option<Timestamp>,
    last_message: Option<Timestamp>,
}

impl WaitClock {
    /// The agent has sent a message; `None` for a new agent, which has sent nothing yet.
    pub(crate) fn set_last_message(&mut self, at: Option<Timestamp>) {
        self.last_message = at;
    }

    /// Observes the wait state, to know since when it holds.
    pub(crate) fn observe(&mut self, now: Timestamp, state: Option<WaitState>) {
        if state != self.state {
            self.since = Some(now);
            self.state = state;
        }
    }

    /// The report of a wait state.
    pub(crate) fn reason(
        &self,
        now: Timestamp,
        state: WaitState,
        question: Option<QuestionKind>,
    ) -> WaitReason {
        let WaitState { what, is_served, is_unread, is_away } = state;
        let (since, heard) = (self.since.unwrap_or(now), self.last_message);
        WaitReason { what, is_served, is_unread, is_away, question, since, heard }
    }
}
