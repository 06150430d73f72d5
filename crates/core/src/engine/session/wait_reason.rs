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
    pub last_message: Option<Timestamp>,
}

/// The last observed wait reason.
#[derive(Debug, Default)]
pub(crate) struct WaitClock {
    observed: Option<WaitReason>,
    last_message: Option<Timestamp>,
}

impl WaitClock {
    /// The agent has sent a message; `None` for a new agent, which has sent nothing yet.
    pub(crate) fn set_last_message(&mut self, at: Option<Timestamp>) {
        self.last_message = at;
    }

    /// Observes the wait reason, to know since when it holds.
    pub(crate) fn observe(&mut self, reason: Option<WaitReason>) {
        self.observed = reason.map(|reason| self.with_times(reason));
    }

    /// Sets since when a reason holds, and when the agent last sent a message.
    pub(crate) fn with_times(&self, reason: WaitReason) -> WaitReason {
        let same = self.observed.as_ref().filter(|observed| observed.condition() == reason.condition());
        WaitReason {
            since: same.map_or(reason.since, |same| same.since),
            last_message: self.last_message,
            ..reason
        }
    }
}

impl WaitReason {
    fn condition(&self) -> (&WaitCondition, bool, bool, bool) {
        (&self.what, self.is_served, self.is_unread, self.is_away)
    }
}
