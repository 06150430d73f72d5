//! Requests of clients that go to the agent beside any turn: a mode, an option, a fork, an extension's method.
//!
//! They do not wait behind a turn. They wait for the agent to have the session, wake it if need be, and every one
//! has exactly one answer: the agent's, or why there is none.

use std::sync::Arc;

use crate::model::{AgentError, Setting, WakeOptions};

use super::state::{State, Then};
use super::{Call, Deadline, Effect, SessionMachine, Unpassed};

/// How many requests of clients may be under way in one session.
pub const MAX_PASSES: usize = 256;

/// A request of a client for the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
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
}

/// A request of a client that the agent has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Passed {
    pub(super) id: PassId,
    pub(super) method: Box<str>,
    pub(super) setting: Option<Setting>,
}

/// A request of a client, told from others of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PassId(pub u64);

impl PassId {
    /// The name of what no client asks for: a setting that is restored.
    pub const OURS: Self = Self(u64::MAX);
}

impl SessionMachine {
    pub(super) fn pass(&mut self, pass: Pass) {
        if self.is_closing() {
            return self.do_(Effect::Passed(pass.id, Err(Unpassed::Closing)));
        }
        if self.waiting.len() + self.passed.len() >= MAX_PASSES {
            return self.do_(Effect::Passed(pass.id, Err(Unpassed::TooMany)));
        }
        let options = pass.options;
        match &mut self.state {
            State::Idle(_) => {
                self.do_(Effect::Arm(Deadline::Idle));
                self.pass_now(pass);
            }
            State::Prompting(_) => self.pass_now(pass),
            State::Parked => {
                self.waiting.push_back(pass);
                self.options = options;
                self.start_for_queue();
            }
            State::Ending(then @ Then::Park) => {
                *then = Then::Wake;
                self.waiting.push_back(pass);
                self.options = options;
            }
            _ => {
                self.waiting.push_back(pass);
                self.wake_along(options);
            }
        }
    }

    fn pass_now(&mut self, pass: Pass) {
        let Pass { id, method, setting, .. } = pass.clone();
        self.passed.push(Passed { id, method, setting });
        self.do_(Effect::Ask(Call::Pass(pass)));
    }

    /// The session is live: what waited for that goes out.
    pub(super) fn pass_waiting(&mut self) {
        for pass in std::mem::take(&mut self.waiting) {
            self.pass_now(pass);
        }
    }

    pub(super) fn pass_answered(&mut self, id: PassId, answer: Result<Arc<str>, AgentError>) {
        let Some(index) = self.passed.iter().position(|passed| passed.id == id) else { return };
        let Passed { setting, .. } = self.passed.remove(index);
        if let Some(setting) = setting.filter(|_| answer.is_ok()) {
            self.wish(setting);
        }
        self.do_(Effect::Passed(id, answer.map_err(Unpassed::Agent)));
        if matches!(self.state, State::Idle(_)) {
            self.do_(Effect::Arm(Deadline::Idle));
        }
    }

    /// One that is out is withdrawn, and the agent still answers it.
    pub(super) fn pass_withdrawn(&mut self, id: PassId) {
        self.waiting.retain(|pass| pass.id != id);
        if self.passed.iter().any(|passed| passed.id == id) {
            self.do_(Effect::Ask(Call::Withdraw(id)));
        }
    }

    /// The agent is gone, and with it the answers.
    pub(super) fn passes_lost(&mut self, error: &AgentError) {
        for Passed { id, .. } in std::mem::take(&mut self.passed) {
            self.do_(Effect::Passed(id, Err(Unpassed::Agent(error.clone()))));
        }
    }

    /// Nothing brings the session back for those who wait.
    pub(super) fn passes_in_vain(&mut self, why: &Unpassed) {
        for pass in std::mem::take(&mut self.waiting) {
            self.do_(Effect::Passed(pass.id, Err(why.clone())));
        }
    }

    /// The agent has not answered, and is sent away: for being silent as long as it may be idle, or for the turn's sake.
    pub(super) fn passes_unanswered(&mut self) {
        for Passed { id, method, .. } in std::mem::take(&mut self.passed) {
            let (agent, method) = (self.agent.clone(), method.into_string());
            self.do_(Effect::Passed(id, Err(Unpassed::Agent(AgentError::Unresponsive { agent, method }))));
        }
    }

    /// The session is over for clients; what is out or waits has no answer.
    pub(super) fn passes_closed(&mut self) {
        self.passes_in_vain(&Unpassed::Closing);
        for Passed { id, .. } in std::mem::take(&mut self.passed) {
            self.do_(Effect::Passed(id, Err(Unpassed::Closing)));
        }
    }
}
