//! Requests that clients have for the agent: which may be made, and how they go out and come back.
//!
//! A method that an agent did not advertise, or a session does not offer, cannot be called: as with our own calls,
//! the request is made by a value that only an agent with the method gives out.

use crate::machine::PassId;
use crate::model::{AcpSessionId, AgentError, EventKind, ProtocolVersion, Setting};
use crate::wire::splice::{Step, locate};
use crate::wire::{Message, RpcId, encode};

use super::super::passing::with_session;
use super::super::settings;
use super::answer::refusal;
use super::call::json;
use super::{AgentConnection, Answer, Outgoing};

/// A method that the agent offers.
pub struct Passing<'a> {
    connection: &'a mut AgentConnection,
    method: Box<str>,
}

/// A request of a client that the agent has not answered.
pub(super) struct Passed {
    pass: PassId,
    request: RpcId,
    /// The mode it asks for, as JSON.
    mode: Option<Box<str>>,
    /// The session it is about, as JSON.
    session: Box<str>,
}

impl AgentConnection {
    /// The request that sets the session as it is wished to be, if the agent offers that.
    pub fn set(&mut self, setting: &Setting, session: &AcpSessionId) -> Result<Outgoing, AgentError> {
        let (method, params) = settings::request(setting, session, self.version);
        self.passing(method)?.request(PassId::OURS, session, &params)
    }

    /// A method for a client's request, if the agent offers it.
    pub fn passing(&mut self, method: &str) -> Result<Passing<'_>, AgentError> {
        let is_offered = match method {
            "session/set_mode" => self.offered.modes.is_some(),
            "session/set_config_option" => self.offered.config_options.is_some(),
            "session/fork" => self.capabilities.fork,
            "tool_call/cancel" | "terminal/cancel" => self.version == ProtocolVersion::V2,
            // What an extension's method needs, only those who made it know.
            method => method.starts_with('_'),
        };
        if is_offered {
            return Ok(Passing { connection: self, method: method.into() });
        }
        Err(AgentError::NotOffered { agent: self.agent.clone(), method: method.to_owned() })
    }

    /// The line that withdraws a client's request; `None` if the agent has answered it.
    pub fn withdraw(&self, pass: PassId) -> Option<Outgoing> {
        let Passed { request, .. } = self.passed.iter().find(|passed| passed.pass == pass)?;
        let params = format!(r#"{{"requestId":{request}}}"#);
        Some(Outgoing::notification(&self.peer, "$/cancel_request", &params))
    }

    /// The answer to a client's request, and what is offered after it; `None` if it is none.
    pub(super) fn take_passed(&mut self, id: &RpcId, method: &str, message: &Message) -> Option<Answer> {
        let index = self.passed.iter().position(|passed| passed.request == *id)?;
        let Passed { pass, mode, session, .. } = self.passed.swap_remove(index);
        let Some(result) = message.result() else {
            return Some(Answer::Passed(pass, Err(refusal(self.speaker(), method, message, true)), None));
        };
        let changed = match (method, mode) {
            ("session/set_mode", Some(mode)) => self.offered.in_mode(&mode),
            ("session/set_config_option", _) => self.offered.after_result(result),
            // Whatever else is answered is about another session, or is not known to us.
            _ => None,
        };
        // What the agent has told by an update of its own is in force by now.
        let told = changed.as_ref().filter(|changed| **changed != *self.offered).and_then(|changed| {
            let update = self.offered.update_to(changed)?;
            let params = format!(r#"{{"sessionId":{session},"update":{update}}}"#);
            Some(encode::notification("session/update", &params).into())
        });
        self.offer(changed);
        Some(Answer::Passed(pass, Ok(result.into()), told))
    }
}

impl Passing<'_> {
    /// The request, about this session; everything else in it is as the client wrote it.
    pub fn request(self, pass: PassId, session: &AcpSessionId, params: &str) -> Result<Outgoing, AgentError> {
        let Self { connection, method } = self;
        let Some(params) = with_session(params, session.as_str()) else {
            let problem = "its params are no object that names one session".to_owned();
            return Err(AgentError::BadRequest { method: method.into_string(), problem });
        };
        let mode = match &*method {
            "session/set_mode" => locate(&params, &[Step::Key("modeId")]).map(|range| params[range].into()),
            _ => None,
        };
        let request = connection.peer.mint_id();
        let line = encode::request(&request, &method, &params);
        // The params as they stand in the line, so that secrets among them are found there.
        let kept = match Message::parse(line.as_str()) {
            Ok(message) => connection.secrets.remove_from_call(message.line(), &method, message.params()),
            Err(_) => None,
        };
        let session = json(session).into();
        connection.passed.push(Passed { pass, request: request.clone(), mode, session });
        let peer = connection.peer.clone();
        Ok(Outgoing {
            peer,
            id: Some(request),
            method: method.into_string().into(),
            line,
            kept,
            kind: EventKind::Request,
        })
    }
}
