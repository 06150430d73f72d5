//! Forwards client requests to the agent outside of turns: mode, model, option, fork, extension methods.
//!
//! They do not queue behind a turn. They wait until the agent has the session, and start it if necessary. Each has
//! exactly one response: the agent's, or an error. The protocol's own methods have a deadline. A request whose client
//! no longer waits does not prevent parking.

use std::sync::Arc;

use crate::model::{AgentError, ErrorMeaning, ForwardId, Setting, SettingValue, WakeOptions};

use super::state::{AfterExit, MachineState};
use super::{AgentCall, Deadline, Effect, ForwardError, SessionMachine};

/// How many forwarded requests one session may have in flight or waiting.
pub const MAX_FORWARDS: usize = 256;
/// Once the waiting requests exceed this many bytes, further ones are refused.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// A client's request to be forwarded to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardedRequest {
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
    fn can_be_resent(&self) -> bool {
        let settings = ["session/set_mode", "session/set_model", "session/set_config_option"];
        !self.is_resent && settings.contains(&&*self.method)
    }
}

/// A forwarded request that was sent to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InFlightForward {
    pub(super) pass: ForwardedRequest,
    /// The setting's value before the request.
    pub(super) before: Option<SettingValue>,
    /// Whether the client still waits for the response. If not, the request does not prevent parking.
    pub(super) is_wanted: bool,
}

impl SessionMachine {
    pub(super) fn pass(&mut self, pass: ForwardedRequest) {
        if self.is_closing() {
            return self.do_(Effect::ReplyForward(pass.id, Err(ForwardError::Closing)));
        }
        let waiting: usize = self.waiting.iter().map(|pass| pass.params.len()).sum();
        if waiting >= MAX_WAITING_BYTES {
            return self.do_(Effect::ReplyForward(pass.id, Err(ForwardError::TooMany)));
        }
        if self.waiting.len() + self.passed.len() >= MAX_FORWARDS {
            // A request that no client waits for makes room.
            let Some(index) = self.passed.iter().position(|passed| !passed.is_wanted) else {
                return self.do_(Effect::ReplyForward(pass.id, Err(ForwardError::TooMany)));
            };
            self.passed.remove(index);
        }
        let options = pass.options;
        match &mut self.state {
            MachineState::Idle(_) => {
                self.do_(Effect::Arm(Deadline::Idle));
                self.pass_now(pass);
            }
            MachineState::Prompting(_) => self.pass_now(pass),
            MachineState::Parked => {
                self.waiting.push_back(pass);
                self.options = Some(options);
                self.start_for_queue();
            }
            MachineState::Ending(then @ AfterExit::Park) => {
                *then = AfterExit::Wake;
                self.waiting.push_back(pass);
                self.options = Some(options);
            }
            _ => {
                self.waiting.push_back(pass);
                self.wake_along(options);
            }
        }
    }

    fn pass_now(&mut self, pass: ForwardedRequest) {
        let id = pass.id;
        // Only the authors of an extension's method know how long it may take.
        let is_limited = !pass.method.starts_with('_');
        let before = pass.setting.as_ref().and_then(|setting| self.shown(&setting.name).cloned());
        self.passed.push(InFlightForward { pass: pass.clone(), before, is_wanted: true });
        self.do_(Effect::Call(AgentCall::Forward(pass)));
        if is_limited {
            self.do_(Effect::Arm(Deadline::Forward(id)));
        }
    }

    /// The session is live: sends the waiting requests.
    pub(super) fn pass_waiting(&mut self) {
        for pass in std::mem::take(&mut self.waiting) {
            self.pass_now(pass);
        }
    }

    pub(super) fn pass_answered(&mut self, id: ForwardId, answer: Result<Arc<str>, AgentError>) {
        let Some(index) = self.passed.iter().position(|passed| passed.pass.id == id) else { return };
        let has_no_session = answer.as_ref().is_err_and(AgentError::has_no_session);
        // A dead worker proves no loss, so an agent that cannot restore the session keeps it.
        let may_come_back = answer.as_ref().is_err_and(|error| error.meaning() == ErrorMeaning::WorkerDied)
            && self.has_only_memory();
        let is_lost = has_no_session && !may_come_back && matches!(self.state, MachineState::Idle(_));
        if is_lost && self.passed[index].pass.can_be_resent() {
            return self.restart_without_session();
        }
        let InFlightForward { pass: ForwardedRequest { setting, .. }, before, is_wanted } =
            self.passed.remove(index);
        if let Some(setting) = setting.filter(|_| answer.is_ok()) {
            self.wish(setting, before.as_ref());
        }
        if is_wanted {
            self.do_(Effect::ReplyForward(id, answer.map_err(ForwardError::Agent)));
            self.pass_is_over();
        }
        if is_lost {
            self.restart_without_session();
        }
    }

    /// The agent's process lost the session: setting requests in flight are sent once more after the restore.
    pub(super) fn requeue_settings(&mut self) {
        let (again, rest): (Vec<InFlightForward>, _) =
            std::mem::take(&mut self.passed).into_iter().partition(|passed| passed.pass.can_be_resent());
        self.passed = rest;
        let wanted = again.into_iter().filter(|passed| passed.is_wanted);
        self.waiting.extend(wanted.map(|passed| ForwardedRequest { is_resent: true, ..passed.pass }));
    }

    /// Cancels a request in flight. The agent may still answer it; the answer is ignored.
    pub(super) fn pass_withdrawn(&mut self, id: ForwardId) {
        self.waiting.retain(|pass| pass.id != id);
        if let Some(passed) = self.passed.iter_mut().find(|passed| passed.pass.id == id) {
            passed.is_wanted = false;
            self.do_(Effect::Call(AgentCall::CancelForward(id)));
            self.pass_is_over();
        }
    }

    /// The agent missed the deadline. A late success still records the chosen setting, but is not sent to the client.
    pub(super) fn pass_is_overdue(&mut self, id: ForwardId) {
        let Some(passed) = self.passed.iter_mut().find(|passed| passed.pass.id == id && passed.is_wanted)
        else {
            return;
        };
        passed.is_wanted = false;
        let method = passed.pass.method.clone();
        self.do_(Effect::Call(AgentCall::CancelForward(id)));
        self.pass_unanswered(id, method);
        self.pass_is_over();
    }

    /// Whether a client waits for the agent's response to a request.
    pub(super) fn is_asked(&self) -> bool {
        self.passed.iter().any(|passed| passed.is_wanted)
    }

    /// The method of a request that a client waits for.
    pub fn passed_method(&self, id: ForwardId) -> Option<&str> {
        self.passed
            .iter()
            .find(|passed| passed.pass.id == id && passed.is_wanted)
            .map(|passed| &*passed.pass.method)
    }

    /// Restarts the idle deadline after the last request of an idle agent.
    fn pass_is_over(&mut self) {
        if matches!(self.state, MachineState::Idle(_)) {
            self.do_(Effect::Arm(Deadline::Idle));
        }
    }

    /// The agent exited: requests in flight fail.
    pub(super) fn passes_lost(&mut self, error: &AgentError) {
        for InFlightForward { pass, .. } in std::mem::take(&mut self.passed) {
            self.do_(Effect::ReplyForward(pass.id, Err(ForwardError::Agent(error.clone()))));
        }
    }

    /// The session could not be restored: waiting requests fail.
    pub(super) fn passes_in_vain(&mut self, why: &ForwardError) {
        for pass in std::mem::take(&mut self.waiting) {
            self.do_(Effect::ReplyForward(pass.id, Err(why.clone())));
        }
    }

    /// Fails the requests in flight because the agent's process is being ended.
    pub(super) fn passes_unanswered(&mut self) {
        for passed in std::mem::take(&mut self.passed) {
            self.pass_unanswered(passed.pass.id, passed.pass.method);
        }
    }

    fn pass_unanswered(&mut self, id: ForwardId, method: Box<str>) {
        let (agent, method) = (self.agent.clone(), method.into_string());
        let error = AgentError::Unresponsive { agent, method };
        self.do_(Effect::ReplyForward(id, Err(ForwardError::Agent(error))));
    }

    /// The session closes: all requests in flight or waiting fail.
    pub(super) fn passes_closed(&mut self) {
        self.passes_in_vain(&ForwardError::Closing);
        for InFlightForward { pass, .. } in std::mem::take(&mut self.passed) {
            self.do_(Effect::ReplyForward(pass.id, Err(ForwardError::Closing)));
        }
    }
}
