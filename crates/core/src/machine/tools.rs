//! Files and terminals that an agent wants: what a turn's policy says of them, and what holds where no turn runs.
//!
//! Reading is never asked about. An agent could read the same files by itself, and a question for each of them would
//! only teach people to say yes.

use crate::model::{Decision, PermissionPolicy, ToolKind};

use super::state::{Prompting, State};
use super::{AskId, Effect, Permit, SessionMachine, Wanted};

impl SessionMachine {
    pub(super) fn tool(&mut self, ask: AskId, wanted: Wanted) {
        if !self.can_be_answered() {
            return;
        }
        let kind = match wanted {
            Wanted::Use(kind) => kind,
            Wanted::Own => return self.do_(Effect::Permit(ask, Permit::Approve)),
        };
        match (&mut self.state, kind) {
            (
                State::Prompting(Prompting { cancelling: true, .. }) | State::Closing(..) | State::Deleting,
                _,
            ) => {
                self.answer(ask, Permit::Cancelled);
            }
            (State::Prompting(Prompting { turn, .. }), ToolKind::Reads) => {
                let policy = turn.policy;
                self.let_read(ask, policy);
            }
            (State::Prompting(Prompting { turn, asked, .. }), ToolKind::Other) => {
                match turn.policy.decide(kind) {
                    Decision::Approve => self.answer(ask, Permit::Approve),
                    Decision::Reject => self.answer(ask, Permit::Reject),
                    Decision::Ask => {
                        asked.push(ask.clone());
                        self.do_(Effect::Consult(ask));
                    }
                }
            }
            // Agents read on their own while a session is set up, and what they find is for the prompt that waits.
            (_, ToolKind::Reads) => {
                let waiting = self.next_queued().map(|turn| turn.policy);
                self.let_read(ask, waiting.unwrap_or(PermissionPolicy::UNASKED));
            }
            // Outside a turn nobody has allowed anything.
            (_, ToolKind::Other) => self.answer(ask, Permit::Reject),
        }
    }

    /// What is read without asking is no permission that was given, but what is refused is one that was not.
    fn let_read(&mut self, ask: AskId, policy: PermissionPolicy) {
        match policy.decide(ToolKind::Reads) {
            Decision::Approve | Decision::Ask => self.do_(Effect::Permit(ask, Permit::Approve)),
            Decision::Reject => self.answer(ask, Permit::Reject),
        }
    }
}
