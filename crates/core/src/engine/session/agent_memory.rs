//! Tracks how much of the conversation the agent remembers, and how the session was restored. The next requested turn
//! reports the latter, because its client may not have been attached at the restore. A turn that the agent started by
//! itself does not report it.

use crate::machine::WakeOutcome;
use crate::model::{AgentMemory, Fact, Seq, TurnId, Update};

/// The known state of an agent's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Knowledge {
    memory: AgentMemory,
    /// How the session was restored, until a turn begins.
    how: Option<WakeOutcome>,
    awakened: Option<(TurnId, WakeOutcome)>,
    /// The last turn that the agent began by itself.
    unasked: Option<TurnId>,
}

impl Knowledge {
    /// The state as stored in a record.
    pub(crate) fn of(memory: AgentMemory) -> Self {
        Self { memory, ..Self::default() }
    }

    /// Sets the memory derived from a record's events.
    pub(crate) fn remember(&mut self, memory: AgentMemory) {
        self.memory = memory;
    }

    /// Applies the next fact, which has this sequence number.
    pub(crate) fn take(&mut self, seq: Seq, fact: &Fact) {
        self.memory.take(seq, fact);
        if let (Fact::ReplayedLate { replay }, Some(WakeOutcome::Restored { replay: told, .. })) =
            (fact, &mut self.how)
        {
            *told = Some(*replay);
        }
        if let Fact::TurnStarted { turn, .. } | Fact::PromptResent { turn } = fact
            && self.unasked != Some(TurnId(*turn))
            && let Some(how) = self.how.take()
        {
            self.awakened = Some((TurnId(*turn), how));
        }
    }

    /// Applies an update of the agent.
    pub(crate) fn hear(&mut self, update: &Update) {
        self.memory.hear(update);
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
    fn how_an_agent_came_to_have_a_session_is_told_the_first_turn_that_somebody_asked_for() {
        let mut knowledge = Knowledge::default();
        let early = WakeOutcome::Restored { rung: Rung::Load, replay: Some(ReplayVerdict::Shorter) };
        knowledge.awake(early);
        // The later verdict replaces the earlier one.
        knowledge.take(Seq(0), &Fact::ReplayedLate { replay: ReplayVerdict::Same });
        let how = WakeOutcome::Restored { rung: Rung::Load, replay: Some(ReplayVerdict::Same) };
        let started = |turn| Fact::TurnStarted { turn, request_id: turn.to_string(), client: None };
        knowledge.begins_unasked(TurnId(5));
        knowledge.take(Seq(1), &started(5));
        assert_eq!(knowledge.awakened(), None);
        knowledge.take(Seq(2), &started(4));
        assert_eq!(knowledge.awakened(), Some((TurnId(4), how)));
        knowledge.take(Seq(3), &started(6));
        assert_eq!(knowledge.awakened(), Some((TurnId(4), how)));
    }
}
