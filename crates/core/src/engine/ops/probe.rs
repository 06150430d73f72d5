//! Probes an agent without a prompt: what it advertises, and whether it can create a session. The agent is started for
//! this alone. No process, no record and, if the agent can delete sessions, no session is left.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::acp::client::{AgentResponse, MessageContext, OutgoingLine, ParsedMessage, SessionWorkspace};
use crate::acp::{AgentInfo, Capabilities};
use crate::model::{AcpSessionId, AgentError, AgentProfile, McpServer, Profiles, ProtocolVersion};
use crate::tools::{ProcessExit, TerminationOutcome};

use super::standalone::StandaloneAgent;
use crate::engine::agent::launch_spec::LaunchSpec;
use crate::engine::agent::live_agent::LiveAgent;

/// The result of probing an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeReport {
    /// Its name and version.
    pub info: AgentInfo,
    /// The negotiated protocol version.
    pub protocol: ProtocolVersion,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// The result of `initialize`, unchanged.
    pub answer: std::sync::Arc<str>,
    /// Its profile.
    pub profile: AgentProfile,
    /// The name of a known agent that it matches, if any.
    pub known_as: Option<String>,
    /// The time from the start of its process to its reply to `initialize`.
    pub started_in: Duration,
    /// The outcome of `session/new` without MCP servers.
    pub trial: SessionTrial,
    /// The outcome of `session/new` with each single MCP server, by name. Skipped if the session without servers
    /// failed, and after a server for which the agent did not reply.
    pub servers: Vec<(String, SessionTrial)>,
    /// The outcome of ending it.
    pub ended: TerminationOutcome,
    /// How long ending it took.
    pub ended_in: Duration,
    /// How its process exited, if it did.
    pub exit: Option<ProcessExit>,
}

/// The outcome of `session/new`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionTrial {
    /// The agent created a session.
    Made {
        /// How long it took.
        within: Duration,
        /// Whether it offers modes.
        modes: bool,
    },
    /// The agent failed or refused.
    Refused(AgentError),
}

/// Probes an agent, and ends it.
pub(super) async fn probe_agent(mut alone: StandaloneAgent) -> ProbeReport {
    let connection = &alone.agent.connection;
    let (info, profile) = (connection.info(), AgentProfile::clone(connection.profile()));
    let (protocol, capabilities) = (connection.version(), connection.capabilities().clone());
    let answer = connection.answer().clone();
    let agent = &alone.launch.agent;
    let known_as = Profiles::built_in().name_of(agent, info.name.as_deref()).map(str::to_owned);
    let limit = agent.effective_start_timeout(&profile);
    let unresponsive = alone.unresponsive("session/new");
    let tried = try_all(&mut alone.agent, &alone.launch, limit, &unresponsive).await;
    let (exit, started_in) = (alone.agent.process.exit(), alone.started_in);
    let begun = Instant::now();
    let (error, ended) = if tried.has_exited() {
        let (error, report) = alone.exited().await;
        (error, report.map_or(TerminationOutcome::Left, |report| report.ended))
    } else {
        (unresponsive, alone.end().await.ended)
    };
    let ended_in = begun.elapsed();
    let (trial, servers) = tried.with(&error);
    ProbeReport {
        info,
        protocol,
        capabilities,
        answer,
        profile,
        known_as,
        started_in,
        trial,
        servers,
        ended,
        ended_in,
        exit: exit(),
    }
}

/// The trials so far. `None` means that the agent exited during that trial, which was then the last.
struct TrialResults {
    plain: Option<SessionTrial>,
    servers: Vec<(String, Option<SessionTrial>)>,
}

impl TrialResults {
    fn has_exited(&self) -> bool {
        self.plain.is_none() || self.servers.iter().any(|(_, trial)| trial.is_none())
    }

    /// The final trials, with how the agent exited, if it did.
    fn with(self, error: &AgentError) -> (SessionTrial, Vec<(String, SessionTrial)>) {
        let known =
            |trial: Option<SessionTrial>| trial.unwrap_or_else(|| SessionTrial::Refused(error.clone()));
        let servers = self.servers.into_iter().map(|(name, trial)| (name, known(trial)));
        (known(self.plain), servers.collect())
    }
}

/// Tries a session without servers, and then one with each server.
async fn try_all(
    agent: &mut LiveAgent,
    launch: &LaunchSpec,
    limit: Duration,
    unresponsive: &AgentError,
) -> TrialResults {
    let mut plain = None;
    let mut servers = Vec::new();
    let each =
        launch.mcp_servers.list.iter().map(|server| (Some(&server.name), std::slice::from_ref(server)));
    for (name, list) in [(None, &[][..])].into_iter().chain(each) {
        let tried = timeout(limit, try_session(agent, launch, list)).await;
        let trial = tried.unwrap_or_else(|_| Some(SessionTrial::Refused(unresponsive.clone())));
        let is_last = match &trial {
            None => true,
            Some(SessionTrial::Refused(error)) => name.is_none() || error == unresponsive,
            Some(SessionTrial::Made { .. }) => false,
        };
        match name {
            Some(name) => servers.push((name.clone(), trial)),
            None => plain = trial,
        }
        if is_last {
            break;
        }
    }
    TrialResults { plain, servers }
}

/// Creates a session and removes it; `None` if the agent exits first.
async fn try_session(
    agent: &mut LiveAgent,
    launch: &LaunchSpec,
    servers: &[McpServer],
) -> Option<SessionTrial> {
    let session = SessionWorkspace {
        cwd: &launch.cwd,
        additional_directories: &[],
        mcp_servers: servers,
        extra_params: None,
    };
    let request = match agent.connection.new_session(session) {
        Ok(request) => request,
        Err(error) => return Some(SessionTrial::Refused(error)),
    };
    let begun = Instant::now();
    match ask(agent, request).await? {
        AgentResponse::Opened(Ok((session, _))) => {
            let within = begun.elapsed();
            let offered = agent.connection.offered();
            let modes = offered.modes.is_some() || offered.config_options.is_some();
            take_back(agent, &session).await?;
            Some(SessionTrial::Made { within, modes })
        }
        AgentResponse::Opened(Err(error)) => Some(SessionTrial::Refused(error)),
        _ => None,
    }
}

/// Closes and deletes a session, as far as the agent supports it. Errors of the agent are ignored.
async fn take_back(agent: &mut LiveAgent, session: &AcpSessionId) -> Option<()> {
    let close = agent.connection.close().map(|close| close.request(session));
    if let Some(close) = close {
        ask(agent, close).await?;
    }
    let delete = agent.connection.delete().map(|delete| delete.request(session, None));
    if let Some(delete) = delete {
        ask(agent, delete).await?;
    }
    Some(())
}

/// The reply; `None` if the agent exits first. All requests of the agent are denied.
async fn ask(agent: &mut LiveAgent, request: OutgoingLine) -> Option<AgentResponse> {
    request.send().await.ok()?;
    let connection = &mut agent.connection;
    loop {
        match connection.recv(MessageContext::default()).await?.meaning {
            ParsedMessage::Answer(answer) if answer != AgentResponse::Other => return Some(answer),
            message => {
                if let Some(denial) = connection.deny(&message) {
                    denial.send().await.ok()?;
                }
            }
        }
    }
}
