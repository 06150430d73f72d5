//! Adopts sessions that an agent has and that have no record here, created by an editor without acpx or by the agent's
//! own program.
//!
//! The record takes the ACP session's id as its own, so that clients can keep using that id. It exists once the agent
//! has restored the session, and the agent's replay becomes its history.

use std::future::pending;

use tokio::sync::watch;

use crate::machine::{SessionMachine, WakeOutcome};
use crate::model::{AbsolutePath, AcpSessionId, Lifecycle, Lineage, Record, RecordId};
use crate::store::StoreError;

use super::fork::Past;
use crate::engine::{Engine, NewSession, RestoreSession, Session, SessionError};

impl Engine {
    /// Creates a record for a session of this agent with `session/load`, or else `session/resume`. If the agent does
    /// not restore the session, returns [`AgentError::NotRestored`](crate::model::AgentError::NotRestored) and leaves
    /// nothing.
    pub async fn adopt(
        &self,
        new: NewSession,
        session: AcpSessionId,
    ) -> Result<(Session, WakeOutcome), SessionError> {
        let record = RecordId::new(session.as_str()).expect("the id of a session is not empty");
        loop {
            match self.under_way(&record).await? {
                // Another caller is adopting it, or already has.
                Some((known, _)) if !known.is_over() => {
                    let how = known.wake(RestoreSession::default()).await?;
                    return Ok((known, how));
                }
                Some((_, mut done)) => drop(done.wait_for(|done| *done).await),
                None => {}
            }
            let machine = SessionMachine::adopting(new.agent.label(), session.clone(), self.now());
            match self.make(record.clone(), machine, new.clone(), Past::default(), pending()).await {
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
            // Another caller was faster, and its record counts.
            Ok(_) | Err(StoreError::RecordExists(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The session of a record that has not ended completely, and a receiver for its end.
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
