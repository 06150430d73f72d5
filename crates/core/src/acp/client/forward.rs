//! Forwards client requests to the agent and interprets the responses.
//!
//! A method that the agent does not advertise, or the session does not offer, cannot be called: as for our own calls,
//! only a value that such an agent provides builds the request.

use crate::model::{AcpSessionId, AgentError, EventKind, ForwardId, ProtocolVersion, Setting};
use crate::wire::json;
use crate::wire::{RpcId, RpcMessage, encode};

use super::super::settings;
use super::responses::refusal;
use super::to_json;
use super::{AgentConnection, AgentResponse, OutgoingLine};
use crate::acp::forward::with_session;

/// A method that the agent offers, for a client's request.
pub(crate) struct ForwardMethod<'a> {
    connection: &'a mut AgentConnection,
    method: Box<str>,
}

/// A forwarded client request without a response.
pub(super) struct PendingForward {
    id: ForwardId,
    request: RpcId,
    /// The setting it chooses, if any.
    chosen: Option<SettingChoice>,
    /// Its session, as JSON.
    session: Box<str>,
}

/// The setting that a request chooses, as JSON.
enum SettingChoice {
    Mode(Box<str>),
    Model(Box<str>),
    Option { id: Box<str>, value: Box<str> },
}

impl SettingChoice {
    fn of(method: &str, params: &str) -> Option<Self> {
        let member = |name| json::get(params, &[name]).map(Box::from);
        match method {
            "session/set_mode" => Some(Self::Mode(member("modeId")?)),
            "session/set_model" => Some(Self::Model(member("modelId")?)),
            "session/set_config_option" => {
                Some(Self::Option { id: member("configId")?, value: member("value")? })
            }
            _ => None,
        }
    }
}

impl AgentConnection {
    /// The request for a setting, if the agent offers it.
    pub(crate) fn set(
        &mut self,
        setting: &Setting,
        session: &AcpSessionId,
    ) -> Result<OutgoingLine, AgentError> {
        let (method, params) = settings::request(setting, session, self.version);
        self.forwarding(method)?.request(ForwardId::OURS, session, &params)
    }

    /// A method to forward a client's request with, if the agent offers it.
    pub(crate) fn forwarding(&mut self, method: &str) -> Result<ForwardMethod<'_>, AgentError> {
        let is_offered = match method {
            "session/set_mode" => self.offered.modes.is_some(),
            "session/set_model" => self.version == ProtocolVersion::V1 && self.offered.models.is_some(),
            "session/set_config_option" => self.offered.config_options.is_some(),
            "session/fork" => self.capabilities.fork,
            "tool_call/cancel" | "terminal/cancel" => self.version == ProtocolVersion::V2,
            // Only the authors of an extension know what its methods require.
            method => method.starts_with('_'),
        };
        if is_offered {
            return Ok(ForwardMethod { connection: self, method: method.into() });
        }
        Err(AgentError::NotOffered { agent: self.agent.clone(), method: method.to_owned() })
    }

    /// The line that withdraws a client's request; `None` if the agent has responded.
    pub(crate) fn withdraw(&self, forward: ForwardId) -> Option<OutgoingLine> {
        let PendingForward { request, .. } = self.forwards.iter().find(|pending| pending.id == forward)?;
        let params = format!(r#"{{"requestId":{request}}}"#);
        Some(OutgoingLine::notification(&self.peer, "$/cancel_request", &params))
    }

    /// The response to a forwarded request, which may change the offer; `None` if the id belongs to no such request.
    pub(super) fn take_forwarded(
        &mut self,
        id: &RpcId,
        method: &str,
        message: &RpcMessage,
    ) -> Option<AgentResponse> {
        let index = self.forwards.iter().position(|pending| pending.request == *id)?;
        let PendingForward { id: forward, chosen, session, .. } = self.forwards.swap_remove(index);
        let Some(result) = message.result() else {
            return Some(AgentResponse::Forwarded(
                forward,
                Err(refusal(self.speaker(), method, message)),
                None,
            ));
        };
        let changed = match chosen {
            Some(SettingChoice::Mode(mode)) => Ok(self.offered.in_mode(&mode)),
            Some(SettingChoice::Model(model)) => Ok(self.offered.with_model(&model)),
            Some(SettingChoice::Option { id, value }) => {
                self.offered.after_choice(result, &id, &value, self.version)
            }
            // Other results are about another session or unknown.
            None => Ok(None),
        };
        let changed = match changed {
            Ok(changed) => changed,
            Err(problem) => {
                let (agent, method) = (self.agent.clone(), method.to_owned());
                let error = AgentError::BadAnswer { agent, method, problem: problem.to_owned() };
                return Some(AgentResponse::Forwarded(forward, Err(error), None));
            }
        };
        // A change that the agent reported in its own update is already in effect.
        let update = changed.as_ref().filter(|changed| **changed != *self.offered).and_then(|changed| {
            let update = self.offered.update_to(changed)?;
            let params = format!(r#"{{"sessionId":{session},"update":{update}}}"#);
            Some(encode::notification("session/update", &params).into())
        });
        self.offer(changed);
        Some(AgentResponse::Forwarded(forward, Ok(result.into()), update))
    }
}

impl ForwardMethod<'_> {
    /// Builds the request for this session; all other params are the client's, unchanged.
    pub(crate) fn request(
        self,
        forward: ForwardId,
        session: &AcpSessionId,
        params: &str,
    ) -> Result<OutgoingLine, AgentError> {
        let Self { connection, method } = self;
        let Some(params) = with_session(params, session.as_str()) else {
            let problem = "its params are no object that names one session".to_owned();
            return Err(AgentError::BadRequest { method: method.into_string(), problem });
        };
        if &*method == "tool_call/cancel" && !connection.tools.can_be_cancelled(&target(&params)) {
            let problem =
                format!("toolCallId is {:?}, which is no tool call that can be cancelled", target(&params));
            return Err(AgentError::BadRequest { method: method.into_string(), problem });
        }
        let chosen = SettingChoice::of(&method, &params);
        let request = connection.peer.mint_id();
        let line = encode::request(&request, &method, &params);
        // Params from the encoded line, so that secrets are found at their place in it.
        let redacted = match RpcMessage::parse(line.as_str()) {
            Ok(message) => connection.secrets.redact_call(message.line(), &method, message.params()),
            Err(_) => None,
        };
        let session = to_json(session).into();
        connection.forwards.push(PendingForward { id: forward, request: request.clone(), chosen, session });
        let peer = connection.peer.clone();
        Ok(OutgoingLine {
            peer,
            id: Some(request),
            method: method.into_string().into(),
            line,
            redacted,
            kind: EventKind::Request,
        })
    }
}

/// The tool call that the params name.
fn target(params: &str) -> String {
    let id = json::get(params, &["toolCallId"]);
    id.and_then(|id| serde_json::from_str(id).ok()).unwrap_or_default()
}
