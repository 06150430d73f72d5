//! An agent looked over without a prompt: what it says of itself, what it can do, and whether it makes a session. It is
//! started for nothing else, and nothing is left of it: no process, no record, and no session where it can delete one.

use std::time::Duration;

use tokio::time::Instant;

use crate::acp::client::{AgentResponse, MessageContext, OutgoingLine, ParsedMessage, SessionWorkspace};
use crate::acp::{AgentInfo, Capabilities};
use crate::machine::Permit;
use crate::model::{AcpSessionId, AgentError, AgentProfile, McpServer, Profiles, ProtocolVersion};
use crate::tools::{ProcessExit, TerminationOutcome};
use crate::wire::RpcError;

use crate::engine::agent::launch_spec::LaunchSpec;
use crate::engine::agent::live_agent;
use crate::engine::agent::live_agent::{FailedStart, LiveAgent};
use crate::engine::{Engine, NewSession, SessionError};

/// What was found out about an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examination {
    /// What it says of itself.
    pub info: AgentInfo,
    /// The version of the protocol that it was spoken to in.
    pub protocol: ProtocolVersion,
    /// What it can do.
    pub capabilities: Capabilities,
    /// The result of `initialize`, as it wrote it.
    pub answer: std::sync::Arc<str>,
    /// How it behaves.
    pub profile: AgentProfile,
    /// What it is known as, if it is.
    pub known_as: Option<String>,
    /// From the start of its process to its answer to `initialize`.
    pub started_in: Duration,
    /// What came of `session/new`, without any MCP server.
    pub trial: Trial,
    /// What came of it with each of the MCP servers alone, by their names. None is tried where there is no session
    /// without them, nor after one that the agent has not answered for.
    pub servers: Vec<(String, Trial)>,
    /// What came of its end.
    pub ended: TerminationOutcome,
    /// How long its end took.
    pub ended_in: Duration,
    /// How its process exited, if it did.
    pub exit: Option<ProcessExit>,
}

/// What came of `session/new`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// It made a session.
    Made {
        /// In this time.
        within: Duration,
        /// Whether it offers modes.
        modes: bool,
    },
    /// It did not.
    Refused(AgentError),
}

impl Engine {
    /// Looks an agent over. It is not prompted. That it cannot even be started is the error.
    pub async fn examine(&self, with: NewSession) -> Result<Examination, SessionError> {
        self.real_directory(&with.cwd).await?;
        let (place, shared) = (LaunchSpec::alone(with), self.0.shared.clone());
        let begun = Instant::now();
        let started =
            live_agent::start(place.clone(), shared.clone(), &live_agent::unused_mark(), None).await;
        let (mut agent, _) = started.map_err(|FailedStart { error, .. }| error)?;
        let started_in = begun.elapsed();
        let connection = &agent.connection;
        let (info, profile) = (connection.info(), AgentProfile::clone(connection.profile()));
        let (protocol, capabilities) = (connection.version(), connection.capabilities().clone());
        let answer = connection.answer().clone();
        let known_as = Profiles::built_in().name_of(&place.agent, info.name.as_deref()).map(str::to_owned);
        let limit = place.agent.patience(&profile);
        let tried = try_all(&mut agent, &place, limit).await;
        let exit = agent.process.exit();
        let begun = Instant::now();
        let (error, ended) = if tried.is_gone() {
            let (error, leftover) = agent.gone(&place, &shared.settings).await;
            (Some(error), leftover.task.await.map_or(TerminationOutcome::Left, |farewell| farewell.ended))
        } else {
            (None, agent.end(shared.settings.process).await.ended)
        };
        let (trial, servers) = tried.with(&place, error);
        let ended_in = begun.elapsed();
        Ok(Examination {
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
        })
    }
}

/// What was tried; a trial that is `None` was the end of the agent, and the last.
struct Tried {
    plain: Option<Trial>,
    servers: Vec<(String, Option<Trial>)>,
}

impl Tried {
    fn is_gone(&self) -> bool {
        self.plain.is_none() || self.servers.iter().any(|(_, trial)| trial.is_none())
    }

    /// The trials, now that it is known how the agent went, if it did.
    fn with(self, place: &LaunchSpec, error: Option<AgentError>) -> (Trial, Vec<(String, Trial)>) {
        let error = error.unwrap_or_else(|| unresponsive(place));
        let known = |trial: Option<Trial>| trial.unwrap_or_else(|| Trial::Refused(error.clone()));
        let servers = self.servers.into_iter().map(|(name, trial)| (name, known(trial)));
        (known(self.plain), servers.collect())
    }
}

fn unresponsive(place: &LaunchSpec) -> AgentError {
    AgentError::Unresponsive { agent: place.agent.label().into_owned(), method: "session/new".to_owned() }
}

/// Tries a session without servers, and then one with each.
async fn try_all(agent: &mut LiveAgent, place: &LaunchSpec, limit: Duration) -> Tried {
    let plain = try_in_time(agent, place, &[], limit).await;
    let mut servers = Vec::new();
    if matches!(plain, Some(Trial::Made { .. })) {
        for server in &place.mcp_servers.list {
            let trial = try_in_time(agent, place, std::slice::from_ref(server), limit).await;
            let is_last = match &trial {
                None => true,
                Some(Trial::Refused(error)) => *error == unresponsive(place),
                Some(Trial::Made { .. }) => false,
            };
            servers.push((server.name.clone(), trial));
            if is_last {
                break;
            }
        }
    }
    Tried { plain, servers }
}

async fn try_in_time(
    agent: &mut LiveAgent,
    place: &LaunchSpec,
    servers: &[McpServer],
    limit: Duration,
) -> Option<Trial> {
    let tried = tokio::time::timeout(limit, try_session(agent, place, servers)).await;
    tried.unwrap_or_else(|_| Some(Trial::Refused(unresponsive(place))))
}

/// Makes a session and takes it back; `None` if the agent went away meanwhile.
async fn try_session(agent: &mut LiveAgent, place: &LaunchSpec, servers: &[McpServer]) -> Option<Trial> {
    let session = SessionWorkspace {
        cwd: &place.cwd,
        additional_directories: &[],
        mcp_servers: servers,
        besides: None,
    };
    let request = match agent.connection.new_session(session) {
        Ok(request) => request,
        Err(error) => return Some(Trial::Refused(error)),
    };
    let begun = Instant::now();
    match ask(agent, request).await? {
        AgentResponse::Opened(Ok((session, _))) => {
            let within = begun.elapsed();
            let offered = agent.connection.offered();
            let modes = offered.modes.is_some() || offered.config_options.is_some();
            take_back(agent, &session).await?;
            Some(Trial::Made { within, modes })
        }
        AgentResponse::Opened(Err(error)) => Some(Trial::Refused(error)),
        _ => None,
    }
}

/// What the agent does not offer it cannot be asked, and what it refuses is its own affair.
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

/// The answer; `None` if the agent went away first. Whatever it asks meanwhile it is denied.
async fn ask(agent: &mut LiveAgent, request: OutgoingLine) -> Option<AgentResponse> {
    request.send().await.ok()?;
    let connection = &mut agent.connection;
    loop {
        let answer = match connection.recv(MessageContext::default()).await?.meaning {
            ParsedMessage::Answer(answer) if answer != AgentResponse::Other => return Some(answer),
            ParsedMessage::Permission(ask, request) => connection.permit(&ask, &request, &Permit::Reject),
            ParsedMessage::Elicitation(ask, params) => connection.elicited(&ask, &params, &Permit::Declined),
            ParsedMessage::Refused(ask, error) => connection.refusal(&ask, &error),
            ParsedMessage::Tool(ask, request, _) => {
                connection.refusal(&ask, &RpcError::method_not_found(request.method()))
            }
            ParsedMessage::Answer(_)
            | ParsedMessage::Update(_)
            | ParsedMessage::State(..)
            | ParsedMessage::Way(_)
            | ParsedMessage::Withdrawn(_)
            | ParsedMessage::Inquired(..)
            | ParsedMessage::Nothing => continue,
        };
        answer.send().await.ok()?;
    }
}
