//! Agents that are started without a session: to log in or out, to read what they advertise, to probe them, and to
//! query their own sessions.
//!
//! A login or logout on request runs in its own process. Agents usually store a login for all their processes; for one
//! that keeps it in memory, acpx repeats it at each start. The process is not reused for a session, because it has
//! neither the session's directory nor the environment of its client, and it is no run of a record.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::acp::Capabilities;
use crate::acp::client::{AgentConnection, OutgoingLine};
use crate::model::AgentError;

use super::probe::{self, ProbeReport};
use crate::engine::agent::launch_spec::LaunchSpec;
use crate::engine::agent::live_agent::{self, AgentExitReport, FailedStart, LiveAgent};
use crate::engine::agent::{initialize_cache, login};
use crate::engine::permissions::request::ResponderSender;
use crate::engine::{Engine, EngineContext, NewSession, ResponderRequest, SessionError};

/// How long a user may take to log in, perhaps with a browser.
const LOGIN_LIMIT: Duration = Duration::from_mins(10);
/// How long an agent may take to log out, which involves no user.
const LOGOUT_LIMIT: Duration = Duration::from_secs(30);

/// An agent without a session. The caller must end it.
pub(super) struct StandaloneAgent {
    pub(super) agent: LiveAgent,
    pub(super) launch: LaunchSpec,
    shared: EngineContext,
    /// The time from the start of its process to its reply to `initialize`.
    pub(super) started_in: Duration,
}

impl StandaloneAgent {
    pub(super) async fn start(engine: &Engine, launch: LaunchSpec) -> Result<Self, SessionError> {
        engine.real_directory(&launch.cwd).await?;
        let shared = engine.0.shared.clone();
        let begun = Instant::now();
        let mark = crate::wire::new_uuid().to_string();
        let started = live_agent::start(launch.clone(), shared.clone(), &mark, None).await;
        let (agent, _) = started.map_err(|FailedStart { error, .. }| error)?;
        Ok(Self { agent, launch, shared, started_in: begun.elapsed() })
    }

    pub(super) async fn end(self) -> AgentExitReport {
        self.agent.end(self.shared.settings.process).await
    }

    /// Ends what is left of an agent that exited by itself, and returns how it exited.
    pub(super) async fn exited(self) -> (AgentError, Option<AgentExitReport>) {
        let (error, leftover) = self.agent.into_leftover(&self.launch, &self.shared.settings).await;
        (error, leftover.task.await.ok())
    }

    pub(super) fn unresponsive(&self, method: &str) -> AgentError {
        let (agent, method) = (self.launch.agent.label().into_owned(), method.to_owned());
        AgentError::Unresponsive { agent, method }
    }
}

impl Engine {
    /// Logs the user in with one of the agent's methods and the client's extra params. The responder receives the
    /// agent's elicitations; those it does not answer are declined. A successful login is repeated at each start of the
    /// agent for the same client.
    pub async fn log_in(
        &self,
        with: NewSession,
        method: &str,
        responder: mpsc::Sender<ResponderRequest>,
    ) -> Result<(), SessionError> {
        let (agent, logged_in, extra_params) =
            (with.agent.clone(), with.logged_in.clone(), with.extra_params.clone());
        let request = |connection: &AgentConnection| connection.login(method, extra_params.as_ref());
        self.authenticate(with, ("authenticate", LOGIN_LIMIT), Some(&responder), request).await?;
        logged_in.remember(agent, method, extra_params);
        Ok(())
    }

    /// Logs the user out. No login is repeated from then on, even if the agent does not support logout.
    pub async fn log_out(&self, with: NewSession) -> Result<(), SessionError> {
        with.logged_in.forget();
        let extra_params = with.extra_params.clone();
        let request = |connection: &AgentConnection| connection.logout(extra_params.as_ref());
        self.authenticate(with, ("logout", LOGOUT_LIMIT), None, request).await
    }

    async fn authenticate(
        &self,
        with: NewSession,
        (method, limit): (&str, Duration),
        responder: Option<&ResponderSender>,
        request: impl FnOnce(&AgentConnection) -> Option<OutgoingLine>,
    ) -> Result<(), SessionError> {
        let launch = LaunchSpec { login: None, ..LaunchSpec::alone(with) };
        let mut alone = StandaloneAgent::start(self, launch).await?;
        let connection = &mut alone.agent.connection;
        let Some(request) = request(connection) else {
            let (agent, method) = (alone.launch.agent.label().into_owned(), method.to_owned());
            alone.end().await;
            return Err(AgentError::NotOffered { agent, method }.into());
        };
        let answered = match timeout(limit, login::ask(connection, request, responder, |_| true)).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(_)) => return Err(alone.exited().await.0.into()),
            Err(_) => Err(alone.unresponsive(method)),
        };
        alone.end().await;
        Ok(answered?)
    }

    /// An agent's `initialize` result, from the cache or from a process that is started for this alone and ended before
    /// this returns.
    pub async fn agent_answer(&self, with: NewSession) -> Result<Arc<str>, SessionError> {
        let launch = LaunchSpec::alone(with);
        if let Some(answer) = initialize_cache::remembered(&self.0.shared, &launch).await? {
            return Ok(answer.into());
        }
        // Agents advertise the same capabilities before a login.
        let alone = StandaloneAgent::start(self, LaunchSpec { login: None, ..launch }).await?;
        let answer = Arc::clone(alone.agent.connection.answer());
        alone.end().await;
        Ok(answer)
    }

    /// An agent's capabilities, if they are cached. Starts nothing.
    pub(crate) async fn known_capabilities(
        &self,
        of: NewSession,
    ) -> Result<Option<Capabilities>, SessionError> {
        let answer = initialize_cache::remembered(&self.0.shared, &LaunchSpec::alone(of)).await?;
        Ok(answer.as_deref().map(Capabilities::of_answer))
    }

    /// Probes an agent without a prompt. Returns an error if it cannot be started.
    pub async fn probe(&self, with: NewSession) -> Result<ProbeReport, SessionError> {
        Ok(probe::probe_agent(StandaloneAgent::start(self, LaunchSpec::alone(with)).await?).await)
    }
}
