//! Decides requests of an agent for files and terminals, by the turn's policy or, without a turn, by fixed rules.
//!
//! Reading needs no permission unless a rule of the policy demands it: the agent could read the same files by itself,
//! and a prompt for each one would train people to approve everything.

use crate::model::{AgentRequestId, Decision, PermissionPolicy, Permit, Ruling, ToolKind, ToolUse};

use super::prompting::OPEN_REQUESTS;
use super::state::{MachineState, PendingRequest, PromptTurn};
use super::{Effect, SessionMachine};

impl SessionMachine {
    pub(super) fn tool(&mut self, id: AgentRequestId, tool: Option<ToolUse>, granted: bool) {
        if !self.can_be_answered() {
            return;
        }
        // An approved terminal stays usable after its turn.
        let Some(tool) = tool else { return self.do_(Effect::AnswerRequest(id, Permit::Approve)) };
        let reads = tool.kind() == ToolKind::Reads;
        match &mut self.state {
            MachineState::Prompting(PromptTurn { stopping: Some(_), .. })
            | MachineState::Closing(..)
            | MachineState::Deleting => {
                self.answer(id, Permit::Cancelled);
            }
            MachineState::Prompting(PromptTurn { turn, asked, .. }) => match decide(&turn.policy, &tool) {
                // A read without a permission request does not count as an approved permission.
                Decision::Approve if reads => self.do_(Effect::AnswerRequest(id, Permit::Approve)),
                Decision::Approve => self.answer(id, Permit::Approve),
                Decision::Reject => self.answer(id, Permit::Reject),
                // The approval was counted when the agent asked for it.
                Decision::Ask if granted => self.do_(Effect::AnswerRequest(id, Permit::Approve)),
                Decision::Ask if asked.len() >= OPEN_REQUESTS => self.answer(id, Permit::Reject),
                Decision::Ask => {
                    // The client gets options of ours, and one of them approves.
                    asked.push(PendingRequest { id: id.clone(), tool: Some(tool), can_approve: true });
                    self.do_(Effect::RouteRequest(id));
                }
            },
            // Agents read files while a session is set up, for the prompt that is queued.
            _ if reads => {
                let waiting = self.next_queued().map(|turn| decide(&turn.policy, &tool));
                match waiting.unwrap_or(Decision::Approve) {
                    Decision::Approve => self.do_(Effect::AnswerRequest(id, Permit::Approve)),
                    Decision::Ask | Decision::Reject => self.answer(id, Permit::Reject),
                }
            }
            // Outside a turn there is no policy that allows anything.
            _ => self.answer(id, Permit::Reject),
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
