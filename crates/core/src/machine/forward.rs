//! Forwards client requests to the agent outside of turns: mode, model, option, fork, extension methods.
//!
//! They do not queue behind a turn. They wait until the agent has the session, and start it if necessary. Each has
//! exactly one response: the agent's, or an error. The protocol's own methods have a deadline. A request whose client
//! no longer waits does not prevent parking.

use std::sync::Arc;

use crate::model::{AgentError, ForwardId, Setting, SettingName, SettingValue, WakeOptions};

use super::{AgentCall, Deadline, Effect, ForwardError};

/// How many forwarded requests one session may have in flight or waiting.
pub(crate) const MAX_FORWARDS: usize = 256;
/// Once the waiting requests exceed this many bytes, further ones are refused.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// A client's request to be forwarded to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForwardedRequest {
    /// Its id.
    pub id: ForwardId,
    /// A method of the protocol or of an extension.
    pub method: Box<str>,
    /// A JSON object; the session id is inserted when it is sent.
    pub params: Arc<str>,
    /// The setting it chooses, if any. On success the record keeps that as a chosen setting.
    pub setting: Option<Setting>,
    /// How to restore the session, if the request needs that.
    pub options: WakeOptions,
    /// Whether it is sent a second time, because the agent's process had lost the session.
    pub is_resent: bool,
}

impl ForwardedRequest {
    /// Whether sending it again is safe and useful: it chooses a setting.
    pub(super) fn can_be_resent(&self) -> bool {
        let settings = ["session/set_mode", "session/set_model", "session/set_config_option"];
        !self.is_resent && settings.contains(&&*self.method)
    }
}

/// A forwarded request that was sent to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InFlightForward {
    pub(super) request: ForwardedRequest,
    /// The setting's value before the request.
    pub(super) before: Option<SettingValue>,
    /// Whether the client still waits for the response. If not, the request does not prevent parking.
    pub(super) is_awaited: bool,
}

/// The forwarded requests of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Forwards {
    /// Requests that wait for the agent to have the session.
    pub(super) waiting: Vec<ForwardedRequest>,
    /// Requests that were sent and not answered yet.
    in_flight: Vec<InFlightForward>,
}

impl Forwards {
    /// Whether another request is accepted. One in flight that no client waits for makes room.
    pub(super) fn make_room(&mut self) -> bool {
        let waiting_bytes: usize = self.waiting.iter().map(|request| request.params.len()).sum();
        if waiting_bytes >= MAX_WAITING_BYTES {
            return false;
        }
        if self.waiting.len() + self.in_flight.len() < MAX_FORWARDS {
            return true;
        }
        let abandoned = self.in_flight.iter().position(|forward| !forward.is_awaited);
        abandoned.map(|index| self.in_flight.remove(index)).is_some()
    }

    /// Sends a request that chooses a setting whose value is `before`, or none.
    pub(super) fn send(
        &mut self,
        request: ForwardedRequest,
        before: Option<SettingValue>,
        out: &mut Vec<Effect>,
    ) {
        // Only the authors of an extension's method know how long it may take.
        let deadline = (!request.method.starts_with('_')).then_some(Deadline::Forward(request.id));
        self.in_flight.push(InFlightForward { request: request.clone(), before, is_awaited: true });
        out.push(Effect::Call(AgentCall::Forward(request)));
        out.extend(deadline.map(Effect::Arm));
    }

    /// The request in flight that a client waits for.
    pub(super) fn awaited(&self, id: ForwardId) -> Option<&ForwardedRequest> {
        let is_it = |forward: &&InFlightForward| forward.request.id == id && forward.is_awaited;
        self.in_flight.iter().find(is_it).map(|forward| &forward.request)
    }

    /// The oldest request in flight that a client waits for.
    pub(super) fn first_awaited(&self) -> Option<&ForwardedRequest> {
        self.in_flight.iter().find(|forward| forward.is_awaited).map(|forward| &forward.request)
    }

    /// Whether a request in flight chooses a value of this setting.
    pub(super) fn chooses(&self, name: &SettingName) -> bool {
        self.in_flight
            .iter()
            .filter_map(|forward| forward.request.setting.as_ref())
            .any(|set| set.name == *name)
    }

    /// The request in flight with this id.
    pub(super) fn get(&self, id: ForwardId) -> Option<&ForwardedRequest> {
        self.in_flight.iter().find(|forward| forward.request.id == id).map(|forward| &forward.request)
    }

    /// Removes the request in flight with this id.
    pub(super) fn take(&mut self, id: ForwardId) -> Option<InFlightForward> {
        let index = self.in_flight.iter().position(|forward| forward.request.id == id)?;
        Some(self.in_flight.remove(index))
    }

    /// The client no longer waits for the response. Returns the request if it is in flight. The agent may still answer
    /// it; then a chosen setting is recorded and the answer is dropped.
    pub(super) fn abandon(&mut self, id: ForwardId) -> Option<&ForwardedRequest> {
        let forward = self.in_flight.iter_mut().find(|forward| forward.request.id == id)?;
        forward.is_awaited = false;
        Some(&forward.request)
    }

    /// The agent's process lost the session: setting requests in flight are sent once more after the restore.
    pub(super) fn requeue_settings(&mut self) {
        let (again, rest): (Vec<InFlightForward>, _) = std::mem::take(&mut self.in_flight)
            .into_iter()
            .partition(|forward| forward.request.can_be_resent());
        self.in_flight = rest;
        let awaited = again.into_iter().filter(|forward| forward.is_awaited);
        self.waiting.extend(awaited.map(|forward| ForwardedRequest { is_resent: true, ..forward.request }));
    }

    /// The session could not be restored: waiting requests fail.
    pub(super) fn fail_waiting(&mut self, error: &ForwardError, out: &mut Vec<Effect>) {
        let failed = self.waiting.drain(..).map(|request| request.id);
        out.extend(failed.map(|id| Effect::ReplyForward(id, Err(error.clone()))));
    }

    /// The agent exited or the session closes: requests in flight fail.
    pub(super) fn fail_in_flight(&mut self, error: &ForwardError, out: &mut Vec<Effect>) {
        let failed = self.in_flight.drain(..).map(|forward| forward.request.id);
        out.extend(failed.map(|id| Effect::ReplyForward(id, Err(error.clone()))));
    }

    /// Fails the requests in flight because the agent's process is being stopped.
    pub(super) fn fail_unanswered(&mut self, agent: &str, out: &mut Vec<Effect>) {
        out.extend(self.in_flight.drain(..).map(|forward| unanswered(agent, &forward.request)));
    }
}

/// The reply to a request that the agent did not answer.
pub(super) fn unanswered(agent: &str, request: &ForwardedRequest) -> Effect {
    let error = AgentError::Unresponsive { agent: agent.to_owned(), method: request.method.to_string() };
    Effect::ReplyForward(request.id, Err(ForwardError::Agent(error)))
}
