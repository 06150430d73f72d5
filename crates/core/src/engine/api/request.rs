//! What a client asks an engine for: a session to be made, or one to be brought back.

use std::time::Duration;

use crate::acp::ExtraParams;
use crate::model::{
    AbsolutePath, AgentSpec, Fallback, LoginPolicy, McpServer, McpServerRef, Scope, WakeOptions,
};
use crate::store::real_path;
use crate::tools::Environment;

use crate::engine::{ClientLogin, SessionError};

/// A session to be made.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// The agent to make it with.
    pub agent: AgentSpec,
    /// Where it works. Kept and sent again byte for byte.
    pub cwd: AbsolutePath,
    /// Directories beside that one whose files belong to it, if the agent takes them.
    pub additional_directories: Vec<AbsolutePath>,
    /// The agent's whole environment. It is never stored.
    pub environment: Environment,
    /// The servers the agent connects to.
    pub mcp_servers: Servers,
    /// What its client says to the agent besides, which goes out as it is.
    pub besides: Option<ExtraParams>,
    /// What the capabilities of its client say that only the agent understands: the agent is initialized with it.
    pub capabilities: Option<ExtraParams>,
    /// What to do where the agent offers logins and no credential is known.
    pub login: LoginPolicy,
    /// How its client has logged in with the agent: that is repeated whenever the agent is started.
    pub logged_in: ClientLogin,
    /// What a shell finds it by; `None` if none is to.
    pub scope: Option<Scope>,
    /// Its client's start wait. Then it is told what the agent has not done, and the agent is ended.
    pub start_wait: Option<Duration>,
}

/// A session to be brought back.
#[derive(Debug, Clone, Default)]
pub struct RestoreSession {
    /// How.
    pub options: WakeOptions,
    /// How the agent is started now, should it have to be. Only the agent that the session is with can have
    /// moved: another one is passed over.
    pub agent: Option<AgentSpec>,
    /// The path by which its client has asked for the session. If the record's own path leads elsewhere by now, and
    /// this one to the directory the session was created in, the agent starts there.
    pub cwd: Option<AbsolutePath>,
    /// The agent's whole environment, should it have to be started.
    pub environment: Environment,
    /// What its client says to the agent besides, should it have to be started; it goes out as it is.
    pub besides: Option<ExtraParams>,
    /// What the capabilities of its client say that only the agent understands, likewise.
    pub capabilities: Option<ExtraParams>,
    /// What to do where the agent offers logins and no credential is known, should it have to be started.
    pub login: LoginPolicy,
    /// How its client has logged in with the agent, likewise.
    pub logged_in: ClientLogin,
    /// The servers the agent connects to; `None` leaves those in force, as far as their values are known.
    pub mcp_servers: Option<Servers>,
    /// Directories beside the one it works in whose files belong to it from then on; `None` leaves those in force.
    pub additional_directories: Option<Vec<AbsolutePath>>,
    /// Its client's start wait. Then it is told what the agent has not done; the agent comes up all the same, and may
    /// take as long for it.
    pub start_wait: Option<Duration>,
}

impl RestoreSession {
    /// The same for later starts of the agent: a reset is done once.
    #[must_use]
    pub(crate) fn without_reset(mut self) -> Self {
        if self.options.fallback == Fallback::Reset {
            self.options = WakeOptions::default();
        }
        self
    }
}

/// Servers with their values, which are never stored.
#[derive(Debug, Clone, Default)]
pub struct Servers {
    /// The servers.
    pub list: Vec<McpServer>,
    /// The configuration file their values come from, if it is one: there they can be had again.
    pub source: Option<AbsolutePath>,
    /// Those that ought to be among them, and whose values cannot be had.
    pub left_out: Vec<String>,
    /// Why that file does not tell them, if it cannot be read: it may tell them another time.
    pub unread: Option<String>,
}

impl NewSession {
    /// A session without servers, that no shell finds.
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
    /// Servers that only their names are known of.
    pub(crate) fn lost(kept: Vec<McpServerRef>) -> Self {
        Self { left_out: kept.into_iter().map(|server| server.name).collect(), ..Self::default() }
    }

    /// The servers as they are kept: without their values.
    pub(crate) fn kept(&self) -> Vec<McpServerRef> {
        let kept =
            |server: &McpServer| McpServerRef { name: server.name.clone(), source: self.source.clone() };
        self.list.iter().map(kept).collect()
    }
}

/// A directory with every link followed. It may hang with the disk that the directory is on.
pub(crate) fn real_directory(cwd: &AbsolutePath) -> Result<AbsolutePath, SessionError> {
    let problem = |reason: String| SessionError::Directory { cwd: cwd.clone(), reason };
    let real = real_path(cwd).map_err(|error| problem(error.to_string()))?;
    if real.as_path().is_dir() { Ok(real) } else { Err(problem("it is not a directory".to_owned())) }
}
