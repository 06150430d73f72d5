//! What a client is offered on behalf of its agent, and its logging in and out there.
//!
//! Sessions are ours, so that whatever an agent lacks of load, resume, list, close and delete is offered all the same.
//! What goes into prompts, which servers are taken and how a user logs in is the agent's own to say.

use crate::acp::agent::{CallError, LoginCall, Offer};
use crate::engine::NewSession;
use crate::model::{AbsolutePath, ProtocolVersion};

use super::connection::{Connection, problem};
use super::meta::{ClientMeta, StartMeta};

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

    /// Logs the user in with the connection's agent. What that is good for, the agent keeps to itself.
    pub(super) async fn log_in(&self, call: &LoginCall) -> Result<(), CallError> {
        let client = self.defaults.client();
        let agent =
            self.agent_alone(&client)?.ok_or_else(|| CallError::UnknownMethod("authenticate".into()))?;
        let done = self.host.engine.log_in(agent, &call.method, call.meta.as_deref()).await;
        done.map_err(|error| self.refused(&error))
    }

    /// Logs the user out, likewise.
    pub(super) async fn log_out(&self) -> Result<(), CallError> {
        let client = self.defaults.client();
        let agent = self.agent_alone(&client)?.ok_or_else(|| CallError::UnknownMethod("logout".into()))?;
        self.host.engine.log_out(agent).await.map_err(|error| self.refused(&error))
    }

    /// The connection's agent, to be started without a session.
    fn agent_alone(&self, client: &ClientMeta) -> Result<Option<NewSession>, CallError> {
        let Some(agent) = self.defaults.agent(None) else { return Ok(None) };
        let cwd = AbsolutePath::new(client.cwd.as_deref().unwrap_or("/"))
            .map_err(|error| problem("_meta.acpx.client.cwd", error.to_string()))?;
        let mut start = StartMeta::default();
        self.defaults.complete(&mut start);
        Ok(Some(NewSession::new(agent, cwd, start.take_environment())))
    }
}
