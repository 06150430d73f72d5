//! Creates records for sessions that exist: adopts sessions that an agent has and that have no record here, created by
//! an editor without acpx or by the agent's own program, and forks the session of another record.
//!
//! The record of an adopted session takes the ACP session's id as its own, so that clients can keep using that id. It exists once the agent
//! has restored the session, and the agent's replay becomes its history.
//!
//! The agent forks a session in a new process. The new record begins with a copy of all stored events of the old one, so
//! it contains the whole conversation and later changes of the old record do not affect it. Its lineage continues the
//! old one.

use std::future::pending;

use crate::machine::{SessionMachine, WakeOutcome};
use crate::model::{AbsolutePath, AcpSessionId, Lifecycle, Lineage, Record, RecordId, Seq, TurnId};
use crate::store::StoreError;

use crate::engine::session::journal::{CopiedHistory, NewRecord};
use crate::engine::{Engine, NewSession, RestoreSession, Session, SessionError, UnclaimedSession};

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

impl Engine {
    /// Creates a record for a session of this agent with `session/load`, or else `session/resume`. If the agent does
    /// not restore the session, returns [`AgentError::NotRestored`](crate::model::AgentError::NotRestored) and leaves
    /// nothing.
    pub(crate) async fn adopt(
        &self,
        new: NewSession,
        session: AcpSessionId,
    ) -> Result<(Session, WakeOutcome), SessionError> {
        let record = RecordId::new(session.as_str()).expect("the id of a session is not empty");
        loop {
            // The session of a record that has not ended completely, and a receiver for its end.
            let under_way = self
                .sessions(&record)
                .await?
                .get(&record)
                .map(|known| (known.session.clone(), known.done.clone()));
            match under_way {
                // Another caller is adopting it, or already has.
                Some((known, _)) if !known.is_over() => {
                    let how = known.wake(RestoreSession::unchanged()).await?;
                    return Ok((known, how));
                }
                Some((_, mut done)) => drop(done.wait_for(|done| *done).await),
                None => {}
            }
            let machine = SessionMachine::adopting(new.agent.label(), session.clone(), self.now());
            match self.make(record.clone(), machine, new.clone(), CopiedHistory::default(), pending()).await {
                // Another caller was faster.
                Err(SessionError::Busy(_)) => {}
                Err(error) => return Err(error),
                Ok((session, unclaimed, how)) => {
                    unclaimed.claim();
                    return Ok((session, how));
                }
            }
        }
    }

    /// Hides a session that the agent has and cannot delete: creates a record for it that is deleted from the start, so
    /// that no list shows it and no client can restore it.
    pub(crate) async fn disown(
        &self,
        with: NewSession,
        session: AcpSessionId,
        cwd: Option<String>,
    ) -> Result<(), SessionError> {
        let id = RecordId::new(session.as_str()).expect("the id of a session is not empty");
        let (now, shared) = (self.now(), &self.0.shared);
        let cwd = cwd.and_then(|cwd| AbsolutePath::new(cwd).ok()).unwrap_or(with.cwd);
        let seed = NewRecord {
            id,
            agent: with.agent,
            real_cwd: cwd.clone(),
            cwd,
            additional_directories: Vec::new(),
            mcp_servers: Vec::new(),
            scope: None,
        };
        let lifecycle = Lifecycle::Deleted { at: now };
        let record = Record { lifecycle, ..seed.into_record(Lineage::adopted(session, now), now) };
        match shared.store.create(record, Vec::new(), shared.host.clone()).await {
            // Another caller was faster, and its record counts.
            Ok(_) | Err(StoreError::RecordExists(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a record whose session the agent forks from another one. Returns [`SessionError::Busy`] if that one has
    /// a running or queued turn, because it would be undefined how much of the turn the fork contains.
    pub async fn fork(&self, of: &RecordId, new: NewSession) -> Result<Forked, SessionError> {
        let kept = self.record(of).await?.ok_or_else(|| SessionError::NoRecord(of.clone()))?;
        let has_work = self.running(of).await?.is_some_and(|session| session.status().has_work);
        if has_work || !self.0.shared.store.open_turns(of.clone()).await?.is_empty() {
            return Err(SessionError::Busy(of.clone()));
        }
        let history = self.history_of(&kept).await?;
        let record = RecordId::new(crate::wire::new_uuid().to_string()).expect("a UUID is not empty");
        let (machine, copied) = (SessionMachine::forking(&kept), history.last_seq());
        let (session, unclaimed, _) = self.make(record, machine, new, history, pending()).await?;
        Ok(Forked { session, unclaimed, copied })
    }

    /// All stored events and turns of a record.
    async fn history_of(&self, kept: &Record) -> Result<CopiedHistory, SessionError> {
        let store = &self.0.shared.store;
        let mut history =
            CopiedHistory { title: kept.info.title().map(str::to_owned), ..CopiedHistory::default() };
        let (mut from, mut bytes) = (Seq::FIRST, 0);
        while Some(from) <= kept.last_seq {
            let page = store.events(kept.id.clone(), from, PAGE).await?;
            let Some(last) = page.last() else { break };
            from = last.seq.next();
            bytes += page.iter().map(|event| event.body.len()).sum::<usize>();
            if bytes > LONGEST {
                return Err(SessionError::TooLong { record: kept.id.clone(), limit: LONGEST });
            }
            history.events.extend(page.into_iter().filter(|event| Some(event.seq) <= kept.last_seq));
        }
        let mut next = TurnId::FIRST;
        while let Some(turn) = store.first_turn_from(kept.id.clone(), next).await? {
            next = turn.id.next();
            history.turns.push(turn);
        }
        Ok(history)
    }
}
