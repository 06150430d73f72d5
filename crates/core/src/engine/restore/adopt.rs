//! Sessions that an agent has and that we do not know, made records of ours: begun in an editor without us, or by the
//! agent's own program.
//!
//! The record takes the ACP session's id for its own, so that whoever asked for the session goes on calling it so. It
//! exists once the agent has given us the session, and what the agent replayed until then is its history.

use std::future::pending;

use tokio::sync::watch;

use crate::machine::{SessionMachine, WakeOutcome};
use crate::model::{AbsolutePath, AcpSessionId, Lifecycle, Lineage, Record, RecordId};
use crate::store::StoreError;

use super::fork::Past;
use crate::engine::{Engine, NewSession, RestoreSession, Session, SessionError};

impl Engine {
    /// Makes a record of a session that this agent has: by `session/load` where the agent has that, or else by
    /// `session/resume`. An agent that does not give it is
    /// [`AgentError::NotRestored`](crate::model::AgentError::NotRestored), and nothing of it is left then.
    pub async fn adopt(
        &self,
        new: NewSession,
        session: AcpSessionId,
    ) -> Result<(Session, WakeOutcome), SessionError> {
        let record = RecordId::new(session.as_str()).expect("the id of a session is not empty");
        loop {
            match self.under_way(&record).await? {
                // Somebody else is at it, or was before we came.
                Some((known, _)) if !known.is_over() => {
                    let how = known.wake(RestoreSession::default()).await?;
                    return Ok((known, how));
                }
                Some((_, mut done)) => drop(done.wait_for(|done| *done).await),
                None => {}
            }
            let machine = SessionMachine::adopting(new.agent.label(), session.clone(), self.now());
            match self.make(record.clone(), machine, new.clone(), Past::default(), pending()).await {
                // Somebody was faster.
                Err(SessionError::Busy(_)) => {}
                Err(error) => return Err(error),
                Ok((session, unclaimed, how)) => {
                    unclaimed.claim();
                    return Ok((session, how));
                }
            }
        }
    }

    /// Remembers that nobody wants a session which the agent has and cannot delete: a record of it that is deleted from
    /// the beginning, so that it is in no list and cannot be had.
    pub async fn disown(
        &self,
        with: NewSession,
        session: AcpSessionId,
        cwd: Option<String>,
    ) -> Result<(), SessionError> {
        let id = RecordId::new(session.as_str()).expect("the id of a session is not empty");
        let (now, shared) = (self.now(), &self.0.shared);
        let cwd = cwd.and_then(|cwd| AbsolutePath::new(cwd).ok()).unwrap_or(with.cwd);
        let record = Record {
            id,
            agent: with.agent,
            real_cwd: cwd.clone(),
            additional_directories: Vec::new(),
            cwd,
            scope: None,
            mcp_servers: Vec::new(),
            title: None,
            lifecycle: Lifecycle::Deleted { at: now },
            lineage: Lineage::adopted(session, now),
            agent_run: None,
            settings: crate::model::RecordSettings::default(),
            memory: crate::model::AgentMemory::default(),
            restore_error: None,
            created_at: now,
            updated_at: now,
            last_seq: None,
            last_turn: None,
            answered_turns: 0,
        };
        match shared.store.create(record, Vec::new(), shared.host.clone()).await {
            // Somebody was faster, and what they did with it counts.
            Ok(_) | Err(StoreError::RecordExists(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The session of a record, if anything is left of one, and when nothing is.
    async fn under_way(
        &self,
        record: &RecordId,
    ) -> Result<Option<(Session, watch::Receiver<bool>)>, SessionError> {
        let running = self.0.running.lock().await;
        let running = running.as_ref().ok_or_else(|| SessionError::ShutDown(record.clone()))?;
        let known = running.get(record).filter(|known| !*known.done.borrow());
        Ok(known.map(|known| (known.session.clone(), known.done.clone())))
    }
}
