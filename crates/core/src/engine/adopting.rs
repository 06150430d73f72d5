//! Sessions that an agent has and that we do not know, made records of ours: begun in an editor without us, or by the
//! agent's own program.
//!
//! The record takes the ACP session's id for its own, so that whoever asked for the session goes on calling it so. It
//! exists once the agent has given us the session, and what the agent replayed until then is its history.

use crate::machine::SessionMachine;
use crate::model::{AcpSessionId, RecordId};

use super::{Engine, NewSession, RestoreSession, Session, SessionError};

impl Engine {
    /// Makes a record of a session that this agent has: by `session/load` where the agent has that, or else by
    /// `session/resume`. An agent that does not give it is
    /// [`AgentError::NotRestored`](crate::model::AgentError::NotRestored), and nothing of it is left then.
    pub async fn adopt(&self, new: NewSession, session: AcpSessionId) -> Result<Session, SessionError> {
        let record = RecordId::new(session.as_str()).expect("the id of a session is not empty");
        if let Some(known) = self.running(&record).await? {
            // Somebody else is at it, or was before we came.
            known.wake(RestoreSession::default()).await?;
            return Ok(known);
        }
        let machine = SessionMachine::adopting(new.agent.label(), session, self.now());
        let (session, unclaimed) = self.make(record, machine, new, std::future::pending()).await?;
        unclaimed.claim();
        Ok(session)
    }
}
