//! What a client asks an engine for: a session to be made, or one to be brought back.

use crate::machine::WakeOptions;
use crate::model::{AbsolutePath, AgentSpec, KeptServer, McpServer};
use crate::tools::Environment;

use super::SessionError;

/// A session to be made.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// The agent to make it with.
    pub agent: AgentSpec,
    /// Where it works. Kept and sent again byte for byte.
    pub cwd: AbsolutePath,
    /// The agent's whole environment. It is never stored.
    pub environment: Environment,
    /// The servers the agent connects to. Only their names are stored.
    pub mcp_servers: Vec<McpServer>,
}

/// A session to be brought back.
#[derive(Debug, Clone, Default)]
pub struct RestoreSession {
    /// How.
    pub options: WakeOptions,
    /// The agent's whole environment, should it have to be started.
    pub environment: Environment,
    /// The servers the agent connects to; `None` leaves those in force, as far as their values are known.
    pub mcp_servers: Option<Vec<McpServer>>,
}

/// Servers as they are kept: without their values.
pub(super) fn kept_servers(servers: &[McpServer]) -> Vec<KeptServer> {
    servers.iter().map(|server| KeptServer { name: server.name.clone(), source: None }).collect()
}

/// A directory with every link followed.
pub(super) fn real_path(cwd: &AbsolutePath) -> Result<AbsolutePath, SessionError> {
    let problem = |reason: String| SessionError::Directory { cwd: cwd.clone(), reason };
    let real = cwd.as_path().canonicalize().map_err(|error| problem(error.to_string()))?;
    if !real.is_dir() {
        return Err(problem("it is not a directory".to_owned()));
    }
    AbsolutePath::from_path(&real).map_err(|error| problem(error.to_string()))
}
