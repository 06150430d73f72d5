//! Tracks how much of the conversation the agent remembers, and how the session was restored. The next requested turn
//! reports the latter, because its client may not have been attached at the restore. A turn that the agent started by
//! itself does not report it.

use crate::machine::WakeOutcome;
use crate::model::{AgentMemory, Fact, Seq, TurnId, Update};

/// The known state of an agent's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MemoryTracker {
    memory: AgentMemory,
    /// How the session was restored, until a turn begins.
    how: Option<WakeOutcome>,
    awakened: Option<(TurnId, WakeOutcome)>,
    /// The last turn that the agent began by itself.
    unasked: Option<TurnId>,
}

impl MemoryTracker {
    /// The state as stored in a record.
    pub(crate) fn of(memory: AgentMemory) -> Self {
        Self { memory, ..Self::default() }
    }

    /// Sets the memory derived from a record's events.
    pub(crate) fn remember(&mut self, memory: AgentMemory) {
        self.memory = memory;
    }

    /// Applies the next fact, which has this sequence number.
    pub(crate) fn apply_fact(&mut self, seq: Seq, fact: &Fact) {
        self.memory.apply(seq, fact);
        if let (Fact::ReplayedLate { replay }, Some(WakeOutcome::Restored { replay: reported, .. })) =
            (fact, &mut self.how)
        {
            *reported = Some(*replay);
        }
        if let Fact::TurnStarted { turn, .. } | Fact::PromptResent { turn, .. } = fact
            && self.unasked != Some(TurnId(*turn))
            && let Some(how) = self.how.take()
        {
            self.awakened = Some((TurnId(*turn), how));
        }
    }

    /// Applies an update of the agent.
    pub(crate) fn apply_update(&mut self, update: &Update) {
        self.memory.apply_update(update);
    }

    /// Marks a turn that the agent is about to begin by itself.
    pub(crate) fn begins_unasked(&mut self, turn: TurnId) {
        self.unasked = Some(turn);
    }

    /// The agent has loaded the session.
    pub(crate) fn awake(&mut self, how: WakeOutcome) {
        if !matches!(how, WakeOutcome::Live | WakeOutcome::Created) {
            self.how = Some(how);
        }
    }

    pub(crate) fn memory(&self) -> AgentMemory {
        self.memory
    }

    /// The last turn that began with a newly restored session, and how it was restored.
    pub(crate) fn awakened(&self) -> Option<(TurnId, WakeOutcome)> {
        self.awakened
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Rung;
    use crate::model::ReplayVerdict;

    #[test]
    fn restore_outcome_is_reported_with_the_first_requested_turn() {
        let mut tracker = MemoryTracker::default();
        let early = WakeOutcome::Restored { rung: Rung::Load, replay: Some(ReplayVerdict::Shorter) };
        tracker.awake(early);
        // The later verdict replaces the earlier one.
        tracker.apply_fact(Seq(0), &Fact::ReplayedLate { replay: ReplayVerdict::Same });
        let how = WakeOutcome::Restored { rung: Rung::Load, replay: Some(ReplayVerdict::Same) };
        let started = |turn| Fact::TurnStarted { turn, request_id: turn.to_string(), client: None };
        tracker.begins_unasked(TurnId(5));
        tracker.apply_fact(Seq(1), &started(5));
        assert_eq!(tracker.awakened(), None);
        tracker.apply_fact(Seq(2), &started(4));
        assert_eq!(tracker.awakened(), Some((TurnId(4), how)));
        tracker.apply_fact(Seq(3), &started(6));
        assert_eq!(tracker.awakened(), Some((TurnId(4), how)));
    }
}
