//! Logging in and out with an agent, in a process that is started for nothing else: what an agent keeps of it, it
//! keeps for all its processes. What it asks the user meanwhile is put to whoever logs in.
//!
//! The process is not used for a session afterwards. A session's agent runs in the session's directory, with the
//! environment of the client that wants it and as a run of its record; a process that was started before there was a
//! session has none of these. An agent that keeps a login in memory alone has it for no session.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::acp::client::{Answer, Known, Meaning, Outgoing};
use crate::machine::Permit;
use crate::model::{AgentError, LineageIndex, Seq};
use crate::wire::RpcError;

use super::advice::{Advisor, Asked, Consultations};
use super::agent::{self, FailedStart, LiveAgent};
use super::consulting::elicited;
use super::place::Place;
use super::{Engine, NewSession, Question, SessionError};

/// How long a user may take to log in, with a browser perhaps.
const PATIENCE: Duration = Duration::from_mins(10);

impl Engine {
    /// Logs the user in by one of the agent's ways. `meta` is the `_meta` object of the request.
    /// What the agent asks the user goes to the advisor; what that does not answer is declined.
    pub async fn log_in(
        &self,
        with: NewSession,
        way: &str,
        meta: Option<&str>,
        advisor: mpsc::Sender<Question>,
    ) -> Result<(), SessionError> {
        self.ask_alone(with, "authenticate", Some(&advisor), |agent| agent.connection.login(way, meta)).await
    }

    /// Logs the user out.
    pub async fn log_out(&self, with: NewSession) -> Result<(), SessionError> {
        self.ask_alone(with, "logout", None, |agent| agent.connection.logout()).await
    }

    async fn ask_alone(
        &self,
        with: NewSession,
        method: &str,
        advisor: Option<&Advisor>,
        request: impl FnOnce(&LiveAgent) -> Option<Outgoing>,
    ) -> Result<(), SessionError> {
        self.real_directory(&with.cwd).await?;
        let place = Place::alone(with);
        let shared = self.0.shared.clone();
        let started = agent::start(place.clone(), shared.clone(), &agent::unused_mark(), None).await;
        let (mut agent, _) = started.map_err(|FailedStart { error, .. }| error)?;
        let label = || place.agent.label().to_owned();
        let Some(request) = request(&agent) else {
            agent.end(shared.settings.process).await;
            return Err(AgentError::NotOffered { agent: label(), method: method.to_owned() }.into());
        };
        let answered = match tokio::time::timeout(PATIENCE, ask(&mut agent, request, advisor)).await {
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
async fn ask(
    agent: &mut LiveAgent,
    request: Outgoing,
    advisor: Option<&Advisor>,
) -> Option<Result<(), AgentError>> {
    request.send().await.ok()?;
    let connection = &mut agent.connection;
    let mut questions = Consultations::default();
    loop {
        let answer = tokio::select! {
            said = connection.recv(Known::default()) => match said?.meaning {
                Meaning::Answer(Answer::Login(answer)) => return Some(answer),
                Meaning::Elicitation(ask, params) => {
                    let version = connection.version();
                    // It is about no session, and nothing of it is kept.
                    let (seq, lineage) = (Seq::FIRST, LineageIndex::FIRST);
                    let asked = Asked { params, version, seq, lineage, wanted: None, offer: None };
                    questions.put(ask, asked, advisor);
                    continue;
                }
                // Nobody is at work here who could be permitted anything.
                Meaning::Permission(ask, request) => connection.permit(&ask, &request, &Permit::Reject),
                Meaning::Refused(ask, error) => connection.refusal(&ask, &error),
                // A login is about no session, so there is no directory whose files it could have.
                Meaning::Tool(ask, request, _) => {
                    connection.refusal(&ask, &RpcError::method_not_found(request.method()))
                }
                Meaning::Withdrawn(ask) => {
                    questions.withdraw(&ask);
                    connection.elicited(&ask, &Permit::Cancelled)
                }
                Meaning::Update(_)
                | Meaning::State(_)
                | Meaning::Answer(_)
                | Meaning::Inquired(..)
                | Meaning::Nothing => continue,
            },
            (ask, advice) = questions.next() => connection.elicited(&ask, &elicited(advice)),
        };
        answer.send().await.ok()?;
    }
}
