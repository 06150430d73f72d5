//! Logging in and out with an agent, in a process that is started for nothing else: what an agent keeps of it, it
//! keeps for all its processes.

use std::time::Duration;

use crate::acp::client::{Answer, Known, Meaning, Outgoing};
use crate::model::AgentError;

use super::agent::{self, FailedStart, LiveAgent};
use super::place::Place;
use super::{Engine, NewSession, SessionError};

/// How long a user may take to log in, with a browser perhaps.
const PATIENCE: Duration = Duration::from_mins(10);

impl Engine {
    /// Logs the user in by one of the agent's ways. `meta` is the `_meta` object of the request.
    pub async fn log_in(&self, with: NewSession, way: &str, meta: Option<&str>) -> Result<(), SessionError> {
        self.ask_alone(with, "authenticate", |agent| agent.connection.login(way, meta)).await
    }

    /// Logs the user out.
    pub async fn log_out(&self, with: NewSession) -> Result<(), SessionError> {
        self.ask_alone(with, "logout", |agent| agent.connection.logout()).await
    }

    async fn ask_alone(
        &self,
        with: NewSession,
        method: &str,
        request: impl FnOnce(&LiveAgent) -> Option<Outgoing>,
    ) -> Result<(), SessionError> {
        self.real_directory(&with.cwd).await?;
        let NewSession { agent, cwd, environment, mcp_servers, .. } = with;
        let place = Place { agent, cwd, environment, mcp_servers, besides: None };
        let shared = self.0.shared.clone();
        let started = agent::start(place.clone(), shared.clone(), None).await;
        let (mut agent, _) = started.map_err(|FailedStart { error, .. }| error)?;
        let label = || place.agent.label().to_owned();
        let Some(request) = request(&agent) else {
            agent.end(shared.settings.process).await;
            return Err(AgentError::NotOffered { agent: label(), method: method.to_owned() }.into());
        };
        let answered = match tokio::time::timeout(PATIENCE, ask(&mut agent, request)).await {
            Ok(Some(answered)) => answered,
            Ok(None) => {
                let (error, leftover) = agent.gone(&place, &shared.settings).await;
                drop(leftover.task.await);
                return Err(error.into());
            }
            Err(_) => Err(AgentError::Unresponsive { agent: label(), method: method.to_owned() }),
        };
        agent.end(shared.settings.process).await;
        Ok(answered?)
    }
}

/// The answer; `None` if the agent went away first.
async fn ask(agent: &mut LiveAgent, request: Outgoing) -> Option<Result<(), AgentError>> {
    request.send().await.ok()?;
    loop {
        if let Meaning::Answer(Answer::Login(answer)) = agent.connection.recv(Known::default()).await?.meaning
        {
            return Some(answer);
        }
    }
}
