//! An agent looked over without a prompt: what it says of itself, what it can do, and whether it makes a session. It is
//! started for nothing else, and nothing is left of it: no process, no record, and no session where it can delete one.

use std::time::Duration;

use tokio::time::Instant;

use crate::acp::client::{Answer, Known, Meaning, Outgoing, SessionPlace};
use crate::acp::{AgentInfo, Capabilities};
use crate::machine::Permit;
use crate::model::{AcpSessionId, AgentError, AgentProfile, Profiles, ProtocolVersion};
use crate::tools::Ended;
use crate::wire::RpcError;

use super::agent::{self, FailedStart, LiveAgent};
use super::place::Place;
use super::{Engine, NewSession, SessionError};

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
    /// What came of `session/new`.
    pub trial: Trial,
    /// What came of its end.
    pub ended: Ended,
    /// How long its end took.
    pub ended_in: Duration,
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
        let (place, shared) = (Place::alone(with), self.0.shared.clone());
        let begun = Instant::now();
        let started = agent::start(place.clone(), shared.clone(), &agent::unused_mark(), None).await;
        let (mut agent, _) = started.map_err(|FailedStart { error, .. }| error)?;
        let started_in = begun.elapsed();
        let connection = &agent.connection;
        let (info, profile) = (connection.info(), AgentProfile::clone(connection.profile()));
        let (protocol, capabilities) = (connection.version(), connection.capabilities().clone());
        let answer = connection.answer().clone();
        let known_as = Profiles::built_in().name_of(&place.agent, info.name.as_deref()).map(str::to_owned);
        let limit = place.agent.patience(&profile);
        let unresponsive = || {
            let agent = place.agent.label().to_owned();
            Trial::Refused(AgentError::Unresponsive { agent, method: "session/new".to_owned() })
        };
        let tried = tokio::time::timeout(limit, try_session(&mut agent, &place)).await;
        let begun = Instant::now();
        let (trial, ended) = match tried {
            Ok(Some(trial)) => (trial, agent.end(shared.settings.process).await.ended),
            Ok(None) => {
                let (error, leftover) = agent.gone(&place, &shared.settings).await;
                (Trial::Refused(error), leftover.task.await.map_or(Ended::Left, |farewell| farewell.ended))
            }
            Err(_) => (unresponsive(), agent.end(shared.settings.process).await.ended),
        };
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
            ended,
            ended_in,
        })
    }
}

/// Makes a session and takes it back; `None` if the agent went away meanwhile.
async fn try_session(agent: &mut LiveAgent, place: &Place) -> Option<Trial> {
    let session =
        SessionPlace { cwd: &place.cwd, additional_directories: &[], mcp_servers: &[], besides: None };
    let request = match agent.connection.new_session(session) {
        Ok(request) => request,
        Err(error) => return Some(Trial::Refused(error)),
    };
    let begun = Instant::now();
    match ask(agent, request).await? {
        Answer::Opened(Ok((session, _))) => {
            let within = begun.elapsed();
            let offered = agent.connection.offered();
            let modes = offered.modes.is_some() || offered.config_options.is_some();
            take_back(agent, &session).await?;
            Some(Trial::Made { within, modes })
        }
        Answer::Opened(Err(error)) => Some(Trial::Refused(error)),
        _ => None,
    }
}

/// What the agent does not offer it cannot be asked, and what it refuses is its own affair.
async fn take_back(agent: &mut LiveAgent, session: &AcpSessionId) -> Option<()> {
    let close = agent.connection.close().map(|close| close.request(session));
    if let Some(close) = close {
        ask(agent, close).await?;
    }
    let delete = agent.connection.delete().map(|delete| delete.request(session));
    if let Some(delete) = delete {
        ask(agent, delete).await?;
    }
    Some(())
}

/// The answer; `None` if the agent went away first. Whatever it asks meanwhile it is denied.
async fn ask(agent: &mut LiveAgent, request: Outgoing) -> Option<Answer> {
    request.send().await.ok()?;
    let connection = &mut agent.connection;
    loop {
        let answer = match connection.recv(Known::default()).await?.meaning {
            Meaning::Answer(answer) if answer != Answer::Other => return Some(answer),
            Meaning::Permission(ask, request) => connection.permit(&ask, &request, &Permit::Reject),
            Meaning::Elicitation(ask, params) => connection.elicited(&ask, &params, &Permit::Declined),
            Meaning::Refused(ask, error) => connection.refusal(&ask, &error),
            Meaning::Tool(ask, request, _) => {
                connection.refusal(&ask, &RpcError::method_not_found(request.method()))
            }
            Meaning::Answer(_)
            | Meaning::Update(_)
            | Meaning::State(_)
            | Meaning::Withdrawn(_)
            | Meaning::Inquired(..)
            | Meaning::Nothing => continue,
        };
        answer.send().await.ok()?;
    }
}
