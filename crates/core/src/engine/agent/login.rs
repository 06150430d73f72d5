//! Logging in and out with an agent.
//!
//! Every start of an agent logs in by itself, before anything else is asked of the agent: by the way that its client has
//! gone already, or else by the first of the agent's ways that a credential is there for. The credential is in the agent's
//! environment, and the request does not have it.
//!
//! What a user asks for is done in a process that is started for nothing else. What an agent keeps of it for all its
//! processes is kept; for one that keeps it in memory alone it is repeated at each start. What it asks the user meanwhile is put to whoever logs in. The process is not used for a session
//! afterwards. A session's agent runs in the session's directory, with the environment of the client that wants it and as
//! a run of its record; a process that was started before there was a session has none of these.

use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;

use crate::acp::client::{AgentConnection, Answer, FromAgent, Known, Line, Meaning, Outgoing};
use crate::acp::login_ways;
use crate::machine::Permit;
use crate::model::{AgentError, LineageIndex, LoginPolicy, LoginWay, Seq, ways_in_words};
use crate::wire::RpcError;

use super::launch_spec::Place;
use super::live_agent;
use super::live_agent::{FailedStart, LiveAgent};
use crate::engine::permissions::dispatch::elicited;
use crate::engine::permissions::request::{Advisor, Asked, Consultations, Consulted};
use crate::engine::{Engine, NewSession, Question, SessionError};

/// How long a user may take to log in, with a browser perhaps.
const PATIENCE: Duration = Duration::from_mins(10);
/// How long an agent may take to log out, which is nobody's work but its own.
const LOGOUT_LIMIT: Duration = Duration::from_secs(30);
/// What is asked during a login is not looked at: where a user answers, no line is kept.
const NOTHING_KEPT: &str = "null";
/// How much an agent may say while it logs in by itself.
const MOST_BYTES: u64 = 1 << 20;

impl Engine {
    /// Logs the user in by one of the agent's ways, with what the client says besides. What the agent asks the user goes to
    /// the advisor; what that does not answer is declined. Once it has succeeded it is repeated at each start of the agent
    /// that is given the same [`LoggedIn`](super::LoggedIn).
    pub async fn log_in(
        &self,
        with: NewSession,
        way: &str,
        advisor: mpsc::Sender<Question>,
    ) -> Result<(), SessionError> {
        let (agent, logged_in, besides) = (with.agent.clone(), with.logged_in.clone(), with.besides.clone());
        let request = |agent: &LiveAgent| agent.connection.login(way, besides.as_ref());
        self.ask_alone(with, ("authenticate", PATIENCE), Some(&advisor), request).await?;
        logged_in.remember(agent, way, besides);
        Ok(())
    }

    /// Logs the user out. No login is repeated any more, whether or not the agent can log out.
    pub async fn log_out(&self, with: NewSession) -> Result<(), SessionError> {
        with.logged_in.forget();
        let besides = with.besides.clone();
        let request = |agent: &LiveAgent| agent.connection.logout(besides.as_ref());
        self.ask_alone(with, ("logout", LOGOUT_LIMIT), None, request).await
    }

    async fn ask_alone(
        &self,
        with: NewSession,
        (method, limit): (&str, Duration),
        advisor: Option<&Advisor>,
        request: impl FnOnce(&LiveAgent) -> Option<Outgoing>,
    ) -> Result<(), SessionError> {
        self.real_directory(&with.cwd).await?;
        let place = Place { login: None, ..Place::alone(with) };
        let shared = self.0.shared.clone();
        let started =
            live_agent::start(place.clone(), shared.clone(), &live_agent::unused_mark(), None).await;
        let (mut agent, _) = started.map_err(|FailedStart { error, .. }| error)?;
        let label = || place.agent.label().into_owned();
        let Some(request) = request(&agent) else {
            agent.end(shared.settings.process).await;
            return Err(AgentError::NotOffered { agent: label(), method: method.to_owned() }.into());
        };
        let answered =
            match tokio::time::timeout(limit, ask(&mut agent.connection, request, advisor, |_| true)).await {
                Ok(Ok(answered)) => answered,
                Ok(Err(_)) => {
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

/// Logs in as its client has, or else with the first way that a credential is there for. The error is `None` if the agent went away.
pub(crate) async fn at_start(
    connection: &mut AgentConnection,
    place: &Place,
    patience: Duration,
    lines: &mut Vec<Line>,
) -> Result<(), Option<AgentError>> {
    let Some(policy) = place.login else { return Ok(()) };
    let ways = login_ways(connection.answer());
    let label = || place.agent.label().into_owned();
    let Some(request) = repeated(connection, place).or_else(|| by_credential(connection, place, &ways))
    else {
        return match (policy, ways_in_words(&ways)) {
            (LoginPolicy::Fail, Some(ways)) => Err(Some(AgentError::NoCredential { agent: label(), ways })),
            _ => Ok(()),
        };
    };
    let method = request.method().to_owned();
    let mut room = MOST_BYTES;
    let keep = |line: Line| {
        room = room.saturating_sub(line.body.len() as u64);
        lines.push(line);
        room > 0
    };
    match tokio::time::timeout(patience, ask(connection, request, None, keep)).await {
        Ok(Ok(answered)) => answered.map_err(Some),
        Ok(Err(Unanswered::Gone)) => Err(None),
        Ok(Err(Unanswered::TooMuch)) => {
            let during = format!("before it answered {method}");
            Err(Some(AgentError::Flooded { agent: label(), limit: MOST_BYTES, during }))
        }
        Err(_) => Err(Some(AgentError::Unresponsive { agent: label(), method })),
    }
}

/// The login that the client has gone through, if the agent still offers that way. What was said in it besides is not
/// kept.
fn repeated(connection: &AgentConnection, place: &Place) -> Option<Outgoing> {
    let login = place.logged_in.with(&place.agent)?;
    let request = connection.login(&login.way, login.besides.as_ref())?;
    Some(request.kept_with(&json!({ "methodId": login.way }).to_string()))
}

/// The first way that a credential is there for.
fn by_credential(connection: &AgentConnection, place: &Place, ways: &[LoginWay]) -> Option<Outgoing> {
    let is_set = |name: &str| place.environment.get(name).is_some_and(|value| !value.is_empty());
    let way = ways.iter().find(|way| way.has_credential(is_set))?;
    connection.login(&way.id, None)
}

/// Why there is no answer.
enum Unanswered {
    /// The agent went away.
    Gone,
    /// It said more than is kept.
    TooMuch,
}

/// The answer. Every line is given to `keep`, which says whether there may be more.
async fn ask(
    connection: &mut AgentConnection,
    request: Outgoing,
    advisor: Option<&Advisor>,
    mut keep: impl FnMut(Line) -> bool,
) -> Result<Result<(), AgentError>, Unanswered> {
    keep(request.kept());
    request.send().await.map_err(|_| Unanswered::Gone)?;
    let mut questions = Consultations::default();
    loop {
        let answer = tokio::select! {
            said = connection.recv(Known::default()) => {
                let FromAgent { meaning, line, .. } = said.ok_or(Unanswered::Gone)?;
                if !keep(line) {
                    return Err(Unanswered::TooMuch);
                }
                match meaning {
                    Meaning::Answer(Answer::Login(answer)) => return Ok(answer),
                    Meaning::Elicitation(ask, params) => {
                        let version = connection.version();
                        // It is about no session, and nothing of it is kept.
                        let (seq, lineage) = (Seq::FIRST, LineageIndex::FIRST);
                        let (waits, since) = (false, None);
                        let asked = Asked { params, version, seq, lineage, wanted: None, waits, since, offer: None };
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
                        connection.elicited(&ask, NOTHING_KEPT, &Permit::Cancelled)
                    }
                    Meaning::Update(_)
                    | Meaning::State(..)
                    | Meaning::Way(_)
                    | Meaning::Answer(_)
                    | Meaning::Inquired(..)
                    | Meaning::Nothing => continue,
                }
            }
            consulted = questions.next() => match consulted {
                Consulted::Said(ask, advice) => {
                    let permit = advice.map_or(Permit::Declined, elicited);
                    connection.elicited(&ask, NOTHING_KEPT, &permit)
                }
                // No session waits for it.
                Consulted::Put(_) => continue,
            },
        };
        keep(answer.kept());
        answer.send().await.map_err(|_| Unanswered::Gone)?;
    }
}
