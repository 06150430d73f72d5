//! How much of a record's conversation its agent still remembers, as far as that is known: what we keep is whole,
//! whatever became of the agent's own memory.

use super::{Fact, LineageReason, ReplayVerdict, Seq, Update};

/// What an agent remembers of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AgentMemory {
    /// All of it, as far as is known.
    #[default]
    Whole,
    /// What came after a fresh ACP session had taken over, and nothing before.
    Since {
        /// The first event that it can know of.
        from: Seq,
        /// Why a fresh one took over, if that is known.
        reason: Option<LineageReason>,
    },
    /// What came after it had made its own memory shorter, and a summary of what came before.
    Compacted,
    /// What it replayed was only part of it.
    Part,
    /// What it replayed was another conversation.
    Another,
}

impl AgentMemory {
    /// Takes the next fact of a record, which is this event.
    pub fn take(&mut self, seq: Seq, fact: &Fact) {
        match fact {
            Fact::SessionReset { announced: true, reason, .. } => {
                *self = Self::Since { from: seq.next(), reason: LineageReason::parse(reason) };
            }
            // It remembers the earlier session, and not what was said since in the one that is left.
            Fact::SessionReturned { .. } => *self = Self::Part,
            Fact::Restored { replay: Some(replay), .. } | Fact::ReplayedLate { replay } => {
                *self = self.after(*replay);
            }
            _ => {}
        }
    }

    /// What it is once the agent has replayed something that compares like this.
    fn after(self, replay: ReplayVerdict) -> Self {
        match (replay, self) {
            // What an agent has compacted it may still replay as it was, and then it is no more in the model's memory.
            (ReplayVerdict::Same | ReplayVerdict::Longer | ReplayVerdict::Shorter, Self::Compacted) => {
                Self::Compacted
            }
            (ReplayVerdict::Same | ReplayVerdict::Longer, _) => Self::Whole,
            // That it lacks what came before a fresh session is known already, and where that was.
            (ReplayVerdict::Shorter | ReplayVerdict::Different, since @ Self::Since { .. }) => since,
            (ReplayVerdict::Shorter, _) => Self::Part,
            (ReplayVerdict::Different, _) => Self::Another,
        }
    }

    /// Takes what the agent reports. That it lacks something is known better where that shows by itself.
    pub fn hear(&mut self, update: &Update) {
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
    fn a_memory_ends_where_a_fresh_session_began_until_the_agent_replays_all_of_it() {
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
            memory.take(Seq(4), &fact);
            assert_eq!(memory, expected, "{fact:?}");
        }
    }

    #[test]
    fn a_compaction_that_is_complete_makes_a_memory_shorter_until_a_fresh_session_begins() {
        let compaction =
            |status: &str| Update::Compaction { id: "c".into(), status: status.into(), error: None };
        let restored = |replay| Fact::Restored { by: "session/load".to_owned(), replay: Some(replay) };
        let mut memory = AgentMemory::default();
        for status in ["in_progress", "failed"] {
            memory.hear(&compaction(status));
            assert_eq!(memory, AgentMemory::Whole, "{status}");
        }
        memory.hear(&compaction("completed"));
        for replay in [ReplayVerdict::Same, ReplayVerdict::Longer, ReplayVerdict::Shorter] {
            memory.take(Seq(4), &restored(replay));
            assert_eq!(memory, AgentMemory::Compacted, "{replay:?}");
        }
        memory.take(Seq(4), &restored(ReplayVerdict::Different));
        memory.hear(&compaction("completed"));
        assert_eq!(memory, AgentMemory::Another);
    }
}
