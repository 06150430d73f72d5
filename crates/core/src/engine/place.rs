//! Where a session's agent is started, and with what. Nothing of it is shown, and its values are never stored.

use crate::acp::Besides;
use crate::model::{AbsolutePath, AgentSpec, LoginPolicy};
use crate::tools::Environment;

use super::{NewSession, RestoreSession, Servers};

/// What an agent is started with.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) agent: AgentSpec,
    pub(super) cwd: AbsolutePath,
    pub(super) environment: Environment,
    pub(super) mcp_servers: Servers,
    /// What to do where the agent offers logins and no credential is known; `None` if nobody is to be logged in.
    pub(super) login: Option<LoginPolicy>,
    /// What the client says besides whose request makes the agent start.
    pub(super) besides: Option<Besides>,
}

impl Place {
    /// Where an agent is started that is to have no session.
    pub(super) fn alone(with: NewSession) -> Self {
        let NewSession { agent, cwd, environment, mcp_servers, login, .. } = with;
        Self { agent, cwd, environment, mcp_servers, login: Some(login), besides: None }
    }

    /// Takes what the client that wants the agent started has given; whether the agent has moved.
    pub(super) fn renew(&mut self, given: RestoreSession) -> bool {
        let RestoreSession { agent, environment, mcp_servers, login, besides, .. } = given;
        self.besides = besides;
        if !environment.variables().is_empty() {
            self.environment = environment;
            self.login = Some(login);
        }
        // What is in memory is worth more than a file that cannot be read.
        let is_known = !self.mcp_servers.list.is_empty();
        if let Some(servers) = mcp_servers.filter(|servers| servers.unread.is_none() || !is_known) {
            self.mcp_servers = servers;
        }
        let Some(moved) = agent.filter(|agent| self.has_moved(agent)) else { return false };
        self.agent = AgentSpec { start_timeout: self.agent.start_timeout, ..moved };
        true
    }

    /// Whether this is our agent, started by another command line or asked for another version of the protocol.
    fn has_moved(&self, agent: &AgentSpec) -> bool {
        let command = |agent: &AgentSpec| (agent.program.clone(), agent.args.clone(), agent.protocol);
        agent.key() == self.agent.key() && command(agent) != command(&self.agent)
    }
}
