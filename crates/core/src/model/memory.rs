//! How much of a record's conversation its agent still remembers, as far as known. The stored conversation is always
//! complete.

use super::{Fact, LineageReason, ReplayVerdict, Seq, Update};

/// What an agent remembers of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AgentMemory {
    /// All of it, as far as known.
    #[default]
    Whole,
    /// Only what came after a fresh ACP session took over.
    Since {
        /// The first event that it can remember.
        from: Seq,
        /// Why a fresh one took over, if known.
        reason: Option<LineageReason>,
    },
    /// What came after it compacted its context, and a summary of what came before.
    Compacted,
    /// Only part of it, according to its replay.
    Part,
    /// Another conversation, according to its replay.
    Another,
}

impl AgentMemory {
    /// Applies the next fact of a record, which is this event.
    pub(crate) fn apply(&mut self, seq: Seq, fact: &Fact) {
        match fact {
            Fact::SessionReset { announced: true, reason, .. } => {
                *self = Self::Since { from: seq.next(), reason: LineageReason::parse(reason) };
            }
            // It remembers the earlier session, but not the one that was left.
            Fact::SessionReturned { .. } => *self = Self::Part,
            Fact::Restored { replay: Some(replay), .. } | Fact::ReplayedLate { replay } => {
                *self = self.after(*replay);
            }
            _ => {}
        }
    }

    /// The memory after a replay with this verdict.
    fn after(self, replay: ReplayVerdict) -> Self {
        match (replay, self) {
            // An agent may still replay what it has compacted, although the model no longer remembers it.
            (ReplayVerdict::Same | ReplayVerdict::Longer | ReplayVerdict::Shorter, Self::Compacted) => {
                Self::Compacted
            }
            (ReplayVerdict::Same | ReplayVerdict::Longer, _) => Self::Whole,
            // The missing part before a fresh session is already known, with its position.
            (ReplayVerdict::Shorter | ReplayVerdict::Different, since @ Self::Since { .. }) => since,
            (ReplayVerdict::Shorter, _) => Self::Part,
            (ReplayVerdict::Different, _) => Self::Another,
        }
    }

    /// Applies an update of the agent. A compaction counts only if nothing else is known to be missing.
    pub(crate) fn apply_update(&mut self, update: &Update) {
        if let (Update::Compaction { status, .. }, Self::Whole) = (update, *self)
            && &**status == "completed"
        {
            *self = Self::Compacted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_memory_begins_at_a_reset_until_a_full_replay() {
        let restored = |replay| Fact::Restored { by: "session/load".to_owned(), replay };
        let reset = |announced| Fact::SessionReset {
            reason: "agent-lost".to_owned(),
            from_acpx_session_id: "a".to_owned(),
            acpx_session_id: "b".to_owned(),
            agent_session_id: None,
            announced,
            carried: None,
            error: None,
        };
        let since = AgentMemory::Since { from: Seq(5), reason: Some(LineageReason::AgentLost) };
        let cases = [
            (reset(false), AgentMemory::Whole),
            (restored(None), AgentMemory::Whole),
            (restored(Some(ReplayVerdict::Shorter)), AgentMemory::Part),
            (restored(Some(ReplayVerdict::Different)), AgentMemory::Another),
            (reset(true), since),
            (restored(None), since),
            (restored(Some(ReplayVerdict::Shorter)), since),
            (restored(Some(ReplayVerdict::Different)), since),
            (restored(Some(ReplayVerdict::Longer)), AgentMemory::Whole),
            (restored(Some(ReplayVerdict::Shorter)), AgentMemory::Part),
            (Fact::ReplayedLate { replay: ReplayVerdict::Same }, AgentMemory::Whole),
            (restored(Some(ReplayVerdict::Different)), AgentMemory::Another),
            (Fact::ReplayedLate { replay: ReplayVerdict::Shorter }, AgentMemory::Part),
        ];
        let mut memory = AgentMemory::default();
        for (fact, expected) in cases {
            memory.apply(Seq(4), &fact);
            assert_eq!(memory, expected, "{fact:?}");
        }
    }

    #[test]
    fn completed_compaction_shortens_the_agent_memory_until_a_reset() {
        let compaction =
            |status: &str| Update::Compaction { id: "c".into(), status: status.into(), error: None };
        let restored = |replay| Fact::Restored { by: "session/load".to_owned(), replay: Some(replay) };
        let mut memory = AgentMemory::default();
        for status in ["in_progress", "failed"] {
            memory.apply_update(&compaction(status));
            assert_eq!(memory, AgentMemory::Whole, "{status}");
        }
        memory.apply_update(&compaction("completed"));
        for replay in [ReplayVerdict::Same, ReplayVerdict::Longer, ReplayVerdict::Shorter] {
            memory.apply(Seq(4), &restored(replay));
            assert_eq!(memory, AgentMemory::Compacted, "{replay:?}");
        }
        memory.apply(Seq(4), &restored(ReplayVerdict::Different));
        memory.apply_update(&compaction("completed"));
        assert_eq!(memory, AgentMemory::Another);
    }
}
