//! Our side of a connection to an agent, in the version of the protocol that the two agreed on.
//!
//! [`AgentConnection::start`] returns only after `initialize` was answered, so there is no connection that
//! could send anything earlier. A method that needs a capability is on a value that only an agent with the
//! capability gives out ([`AgentConnection::load`] and its neighbours): calling it without does not compile.
//!
//! Nothing is sent here before its line could be kept: a call yields an [`OutgoingLine`], and sending it is
//! another step.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;

use crate::machine::{AgentState, AskId};
use crate::model::{AcpSessionId, AgentProfile, Direction, EventKind, ProtocolVersion, Secrets, Update};
use crate::wire::splice::{PathStep, locate};
use crate::wire::{InboundMessage, InboundStream, Peer, RpcError, RpcId, RpcMessage, encode};

use super::children::ChildSessions;
use super::content::is_foreign;
use super::{AgentInfo, Capabilities, far_host};

mod answer;
mod call;
mod elicitation;
mod granted;
mod inquiry;
mod known_tools;
mod offered;
mod pass;
mod permission;
mod setup;
mod start;
mod tools;
mod words;

use answer::AnswerSource;
pub use answer::{AgentResponse, ListPage, ListedSession};
pub use call::{CloseMethod, DeleteMethod, ListMethod, OutgoingLine};
pub(crate) use elicitation::is_elicitation_answer;
pub use elicitation::is_secret_field;
pub use known_tools::{KnownTools, tool_request_use};
pub use offered::SessionOffer;
pub use pass::ForwardMethod;
pub use permission::{Escalation, PermissionRequest};
pub use setup::{LoadMethod, ReplayMethod, ResumeMethod, SessionWorkspace};
pub use start::{InitializeFailure, InitializedAgent};
pub use tools::{ExitStatus, TerminalRequest, ToolAnswer, ToolRequest};
pub(super) use words::described;

/// A connection to an agent that has answered `initialize`.
pub struct AgentConnection {
    agent: String,
    peer: Peer,
    incoming: InboundStream,
    version: ProtocolVersion,
    capabilities: Capabilities,
    /// Its answer to `initialize`.
    answer: Arc<str>,
    profile: Arc<AgentProfile>,
    /// The ways to log in that it offers, in words.
    login_ways: Option<Box<str>>,
    offered: Arc<SessionOffer>,
    /// Requests of clients that are out.
    passed: Vec<pass::PendingForward>,
    /// Inquiries that are out.
    inquiries: Vec<RpcId>,
    tools: KnownTools,
    /// Its sub-agents.
    children: ChildSessions,
    /// What is kept out of every line.
    secrets: Secrets,
    /// Whether it is a host of ours.
    is_host: bool,
}

/// One line exchanged with the agent, as it is kept: secret values replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedactedLine {
    /// Who said it.
    pub direction: Direction,
    /// What sort of line it is.
    pub kind: EventKind,
    /// The line.
    pub body: Arc<str>,
}

/// What is known of the session when a message comes: it decides what the message means.
#[derive(Debug, Clone, Copy, Default)]
pub struct MessageContext<'a> {
    /// Its id. An update for another session is kept and is no part of this conversation.
    pub session: Option<&'a AcpSessionId>,
}

/// What the agent sent, and its line.
#[derive(Debug)]
pub struct ReceivedMessage {
    /// What it means.
    pub meaning: ParsedMessage,
    /// How it is kept.
    pub line: RedactedLine,
    /// How many bytes it was on the wire.
    pub size: usize,
}

/// What a message of the agent means.
#[derive(Debug)]
pub enum ParsedMessage {
    /// It reports something about the session.
    Update(Update),
    /// It says whether it works, and whether something of its goes on beside that.
    State(AgentState, bool),
    /// It asks for permission.
    Permission(AskId, PermissionRequest),
    /// It asks the user for something else; the request's params.
    Elicitation(AskId, Arc<str>),
    /// It wants a file or a terminal; and the request's params, as it wrote them.
    Tool(AskId, ToolRequest, Arc<str>),
    /// The way to it is gone and looked for, or there again: it is on another machine.
    Way(RemoteLinkState),
    /// It no longer wants an answer to a request.
    Withdrawn(AskId),
    /// It asks for something that it cannot have; why.
    Refused(AskId, RpcError),
    /// It answers a request of ours.
    Answer(AgentResponse),
    /// It answers an inquiry, which is no part of the session.
    Inquired(RpcId, AgentResponse),
    /// Nothing to act on: another notification, or an answer to nothing.
    Nothing,
}

/// How the way to an agent on another machine stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteLinkState {
    /// It is looked for.
    Gone,
    /// It is there again.
    There,
}

impl ParsedMessage {
    /// The request that it is, if it wants an answer.
    pub fn ask(&self) -> Option<&AskId> {
        match self {
            Self::Permission(ask, _)
            | Self::Elicitation(ask, _)
            | Self::Tool(ask, ..)
            | Self::Refused(ask, _) => Some(ask),
            Self::Update(_)
            | Self::State(..)
            | Self::Way(_)
            | Self::Withdrawn(_)
            | Self::Answer(_)
            | Self::Inquired(..)
            | Self::Nothing => None,
        }
    }
}

impl AgentConnection {
    /// The version of the protocol that is spoken on it.
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// What the agent advertised.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The result of `initialize`, as the agent wrote it.
    pub fn answer(&self) -> &Arc<str> {
        &self.answer
    }

    /// Whether the agent is a host of ours, which numbers what it tells.
    pub fn is_host(&self) -> bool {
        self.is_host
    }

    /// What the agent says of itself.
    pub fn info(&self) -> AgentInfo {
        AgentInfo::of_answer(&self.answer)
    }

    /// How the agent behaves. Until something else is said, as any does.
    pub fn profile(&self) -> &Arc<AgentProfile> {
        &self.profile
    }

    /// From here on the agent is taken to behave so.
    pub fn set_profile(&mut self, profile: Arc<AgentProfile>) {
        self.profile = profile;
    }

    fn speaker(&self) -> AnswerSource<'_> {
        let ways = self.login_ways.as_deref();
        AnswerSource { agent: &self.agent, version: self.version, profile: &self.profile, ways }
    }

    /// What the session offers at the moment.
    pub fn offered(&self) -> &Arc<SessionOffer> {
        &self.offered
    }

    /// The sending end.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The next message of the agent; `None` when the connection has ended.
    pub async fn recv(&mut self, known: MessageContext<'_>) -> Option<ReceivedMessage> {
        let inbound = self.incoming.recv().await?;
        Some(self.interpret(&inbound, known))
    }

    /// The next message, if it is there already.
    pub fn try_recv(&mut self, known: MessageContext<'_>) -> Option<ReceivedMessage> {
        let inbound = self.incoming.try_recv()?;
        Some(self.interpret(&inbound, known))
    }

    /// Why the connection ended, once it has.
    pub fn end(&self) -> Option<crate::wire::DisconnectReason> {
        self.incoming.end()
    }

    fn interpret(&mut self, inbound: &InboundMessage, known: MessageContext<'_>) -> ReceivedMessage {
        let mut line = inbound_line(inbound, &mut self.secrets);
        let clean = clean_message(inbound, &line);
        let message = clean.as_ref().unwrap_or_else(|| inbound.message());
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
                Some(far_host::STATE) if !known.session.is_some_and(is_foreign) => {
                    self.state(message.params().unwrap_or("null")).unwrap_or(ParsedMessage::Nothing)
                }
                Some(far_host::AWAY) => ParsedMessage::Way(RemoteLinkState::Gone),
                Some(far_host::BACK) => ParsedMessage::Way(RemoteLinkState::There),
                _ => ParsedMessage::Nothing,
            },
            InboundMessage::Notification(_) | InboundMessage::Stray(_) => ParsedMessage::Nothing,
            InboundMessage::Request { id, message: written } => {
                self.request(id, message, written, known.session)
            }
            InboundMessage::Response { id, method, .. } if self.take_inquiry(id) => {
                ParsedMessage::Inquired(id.clone(), answer::read(self.speaker(), method, message))
            }
            InboundMessage::Response { id, method, .. } => {
                ParsedMessage::Answer(self.answered(id, method, message))
            }
        };
        ReceivedMessage { meaning, line, size: inbound.message().line().len() }
    }

    fn answered(&mut self, id: &RpcId, method: &str, message: &RpcMessage) -> AgentResponse {
        if let Some(passed) = self.take_passed(id, method, message) {
            return passed;
        }
        if matches!(method, "session/new" | "session/fork" | "session/load" | "session/resume") {
            self.tools.clear(matches!(method, "session/load" | "session/resume"));
            self.offer(message.result().and_then(|result| self.offered.after_setup(result)));
        }
        answer::read(self.speaker(), method, message)
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

    /// Takes an update of another session. Of a child, what its requests may refer to is remembered.
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

    /// Whether the agent works, if the params of an update say that.
    fn state(&self, params: &str) -> Option<ParsedMessage> {
        let state = answer::state(self.speaker(), super::state_update(params)?);
        Some(ParsedMessage::State(state, super::has_background(params)))
    }

    /// What a request means; `written` is the message as it came, where `message` has no secrets.
    fn request(
        &self,
        id: &RpcId,
        message: &RpcMessage,
        written: &RpcMessage,
        session: Option<&AcpSessionId>,
    ) -> ParsedMessage {
        let ask = AskId(id.as_str().into());
        let params = message.params().unwrap_or("null");
        match message.method() {
            Some("session/request_permission") => match self.about(params, session, true) {
                Err(error) => ParsedMessage::Refused(ask, error),
                Ok(()) if !PermissionRequest::has_options(params) => {
                    ParsedMessage::Refused(ask, RpcError::invalid_params("options must be an array"))
                }
                Ok(()) => ParsedMessage::Permission(ask, self.tools.permission(params)),
            },
            // One that is about a request of ours names no session.
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

    /// A request for a file or a terminal, which only version 1 has.
    fn tool(
        &self,
        method: &str,
        params: &str,
        session: Option<&AcpSessionId>,
    ) -> Result<(ToolRequest, Arc<str>), RpcError> {
        let read = match self.version {
            ProtocolVersion::V1 => ToolRequest::read(method, params),
            ProtocolVersion::V2 => None,
        };
        let read = read.ok_or_else(|| RpcError::method_not_found(method))?;
        self.about(params, session, true)?;
        Ok((read?, params.into()))
    }

    /// Sees to it that a request of the agent is about this session or one of its children: an agent may have others,
    /// and nobody here knows of them.
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

    /// The line that tells the agent why it does not get what it asks for.
    pub fn refusal(&self, ask: &AskId, error: &RpcError) -> OutgoingLine {
        self.said_by_client(encode::error_response(&rpc_id(ask), error))
    }
}

/// The update in the params of a `session/update`.
fn update_of(params: &str) -> &str {
    locate(params, &[PathStep::Key("update")]).and_then(|range| params.get(range)).unwrap_or("null")
}

fn named_session(params: &str) -> Option<String> {
    serde_json::from_str(params.get(locate(params, &[PathStep::Key("sessionId")])?)?).ok()
}

/// The request that a `$/cancel_request` is about.
fn withdrawn(message: &RpcMessage) -> ParsedMessage {
    let params = message.params().unwrap_or("null");
    let id = locate(params, &[PathStep::Key("requestId")]).and_then(|range| RpcId::from_raw(&params[range]));
    id.map_or(ParsedMessage::Nothing, |id| ParsedMessage::Withdrawn(AskId(id.as_str().into())))
}

fn rpc_id(ask: &AskId) -> RpcId {
    RpcId::from_raw(&ask.0).unwrap_or_else(RpcId::null)
}

/// How an inbound message is kept.
fn inbound_line(inbound: &InboundMessage, secrets: &mut Secrets) -> RedactedLine {
    let message = inbound.message();
    let kind = match inbound {
        InboundMessage::Request { .. } => EventKind::Request,
        InboundMessage::Notification(_) if message.method() == Some("session/update") => EventKind::Update,
        InboundMessage::Notification(_) => EventKind::Notification,
        InboundMessage::Response { .. } | InboundMessage::Stray(_) => EventKind::Response,
    };
    let kept = match message.method() {
        Some(method) => secrets.remove_from_call(message.line(), method, message.params()),
        None => secrets.remove_from_json(message.line()),
    };
    let body = kept.map_or_else(|| message.line().clone(), Arc::from);
    RedactedLine { direction: Direction::FromAgent, kind, body }
}

/// The message as it is kept, where that is another than the one that came. What is acted on is what is kept, so
/// that no secret lives on in an error.
fn clean_message(inbound: &InboundMessage, line: &RedactedLine) -> Option<RpcMessage> {
    let is_another = !Arc::ptr_eq(&line.body, inbound.message().line());
    if is_another { RpcMessage::parse(line.body.clone()).ok() } else { None }
}
