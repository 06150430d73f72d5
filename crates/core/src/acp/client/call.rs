//! Builds the lines that we send to agents, requests and responses: everything the protocol requires and nothing it
//! forbids.

use std::borrow::Cow;

use serde::Serialize;

use crate::model::{
    AbsolutePath, AcpSessionId, AgentError, AgentRequestId, Direction, EventKind, LoginMethod,
    LoginMethodKind, Permit, PreviousContent, ProtocolVersion,
};
use crate::wire::{Peer, RpcError, RpcId, WireError, encode};

use super::super::capabilities::UnsupportedBlock;
use super::super::{ExtraParams, login_methods};
use super::permission::{Escalation, PermissionRequest};
use super::tools::{ToolAnswer, ToolRequest};
use super::{AgentConnection, ParsedMessage, RedactedLine, elicitation, rpc_id, to_json};

/// Maximum number of unanswered queries per agent: requests about its other sessions, such as `session/list`. They
/// belong to no conversation, so their responses are kept apart from the session's.
const MAX_QUERIES: usize = 16;

/// A line to persist and then send, only to the agent it was built for.
pub struct OutgoingLine {
    pub(super) peer: Peer,
    pub(super) id: Option<RpcId>,
    pub(super) method: Cow<'static, str>,
    pub(super) line: String,
    pub(super) redacted: Option<String>,
    pub(super) kind: EventKind,
}

/// `session/close`, of an agent that advertised it.
pub struct CloseMethod<'a>(&'a AgentConnection);
/// `session/delete`, of an agent that advertised it.
pub struct DeleteMethod<'a>(&'a AgentConnection);
/// `session/list`, of an agent that advertised it.
pub struct ListMethod<'a>(&'a AgentConnection);

impl AgentConnection {
    /// `session/close`, if the agent has it.
    pub fn close(&self) -> Option<CloseMethod<'_>> {
        self.capabilities.sessions.close.then_some(CloseMethod(self))
    }

    /// `session/delete`, if the agent has it.
    pub fn delete(&self) -> Option<DeleteMethod<'_>> {
        self.capabilities.sessions.delete.then_some(DeleteMethod(self))
    }

    /// `session/list`, if the agent has it.
    pub fn list(&self) -> Option<ListMethod<'_>> {
        self.capabilities.sessions.list.then_some(ListMethod(self))
    }

    /// `authenticate` with this method, or `auth/login` in version 2, if the agent has it.
    pub(crate) fn login(&self, id: &str, extra: Option<&ExtraParams>) -> Option<OutgoingLine> {
        let method = match self.version {
            ProtocolVersion::V1 => "authenticate",
            ProtocolVersion::V2 => "auth/login",
        };
        // Terminal logins never use this request.
        let is_meant =
            |known: &LoginMethod| known.id == id && !matches!(known.how, LoginMethodKind::Terminal { .. });
        login_methods(&self.answer).into_iter().find(is_meant)?;
        let extra = extra.map(|extra| extra.members(self.version)).unwrap_or_default();
        let params = format!(r#"{{"methodId":{}{extra}}}"#, to_json(&id));
        Some(OutgoingLine::request(&self.peer, method, &params))
    }

    /// `logout`, or `auth/logout` in version 2, if the agent has it.
    pub(crate) fn logout(&self, extra: Option<&ExtraParams>) -> Option<OutgoingLine> {
        let method = match self.version {
            ProtocolVersion::V1 => "logout",
            ProtocolVersion::V2 => "auth/logout",
        };
        let extra = extra.map(|extra| extra.members(self.version)).unwrap_or_default();
        let params = format!("{{{}}}", extra.trim_start_matches(','));
        self.capabilities.logout.then(|| OutgoingLine::request(&self.peer, method, &params))
    }

    /// `session/prompt`. The content blocks are a JSON array and are sent unchanged, if the agent accepts their types.
    /// The client's extra params are forwarded.
    pub fn prompt(
        &self,
        session: &AcpSessionId,
        blocks: &str,
        extra: Option<&ExtraParams>,
    ) -> Result<OutgoingLine, AgentError> {
        self.check_content(blocks)?;
        let members = extra.map(|extra| extra.members(self.version)).unwrap_or_default();
        let params = format!(r#"{{"sessionId":{},"prompt":{blocks}{members}}}"#, to_json(session));
        Ok(self.redact_stored(OutgoingLine::request(&self.peer, "session/prompt", &params), extra))
    }

    fn check_content(&self, blocks: &str) -> Result<(), AgentError> {
        let untaken = self.capabilities.prompt.untaken(blocks).map_err(|error| AgentError::BadPrompt {
            problem: format!("it is no list of content blocks: {error}"),
        })?;
        let Some(UnsupportedBlock { index, kind, feature }) = untaken else { return Ok(()) };
        let (agent, capability) = (self.agent.clone(), feature.capability(self.version));
        Err(AgentError::ContentUnsupported { agent, index, kind, capability })
    }

    /// `session/cancel`, a notification, with the client's extra params.
    pub fn cancel(&self, session: &AcpSessionId, extra: Option<&ExtraParams>) -> OutgoingLine {
        let params = self.session_params(session, extra);
        self.redact_stored(OutgoingLine::notification(&self.peer, "session/cancel", &params), extra)
    }

    fn session_params(&self, session: &AcpSessionId, extra: Option<&ExtraParams>) -> String {
        let extra = extra.map(|extra| extra.members(self.version)).unwrap_or_default();
        format!(r#"{{"sessionId":{}{extra}}}"#, to_json(session))
    }

    /// Redacts the stored line: a client's extra params may repeat secrets that were given to the agent.
    fn redact_stored(&self, mut outgoing: OutgoingLine, extra: Option<&ExtraParams>) -> OutgoingLine {
        outgoing.redacted = extra.and_then(|_| self.secrets.redact_json(&outgoing.line));
        outgoing
    }

    /// Registers a request as a query and returns the id that its response will carry. `None` if too many are
    /// unanswered.
    pub(crate) fn register_query(&mut self, request: &OutgoingLine) -> Option<RpcId> {
        let id = request.id.clone().filter(|_| self.queries.len() < MAX_QUERIES)?;
        self.queries.push(id.clone());
        Some(id)
    }

    /// Whether this is the response to a query; removes it.
    pub(super) fn take_query(&mut self, id: &RpcId) -> bool {
        let index = self.queries.iter().position(|query| query == id);
        index.map(|index| self.queries.swap_remove(index)).is_some()
    }

    /// The response to a permission request.
    pub fn permit(
        &self,
        id: &AgentRequestId,
        request: &PermissionRequest,
        decision: &Permit,
    ) -> OutgoingLine {
        self.forward_result(id, &request.result(decision))
    }

    /// The response that denies a request of an agent without a session; `None` if the message is no request.
    pub(crate) fn deny(&mut self, message: &ParsedMessage) -> Option<OutgoingLine> {
        Some(match message {
            ParsedMessage::Permission(id, request) => self.permit(id, request, &Permit::Reject),
            ParsedMessage::Elicitation(id, params) => self.elicited(id, params, &Permit::Declined),
            ParsedMessage::Refused(id, error) => self.refusal(id, error),
            // Without a session there is no directory whose files it may access.
            ParsedMessage::Tool(id, request, _) => {
                self.refusal(id, &RpcError::method_not_found(request.method()))
            }
            ParsedMessage::Answer(_)
            | ParsedMessage::Update(_)
            | ParsedMessage::State(..)
            | ParsedMessage::LinkState(_)
            | ParsedMessage::Withdrawn(_)
            | ParsedMessage::QueryAnswer(..)
            | ParsedMessage::Nothing => return None,
        })
    }

    /// The response that rejects a request because a rule escalated it, with the escalation in `_meta`.
    pub(crate) fn escalate(
        &self,
        id: &AgentRequestId,
        request: &PermissionRequest,
        escalation: &Escalation<'_>,
    ) -> OutgoingLine {
        self.forward_result(id, &request.escalated(escalation))
    }

    /// The response to an `elicitation/create` with these params; forwards the client's result if there is one. Values
    /// typed into secret fields are redacted in the stored line, and learned as secrets for later lines.
    pub(crate) fn elicited(&mut self, id: &AgentRequestId, params: &str, decision: &Permit) -> OutgoingLine {
        let result = elicitation::result(decision);
        let (redacted_result, secrets) = elicitation::redact(params, &result);
        for secret in &secrets {
            self.secrets.learn(secret);
        }
        let redacted = encode::response(&rpc_id(id), redacted_result.as_deref().unwrap_or(&result));
        let redacted = self.secrets.redact_json(&redacted).or(redacted_result.map(|_| redacted));
        let line = encode::response(&rpc_id(id), &result);
        OutgoingLine { redacted, ..OutgoingLine::response(&self.peer, line) }
    }

    /// A permission request for a file or terminal request; `call` is the id for its tool call, and `old` the content
    /// to be replaced.
    pub(crate) fn question(
        &self,
        request: &ToolRequest,
        session: &AcpSessionId,
        call: &str,
        old: Option<&PreviousContent>,
    ) -> PermissionRequest {
        request.question(session, call, old, &self.secrets)
    }

    /// The response to a file or terminal request. If the output is truncated, its stored form drops what may be the
    /// end of a secret.
    pub(crate) fn provide(&self, id: &AgentRequestId, answer: &ToolAnswer) -> OutgoingLine {
        let sent = self.forward_result(id, &answer.result());
        match answer {
            ToolAnswer::Shown { output, truncated: true, exit } => {
                let output = output.get(self.secrets.torn(output)..).unwrap_or_default().to_owned();
                let shown = ToolAnswer::Shown { output, truncated: true, exit: exit.clone() };
                let response = self.forward_result(id, &shown.result());
                OutgoingLine { redacted: Some(response.redacted.unwrap_or(response.line)), ..sent }
            }
            _ => sent,
        }
    }

    /// The response with this result. It may contain client input, so known secrets are redacted in the stored line.
    pub(crate) fn forward_result(&self, id: &AgentRequestId, result: &str) -> OutgoingLine {
        self.redacted_response(encode::response(&rpc_id(id), result))
    }

    pub(super) fn redacted_response(&self, line: String) -> OutgoingLine {
        let redacted = self.secrets.redact_json(&line);
        OutgoingLine { redacted, ..OutgoingLine::response(&self.peer, line) }
    }

    /// The redacted text.
    pub(crate) fn redact(&self, words: &str) -> String {
        self.secrets.redact_text(words).into_owned()
    }

    /// The text without secrets, and without what may be the end of a secret at its truncated start.
    pub(crate) fn without_torn_secrets(&self, words: &str) -> String {
        self.redact(words.get(self.secrets.torn(words)..).unwrap_or_default())
    }

    /// Takes the part of a growing text in which no secret can still be incomplete, without secrets.
    pub(crate) fn take_settled(&self, words: &mut String) -> String {
        let rest = words.split_off(self.secrets.settled(words));
        self.redact(&std::mem::replace(words, rest))
    }
}

impl CloseMethod<'_> {
    /// Frees a session; its history stays.
    pub fn request(&self, session: &AcpSessionId) -> OutgoingLine {
        OutgoingLine::request(&self.0.peer, "session/close", &self.0.session_params(session, None))
    }
}

impl DeleteMethod<'_> {
    /// Deletes a session at the agent, with the client's extra params.
    pub fn request(&self, session: &AcpSessionId, extra: Option<&ExtraParams>) -> OutgoingLine {
        let params = self.0.session_params(session, extra);
        self.0.redact_stored(OutgoingLine::request(&self.0.peer, "session/delete", &params), extra)
    }
}

impl ListMethod<'_> {
    /// One page of the agent's sessions, of one directory or of all.
    pub fn request(&self, cwd: Option<&AbsolutePath>, cursor: Option<&str>) -> OutgoingLine {
        OutgoingLine::request(&self.0.peer, "session/list", &to_json(&ListParams { cwd, cursor }))
    }
}

impl OutgoingLine {
    /// Its bytes.
    pub(crate) fn size(&self) -> usize {
        self.line.len()
    }

    pub(super) fn request(peer: &Peer, method: &'static str, params: &str) -> Self {
        let id = peer.mint_id();
        let line = encode::request(&id, method, params);
        let method = method.into();
        Self { peer: peer.clone(), id: Some(id), method, line, redacted: None, kind: EventKind::Request }
    }

    pub(super) fn notification(peer: &Peer, method: &'static str, params: &str) -> Self {
        let line = encode::notification(method, params);
        let method = method.into();
        Self { peer: peer.clone(), id: None, method, line, redacted: None, kind: EventKind::Notification }
    }

    pub(super) fn response(peer: &Peer, line: String) -> Self {
        Self {
            peer: peer.clone(),
            id: None,
            method: "".into(),
            line,
            redacted: None,
            kind: EventKind::Response,
        }
    }

    /// The same request; its stored line has these params instead of its own.
    #[must_use]
    pub(crate) fn kept_with(mut self, params: &str) -> Self {
        self.redacted = self.id.as_ref().map(|id| encode::request(id, &self.method, params));
        self
    }

    /// Sends it, after it is persisted. Waits while the agent's queue is full.
    pub async fn send(self) -> Result<(), WireError> {
        match self.id {
            Some(id) => self.peer.send_request(id, &self.method, self.line).await,
            None => self.peer.send(self.line).await,
        }
    }

    /// Its length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.line.len()
    }

    /// Its method; empty for a response.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The line as stored: without secret values.
    pub fn redacted(&self) -> RedactedLine {
        let body = self.redacted.as_deref().unwrap_or(&self.line).into();
        RedactedLine { direction: Direction::ToAgent, kind: self.kind, body }
    }
}

#[derive(Serialize)]
struct ListParams<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a AbsolutePath>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
}
