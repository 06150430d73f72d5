//! What a session's task knows of its agent's memory, and how the agent came to have the session: the next turn is told
//! with it, since whoever asked for that may not have been there. A turn that nobody has asked for has nobody to tell.

use crate::machine::WakeOutcome;
use crate::model::{AgentMemory, Fact, Seq, TurnId, Update};

/// What is known of an agent's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Knowledge {
    memory: AgentMemory,
    /// How the agent came to have the session, until a turn begins.
    how: Option<WakeOutcome>,
    awakened: Option<(TurnId, WakeOutcome)>,
    /// The last turn that the agent has begun by itself.
    unasked: Option<TurnId>,
}

impl Knowledge {
    /// What a record tells by itself.
    pub(crate) fn of(memory: AgentMemory) -> Self {
        Self { memory, ..Self::default() }
    }

    /// Takes what the events of a record tell.
    pub(crate) fn remember(&mut self, memory: AgentMemory) {
        self.memory = memory;
    }

    /// Takes the next fact, which is this event.
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

    /// Takes what the agent reports.
    pub(crate) fn hear(&mut self, update: &Update) {
        self.memory.hear(update);
    }

    /// A turn is about to begin that nobody has asked for.
    pub(crate) fn begins_unasked(&mut self, turn: TurnId) {
        self.unasked = Some(turn);
    }

    /// The agent has the session.
    pub(crate) fn awake(&mut self, how: WakeOutcome) {
        if !matches!(how, WakeOutcome::Live | WakeOutcome::Created) {
            self.how = Some(how);
        }
    }

    pub(crate) fn memory(&self) -> AgentMemory {
        self.memory
    }

    /// The last turn that began with an agent which had the session anew, and how it had come to it.
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
        // It is told as it turned out.
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
