//! What a client is offered on behalf of its agent, and login and logout with that agent.
//!
//! Sessions are ours, so the host advertises load, resume, list, close and delete even if the agent lacks them. Prompt
//! content, MCP transports and login methods are those of the agent.

use std::future::pending;

use tokio::sync::mpsc;

use crate::acp::agent::{CallError, CallExtras, ClientFacts, ClientLink, LoginCall, Offer, TerminalLogin};
use crate::engine::{NewSession, SessionError};
use crate::model::{AbsolutePath, AgentError, ProtocolVersion, command_line};
use crate::wire::splice::elements;
use crate::wire::{RpcError, RpcId};

use super::Connection;
use crate::host::permissions::router;
use crate::protocol::acpx_meta::problem;
use crate::protocol::meta::{ClientMeta, StartMeta};

/// How many requests of one login may be pending. Further ones are declined.
const QUESTIONS: usize = 4;

impl Connection {
    /// The capabilities for a client whose sessions are with one agent. An error if the agent cannot be started.
    pub(crate) async fn offer_of_agent(
        &self,
        client: &ClientMeta,
        spoken: ProtocolVersion,
        to_everybody: Offer,
    ) -> Result<Offer, CallError> {
        let Some(agent) = self.agent_alone(client)? else { return Ok(to_everybody) };
        let answer = self.host.engine.agent_answer(agent).await.map_err(|error| self.refused(&error))?;
        let offer = to_everybody.on_behalf_of(&answer, spoken);
        Ok(if self.may_say_besides() { offer } else { offer.of_known_kinds() })
    }

    /// Which logins the client runs in a terminal. A remote client runs none: the agent's command exists only here.
    pub(crate) fn terminal_login(&self, client: &ClientFacts) -> TerminalLogin {
        if self.elsewhere.get().is_some() { TerminalLogin::No } else { client.terminal_login }
    }

    /// What the user can do when a login is missing, given the offered methods. A remote client gets no command line:
    /// an agent's arguments may contain secrets.
    pub(crate) fn login_hint(&self, ways: Option<&str>) -> Option<String> {
        let agent = self.defaults.agent(None)?;
        let is_offered = ways.is_some_and(|ways| elements(ways).is_some_and(|ways| !ways.is_empty()));
        let way = if is_offered { "by one of the offered ways, or " } else { "" };
        if self.elsewhere.get().is_some() {
            return Some(format!("log in {way}on the machine that runs acpx serve, then try again"));
        }
        let whole = command_line(&agent.program, agent.args.iter().map(String::as_str));
        let command = match &agent.name {
            Some(name) => command_line("acpx", [name, "auth"]),
            None => command_line("acpx", ["--agent", &whole, "auth"]),
        };
        Some(format!("log in {way}in a shell, then try again: {command}"))
    }

    /// Logs the user in with the connection's agent; later starts for this client use the same login. Requests of the
    /// agent during the login go to this client.
    pub(crate) async fn log_in(
        &self,
        call: &LoginCall,
        request: &RpcId,
        link: &ClientLink,
    ) -> Result<(), CallError> {
        let client = self.defaults.client();
        let agent =
            self.agent_alone(&client)?.ok_or_else(|| CallError::UnknownMethod("authenticate".into()))?;
        let agent = NewSession { besides: self.besides_of(&call.aside), ..agent };
        let (advisor, mut asked) = mpsc::channel(QUESTIONS);
        let asking = async {
            while let Some(question) = asked.recv().await {
                router::of_request(question, request, link).await;
            }
            // The agent has no more requests; wait for the login to finish.
            pending::<()>().await;
        };
        let done = tokio::select! {
            done = self.host.engine.log_in(agent, &call.method, advisor) => done,
            () = asking => return Err(CallError::Unanswered),
        };
        done.map_err(|error| match error {
            SessionError::Agent(AgentError::NotOffered { .. }) => {
                problem("methodId", format!("is {:?}, which is no way to log in here", call.method))
            }
            error => self.refused(&error),
        })
    }

    /// Logs the user out; later starts for this client are logged out too.
    pub(crate) async fn log_out(&self, aside: &CallExtras) -> Result<(), CallError> {
        let client = self.defaults.client();
        let agent = self.agent_alone(&client)?.ok_or_else(|| CallError::UnknownMethod("logout".into()))?;
        let agent = NewSession { besides: self.besides_of(aside), ..agent };
        let done = self.host.engine.log_out(agent).await;
        done.map_err(|error| match (&error, self.refused(&error)) {
            // In version 2 a host with logins has the method, so an agent without it is an internal error.
            (SessionError::Agent(AgentError::NotOffered { .. }), CallError::PassedOn(told))
                if aside.version == ProtocolVersion::V2 =>
            {
                CallError::PassedOn(RpcError { code: RpcError::INTERNAL, ..told })
            }
            (_, refused) => refused,
        })
    }

    /// The connection's agent, to be started without a session.
    pub(crate) fn agent_alone(&self, client: &ClientMeta) -> Result<Option<NewSession>, CallError> {
        let Some(agent) = self.defaults.agent(None) else { return Ok(None) };
        let cwd = AbsolutePath::new(client.cwd.as_deref().unwrap_or("/"))
            .map_err(|error| problem("_meta.acpx.client.cwd", error.to_string()))?;
        let mut start = StartMeta::default();
        self.defaults.complete(&mut start);
        let login = start.login.unwrap_or_default().into();
        let environment = start.take_environment(&agent);
        let (logged_in, capabilities) = (self.logged_in.clone(), self.capabilities());
        Ok(Some(NewSession { capabilities, login, logged_in, ..NewSession::new(agent, cwd, environment) }))
    }
}
