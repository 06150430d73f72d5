//! From a pair of pipes to an agent that has answered `initialize`.

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1 as acp;
use serde_json::Value;

use crate::model::AgentError;
use crate::wire::{Inbound, Incoming, Message, Peer, RpcError, RpcId, encode};

use super::{AgentConnection, Capabilities, Line, Outgoing, answer, inbound_line};

/// How many lines an agent may send before it answers `initialize`.
const LINES_BEFORE_ANSWER: usize = 256;

/// An agent that has answered `initialize`, and the lines that took.
pub struct Started {
    /// The connection.
    pub connection: AgentConnection,
    /// What was exchanged, in order.
    pub lines: Vec<Line>,
}

/// Why there is no connection.
#[derive(Debug)]
pub enum InitializeFailure {
    /// The agent closed its side first.
    Ended,
    /// It answered, and not well.
    Agent(AgentError),
}

impl AgentConnection {
    /// Asks the agent to initialize and waits for its answer. How long, the caller decides.
    pub async fn start(
        agent: &str,
        peer: Peer,
        mut incoming: Incoming,
    ) -> Result<Started, InitializeFailure> {
        let outgoing = Outgoing::request(&peer, "initialize", &initialize_params());
        let mut lines = vec![outgoing.kept()];
        if let Some(id) = outgoing.id
            && peer.send_request(id, outgoing.method, outgoing.line).await.is_err()
        {
            return Err(InitializeFailure::Ended);
        }
        while let Some(inbound) = incoming.recv().await {
            lines.push(inbound_line(&inbound));
            match inbound {
                Inbound::Response { message, .. } => {
                    let capabilities = read_answer(agent, &message).map_err(InitializeFailure::Agent)?;
                    let agent = agent.to_owned();
                    let connection = Self {
                        agent,
                        peer,
                        incoming,
                        capabilities,
                        tools: std::collections::VecDeque::new(),
                    };
                    return Ok(Started { connection, lines });
                }
                Inbound::Request { id, message } => refuse(&peer, &id, &message, &mut lines).await,
                Inbound::Notification(_) | Inbound::Stray(_) => {}
            }
            if lines.len() > LINES_BEFORE_ANSWER {
                let during = "before it answered initialize".to_owned();
                let limit = lines.iter().map(|line| line.body.len() as u64).sum();
                return Err(InitializeFailure::Agent(AgentError::Flooded {
                    agent: agent.to_owned(),
                    limit,
                    during,
                }));
            }
        }
        Err(InitializeFailure::Ended)
    }
}

async fn refuse(peer: &Peer, id: &RpcId, message: &Message, lines: &mut Vec<Line>) {
    let error = RpcError::method_not_found(message.method().unwrap_or_default());
    let refusal = Outgoing::response(encode::error_response(id, &error));
    lines.push(refusal.kept());
    // If the agent is gone, the next receive says so.
    drop(peer.send(refusal.line).await);
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
