//! Files and terminals that an agent wants: what a turn's policy says of them, and what holds where no turn runs.
//!
//! Reading is not asked about, unless a rule of the policy wants just that. An agent could read the same files by itself,
//! and a question for each of them would only teach people to say yes.

use crate::model::{Decision, PermissionPolicy, Ruling, ToolKind, ToolUse};

use super::prompting::OPEN_REQUESTS;
use super::state::{MachineState, PendingRequest, PromptTurn};
use super::{AskId, Effect, Permit, SessionMachine};

impl SessionMachine {
    pub(super) fn tool(&mut self, ask: AskId, tool: Option<ToolUse>, granted: bool) {
        if !self.can_be_answered() {
            return;
        }
        // What it was given once it may use, whatever has become of the turn.
        let Some(tool) = tool else { return self.do_(Effect::Permit(ask, Permit::Approve)) };
        let reads = tool.kind() == ToolKind::Reads;
        match &mut self.state {
            MachineState::Prompting(PromptTurn { stopping: Some(_), .. })
            | MachineState::Closing(..)
            | MachineState::Deleting => {
                self.answer(ask, Permit::Cancelled);
            }
            MachineState::Prompting(PromptTurn { turn, asked, .. }) => match decide(&turn.policy, &tool) {
                // What is read without asking is no permission that was given.
                Decision::Approve if reads => self.do_(Effect::Permit(ask, Permit::Approve)),
                Decision::Approve => self.answer(ask, Permit::Approve),
                Decision::Reject => self.answer(ask, Permit::Reject),
                // The permission was given, and counted, when the agent asked for it.
                Decision::Ask if granted => self.do_(Effect::Permit(ask, Permit::Approve)),
                Decision::Ask if asked.len() >= OPEN_REQUESTS => self.answer(ask, Permit::Reject),
                Decision::Ask => {
                    // Whoever is asked is asked in our words, and has a yes among them.
                    asked.push(PendingRequest { ask: ask.clone(), tool: Some(tool), can_approve: true });
                    self.do_(Effect::Consult(ask));
                }
            },
            // Agents read on their own while a session is set up, and what they find is for the prompt that waits.
            _ if reads => {
                let waiting = self.next_queued().map(|turn| decide(&turn.policy, &tool));
                match waiting.unwrap_or(Decision::Approve) {
                    Decision::Approve => self.do_(Effect::Permit(ask, Permit::Approve)),
                    Decision::Ask | Decision::Reject => self.answer(ask, Permit::Reject),
                }
            }
            // Outside a turn nobody has allowed anything.
            _ => self.answer(ask, Permit::Reject),
        }
    }
}

fn decide(policy: &PermissionPolicy, tool: &ToolUse) -> Decision {
    match policy.rule(tool) {
        Ruling { decision: Decision::Ask, escalated_by: None } if tool.kind() == ToolKind::Reads => {
            Decision::Approve
        }
        ruling => ruling.decision,
    }
}
