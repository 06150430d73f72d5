//! How and where a session's agent is started. Secret values in it are never shown or stored.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::acp::ExtraParams;
use crate::model::{AbsolutePath, AgentError, AgentProfile, AgentSpec, LoginPolicy, SetupOptions};
use crate::sync::Lock;
use crate::tools::{AgentProcess, Environment, Root, Roots, StderrTail};
use crate::wire::{Peer, WeakPeer};

use crate::engine::{ClientLogin, Disk, NewSession, RestoreSession, Servers};

/// Everything an agent is started with.
#[derive(Clone)]
pub(crate) struct LaunchSpec {
    pub(crate) agent: AgentSpec,
    pub(crate) cwd: AbsolutePath,
    /// The real directory that the record's path has to lead to, if it is known.
    pub(crate) real_cwd: Option<AbsolutePath>,
    /// The path in the request of the client that makes the agent start.
    pub(crate) asked_by: Option<AbsolutePath>,
    /// Additional directories whose files belong to the session.
    pub(crate) additional_directories: Vec<AbsolutePath>,
    pub(crate) environment: Environment,
    pub(crate) mcp_servers: Servers,
    /// What the user fixed about the agent.
    pub(crate) setup: SetupOptions,
    /// What to do if the agent offers logins and no credential is known; `None` to skip the login.
    pub(crate) login: Option<LoginPolicy>,
    /// The login of the client that provided the environment.
    pub(crate) logged_in: ClientLogin,
    /// Extra params of the client request that makes the agent start.
    pub(crate) extra_params: Option<ExtraParams>,
    /// Client capabilities that only the agent understands.
    pub(crate) capabilities: Option<ExtraParams>,
    /// The start wait of that client, if it set one.
    pub(crate) start_wait: Option<Duration>,
    /// The agent's output outside the protocol.
    pub(crate) words: OutputTail,
}

/// The part of a launch spec that a session keeps from start to start. Values from a client become part of it only
/// after a session was set up with them, so an agent rejects an unusable value once and not with every later prompt.
#[derive(Clone)]
pub(crate) struct PersistedLaunchSpec {
    pub(crate) agent: AgentSpec,
    pub(crate) additional_directories: Vec<AbsolutePath>,
    pub(crate) mcp_servers: Servers,
    pub(crate) setup: SetupOptions,
}

impl LaunchSpec {
    /// The spec of a new session's agent, in this real directory.
    pub(crate) fn of_new(new: &NewSession, real_cwd: AbsolutePath) -> Self {
        let NewSession { agent, additional_directories, extra_params, start_wait, .. } = new.clone();
        let real_cwd = Some(real_cwd);
        Self { agent, real_cwd, additional_directories, extra_params, start_wait, ..Self::alone(new.clone()) }
    }

    /// The spec of an agent that will have no session.
    pub(crate) fn alone(with: NewSession) -> Self {
        let NewSession {
            agent, cwd, environment, mcp_servers, setup, login, logged_in, capabilities, ..
        } = with;
        // Only this client waits for the agent.
        let agent = match with.start_wait {
            Some(wait) => agent.with_start_timeout(wait),
            None => agent,
        };
        Self {
            agent,
            cwd,
            real_cwd: None,
            asked_by: None,
            additional_directories: Vec::new(),
            environment,
            mcp_servers,
            setup,
            login: Some(login),
            logged_in,
            extra_params: None,
            capabilities,
            start_wait: None,
            words: OutputTail::default(),
        }
    }

    /// How long the agent may take to start: the longer of its own start timeout and the client's start wait.
    pub(crate) fn start_limit(&self, profile: &AgentProfile) -> Duration {
        self.agent.effective_start_timeout(profile).max(self.start_wait.unwrap_or_default())
    }

    /// How long the agent may take over one setting: at most half of the client's start wait, so that the prompt that
    /// waits for the setting is still sent in time.
    pub(crate) fn setting_limit(&self, start_limit: Duration) -> Duration {
        self.start_wait.map_or(start_limit, |wait| start_limit.min(wait / 2))
    }

    /// Resolves the directories whose files the agent may access. If a disk does not respond, the agent is not started:
    /// it could not access the files of that directory for as long as it runs.
    pub(crate) async fn roots(&self, disk: &Disk) -> Result<Roots, AgentError> {
        let mut looking = JoinSet::new();
        for directory in std::iter::once(&self.cwd).chain(&self.additional_directories) {
            let (disk, directory, queried) = (disk.clone(), directory.clone(), directory.clone());
            looking.spawn(async move {
                let found = disk.ask(directory.as_path(), move || Root::find(&queried)).await;
                found.map_err(|no_answer| (directory, no_answer))
            });
        }
        let found: Result<Vec<_>, _> = looking.join_all().await.into_iter().collect();
        let found = found.map_err(|(directory, no_answer)| AgentError::SilentDirectory {
            agent: self.agent.label().into_owned(),
            directory: directory.to_string(),
            reason: no_answer.to_string(),
        })?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Applies the values of the client whose request starts the agent.
    pub(crate) fn apply(&mut self, launch_values: RestoreSession) {
        let RestoreSession {
            agent,
            cwd,
            environment,
            mcp_servers,
            additional_directories,
            setup,
            login,
            logged_in,
            extra_params,
            capabilities,
            start_wait,
            ..
        } = launch_values;
        self.asked_by = cwd;
        self.extra_params = extra_params;
        self.capabilities = capabilities;
        self.start_wait = start_wait;
        self.setup = self.setup.updated_by(&setup);
        if let Some(directories) = additional_directories {
            self.additional_directories = directories;
        }
        let gives_environment = !environment.variables().is_empty();
        if gives_environment || logged_in.is_there() {
            self.logged_in = logged_in;
        }
        if gives_environment {
            self.environment = environment;
            self.login = Some(login);
        }
        // Known servers in memory take precedence over a configuration file that cannot be read.
        let is_known = !self.mcp_servers.list.is_empty();
        if let Some(servers) = mcp_servers.filter(|servers| servers.unread.is_none() || !is_known) {
            self.mcp_servers = servers;
        }
        if let Some(agent) = agent.filter(|agent| agent.key() == self.agent.key()) {
            self.agent = AgentSpec { start_timeout: self.agent.start_timeout, ..agent };
        }
    }

    /// The part that the session keeps once its agent accepted it.
    pub(crate) fn persisted(&self) -> PersistedLaunchSpec {
        let Self { agent, additional_directories, mcp_servers, setup, .. } = self.clone();
        PersistedLaunchSpec { agent, additional_directories, mcp_servers, setup }
    }

    /// Puts the session's own values back.
    pub(crate) fn restore(&mut self, persisted: PersistedLaunchSpec) {
        let PersistedLaunchSpec { agent, additional_directories, mcp_servers, setup } = persisted;
        (self.agent, self.additional_directories, self.mcp_servers, self.setup) =
            (agent, additional_directories, mcp_servers, setup);
    }

    /// Whether the agent has another command line or protocol version than ours.
    pub(crate) fn has_moved(&self, agent: &AgentSpec) -> bool {
        let command = |agent: &AgentSpec| (agent.command(), agent.protocol);
        command(agent) != command(&self.agent)
    }
}

/// The last output of a launch spec's current agent outside the protocol: its stderr, or else garbage on stdout.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutputTail(Arc<Lock<Option<(StderrTail, WeakPeer)>>>);

impl OutputTail {
    /// Switches to this process.
    pub(crate) fn attach(&self, process: &AgentProcess, peer: &Peer) {
        *self.0.lock() = Some((process.tail(), peer.downgrade()));
    }

    /// The last lines.
    pub(crate) fn last(&self) -> Vec<String> {
        let source = self.0.lock();
        let Some((tail, peer)) = &*source else { return Vec::new() };
        let words = tail.last_lines();
        if words.is_empty() { peer.garbage().recent } else { words }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn agent_is_not_started_while_a_disk_of_its_directories_hangs() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| AbsolutePath::from_path(&home.path().join(name)).unwrap();
        let (slow, living) = (path("slow"), path("living"));
        for directory in [&slow, &living] {
            std::fs::create_dir(directory.as_path()).unwrap();
        }
        let launch = |cwd: &AbsolutePath, other: &AbsolutePath| {
            let agent = AgentSpec::new("demo", [""; 0]);
            let alone = LaunchSpec::alone(NewSession::new(agent, cwd.clone(), Environment::default()));
            LaunchSpec { additional_directories: vec![other.clone()], ..alone }
        };
        let disk = Disk::default();
        let (answer, asked) = mpsc::channel::<()>();
        assert!(disk.ask(slow.as_path(), move || asked.recv().is_ok()).await.is_err());
        tokio::time::resume();
        let silent = AgentError::SilentDirectory {
            agent: "demo".to_owned(),
            directory: slow.to_string(),
            reason: "its disk does not answer".to_owned(),
        };
        for launch in [launch(&slow, &living), launch(&living, &slow)] {
            assert_eq!(launch.roots(&disk).await.err(), Some(silent.clone()));
        }
        // The next start finds them.
        answer.send(()).unwrap();
        let roots = loop {
            match launch(&slow, &living).roots(&disk).await {
                Ok(roots) => break roots,
                Err(error) => assert_eq!(error, silent),
            }
        };
        for directory in [slow, living] {
            assert!(roots.locate(&format!("{directory}/file")).is_ok(), "{directory}");
        }
    }
}
