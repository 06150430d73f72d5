//! Requests of clients that go to the agent beside any turn: a mode, a model, an option, a fork, an extension's method.
//!
//! They do not wait behind a turn. They wait for the agent to have the session, wake it if need be, and every one
//! has exactly one answer: the agent's, or why there is none. The protocol's own have a bounded time for it, and one
//! whose client is gone keeps nothing from being parked.

use std::sync::Arc;

use crate::model::{AgentError, Setting, SettingValue, WakeOptions};

use super::state::{AfterExit, MachineState};
use super::{AgentCall, Deadline, Effect, ForwardError, SessionMachine};

/// How many requests of clients may be under way in one session.
pub const MAX_PASSES: usize = 256;
/// How long all those may be together that wait for the agent to have the session, before no more are taken.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// A request of a client for the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardedRequest {
    /// Which.
    pub id: PassId,
    /// The protocol's method, or an extension's.
    pub method: Box<str>,
    /// A JSON object; whose session it is about is put in on the way out.
    pub params: Arc<str>,
    /// The setting that it asks for, if it asks for one: done, it is a wish of the record.
    pub setting: Option<Setting>,
    /// How the session is to be brought back for it, should that be needed.
    pub options: WakeOptions,
    /// Whether it is sent a second time, because the agent's process no longer had the session.
    pub is_resent: bool,
}

impl ForwardedRequest {
    /// Whether sending it again is safe and wanted: it chooses a setting.
    fn can_be_resent(&self) -> bool {
        let settings = ["session/set_mode", "session/set_model", "session/set_config_option"];
        !self.is_resent && settings.contains(&&*self.method)
    }
}

/// A request of a client that the agent has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InFlightForward {
    pub(super) pass: ForwardedRequest,
    /// What the session showed of that setting before.
    pub(super) before: Option<SettingValue>,
    /// Whether its client still waits for the answer. One that does not holds nothing.
    pub(super) is_wanted: bool,
}

/// A request of a client, told from others of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PassId(pub u64);

impl PassId {
    /// The name of what no client asks for: a setting that is restored.
    pub const OURS: Self = Self(u64::MAX);
}

impl SessionMachine {
    pub(super) fn pass(&mut self, pass: ForwardedRequest) {
        if self.is_closing() {
            return self.do_(Effect::Passed(pass.id, Err(ForwardError::Closing)));
        }
        let waiting: usize = self.waiting.iter().map(|pass| pass.params.len()).sum();
        if waiting >= MAX_WAITING_BYTES {
            return self.do_(Effect::Passed(pass.id, Err(ForwardError::TooMany)));
        }
        if self.waiting.len() + self.passed.len() >= MAX_PASSES {
            // One that nobody waits for any more makes room.
            let Some(index) = self.passed.iter().position(|passed| !passed.is_wanted) else {
                return self.do_(Effect::Passed(pass.id, Err(ForwardError::TooMany)));
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
        // How long an extension's method may take, only those who made it know.
        let is_limited = !pass.method.starts_with('_');
        let before = pass.setting.as_ref().and_then(|setting| self.shown(&setting.name).cloned());
        self.passed.push(InFlightForward { pass: pass.clone(), before, is_wanted: true });
        self.do_(Effect::Ask(AgentCall::Pass(pass)));
        if is_limited {
            self.do_(Effect::Arm(Deadline::Pass(id)));
        }
    }

    /// The session is live: what waited for that goes out.
    pub(super) fn pass_waiting(&mut self) {
        for pass in std::mem::take(&mut self.waiting) {
            self.pass_now(pass);
        }
    }

    pub(super) fn pass_answered(&mut self, id: PassId, answer: Result<Arc<str>, AgentError>) {
        let Some(index) = self.passed.iter().position(|passed| passed.pass.id == id) else { return };
        let has_no_session = answer.as_ref().is_err_and(AgentError::has_no_session);
        let is_lost = has_no_session && matches!(self.state, MachineState::Idle(_));
        if is_lost && self.passed[index].pass.can_be_resent() {
            return self.restart_without_session();
        }
        let InFlightForward { pass: ForwardedRequest { setting, .. }, before, is_wanted } =
            self.passed.remove(index);
        if let Some(setting) = setting.filter(|_| answer.is_ok()) {
            self.wish(setting, before.as_ref());
        }
        if is_wanted {
            self.do_(Effect::Passed(id, answer.map_err(ForwardError::Agent)));
            self.pass_is_over();
        }
        if is_lost {
            self.restart_without_session();
        }
    }

    /// The agent's process no longer has the session: choices of settings that it has not carried out are sent once more
    /// when the session is restored.
    pub(super) fn requeue_settings(&mut self) {
        let (again, rest): (Vec<InFlightForward>, _) =
            std::mem::take(&mut self.passed).into_iter().partition(|passed| passed.pass.can_be_resent());
        self.passed = rest;
        let wanted = again.into_iter().filter(|passed| passed.is_wanted);
        self.waiting.extend(wanted.map(|passed| ForwardedRequest { is_resent: true, ..passed.pass }));
    }

    /// One that is out is withdrawn, and the agent may still answer it; nobody waits for that.
    pub(super) fn pass_withdrawn(&mut self, id: PassId) {
        self.waiting.retain(|pass| pass.id != id);
        if let Some(passed) = self.passed.iter_mut().find(|passed| passed.pass.id == id) {
            passed.is_wanted = false;
            self.do_(Effect::Ask(AgentCall::Withdraw(id)));
            self.pass_is_over();
        }
    }

    /// The agent has not answered one in time. It may still do what it was asked for, and that counts; its answer does
    /// not.
    pub(super) fn pass_is_overdue(&mut self, id: PassId) {
        let Some(passed) = self.passed.iter_mut().find(|passed| passed.pass.id == id && passed.is_wanted)
        else {
            return;
        };
        passed.is_wanted = false;
        let method = passed.pass.method.clone();
        self.do_(Effect::Ask(AgentCall::Withdraw(id)));
        self.pass_unanswered(id, method);
        self.pass_is_over();
    }

    /// Whether somebody waits for the agent's answer to a request.
    pub(super) fn is_asked(&self) -> bool {
        self.passed.iter().any(|passed| passed.is_wanted)
    }

    /// The method of a request whose answer somebody waits for.
    pub fn passed_method(&self, id: PassId) -> Option<&str> {
        self.passed
            .iter()
            .find(|passed| passed.pass.id == id && passed.is_wanted)
            .map(|passed| &*passed.pass.method)
    }

    /// An agent with nothing else to do has had its last request.
    fn pass_is_over(&mut self) {
        if matches!(self.state, MachineState::Idle(_)) {
            self.do_(Effect::Arm(Deadline::Idle));
        }
    }

    /// The agent is gone, and with it the answers.
    pub(super) fn passes_lost(&mut self, error: &AgentError) {
        for InFlightForward { pass, .. } in std::mem::take(&mut self.passed) {
            self.do_(Effect::Passed(pass.id, Err(ForwardError::Agent(error.clone()))));
        }
    }

    /// Nothing brings the session back for those who wait.
    pub(super) fn passes_in_vain(&mut self, why: &ForwardError) {
        for pass in std::mem::take(&mut self.waiting) {
            self.do_(Effect::Passed(pass.id, Err(why.clone())));
        }
    }

    /// The agent has not answered, and is sent away: for being silent as long as it may be idle, or for the turn's sake.
    pub(super) fn passes_unanswered(&mut self) {
        for passed in std::mem::take(&mut self.passed) {
            self.pass_unanswered(passed.pass.id, passed.pass.method);
        }
    }

    fn pass_unanswered(&mut self, id: PassId, method: Box<str>) {
        let (agent, method) = (self.agent.clone(), method.into_string());
        let error = AgentError::Unresponsive { agent, method };
        self.do_(Effect::Passed(id, Err(ForwardError::Agent(error))));
    }

    /// The session is over for clients; what is out or waits has no answer.
    pub(super) fn passes_closed(&mut self) {
        self.passes_in_vain(&ForwardError::Closing);
        for InFlightForward { pass, .. } in std::mem::take(&mut self.passed) {
            self.do_(Effect::Passed(pass.id, Err(ForwardError::Closing)));
        }
    }
}
