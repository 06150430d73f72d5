//! Requests to create or restore a session.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::acp::ExtraParams;
use crate::engine::{ClientLogin, NotificationQueue, SessionError};
use crate::model::{
    AbsolutePath, AgentSpec, Fallback, LoginPolicy, McpServer, McpServerRef, Scope, SetupOptions, Timestamp,
    WakeOptions,
};
use crate::store::real_path;
use crate::tools::{Environment, GracePeriods};
use crate::wire::{WireLimits, since_1970};

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
    /// What the user fixed about the agent.
    pub setup: SetupOptions,
    /// Extra params of the client's request, forwarded unchanged.
    pub extra_params: Option<ExtraParams>,
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
#[derive(Debug, Clone)]
pub struct RestoreSession {
    /// How to restore it.
    pub options: WakeOptions,
    /// How to start the agent now, if it has to be started. An agent other than the session's is ignored.
    pub agent: Option<AgentSpec>,
    /// The path in the client's request. If the record's path leads to another directory by now, and this one to the
    /// directory the session was created in, the agent starts there.
    pub cwd: Option<AbsolutePath>,
    /// The agent's whole environment, if it has to be started. An empty one keeps that of the last client.
    pub environment: Environment,
    /// Extra params of the client's request, forwarded unchanged if the agent has to be started.
    pub extra_params: Option<ExtraParams>,
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
    /// What the user fixed about the agent with this request; absent options keep the current ones.
    pub setup: SetupOptions,
    /// How long the client waits for the start. After that the client gets an error that names the missing step. The
    /// agent continues to start, and may take as long.
    pub start_wait: Option<Duration>,
}

impl RestoreSession {
    /// Restores a session as it is, with this environment for its agent.
    pub fn new(environment: Environment) -> Self {
        Self {
            options: WakeOptions::default(),
            agent: None,
            cwd: None,
            environment,
            extra_params: None,
            capabilities: None,
            login: LoginPolicy::default(),
            logged_in: ClientLogin::default(),
            mcp_servers: None,
            additional_directories: None,
            setup: SetupOptions::default(),
            start_wait: None,
        }
    }

    /// For requests that start no agent, or start it as the last client did.
    pub(crate) fn unchanged() -> Self {
        Self::new(Environment::default())
    }

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
            setup: SetupOptions::default(),
            extra_params: None,
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

/// The limits of an engine, and its clock.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// How long a cancelled turn may take to end before its agent is ended.
    pub cancel_grace: Duration,
    /// How long an idle agent stays, unless its session sets another time; `None` for ever. An agent that cannot
    /// restore sessions stays longer once its session has content: it has the only copy.
    pub idle: Option<Duration>,
    /// How long `session/close` may take to be answered before the agent is ended.
    pub close_grace: Duration,
    /// How long each step of ending a process may take.
    pub process: GracePeriods,
    /// The home's name in the tag of every agent, by which a later host of the same home finds leftovers if this one is
    /// killed; `None` for no tag. It is opaque, preferably hex.
    pub tag: Option<String>,
    /// Programs that are not ended with the agent that started them, and neither are their descendants: names of the
    /// processes or of their files.
    pub keep_programs: Arc<[String]>,
    /// The limits of the connection to an agent.
    pub wire: WireLimits,
    /// How many bytes an agent may send within one turn, or between two.
    pub turn_bytes: u64,
    /// How many bytes of a command's output are kept for its agent at most; `None` for the usual limit.
    pub terminal_bytes: Option<usize>,
    /// The program to start for a remote agent; without it there are no remote agents. It gets the agent's URL and
    /// arguments, and speaks ACP on stdin and stdout.
    pub relay: Option<AgentSpec>,
    /// Where events of sessions are queued for notification.
    pub notifications: NotificationQueue,
    /// The current time.
    pub clock: fn() -> Timestamp,
}

impl EngineSettings {
    /// The program to start for an agent: its own, or the relay that connects to it.
    pub(crate) fn program_of<'a>(&self, agent: &'a AgentSpec) -> Cow<'a, AgentSpec> {
        let (Some(relay), Some(_)) = (&self.relay, agent.url()) else { return Cow::Borrowed(agent) };
        let words = [&agent.program].into_iter().chain(&agent.args);
        let args = relay.args.iter().chain(words).cloned().collect();
        Cow::Owned(AgentSpec { program: relay.program.clone(), args, ..agent.clone() })
    }
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            cancel_grace: Duration::from_secs(10),
            idle: None,
            close_grace: Duration::from_secs(5),
            process: GracePeriods::default(),
            tag: None,
            keep_programs: Arc::default(),
            wire: WireLimits::default(),
            turn_bytes: 4 << 30,
            terminal_bytes: None,
            relay: None,
            notifications: NotificationQueue::default(),
            clock: system_time,
        }
    }
}

fn system_time() -> Timestamp {
    Timestamp::since_1970(since_1970())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_agent_runs_through_the_relay_with_its_name_and_timeout() {
        let relay = Some(AgentSpec::new("/bin/acpx", ["remote-agent"]));
        let settings = EngineSettings { relay, ..EngineSettings::default() };
        let start_limit = Duration::from_secs(7);
        let agent = |program: &str| {
            AgentSpec::new(program, ["--insecure"]).named("far").with_start_timeout(start_limit)
        };
        let reached = AgentSpec::new("/bin/acpx", ["remote-agent", "ws://h/acp", "--insecure"]);
        assert_eq!(
            *settings.program_of(&agent("ws://h/acp")),
            reached.named("far").with_start_timeout(start_limit)
        );
        assert_eq!(*settings.program_of(&agent("near")), agent("near"));
        assert_eq!(*EngineSettings::default().program_of(&agent("ws://h/acp")), agent("ws://h/acp"));
    }
}
