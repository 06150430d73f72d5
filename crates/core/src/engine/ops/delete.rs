//! Deletes a record here and on its agent. The local deletion always happens, and first. If the agent cannot delete its
//! session, the result says why.

use std::time::Duration;

use tokio::time::timeout;

use crate::acp::ExtraParams;
use crate::model::{AgentError, AgentSpec, Record, RecordId};

use crate::engine::session::replies::Deletion;
use crate::engine::{Engine, NewSession, RestoreSession, SessionError};

/// What happened to a deleted record's session on its agent.
#[derive(Debug)]
pub enum AtAgent {
    /// The agent does not have it any more.
    Deleted,
    /// The agent may still have it, for this reason.
    Kept(SessionError),
}

impl Engine {
    /// Deletes a record: closes its session as [`Session::close`](crate::engine::Session::close) does, sends a running
    /// agent `session/delete`, and erases the conversation from the store. The record is then in no list and cannot be
    /// restored. An unknown or already deleted record counts as deleted.
    pub async fn delete(&self, record: &RecordId) -> Result<(), SessionError> {
        self.delete_here(record, None).await.map(drop)
    }

    /// Deletes a record without prompts and holds. Returns whether it did.
    pub(crate) async fn delete_unprompted(&self, record: &RecordId) -> Result<bool, SessionError> {
        let session = match self.attach(record, &RestoreSession::default()).await {
            Err(SessionError::NoRecord(_)) => return Ok(false),
            attached => attached?,
        };
        // From here on only this session writes to the record; a prompt before the deletion keeps the record.
        let is_unprompted = self.record(record).await?.is_some_and(|kept| kept.is_unprompted());
        if !is_unprompted || session.is_held() {
            return Ok(false);
        }
        session.delete_unless_prompted().await?;
        Ok(self.record(record).await?.is_none())
    }

    /// Deletes a record here and on its agent. If its agent does not run, one is started as `launch_values` describes, for at
    /// most `limit`, to delete its session. The extra params of `launch_values` are forwarded.
    pub async fn delete_everywhere(
        &self,
        record: &RecordId,
        launch_values: RestoreSession,
        limit: Duration,
    ) -> Result<AtAgent, SessionError> {
        let Some(kept) = self.record(record).await? else { return Ok(AtAgent::Deleted) };
        let agent = kept.agent.label().into_owned();
        let method = "session/delete".to_owned();
        match self.delete_here(record, launch_values.besides.clone()).await? {
            Deletion::NotRunning => {
                let asked = timeout(limit, self.delete_at_agent(kept, launch_values)).await;
                let unanswered = || Err(AgentError::Unresponsive { agent, method }.into());
                Ok(asked.unwrap_or_else(|_| unanswered()).map_or_else(AtAgent::Kept, |()| AtAgent::Deleted))
            }
            Deletion::NotOffered => Ok(AtAgent::Kept(AgentError::NotOffered { agent, method }.into())),
            Deletion::Unanswered => Ok(AtAgent::Kept(AgentError::Unresponsive { agent, method }.into())),
            Deletion::Answered(answer) => {
                Ok(answer.map_or_else(|error| AtAgent::Kept(error.into()), |()| AtAgent::Deleted))
            }
        }
    }

    async fn delete_here(
        &self,
        record: &RecordId,
        besides: Option<ExtraParams>,
    ) -> Result<Deletion, SessionError> {
        loop {
            let deleted = match self.attach(record, &RestoreSession::default()).await {
                Ok(session) => match session.delete(besides.clone()).await {
                    // The session ended before it received this; the next attempt starts it again.
                    Err(SessionError::ShutDown(_)) => continue,
                    deleted => deleted,
                },
                Err(error) => Err(error),
            };
            return match deleted {
                Err(SessionError::NoRecord(_)) => Ok(Deletion::Answered(Ok(()))),
                deleted => deleted,
            };
        }
    }

    /// Lets the agent delete the record's last session, in any process of that agent.
    async fn delete_at_agent(&self, kept: Record, launch_values: RestoreSession) -> Result<(), SessionError> {
        self.check_directory(&kept, &kept.cwd).await?;
        let Record { agent, cwd, lineage, .. } = kept;
        let moved = launch_values.agent.filter(|launch_values| launch_values.key() == agent.key());
        let agent: AgentSpec = moved.unwrap_or(agent);
        let not_offered = || {
            let (agent, method) = (agent.label().into_owned(), "session/delete".to_owned());
            SessionError::from(AgentError::NotOffered { agent, method })
        };
        let new = NewSession::new(agent.clone(), cwd, launch_values.environment);
        let RestoreSession { besides, capabilities, logged_in, .. } = launch_values;
        let with = NewSession { besides, capabilities, logged_in, ..new };
        let known = self.known_capabilities(with.clone()).await?;
        if known.is_some_and(|known| !known.sessions.delete) {
            return Err(not_offered());
        }
        let deleted = self.delete_remote(with, &lineage.current().session).await?;
        if deleted { Ok(()) } else { Err(not_offered()) }
    }
}
