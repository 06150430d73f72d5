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

use crate::acp::client::{
    AgentConnection, AgentResponse, MessageContext, OutgoingLine, ParsedMessage, ReceivedMessage,
    RedactedLine,
};
use crate::acp::login_ways;
use crate::machine::Permit;
use crate::model::{AgentError, LineageIndex, LoginMethod, LoginPolicy, Seq, ways_in_words};
use crate::wire::RpcError;

use super::launch_spec::LaunchSpec;
use super::live_agent;
use super::live_agent::{FailedStart, LiveAgent};
use crate::engine::permissions::dispatch::elicited;
use crate::engine::permissions::request::{DecisionEvent, PendingDecisions, RequestDetails, ResponderSender};
use crate::engine::{Engine, NewSession, ResponderRequest, SessionError};

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
        advisor: mpsc::Sender<ResponderRequest>,
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
        advisor: Option<&ResponderSender>,
        request: impl FnOnce(&LiveAgent) -> Option<OutgoingLine>,
    ) -> Result<(), SessionError> {
        self.real_directory(&with.cwd).await?;
        let place = LaunchSpec { login: None, ..LaunchSpec::alone(with) };
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
    place: &LaunchSpec,
    patience: Duration,
    lines: &mut Vec<RedactedLine>,
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
    let keep = |line: RedactedLine| {
        room = room.saturating_sub(line.body.len() as u64);
        lines.push(line);
        room > 0
    };
    match tokio::time::timeout(patience, ask(connection, request, None, keep)).await {
        Ok(Ok(answered)) => answered.map_err(Some),
        Ok(Err(LoginReplyError::Gone)) => Err(None),
        Ok(Err(LoginReplyError::TooMuch)) => {
            let during = format!("before it answered {method}");
            Err(Some(AgentError::Flooded { agent: label(), limit: MOST_BYTES, during }))
        }
        Err(_) => Err(Some(AgentError::Unresponsive { agent: label(), method })),
    }
}

/// The login that the client has gone through, if the agent still offers that way. What was said in it besides is not
/// kept.
fn repeated(connection: &AgentConnection, place: &LaunchSpec) -> Option<OutgoingLine> {
    let login = place.logged_in.with(&place.agent)?;
    let request = connection.login(&login.way, login.besides.as_ref())?;
    Some(request.kept_with(&json!({ "methodId": login.way }).to_string()))
}

/// The first way that a credential is there for.
fn by_credential(
    connection: &AgentConnection,
    place: &LaunchSpec,
    ways: &[LoginMethod],
) -> Option<OutgoingLine> {
    let is_set = |name: &str| place.environment.get(name).is_some_and(|value| !value.is_empty());
    let way = ways.iter().find(|way| way.has_credential(is_set))?;
    connection.login(&way.id, None)
}

/// Why there is no answer.
enum LoginReplyError {
    /// The agent went away.
    Gone,
    /// It said more than is kept.
    TooMuch,
}

/// The answer. Every line is given to `keep`, which says whether there may be more.
async fn ask(
    connection: &mut AgentConnection,
    request: OutgoingLine,
    advisor: Option<&ResponderSender>,
    mut keep: impl FnMut(RedactedLine) -> bool,
) -> Result<Result<(), AgentError>, LoginReplyError> {
    keep(request.kept());
    request.send().await.map_err(|_| LoginReplyError::Gone)?;
    let mut questions = PendingDecisions::default();
    loop {
        let answer = tokio::select! {
            said = connection.recv(MessageContext::default()) => {
                let ReceivedMessage { meaning, line, .. } = said.ok_or(LoginReplyError::Gone)?;
                if !keep(line) {
                    return Err(LoginReplyError::TooMuch);
                }
                match meaning {
                    ParsedMessage::Answer(AgentResponse::Login(answer)) => return Ok(answer),
                    ParsedMessage::Elicitation(ask, params) => {
                        let version = connection.version();
                        // It is about no session, and nothing of it is kept.
                        let (seq, lineage) = (Seq::FIRST, LineageIndex::FIRST);
                        let (waits, since) = (false, None);
                        let asked = RequestDetails { params, version, seq, lineage, wanted: None, waits, since, offer: None };
                        questions.put(ask, asked, advisor);
                        continue;
                    }
                    // Nobody is at work here who could be permitted anything.
                    ParsedMessage::Permission(ask, request) => connection.permit(&ask, &request, &Permit::Reject),
                    ParsedMessage::Refused(ask, error) => connection.refusal(&ask, &error),
                    // A login is about no session, so there is no directory whose files it could have.
                    ParsedMessage::Tool(ask, request, _) => {
                        connection.refusal(&ask, &RpcError::method_not_found(request.method()))
                    }
                    ParsedMessage::Withdrawn(ask) => {
                        questions.withdraw(&ask);
                        connection.elicited(&ask, NOTHING_KEPT, &Permit::Cancelled)
                    }
                    ParsedMessage::Update(_)
                    | ParsedMessage::State(..)
                    | ParsedMessage::Way(_)
                    | ParsedMessage::Answer(_)
                    | ParsedMessage::Inquired(..)
                    | ParsedMessage::Nothing => continue,
                }
            }
            consulted = questions.next() => match consulted {
                DecisionEvent::Said(ask, advice) => {
                    let permit = advice.map_or(Permit::Declined, elicited);
                    connection.elicited(&ask, NOTHING_KEPT, &permit)
                }
                // No session waits for it.
                DecisionEvent::Put(_) => continue,
            },
        };
        keep(answer.kept());
        answer.send().await.map_err(|_| LoginReplyError::Gone)?;
    }
}
