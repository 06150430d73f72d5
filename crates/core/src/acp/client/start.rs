//! From a pair of pipes to an agent that has answered `initialize`.

use std::collections::VecDeque;
use std::sync::Arc;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1 as acp;
use serde_json::Value;

use crate::model::{AgentError, Secrets};
use crate::wire::{Inbound, Incoming, Message, Peer, RpcError, RpcId, encode};

use super::{AgentConnection, Capabilities, Line, Outgoing, answer, clean_message, inbound_line};

/// How much an agent may send before it answers `initialize`.
const BYTES_BEFORE_ANSWER: u64 = 1 << 20;

/// An agent that has answered `initialize`, and the lines that took.
pub struct Started {
    /// The connection.
    pub connection: AgentConnection,
    /// What was exchanged, in order.
    pub lines: Vec<Line>,
}

/// A start that did not come to a connection.
#[derive(Debug)]
pub struct InitializeFailure {
    /// Why: the agent's error, or `None` if it closed its side first.
    pub error: Option<AgentError>,
    /// What was exchanged all the same.
    pub lines: Vec<Line>,
}

impl AgentConnection {
    /// Asks the agent to initialize and waits for its answer. How long, the caller decides. The secrets are what
    /// was given to the agent in confidence: they are kept out of every line.
    pub async fn start(
        agent: &str,
        peer: Peer,
        mut incoming: Incoming,
        mut secrets: Secrets,
    ) -> Result<Started, InitializeFailure> {
        let mut lines = Vec::new();
        match initialize(agent, &peer, &mut incoming, &mut secrets, &mut lines).await {
            Ok((capabilities, answer)) => {
                let (agent, tools) = (agent.to_owned(), VecDeque::new());
                let (offered, passed) = (Arc::default(), Vec::new());
                let connection =
                    Self { agent, peer, incoming, capabilities, answer, offered, passed, tools, secrets };
                Ok(Started { connection, lines })
            }
            Err(error) => Err(InitializeFailure { error, lines }),
        }
    }
}

async fn initialize(
    agent: &str,
    peer: &Peer,
    incoming: &mut Incoming,
    secrets: &mut Secrets,
    lines: &mut Vec<Line>,
) -> Result<(Capabilities, Arc<str>), Option<AgentError>> {
    let outgoing = Outgoing::request(peer, "initialize", &initialize_params());
    lines.push(outgoing.kept());
    outgoing.send().await.map_err(|_| None)?;
    let mut received = 0;
    while let Some(inbound) = incoming.recv().await {
        received += inbound.message().line().len() as u64;
        let line = inbound_line(&inbound, secrets);
        if let Inbound::Response { message, .. } = &inbound {
            let clean = clean_message(&inbound, &line);
            lines.push(line);
            let message = clean.as_ref().unwrap_or(message);
            let capabilities = read_answer(agent, message).map_err(Some)?;
            return Ok((capabilities, message.result().unwrap_or("null").into()));
        }
        if received > BYTES_BEFORE_ANSWER {
            let (agent, during) = (agent.to_owned(), "before it answered initialize".to_owned());
            return Err(Some(AgentError::Flooded { agent, limit: BYTES_BEFORE_ANSWER, during }));
        }
        lines.push(line);
        if let Inbound::Request { id, message } = &inbound {
            refuse(peer, id, message, lines).await;
        }
    }
    Err(None)
}

async fn refuse(peer: &Peer, id: &RpcId, message: &Message, lines: &mut Vec<Line>) {
    let error = RpcError::method_not_found(message.method().unwrap_or_default());
    let refusal = Outgoing::response(peer, encode::error_response(id, &error));
    lines.push(refusal.kept());
    // If the agent is gone, the next receive says so.
    drop(refusal.send().await);
}

fn initialize_params() -> String {
    let info = acp::Implementation::new("acpx", env!("CARGO_PKG_VERSION"));
    let request = acp::InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(acp::ClientCapabilities::new())
        .client_info(info);
    serde_json::to_string(&request).expect("the request has only strings, numbers and flags")
}

fn read_answer(agent: &str, message: &Message) -> Result<Capabilities, AgentError> {
    let result = answer::result(agent, "initialize", message, true)?;
    match result.get("protocolVersion") {
        Some(Value::Number(version)) if version.as_u64() == Some(1) => Ok(Capabilities::read(&result)),
        Some(version) => Err(AgentError::Version {
            agent: agent.to_owned(),
            answered: version.to_string().chars().take(64).collect(),
        }),
        None => Err(AgentError::BadAnswer {
            agent: agent.to_owned(),
            method: "initialize".to_owned(),
            problem: "there is no protocolVersion".to_owned(),
        }),
    }
}
