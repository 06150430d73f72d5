//! Enforces the time limits that clients set on their turns.
//!
//! A turn without a limit is ended by no clock. A turn that reaches a limit is cancelled like any other, and its
//! outcome names the limit. A queued prompt that reaches its limit is never sent.

use crate::model::{Timestamp, Turn, TurnError, TurnId, TurnOutcome};

use super::SessionMachine;
use super::state::{MachineState, PromptTurn, StopCause};

impl SessionMachine {
    /// The turns that can still reach a limit: the running one, unless it is being stopped, and the queued ones.
    pub fn limited_turns(&self) -> impl Iterator<Item = &Turn> {
        self.unstopped().into_iter().chain(&self.queue).filter(|turn| turn.limits.whole.is_some())
    }

    /// The running turn, unless it is being stopped.
    pub fn unstopped(&self) -> Option<&Turn> {
        match &self.state {
            MachineState::Prompting(PromptTurn { turn, stopping: None, .. }) => Some(turn),
            _ => None,
        }
    }

    pub(super) fn turn_is_overdue(&mut self, now: Timestamp, id: TurnId) {
        if let Some(limit) = self.unstopped().filter(|turn| turn.id == id).and_then(|turn| turn.limits.whole)
        {
            let error = TurnError::took_too_long(&self.agent, limit);
            return self.stop(StopCause::Failing(Box::new(error)));
        }
        let waits = self.queue.iter().position(|turn| turn.id == id && turn.limits.whole.is_some());
        if let Some(turn) = waits.and_then(|index| self.queue.remove(index)) {
            let error = TurnError::waited_too_long(&self.waited_behind());
            self.end_turn(now, turn, TurnOutcome::Failed(error));
        }
    }

    /// Describes what a queued prompt waited for.
    fn waited_behind(&self) -> String {
        match self.current_turn() {
            Some(turn) => format!("behind turn {turn}"),
            None => format!("for the agent {:?} to be ready", self.agent),
        }
    }

    pub(super) fn agent_is_silent(&mut self) {
        if let Some(limit) = self.unstopped().and_then(|turn| turn.limits.silence) {
            let error = TurnError::silent_too_long(&self.agent, limit);
            self.stop(StopCause::Failing(Box::new(error)));
        }
    }
}
