//! What a client is offered on behalf of its agent, and its logging in and out there.
//!
//! Sessions are ours, so that whatever an agent lacks of load, resume, list, close and delete is offered all the same.
//! What goes into prompts, which servers are taken and how a user logs in is the agent's own to say.

use std::future::pending;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::acp::agent::{CallError, ClientLink, LoginCall, Offer};
use crate::engine::{NewSession, SessionError};
use crate::model::{AbsolutePath, AcpSessionId, AgentError, ProtocolVersion};
use crate::wire::RpcId;

use super::connection::{Connection, problem};
use super::fault;
use super::meta::{ClientMeta, StartMeta};
use super::questions;

/// How many questions of one login may wait. What comes beyond that is declined.
const QUESTIONS: usize = 4;
/// How long an agent may take to start and to delete a session.
const PATIENCE: Duration = Duration::from_secs(30);

impl Connection {
    /// What a client is offered whose sessions are with one agent. An agent that cannot be started is an error.
    pub(super) async fn offer_of_agent(
        &self,
        client: &ClientMeta,
        spoken: ProtocolVersion,
        to_everybody: Offer,
    ) -> Result<Offer, CallError> {
        let Some(agent) = self.agent_alone(client)? else { return Ok(to_everybody) };
        let answer = self.host.engine.agent_answer(agent).await.map_err(|error| self.refused(&error))?;
        Ok(to_everybody.on_behalf_of(&answer, spoken))
    }

    /// Logs the user in with the connection's agent. What that is good for, the agent keeps to itself. What it asks the
    /// user meanwhile is asked of the client that wants to log in.
    pub(super) async fn log_in(
        &self,
        call: &LoginCall,
        request: &RpcId,
        link: &ClientLink,
    ) -> Result<(), CallError> {
        let client = self.defaults.client();
        let agent =
            self.agent_alone(&client)?.ok_or_else(|| CallError::UnknownMethod("authenticate".into()))?;
        let meta = call.meta.as_deref().filter(|_| self.may_say_besides());
        let (advisor, mut asked) = mpsc::channel(QUESTIONS);
        let asking = async {
            while let Some(question) = asked.recv().await {
                questions::of_request(question, request, link).await;
            }
            // Whoever logs in has no more to ask, and is waited for.
            pending::<()>().await;
        };
        let done = tokio::select! {
            done = self.host.engine.log_in(agent, &call.method, meta, advisor) => done,
            () = asking => return Err(CallError::Unanswered),
        };
        done.map_err(|error| match error {
            SessionError::Agent(AgentError::NotOffered { .. }) => {
                problem("methodId", format!("is {:?}, which is no way to log in here", call.method))
            }
            error => self.refused(&error),
        })
    }

    /// Logs the user out, likewise.
    pub(super) async fn log_out(&self) -> Result<(), CallError> {
        let client = self.defaults.client();
        let agent = self.agent_alone(&client)?.ok_or_else(|| CallError::UnknownMethod("logout".into()))?;
        self.host.engine.log_out(agent).await.map_err(|error| self.refused(&error))
    }

    /// Deletes a session that only the connection's agent has. An agent that cannot delete keeps it, and it is
    /// remembered here that nobody wants it.
    pub(super) async fn delete_theirs(&self, session: &AcpSessionId) -> Result<(), CallError> {
        let client = self.defaults.client();
        let Some(agent) = self.agent_alone(&client)? else { return Ok(()) };
        let owners = self.host.store.owners(agent.agent.key(), vec![session.clone()]).await;
        if !owners.map_err(fault::not_kept)?.is_empty() {
            // It is a session of ours by another name, and is deleted by ours.
            return Ok(());
        }
        let label = agent.agent.label().to_owned();
        let deleted = timeout(PATIENCE, self.delete_with(agent, session)).await;
        deleted.unwrap_or_else(|_| {
            let method = "session/delete".to_owned();
            Err(self.refused(&AgentError::Unresponsive { agent: label, method }.into()))
        })
    }

    async fn delete_with(&self, agent: NewSession, session: &AcpSessionId) -> Result<(), CallError> {
        let refused = |error: SessionError| self.refused(&error);
        let known = self.host.engine.known_capabilities(agent.clone()).await.map_err(refused)?;
        if known.as_ref().is_none_or(|known| known.sessions.delete)
            && self.host.engine.delete_remote(agent.clone(), session).await.map_err(refused)?
        {
            return Ok(());
        }
        if known.is_some_and(|known| !known.sessions.list) {
            return Ok(());
        }
        match self.host.engine.remote_session(&agent, session).await.map_err(refused)? {
            Some(row) => self.host.engine.disown(agent, row).await.map_err(refused),
            None => Ok(()),
        }
    }

    /// The connection's agent, to be started without a session.
    fn agent_alone(&self, client: &ClientMeta) -> Result<Option<NewSession>, CallError> {
        let Some(agent) = self.defaults.agent(None) else { return Ok(None) };
        let cwd = AbsolutePath::new(client.cwd.as_deref().unwrap_or("/"))
            .map_err(|error| problem("_meta.acpx.client.cwd", error.to_string()))?;
        let mut start = StartMeta::default();
        self.defaults.complete(&mut start);
        let login = start.login.unwrap_or_default().into();
        Ok(Some(NewSession { login, ..NewSession::new(agent, cwd, start.take_environment()) }))
    }
}
