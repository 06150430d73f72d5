//! Requests to create or restore a session.

use std::time::Duration;

use crate::acp::ExtraParams;
use crate::model::{
    AbsolutePath, AgentSpec, Fallback, LoginPolicy, McpServer, McpServerRef, Scope, WakeOptions,
};
use crate::store::real_path;
use crate::tools::Environment;

use crate::engine::{ClientLogin, SessionError};

/// A session to create.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Its agent.
    pub agent: AgentSpec,
    /// Its working directory, stored and sent byte for byte.
    pub cwd: AbsolutePath,
    /// Additional directories whose files belong to it, if the agent supports them.
    pub additional_directories: Vec<AbsolutePath>,
    /// The agent's whole environment. It is never stored.
    pub environment: Environment,
    /// The MCP servers the agent connects to.
    pub mcp_servers: Servers,
    /// Extra params of the client's request, forwarded unchanged.
    pub besides: Option<ExtraParams>,
    /// Client capabilities that only the agent understands, sent with `initialize`.
    pub capabilities: Option<ExtraParams>,
    /// What to do if the agent offers logins and no credential is known.
    pub login: LoginPolicy,
    /// The client's login with the agent, repeated at each start of the agent.
    pub logged_in: ClientLogin,
    /// The scope by which a shell finds it, if any.
    pub scope: Option<Scope>,
    /// How long the client waits for the start. After that the client gets an error that names the missing step, and
    /// the agent is ended.
    pub start_wait: Option<Duration>,
}

/// A session to restore.
#[derive(Debug, Clone, Default)]
pub struct RestoreSession {
    /// How to restore it.
    pub options: WakeOptions,
    /// How to start the agent now, if it has to be started. An agent other than the session's is ignored.
    pub agent: Option<AgentSpec>,
    /// The path in the client's request. If the record's path leads to another directory by now, and this one to the
    /// directory the session was created in, the agent starts there.
    pub cwd: Option<AbsolutePath>,
    /// The agent's whole environment, if it has to be started.
    pub environment: Environment,
    /// Extra params of the client's request, forwarded unchanged if the agent has to be started.
    pub besides: Option<ExtraParams>,
    /// Client capabilities that only the agent understands, if it has to be started.
    pub capabilities: Option<ExtraParams>,
    /// What to do if the agent offers logins and no credential is known, if it has to be started.
    pub login: LoginPolicy,
    /// The client's login with the agent, if it has to be started.
    pub logged_in: ClientLogin,
    /// The MCP servers the agent connects to; `None` keeps the current ones, as far as their values are known.
    pub mcp_servers: Option<Servers>,
    /// Additional directories whose files belong to it from then on; `None` keeps the current ones.
    pub additional_directories: Option<Vec<AbsolutePath>>,
    /// How long the client waits for the start. After that the client gets an error that names the missing step. The
    /// agent continues to start, and may take as long.
    pub start_wait: Option<Duration>,
}

impl RestoreSession {
    /// The same for later starts of the agent: a reset happens once.
    #[must_use]
    pub(crate) fn without_reset(mut self) -> Self {
        if self.options.fallback == Fallback::Reset {
            self.options = WakeOptions::default();
        }
        self
    }
}

/// MCP servers with their values, which are never stored.
#[derive(Debug, Clone, Default)]
pub struct Servers {
    /// The servers.
    pub list: Vec<McpServer>,
    /// The configuration file that has their values, if there is one, to read them again.
    pub source: Option<AbsolutePath>,
    /// Names of servers whose values are not available.
    pub left_out: Vec<String>,
    /// Why the configuration file could not be read, if so. A later attempt may succeed.
    pub unread: Option<String>,
}

impl NewSession {
    /// A session without servers and without a scope.
    pub fn new(agent: AgentSpec, cwd: AbsolutePath, environment: Environment) -> Self {
        Self {
            agent,
            cwd,
            additional_directories: Vec::new(),
            environment,
            mcp_servers: Servers::default(),
            besides: None,
            capabilities: None,
            login: LoginPolicy::default(),
            logged_in: ClientLogin::default(),
            scope: None,
            start_wait: None,
        }
    }
}

impl From<Vec<McpServer>> for Servers {
    fn from(list: Vec<McpServer>) -> Self {
        Self { list, ..Self::default() }
    }
}

impl Servers {
    /// Servers of which only the names are known.
    pub(crate) fn lost(kept: Vec<McpServerRef>) -> Self {
        Self { left_out: kept.into_iter().map(|server| server.name).collect(), ..Self::default() }
    }

    /// The servers as they are stored: without their values.
    pub(crate) fn kept(&self) -> Vec<McpServerRef> {
        let kept =
            |server: &McpServer| McpServerRef { name: server.name.clone(), source: self.source.clone() };
        self.list.iter().map(kept).collect()
    }
}

/// A directory with every link followed. May block as long as its disk does not respond.
pub(crate) fn real_directory(cwd: &AbsolutePath) -> Result<AbsolutePath, SessionError> {
    let problem = |reason: String| SessionError::Directory { cwd: cwd.clone(), reason };
    let real = real_path(cwd).map_err(|error| problem(error.to_string()))?;
    if real.as_path().is_dir() { Ok(real) } else { Err(problem("it is not a directory".to_owned())) }
}
