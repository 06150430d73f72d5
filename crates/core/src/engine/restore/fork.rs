//! Forks a session: the new one begins with the context of another.
//!
//! The agent forks its session in a new process. The new record begins with a copy of all stored events of the old one,
//! so it contains the whole conversation and later changes of the old record do not affect it. Its lineage continues
//! the old one.

use std::future::pending;

use crate::machine::SessionMachine;
use crate::model::{Event, LineageIndex, Record, RecordId, Seq, Turn, TurnId};
use crate::store::Change;

use crate::engine::{Engine, NewSession, Session, SessionError, UnclaimedSession};

/// How many bytes of a conversation can be copied. The copy is in memory until it is stored in one transaction.
const LONGEST: usize = 32 << 20;
/// How many events are read at a time.
const PAGE: usize = 512;

/// A forked session.
pub struct Forked {
    /// The session.
    pub session: Session,
    /// Deletes the session unless it is claimed.
    pub unclaimed: UnclaimedSession,
    /// The last event that was copied.
    pub copied: Option<Seq>,
}

/// The copied content that a record begins with.
#[derive(Default)]
pub(crate) struct Past {
    pub(crate) events: Vec<Event>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) title: Option<String>,
}

impl Engine {
    /// Creates a record whose session the agent forks from another one. Returns [`SessionError::Busy`] if that one has
    /// a running or queued turn, because it would be undefined how much of the turn the fork contains.
    pub async fn fork(&self, of: &RecordId, new: NewSession) -> Result<Forked, SessionError> {
        let kept = self.record(of).await?.ok_or_else(|| SessionError::NoRecord(of.clone()))?;
        let has_work = self.running(of).await?.is_some_and(|session| session.status().has_work);
        if has_work || !self.0.shared.store.open_turns(of.clone()).await?.is_empty() {
            return Err(SessionError::Busy(of.clone()));
        }
        let past = self.past_of(&kept).await?;
        let record = RecordId::new(crate::wire::new_uuid().to_string()).expect("a UUID is not empty");
        let (machine, copied) = (SessionMachine::forking(&kept), past.last_seq());
        let (session, unclaimed, _) = self.make(record, machine, new, past, pending()).await?;
        Ok(Forked { session, unclaimed, copied })
    }

    /// All stored events and turns of a record.
    async fn past_of(&self, kept: &Record) -> Result<Past, SessionError> {
        let store = &self.0.shared.store;
        let mut past = Past { title: kept.title.clone(), ..Past::default() };
        let (mut from, mut bytes) = (Seq::FIRST, 0);
        while Some(from) <= kept.last_seq {
            let page = store.events(kept.id.clone(), from, PAGE).await?;
            let Some(last) = page.last() else { break };
            from = last.seq.next();
            bytes += page.iter().map(|event| event.body.len()).sum::<usize>();
            if bytes > LONGEST {
                return Err(SessionError::TooLong { record: kept.id.clone(), limit: LONGEST });
            }
            past.events.extend(page.into_iter().filter(|event| Some(event.seq) <= kept.last_seq));
        }
        for number in 1..=kept.last_turn.map_or(0, |turn| turn.0) {
            past.turns.extend(store.turn_numbered(kept.id.clone(), TurnId(number)).await?);
        }
        Ok(past)
    }
}

impl Past {
    /// The sequence number of its last event.
    pub(crate) fn last_seq(&self) -> Option<Seq> {
        self.events.last().map(|event| event.seq)
    }

    /// The lineage row that it ends in.
    pub(crate) fn lineage(&self) -> LineageIndex {
        self.events.last().map_or(LineageIndex::FIRST, |event| event.lineage)
    }

    /// The changes that store it.
    pub(crate) fn into_changes(self) -> Vec<Change> {
        let title = self.title.map(|title| Change::Title(Some(title)));
        let events = self.events.into_iter().map(Change::Event);
        events.chain(self.turns.into_iter().map(Change::Turn)).chain(title).collect()
    }
}
