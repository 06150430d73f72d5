//! How long turns may take, as their clients said, and what happens when they take longer.
//!
//! A turn without a limit is ended by no clock. One that comes to a limit is cancelled like any other, and so ends in
//! bounded time; only its outcome says that it was the limit. A prompt that waited too long is never sent.

use crate::model::{Timestamp, Turn, TurnError, TurnId, TurnOutcome};

use super::SessionMachine;
use super::state::{MachineState, PromptTurn, StopCause};

impl SessionMachine {
    /// The turns that can still come to a limit: the one that runs, unless it is being stopped, and those that wait.
    pub fn limited_turns(&self) -> impl Iterator<Item = &Turn> {
        self.unstopped().into_iter().chain(&self.queue).filter(|turn| turn.limits.whole.is_some())
    }

    /// The turn whose agent is listened to, unless it is being stopped.
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

    /// What a prompt waits for that is not sent yet, in words.
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
