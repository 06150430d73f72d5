//! The client side of a connection to an agent, in the negotiated protocol version.
//!
//! [`AgentConnection::start`] returns only after the agent replied to `initialize`, so no connection can send anything
//! earlier. A method that needs a capability belongs to a value that only an agent with that capability provides
//! ([`AgentConnection::load`] and similar), so an unadvertised call does not compile.
//!
//! Lines are persisted before they are sent: a call returns an [`OutgoingLine`], and sending it is a separate step.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;

use crate::model::{
    AcpSessionId, AgentProfile, AgentRequestId, AgentState, Direction, EventKind, ProtocolVersion, Secrets,
    Update,
};
use crate::wire::json;
use crate::wire::{InboundMessage, InboundStream, Peer, RpcError, RpcId, RpcMessage, encode};

use super::children::ChildSessions;
use super::content::is_foreign;
use super::{AgentInfo, Capabilities, acpx_peer};

mod call;
mod elicitation;
mod error_text;
mod forward;
mod grant;
mod known_tools;
mod permission;
mod responses;
mod session_options;
mod setup;
mod start;
mod tools;

pub use call::{CloseMethod, DeleteMethod, ListMethod, OutgoingLine};
pub(crate) use elicitation::is_elicitation_answer;
pub use elicitation::is_secret_field;
pub(super) use error_text::described;
pub use known_tools::{KnownTools, tool_request_use};
pub(crate) use permission::Escalation;
pub use permission::PermissionRequest;
use responses::AnswerSource;
pub use responses::{AgentResponse, ListPage, ListedSession};
pub use session_options::SessionOffer;
pub use setup::{LoadMethod, ReplayMethod, ResumeMethod, SessionWorkspace, mcp_server_json};
pub use start::InitializedAgent;
pub(crate) use start::{InitializeFailure, OfferedServices};
pub(crate) use tools::{ExitStatus, TerminalRequest, ToolAnswer, ToolRequest};

/// A connection to an agent that has replied to `initialize`.
pub struct AgentConnection {
    agent: String,
    peer: Peer,
    incoming: InboundStream,
    version: ProtocolVersion,
    capabilities: Capabilities,
    /// Its result of `initialize`.
    answer: Arc<str>,
    profile: Arc<AgentProfile>,
    /// Its login methods, as text.
    login_methods: Option<Box<str>>,
    offered: Arc<SessionOffer>,
    /// Forwarded client requests without a response.
    forwards: Vec<forward::PendingForward>,
    /// Queries without a response.
    queries: Vec<RpcId>,
    tools: KnownTools,
    /// The sessions of its sub-agents.
    children: ChildSessions,
    /// Values to redact in every stored line.
    secrets: Secrets,
    /// Whether it is an acpx host.
    is_host: bool,
    /// What it was offered in `initialize`.
    services: OfferedServices,
}

/// One line exchanged with the agent, as stored: without secret values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedactedLine {
    /// Its direction.
    pub direction: Direction,
    /// Its kind.
    pub kind: EventKind,
    body: Arc<str>,
}

impl RedactedLine {
    /// A line whose body has no secrets: the caller redacted it, or wrote it itself.
    pub(crate) fn assume_redacted(direction: Direction, kind: EventKind, body: Arc<str>) -> Self {
        Self { direction, kind, body }
    }

    /// The redacted line.
    pub fn body(&self) -> &Arc<str> {
        &self.body
    }
}

/// The session's state when a message arrives, needed to interpret it.
#[derive(Debug, Clone, Copy, Default)]
pub struct MessageContext<'a> {
    /// Its id. An update for another session is stored but does not belong to this conversation.
    pub session: Option<&'a AcpSessionId>,
}

/// A received message and its line.
#[derive(Debug)]
pub struct ReceivedMessage {
    /// What it means.
    pub meaning: ParsedMessage,
    /// Its line, as stored.
    pub line: RedactedLine,
    /// Its size on the wire, in bytes.
    pub size: usize,
}

/// The meaning of a message.
#[derive(Debug)]
pub enum ParsedMessage {
    /// An update of the session.
    Update(Update),
    /// Whether the agent works, and whether it also has background work.
    State(AgentState, bool),
    /// A permission request.
    Permission(AgentRequestId, PermissionRequest),
    /// An elicitation, with the request's params.
    Elicitation(AgentRequestId, Arc<str>),
    /// A file or terminal request, with the params as the agent wrote them.
    Tool(AgentRequestId, ToolRequest, Arc<str>),
    /// The connection to a remote agent was lost or restored.
    LinkState(RemoteLinkState),
    /// The agent withdrew a request.
    Withdrawn(AgentRequestId),
    /// A request that is refused, with the error.
    Refused(AgentRequestId, RpcError),
    /// A response to one of our requests.
    Answer(AgentResponse),
    /// A response to a query, which is not part of the session.
    QueryAnswer(RpcId, AgentResponse),
    /// Nothing to act on: another notification, or a response to no request.
    Nothing,
}

/// The state of the connection to a remote agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteLinkState {
    /// Lost; a reconnect is in progress.
    Gone,
    /// Restored.
    There,
}

impl ParsedMessage {
    /// The id of the request, if it needs a response.
    pub(crate) fn ask(&self) -> Option<&AgentRequestId> {
        match self {
            Self::Permission(ask, _)
            | Self::Elicitation(ask, _)
            | Self::Tool(ask, ..)
            | Self::Refused(ask, _) => Some(ask),
            Self::Update(_)
            | Self::State(..)
            | Self::LinkState(_)
            | Self::Withdrawn(_)
            | Self::Answer(_)
            | Self::QueryAnswer(..)
            | Self::Nothing => None,
        }
    }
}

impl AgentConnection {
    /// The negotiated protocol version.
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// The agent's capabilities.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The result of `initialize`, as the agent wrote it.
    pub fn answer(&self) -> &Arc<str> {
        &self.answer
    }

    /// Whether the agent is an acpx host, which numbers its events.
    pub(crate) fn is_host(&self) -> bool {
        self.is_host
    }

    /// The agent's name and version, as it reports them.
    pub(crate) fn info(&self) -> AgentInfo {
        AgentInfo::of_answer(&self.answer)
    }

    /// The agent's profile; the generic one until another is set.
    pub(crate) fn profile(&self) -> &Arc<AgentProfile> {
        &self.profile
    }

    /// Sets the agent's profile.
    pub(crate) fn set_profile(&mut self, profile: Arc<AgentProfile>) {
        self.profile = profile;
    }

    fn speaker(&self) -> AnswerSource<'_> {
        let login_methods = self.login_methods.as_deref();
        AnswerSource { agent: &self.agent, version: self.version, profile: &self.profile, login_methods }
    }

    /// The session's current modes, models, options and commands.
    pub fn offered(&self) -> &Arc<SessionOffer> {
        &self.offered
    }

    /// The sending half.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The next message of the agent; `None` when the connection has ended.
    pub async fn recv(&mut self, known: MessageContext<'_>) -> Option<ReceivedMessage> {
        let inbound = self.incoming.recv().await?;
        Some(self.interpret(&inbound, known))
    }

    /// The next message, if it has already arrived.
    pub(crate) fn try_recv(&mut self, known: MessageContext<'_>) -> Option<ReceivedMessage> {
        let inbound = self.incoming.try_recv()?;
        Some(self.interpret(&inbound, known))
    }

    /// Why the connection ended, once it has.
    pub fn end(&self) -> Option<crate::wire::DisconnectReason> {
        self.incoming.end()
    }

    fn interpret(&mut self, inbound: &InboundMessage, known: MessageContext<'_>) -> ReceivedMessage {
        let mut line = inbound_line(inbound, &mut self.secrets);
        let redacted = redacted_message(inbound, &line);
        let message = redacted.as_ref().unwrap_or_else(|| inbound.message());
        let params = message.params().unwrap_or("null");
        let is_foreign = |session| is_foreign(params, session);
        if line.kind == EventKind::Update {
            if known.session.is_some_and(is_foreign) {
                line.kind = EventKind::Notification;
                self.take_child_update(params);
            } else {
                self.children.learn(update_of(params));
            }
        }
        let meaning = match inbound {
            InboundMessage::Notification(_) if line.kind == EventKind::Update => self.update(message),
            InboundMessage::Notification(_) if message.method() == Some("$/cancel_request") => {
                withdrawn(message)
            }
            InboundMessage::Notification(_) if self.is_host => match message.method() {
                Some(acpx_peer::STATE) if !known.session.is_some_and(is_foreign) => {
                    self.state(message.params().unwrap_or("null")).unwrap_or(ParsedMessage::Nothing)
                }
                Some(acpx_peer::AWAY) => ParsedMessage::LinkState(RemoteLinkState::Gone),
                Some(acpx_peer::BACK) => ParsedMessage::LinkState(RemoteLinkState::There),
                _ => ParsedMessage::Nothing,
            },
            InboundMessage::Notification(_) | InboundMessage::Stray(_) => ParsedMessage::Nothing,
            InboundMessage::Request { id, message: written } => {
                self.request(id, message, written, known.session)
            }
            InboundMessage::Response { id, method, .. } if self.take_query(id) => {
                ParsedMessage::QueryAnswer(id.clone(), responses::read(self.speaker(), method, message))
            }
            InboundMessage::Response { id, method, .. } => {
                ParsedMessage::Answer(self.answered(id, method, message))
            }
        };
        ReceivedMessage { meaning, line, size: inbound.message().line().len() }
    }

    fn answered(&mut self, id: &RpcId, method: &str, message: &RpcMessage) -> AgentResponse {
        if let Some(response) = self.take_forwarded(id, method, message) {
            return response;
        }
        if matches!(method, "session/new" | "session/fork" | "session/load" | "session/resume") {
            self.tools = KnownTools::new(matches!(method, "session/load" | "session/resume"));
            self.offer(message.result().and_then(|result| self.offered.after_setup(result)));
        }
        responses::read(self.speaker(), method, message)
    }

    fn offer(&mut self, changed: Option<SessionOffer>) {
        if let Some(offered) = changed {
            self.offered = Arc::new(offered);
        }
    }

    fn update(&mut self, message: &RpcMessage) -> ParsedMessage {
        self.offer(self.offered.after_update(message.params().unwrap_or("null")));
        let params = message.params().unwrap_or("null");
        let update = match self.version {
            ProtocolVersion::V1 => super::update(params),
            ProtocolVersion::V2 => match self.state(params) {
                Some(state) => return state,
                None => super::update_v2(params),
            },
        };
        if let Update::Tool { call, fields, .. } = &update {
            self.tools.remember(call, fields);
        }
        ParsedMessage::Update(update)
    }

    /// Handles an update of another session. Tool calls of a child session are remembered, because its permission
    /// requests refer to them.
    fn take_child_update(&mut self, params: &str) {
        if !named_session(params).is_some_and(|session| self.children.contains(&session)) {
            return;
        }
        self.children.learn(update_of(params));
        let update = match self.version {
            ProtocolVersion::V1 => super::update(params),
            ProtocolVersion::V2 => super::update_v2(params),
        };
        if let Update::Tool { call, fields, .. } = &update {
            self.tools.remember(call, fields);
        }
    }

    /// The agent's state, if the params contain a state update.
    fn state(&self, params: &str) -> Option<ParsedMessage> {
        let state = responses::state(self.speaker(), super::state_update(params)?);
        Some(ParsedMessage::State(state, super::has_background(params)))
    }

    /// Interprets a request. `written` is the message as received, `message` the same without secrets.
    fn request(
        &self,
        id: &RpcId,
        message: &RpcMessage,
        written: &RpcMessage,
        session: Option<&AcpSessionId>,
    ) -> ParsedMessage {
        let ask = AgentRequestId(id.as_str().into());
        let params = message.params().unwrap_or("null");
        match message.method() {
            Some("session/request_permission") => match self.about(params, session, true) {
                Err(error) => ParsedMessage::Refused(ask, error),
                Ok(()) if !PermissionRequest::has_options(params) => {
                    ParsedMessage::Refused(ask, RpcError::invalid_params("options must be an array"))
                }
                Ok(()) => ParsedMessage::Permission(ask, self.tools.permission(params)),
            },
            // An elicitation for one of our requests names no session.
            Some("elicitation/create") => match self.about(params, session, false) {
                Err(error) => ParsedMessage::Refused(ask, error),
                Ok(()) => ParsedMessage::Elicitation(ask, params.into()),
            },
            method => {
                let method = method.unwrap_or_default();
                match self.tool(method, written.params().unwrap_or("null"), session) {
                    Ok((request, params)) => ParsedMessage::Tool(ask, request, params),
                    Err(error) => ParsedMessage::Refused(ask, error),
                }
            }
        }
    }

    /// A file or terminal request, which only version 1 has.
    fn tool(
        &self,
        method: &str,
        params: &str,
        session: Option<&AcpSessionId>,
    ) -> Result<(ToolRequest, Arc<str>), RpcError> {
        let read = match self.version {
            ProtocolVersion::V1 if self.services.has(method) => ToolRequest::read(method, params),
            ProtocolVersion::V1 | ProtocolVersion::V2 => None,
        };
        let read = read.ok_or_else(|| RpcError::method_not_found(method))?;
        self.about(params, session, true)?;
        Ok((read?, params.into()))
    }

    /// Checks that a request is about this session or one of its children: an agent may have other sessions, which are
    /// unknown here.
    fn about(&self, params: &str, session: Option<&AcpSessionId>, is_named: bool) -> Result<(), RpcError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Named<'a> {
            #[serde(borrow)]
            session_id: Option<Cow<'a, str>>,
        }
        let Named { session_id } = serde_json::from_str(params)
            .map_err(|error| RpcError::invalid_params(format!("cannot be read: {error}")))?;
        match (session_id, session) {
            (None, _) if is_named => Err(RpcError::invalid_params("sessionId is missing")),
            (Some(named), Some(session)) if named != session.as_str() && !self.children.contains(&named) => {
                let data = serde_json::json!({ "sessionId": named });
                let error = RpcError::new(RpcError::RESOURCE_NOT_FOUND, "there is no such session");
                Err(error.with_data(&data.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// The error response to an agent's request.
    pub(crate) fn refusal(&self, ask: &AgentRequestId, error: &RpcError) -> OutgoingLine {
        self.redacted_response(encode::error_response(&rpc_id(ask), error))
    }
}

/// The `update` in the params of a `session/update`.
fn update_of(params: &str) -> &str {
    json::get(params, &["update"]).unwrap_or("null")
}

fn named_session(params: &str) -> Option<String> {
    serde_json::from_str(json::get(params, &["sessionId"])?).ok()
}

/// The request that a `$/cancel_request` names.
fn withdrawn(message: &RpcMessage) -> ParsedMessage {
    let params = message.params().unwrap_or("null");
    let id = json::get(params, &["requestId"]).and_then(RpcId::from_raw);
    id.map_or(ParsedMessage::Nothing, |id| ParsedMessage::Withdrawn(AgentRequestId(id.as_str().into())))
}

fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("our parameters have only strings and lists of them")
}

fn rpc_id(ask: &AgentRequestId) -> RpcId {
    RpcId::from_raw(&ask.0).unwrap_or_else(RpcId::null)
}

/// An inbound message as stored.
fn inbound_line(inbound: &InboundMessage, secrets: &mut Secrets) -> RedactedLine {
    let message = inbound.message();
    let kind = match inbound {
        InboundMessage::Request { .. } => EventKind::Request,
        InboundMessage::Notification(_) if message.method() == Some("session/update") => EventKind::Update,
        InboundMessage::Notification(_) => EventKind::Notification,
        InboundMessage::Response { .. } | InboundMessage::Stray(_) => EventKind::Response,
    };
    let redacted = match message.method() {
        Some(method) => secrets.redact_call(message.line(), method, message.params()),
        None => secrets.redact_json(message.line()),
    };
    let body = redacted.map_or_else(|| message.line().clone(), Arc::from);
    RedactedLine { direction: Direction::FromAgent, kind, body }
}

/// The message as stored, if redaction changed it. We act on the stored message, so that no secret reaches an error.
fn redacted_message(inbound: &InboundMessage, line: &RedactedLine) -> Option<RpcMessage> {
    let is_another = !Arc::ptr_eq(&line.body, inbound.message().line());
    if is_another { RpcMessage::parse(line.body.clone()).ok() } else { None }
}
