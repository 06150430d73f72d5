//! Login and logout with an agent.
//!
//! Every start of an agent logs in before any other request: with the method that its client used before, or else with
//! the first method that has a credential. The credential is in the agent's environment, not in the request.
//! The agent's elicitations go to the client that logs in.

use std::time::Duration;

use serde_json::json;

use crate::acp::client::{
    AgentConnection, AgentResponse, MessageContext, OutgoingLine, ParsedMessage, ReceivedMessage,
    RedactedLine,
};
use crate::acp::login_methods;
use crate::model::{AgentError, LineageIndex, LoginMethod, LoginPolicy, Permit, Seq, join_login_methods};

use super::launch_spec::LaunchSpec;
use crate::engine::permissions::dispatch::elicited;
use crate::engine::permissions::request::{DecisionEvent, PendingDecisions, RequestDetails, ResponderSender};

/// Params for redacting the stored reply to an elicitation. None are needed: when a user answers, no line is stored.
const NOTHING_KEPT: &str = "null";
/// How many bytes an agent may send during an automatic login.
const MOST_BYTES: u64 = 1 << 20;

/// Repeats the client's login, or else uses the first method that has a credential. The error is `None` if the agent
/// exited.
pub(crate) async fn at_start(
    connection: &mut AgentConnection,
    launch: &LaunchSpec,
    start_limit: Duration,
    lines: &mut Vec<RedactedLine>,
) -> Result<(), Option<AgentError>> {
    let Some(policy) = launch.login else { return Ok(()) };
    let login_methods = login_methods(connection.answer());
    let label = || launch.agent.label().into_owned();
    let Some(request) =
        repeated(connection, launch).or_else(|| by_credential(connection, launch, &login_methods))
    else {
        return match (policy, join_login_methods(&login_methods)) {
            (LoginPolicy::Fail, Some(login_methods)) => {
                Err(Some(AgentError::NoCredential { agent: label(), login_methods }))
            }
            _ => Ok(()),
        };
    };
    let method = request.method().to_owned();
    let mut room = MOST_BYTES;
    let keep = |line: RedactedLine| {
        room = room.saturating_sub(line.body().len() as u64);
        lines.push(line);
        room > 0
    };
    match tokio::time::timeout(start_limit, ask(connection, request, None, keep)).await {
        Ok(Ok(answered)) => answered.map_err(Some),
        Ok(Err(LoginReplyError::Gone)) => Err(None),
        Ok(Err(LoginReplyError::TooMuch)) => {
            let during = format!("before it answered {method}");
            Err(Some(AgentError::Flooded { agent: label(), limit: MOST_BYTES, during }))
        }
        Err(_) => Err(Some(AgentError::Unresponsive { agent: label(), method })),
    }
}

/// The request that repeats the client's login, if the agent still offers that method. Its extra params are not
/// persisted.
fn repeated(connection: &AgentConnection, launch: &LaunchSpec) -> Option<OutgoingLine> {
    let login = launch.logged_in.with(&launch.agent)?;
    let request = connection.login(&login.method, login.extra_params.as_ref())?;
    Some(request.kept_with(&json!({ "methodId": login.method }).to_string()))
}

/// A login with the first method that has a credential.
fn by_credential(
    connection: &AgentConnection,
    launch: &LaunchSpec,
    login_methods: &[LoginMethod],
) -> Option<OutgoingLine> {
    let is_set = |name: &str| launch.environment.get(name).is_some_and(|value| !value.is_empty());
    let method = login_methods.iter().find(|method| method.has_credential(is_set))?;
    connection.login(&method.id, None)
}

/// Why there is no reply.
pub(crate) enum LoginReplyError {
    /// The agent exited.
    Gone,
    /// It sent more than the limit.
    TooMuch,
}

/// Sends a request and returns its reply. Every line goes to `keep`, which returns whether more may follow.
pub(crate) async fn ask(
    connection: &mut AgentConnection,
    request: OutgoingLine,
    responder: Option<&ResponderSender>,
    mut keep: impl FnMut(RedactedLine) -> bool,
) -> Result<Result<(), AgentError>, LoginReplyError> {
    keep(request.redacted());
    request.send().await.map_err(|_| LoginReplyError::Gone)?;
    let mut questions = PendingDecisions::default();
    loop {
        let answer = tokio::select! {
            message = connection.recv(MessageContext::default()) => {
                let ReceivedMessage { meaning, line, .. } = message.ok_or(LoginReplyError::Gone)?;
                if !keep(line) {
                    return Err(LoginReplyError::TooMuch);
                }
                match meaning {
                    ParsedMessage::Answer(AgentResponse::Login(answer)) => return Ok(answer),
                    ParsedMessage::Elicitation(ask, params) => {
                        let version = connection.version();
                        // It belongs to no session and is not persisted.
                        let (seq, lineage) = (Seq::FIRST, LineageIndex::FIRST);
                        let (waits, since) = (false, None);
                        let details = RequestDetails { params, version, seq, lineage, wanted: None, waits, since, offer: None };
                        questions.send(ask, details, responder);
                        continue;
                    }
                    ParsedMessage::Withdrawn(ask) => {
                        questions.withdraw(&ask);
                        connection.elicited(&ask, NOTHING_KEPT, &Permit::Cancelled)
                    }
                    message => match connection.deny(&message) {
                        Some(denial) => denial,
                        None => continue,
                    },
                }
            }
            consulted = questions.next() => match consulted {
                DecisionEvent::Decided(ask, decision) => {
                    let permit = decision.map_or(Permit::Declined, elicited);
                    connection.elicited(&ask, NOTHING_KEPT, &permit)
                }
                // No session waits for it.
                DecisionEvent::Pending(..) => continue,
            },
        };
        keep(answer.redacted());
        answer.send().await.map_err(|_| LoginReplyError::Gone)?;
    }
}
