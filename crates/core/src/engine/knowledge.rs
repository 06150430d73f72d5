//! What a session's task knows of its agent's memory, and how the agent came to have the session: the next turn is told
//! with it, since whoever asked for that may not have been there.

use crate::machine::Awakening;
use crate::model::{Fact, Memory, Seq, TurnId};

/// What is known of an agent's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Knowledge {
    memory: Memory,
    /// How the agent came to have the session, until a turn begins.
    how: Option<Awakening>,
    awakened: Option<(TurnId, Awakening)>,
}

impl Knowledge {
    /// Takes what the store tells.
    pub(super) fn remember(&mut self, memory: Memory) {
        self.memory = memory;
    }

    /// Takes the next fact, which is this event.
    pub(super) fn take(&mut self, seq: Seq, fact: &Fact) {
        self.memory.take(seq, fact);
        if let Fact::TurnStarted { turn, .. } = fact
            && let Some(how) = self.how.take()
        {
            self.awakened = Some((TurnId(*turn), how));
        }
    }

    /// The agent has the session.
    pub(super) fn awake(&mut self, how: Awakening) {
        if !matches!(how, Awakening::Live | Awakening::Created) {
            self.how = Some(how);
        }
    }

    pub(super) fn memory(&self) -> Memory {
        self.memory
    }

    /// The last turn that began with an agent which had the session anew, and how it had come to it.
    pub(super) fn awakened(&self) -> Option<(TurnId, Awakening)> {
        self.awakened
    }
}
