//! Deletes sessions: our records, and sessions that only the agent has.
//!
//! A record is deleted here even if its agent fails to delete the session. If the agent may still have it, the reply
//! contains the reason.

use std::error::Error;
use std::time::Duration;

use tokio::time::timeout;

use crate::acp::agent::{CallError, CallExtras, Meta};
use crate::engine::{AtAgent, ListLookup, NewSession, RestoreSession, SessionError};
use crate::model::{AcpSessionId, AgentError, RecordId};

use crate::host::connection::Connection;
use crate::protocol::acpx_meta::acpx_meta;
use crate::protocol::meta::{DeletedMeta, StartMeta};
use crate::protocol::rpc_error;

/// How long an agent may take to start and to delete a session.
const PATIENCE: Duration = Duration::from_secs(30);

impl Connection {
    /// Deletes a record, and has its agent delete the session. Other clients that use it get an unknown-session error.
    pub(crate) async fn delete_ours(&self, record: &RecordId, aside: &CallExtras) -> Result<Meta, CallError> {
        let attachment = self.attachments().remove(record);
        let given = match &attachment {
            Some(attachment) => attachment.given.clone(),
            None => self.given_to_everybody(record).await?,
        };
        if let Some(attachment) = attachment {
            attachment.end().await;
        }
        let given = RestoreSession { besides: self.besides_of(aside), ..given };
        match Box::pin(self.host.engine.delete_everywhere(record, given, PATIENCE)).await {
            Ok(at_agent) => {
                self.host.confined_records.remove(record);
                Ok(match at_agent {
                    AtAgent::Deleted => Meta::new(),
                    AtAgent::Kept(why) => kept_by_agent(&why),
                })
            }
            Err(error) => Err(self.refused(&error)),
        }
    }

    /// The start parameters for a client that does not use the session.
    async fn given_to_everybody(&self, record: &RecordId) -> Result<RestoreSession, CallError> {
        let kept = self.host.engine.record(record).await.map_err(|error| self.refused(&error))?;
        let mut start = StartMeta::default();
        self.defaults.complete(&mut start);
        let environment = kept.map(|kept| start.take_environment(&kept.agent)).unwrap_or_default();
        let (agent, logged_in) = (self.defaults.agent(None), self.logged_in.clone());
        let capabilities = self.capabilities();
        Ok(RestoreSession { agent, environment, capabilities, logged_in, ..RestoreSession::default() })
    }

    /// Deletes a session that only the connection's agent has. If the agent cannot delete it, it is hidden here.
    pub(crate) async fn delete_theirs(
        &self,
        session: &AcpSessionId,
        aside: &CallExtras,
    ) -> Result<Meta, CallError> {
        let client = self.defaults.client();
        let Some(agent) = self.agent_alone(&client)? else { return Ok(Meta::new()) };
        let owners = self.host.store.owners(agent.agent.clone(), vec![session.clone()]).await;
        if !owners.map_err(rpc_error::not_kept)?.is_empty() {
            // The session belongs to a record, and is deleted by the record's id.
            return Ok(Meta::new());
        }
        let agent = NewSession { besides: self.besides_of(aside), ..agent };
        let label = agent.agent.label().into_owned();
        let deleted = timeout(PATIENCE, self.delete_with(agent, session)).await;
        deleted.unwrap_or_else(|_| {
            let method = "session/delete".to_owned();
            Err(self.refused(&AgentError::Unresponsive { agent: label, method }.into()))
        })
    }

    async fn delete_with(&self, agent: NewSession, session: &AcpSessionId) -> Result<Meta, CallError> {
        let refused = |error: SessionError| self.refused(&error);
        let known = self.host.engine.known_capabilities(agent.clone()).await.map_err(refused)?;
        if known.as_ref().is_none_or(|known| known.sessions.delete)
            && self.host.engine.delete_remote(agent.clone(), session).await.map_err(refused)?
        {
            return Ok(Meta::new());
        }
        if known.is_some_and(|known| !known.sessions.list) {
            return Ok(Meta::new());
        }
        let cwd = match self.host.engine.remote_session(&agent, session).await.map_err(refused)? {
            ListLookup::Listed(row) => row.cwd,
            // It may be on a page that was not read.
            ListLookup::Unread => None,
            ListLookup::NotListed | ListLookup::NoList => return Ok(Meta::new()),
        };
        let (label, method) = (agent.agent.label().into_owned(), "session/delete".to_owned());
        self.host.engine.disown(agent, session.clone(), cwd).await.map_err(refused)?;
        Ok(kept_by_agent(&AgentError::NotOffered { agent: label, method }))
    }
}

/// The `_meta` of a reply that contains why an agent may still have a session.
fn kept_by_agent(why: &dyn Error) -> Meta {
    acpx_meta(&DeletedMeta { kept_by_agent: rpc_error::with_causes(why) })
}
