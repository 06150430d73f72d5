//! Initializes a new agent: sends `initialize` and reads the response.

use std::sync::Arc;

use agent_client_protocol_schema::{v1, v2};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::model::{AgentError, Profiles, ProtocolVersion, Secrets, join_login_methods};
use crate::wire::{InboundMessage, InboundStream, Peer, RpcError, RpcId, RpcMessage, encode};

use super::super::children::ChildSessions;
use super::super::{ExtraParams, login_methods};
use super::known_tools::KnownTools;
use super::responses;
use super::responses::AnswerSource;
use super::to_json;
use super::{AgentConnection, Capabilities, OutgoingLine, RedactedLine, inbound_line, redacted_message};
use crate::acp::acpx_peer;

/// How many bytes an agent may send before it replies to `initialize`.
const BYTES_BEFORE_ANSWER: u64 = 1 << 20;

/// An initialized agent, and the lines that were exchanged.
pub struct InitializedAgent {
    /// The connection.
    pub connection: AgentConnection,
    /// The exchanged lines, in order.
    pub lines: Vec<RedactedLine>,
}

/// A failed initialization.
#[derive(Debug)]
pub struct InitializeFailure {
    /// Why: the agent's error, or `None` if it closed its side first.
    pub error: Option<AgentError>,
    /// The lines exchanged until then.
    pub lines: Vec<RedactedLine>,
}

/// The services that acpx advertises to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OfferedServices {
    /// Files. Without them, every `fs/` request is refused as unknown.
    pub(crate) fs: bool,
    /// Commands. Without them, every `terminal/` request is refused as unknown.
    pub(crate) terminal: bool,
    /// Logins in a terminal.
    pub(crate) terminal_login: bool,
}

impl OfferedServices {
    /// Everything acpx has.
    pub(crate) const ALL: Self = Self { fs: true, terminal: true, terminal_login: true };

    /// Whether it has the service of this method.
    pub(super) fn has(self, method: &str) -> bool {
        (self.fs || !method.starts_with("fs/")) && (self.terminal || !method.starts_with("terminal/"))
    }
}

impl AgentConnection {
    /// Sends `initialize` with this protocol version and waits for the reply; the caller sets the timeout. The agent
    /// may choose an older version. The secrets were given to the agent and are redacted in every stored line.
    /// `client` is what to forward of the client's capabilities.
    pub async fn start(
        agent: &str,
        version: ProtocolVersion,
        peer: Peer,
        incoming: InboundStream,
        secrets: Secrets,
        client: Option<&ExtraParams>,
    ) -> Result<InitializedAgent, InitializeFailure> {
        Self::start_for(agent, version, (peer, incoming), secrets, (client, OfferedServices::ALL)).await
    }

    /// The same, for a client that can or cannot run a login in a terminal.
    pub(crate) async fn start_for(
        agent: &str,
        version: ProtocolVersion,
        (peer, mut incoming): (Peer, InboundStream),
        mut secrets: Secrets,
        (client, services): (Option<&ExtraParams>, OfferedServices),
    ) -> Result<InitializedAgent, InitializeFailure> {
        let mut lines = Vec::new();
        let params = initialize_params(version, client, services);
        match initialize(agent, (version, &params), &peer, &mut incoming, &mut secrets, &mut lines).await {
            Ok((version, capabilities, answer)) => {
                let (agent, tools) = (agent.to_owned(), KnownTools::default());
                let (offered, forwards, queries) = (Arc::default(), Vec::new(), Vec::new());
                let login_methods = join_login_methods(&login_methods(&answer)).map(Into::into);
                let is_host = acpx_peer::is_host(&answer);
                let connection = Self {
                    agent,
                    peer,
                    incoming,
                    version,
                    capabilities,
                    answer,
                    profile: Arc::new(Profiles::built_in().any().clone()),
                    login_methods,
                    offered,
                    forwards,
                    queries,
                    tools,
                    children: ChildSessions::default(),
                    secrets,
                    is_host,
                    services,
                };
                Ok(InitializedAgent { connection, lines })
            }
            Err(error) => Err(InitializeFailure { error, lines }),
        }
    }
}

async fn initialize(
    agent: &str,
    (version, params): (ProtocolVersion, &str),
    peer: &Peer,
    incoming: &mut InboundStream,
    secrets: &mut Secrets,
    lines: &mut Vec<RedactedLine>,
) -> Result<(ProtocolVersion, Capabilities, Arc<str>), Option<AgentError>> {
    let mut outgoing = OutgoingLine::request(peer, "initialize", params);
    outgoing.redacted = secrets.redact_json(&outgoing.line);
    lines.push(outgoing.redacted());
    outgoing.send().await.map_err(|_| None)?;
    let mut received = 0;
    while let Some(inbound) = incoming.recv().await {
        received += inbound.message().line().len() as u64;
        let line = inbound_line(&inbound, secrets);
        if let InboundMessage::Response { message, .. } = &inbound {
            let redacted = redacted_message(&inbound, &line);
            lines.push(line);
            let message = redacted.as_ref().unwrap_or(message);
            let (version, capabilities) = read_answer(version, agent, message).map_err(Some)?;
            return Ok((version, capabilities, message.result().unwrap_or("null").into()));
        }
        if received > BYTES_BEFORE_ANSWER {
            let (agent, during) = (agent.to_owned(), "before it answered initialize".to_owned());
            return Err(Some(AgentError::Flooded { agent, limit: BYTES_BEFORE_ANSWER, during }));
        }
        lines.push(line);
        if let InboundMessage::Request { id, message } = &inbound {
            // No agent sends `initialize` to its client: the program echoes its input.
            if message.method() == Some("initialize") {
                let sign = "it sends back what it is sent".to_owned();
                return Err(Some(AgentError::NotAcp { agent: agent.to_owned(), sign }));
            }
            refuse(peer, id, message, lines).await;
        }
    }
    Err(None)
}

async fn refuse(peer: &Peer, id: &RpcId, message: &RpcMessage, lines: &mut Vec<RedactedLine>) {
    let error = RpcError::method_not_found(message.method().unwrap_or_default());
    let refusal = OutgoingLine::response(peer, encode::error_response(id, &error));
    lines.push(refusal.redacted());
    // If the agent has exited, the next receive reports it.
    drop(refusal.send().await);
}

/// Our params of `initialize`, in both formats, so that a version 1 agent that is asked for version 2 can continue on
/// the same connection.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InitializeParams {
    protocol_version: u16,
    client_capabilities: Box<RawValue>,
    client_info: v1::Implementation,
    #[serde(skip_serializing_if = "Option::is_none")]
    capabilities: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    info: Option<v2::Implementation>,
}

fn initialize_params(
    version: ProtocolVersion,
    client: Option<&ExtraParams>,
    services: OfferedServices,
) -> String {
    let (name, own) = ("acpx", env!("CARGO_PKG_VERSION"));
    let elicitation = v1::ElicitationCapabilities::new()
        .form(v1::ElicitationFormCapabilities::new())
        .url(v1::ElicitationUrlCapabilities::new());
    let elicitation_v2 = v2::ElicitationCapabilities::new()
        .form(v2::ElicitationFormCapabilities::new())
        .url(v2::ElicitationUrlCapabilities::new());
    // Boolean options are filtered per client, for those that cannot show them.
    let options =
        v1::SessionConfigOptionsCapabilities::new().boolean(v1::BooleanConfigOptionCapabilities::new());
    let session = v1::ClientSessionCapabilities::new()
        .config_options(options)
        .notices(v1::NoticeCapabilities::new())
        .compaction(v1::CompactionCapabilities::new());
    // An acpx host then reports in errors where a failed turn ended.
    let client = &ExtraParams::with_ours(client, "errorData", "true");
    let is_v2 = version == ProtocolVersion::V2;
    let first = v1::ClientCapabilities::new()
        .elicitation(elicitation)
        .fs(v1::FileSystemCapabilities::new().read_text_file(services.fs).write_text_file(services.fs))
        .session(session)
        .terminal(services.terminal)
        .auth(v1::AuthCapabilities::new().terminal(services.terminal_login));
    let second = || {
        let own = to_json(&v2::ClientCapabilities::new().elicitation(elicitation_v2));
        with_clients(own, ProtocolVersion::V2, client)
    };
    to_json(&InitializeParams {
        protocol_version: version.number(),
        client_capabilities: with_clients(to_json(&first), ProtocolVersion::V1, client),
        client_info: v1::Implementation::new(name, own),
        capabilities: is_v2.then(second),
        info: is_v2.then(|| v2::Implementation::new(name, own)),
    })
}

/// Our capabilities, a JSON object with members, followed by the client's for the same version.
fn with_clients(own: String, version: ProtocolVersion, client: &ExtraParams) -> Box<RawValue> {
    let members = client.members(version);
    let both = own.strip_suffix('}').map(|own| format!("{own}{members}}}"));
    let both = both.and_then(|both| RawValue::from_string(both).ok());
    both.unwrap_or_else(|| RawValue::from_string(own).expect("what is serialized is JSON"))
}

/// The version that the agent chose: the requested one or an older one.
fn read_answer(
    requested: ProtocolVersion,
    agent: &str,
    message: &RpcMessage,
) -> Result<(ProtocolVersion, Capabilities), AgentError> {
    let speaker =
        AnswerSource { agent, version: requested, profile: Profiles::built_in().any(), login_methods: None };
    let result = match responses::result(speaker, "initialize", message) {
        Err(AgentError::Refused { agent, code: RpcError::UNSUPPORTED_VERSION, acp, .. }) => {
            let requested = requested.number();
            return Err(AgentError::VersionRefused { agent, requested, supported: supported(&acp), acp });
        }
        result => result?,
    };
    let Some(answered) = result.get("protocolVersion") else {
        return Err(AgentError::BadAnswer {
            agent: agent.to_owned(),
            method: "initialize".to_owned(),
            problem: "there is no protocolVersion".to_owned(),
        });
    };
    let number = answered.as_u64().and_then(|number| u16::try_from(number).ok());
    match number.and_then(ProtocolVersion::from_number).filter(|version| *version <= requested) {
        Some(version) => Ok((version, Capabilities::read(version, &result))),
        None => Err(AgentError::Version {
            agent: agent.to_owned(),
            requested: requested.number(),
            answered: answered.to_string().chars().take(64).collect(),
        }),
    }
}

/// The versions that an agent supports, as text.
fn supported(error: &str) -> String {
    let data = RpcError::read(error).data;
    let data: Value = data.and_then(|data| serde_json::from_str(data.get()).ok()).unwrap_or_default();
    let versions = data.get("supported").and_then(Value::as_array);
    let versions: Vec<_> = versions.into_iter().flatten().take(8).map(Value::to_string).collect();
    if versions.is_empty() { "others".to_owned() } else { versions.join(", ") }
}
