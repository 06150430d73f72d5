//! Decides the agent's requests: by the turn's policy, by a client, or, without a turn, by fixed rules.
//!
//! Reading files needs no permission unless a rule of the policy demands it: the agent could read the same files by
//! itself, and a prompt for each one would train people to approve everything.

use crate::model::{
    AgentError, AgentRequestId, Decision, PermissionPolicy, Permit, Ruling, ToolKind, ToolUse,
    UnattendedPolicy,
};

use super::state::{MachineState, PendingRequest, PromptTurn, StartPhase, StopCause};
use super::{Effect, SessionMachine};

/// What the state says about a request of the agent.
enum RequestContext<'a> {
    /// No agent is running that reads our responses.
    Unread,
    /// The turn or the session is ending.
    Cancelled,
    /// A turn runs.
    Turn(&'a mut PromptTurn),
    /// No turn runs, so no policy allows anything.
    NoTurn,
}

impl SessionMachine {
    fn request_context(&mut self) -> RequestContext<'_> {
        match &mut self.state {
            MachineState::Parked
            | MachineState::Starting(StartPhase::Process)
            | MachineState::Stopping(_)
            | MachineState::Closed => RequestContext::Unread,
            MachineState::Prompting(PromptTurn { stopping: Some(_), .. })
            | MachineState::Closing(..)
            | MachineState::Deleting => RequestContext::Cancelled,
            MachineState::Prompting(turn) => RequestContext::Turn(turn),
            MachineState::Starting(_) | MachineState::Idle(_) => RequestContext::NoTurn,
        }
    }

    /// Refuses a request of an unknown method.
    pub(super) fn on_other_request(&mut self, id: AgentRequestId) {
        if !matches!(self.request_context(), RequestContext::Unread) {
            self.emit(Effect::RefuseRequest(id));
        }
    }

    pub(super) fn on_permission_request(
        &mut self,
        id: AgentRequestId,
        tool: ToolUse,
        has_options: bool,
        can_approve: bool,
    ) {
        let permit = match self.request_context() {
            RequestContext::Unread => return,
            RequestContext::Cancelled => Permit::Cancelled,
            _ if !has_options => Permit::Cancelled,
            RequestContext::Turn(prompting) => match prompting.turn.policy.rule(&tool).decision {
                Decision::Approve if can_approve => Permit::Approve,
                Decision::Ask if prompting.add_pending(&id, Some(tool), can_approve) => {
                    return self.emit(Effect::RouteRequest(id));
                }
                // Without an option that approves, the request is rejected, and the turn counts it as rejected.
                Decision::Approve | Decision::Reject | Decision::Ask => Permit::Reject,
            },
            RequestContext::NoTurn => Permit::Reject,
        };
        self.answer(id, permit);
    }

    /// Routes an elicitation to the turn's client. The policy does not apply, because an elicitation grants nothing.
    pub(super) fn on_elicitation(&mut self, id: AgentRequestId) {
        let answer = match self.request_context() {
            RequestContext::Unread => return,
            RequestContext::Cancelled => Permit::Cancelled,
            RequestContext::Turn(prompting) => {
                if prompting.add_pending(&id, None, false) {
                    return self.emit(Effect::RouteRequest(id));
                }
                Permit::Declined
            }
            RequestContext::NoTurn => Permit::Declined,
        };
        self.answer(id, answer);
    }

    /// Decides a request for a file or terminal operation. `None` stands for a terminal that was approved already.
    pub(super) fn on_tool_request(&mut self, id: AgentRequestId, tool: Option<ToolUse>, granted: bool) {
        let is_read = tool.as_ref().is_some_and(|tool| tool.kind() == ToolKind::Reads);
        let permit = match (self.request_context(), tool) {
            (RequestContext::Unread, _) => return,
            // An approved terminal stays usable after its turn.
            (_, None) => return self.emit(Effect::AnswerRequest(id, Permit::Approve)),
            (RequestContext::Cancelled, _) => Permit::Cancelled,
            (RequestContext::Turn(prompting), Some(tool)) => match decide(&prompting.turn.policy, &tool) {
                // A read without a permission request does not count as an approved permission.
                Decision::Approve if is_read => return self.emit(Effect::AnswerRequest(id, Permit::Approve)),
                Decision::Approve => Permit::Approve,
                // The approval was counted when the agent asked for it.
                Decision::Ask if granted => return self.emit(Effect::AnswerRequest(id, Permit::Approve)),
                // The client gets options of ours, and one of them approves.
                Decision::Ask if prompting.add_pending(&id, Some(tool), true) => {
                    return self.emit(Effect::RouteRequest(id));
                }
                Decision::Ask | Decision::Reject => Permit::Reject,
            },
            // Agents read files while a session is set up, for the prompt that is queued.
            (RequestContext::NoTurn, Some(tool)) if is_read => {
                let queued = self.next_queued().map(|turn| decide(&turn.policy, &tool));
                match queued.unwrap_or(Decision::Approve) {
                    Decision::Approve => return self.emit(Effect::AnswerRequest(id, Permit::Approve)),
                    Decision::Ask | Decision::Reject => Permit::Reject,
                }
            }
            (RequestContext::NoTurn, Some(_)) => Permit::Reject,
        };
        self.answer(id, permit);
    }

    /// The agent withdrew the request; it still gets a response.
    pub(super) fn withdraw_request(&mut self, id: &AgentRequestId) {
        if let Some(request) = self.take_pending(id) {
            self.cancel_pending(vec![request]);
        }
    }

    /// An answer that arrives after the turn, or after the request was withdrawn, grants nothing.
    pub(super) fn on_client_answer(&mut self, id: &AgentRequestId, permit: Permit) {
        if let Some(request) = self.take_pending(id) {
            self.answer(request.id, permit);
        }
    }

    /// No client can answer. The turn's policy decides whether the request stays pending; if not, an elicitation is
    /// declined.
    pub(super) fn on_unanswerable(&mut self, id: &AgentRequestId, summary: String) {
        let MachineState::Prompting(PromptTurn { turn, pending, .. }) = &self.state else { return };
        let Some(request) = pending.iter().find(|request| request.id == *id) else { return };
        let escalated = request.tool.as_ref().and_then(|tool| turn.policy.rule(tool).escalated_by);
        let permit = match (&request.tool, escalated, turn.policy.unasked) {
            // The agent can still withdraw it, and a cancel still answers it.
            (_, _, UnattendedPolicy::Wait) => return,
            (None, ..) => Permit::Declined,
            (Some(_), Some(rule), UnattendedPolicy::Deny | UnattendedPolicy::Fail) => {
                Permit::Escalated(rule.into())
            }
            // The turn is cancelled at once and fails when the agent has stopped.
            (Some(_), None, UnattendedPolicy::Fail) => {
                let error = AgentError::NoResponder { agent: self.agent.clone(), what: summary };
                return self.stop_turn(StopCause::Failing(Box::new((&error).into())));
            }
            // Here too, a request without an option that approves is rejected.
            (Some(tool), None, UnattendedPolicy::Deny)
                if tool.kind() == ToolKind::Reads && request.can_approve =>
            {
                Permit::Approve
            }
            (Some(_), None, UnattendedPolicy::Deny) => Permit::Reject,
        };
        self.on_client_answer(id, permit);
    }

    fn take_pending(&mut self, id: &AgentRequestId) -> Option<PendingRequest> {
        let MachineState::Prompting(PromptTurn { pending, .. }) = &mut self.state else { return None };
        let index = pending.iter().position(|request| request.id == *id)?;
        Some(pending.swap_remove(index))
    }

    /// Answers a request, and counts the permission.
    fn answer(&mut self, id: AgentRequestId, permit: Permit) {
        if let MachineState::Prompting(PromptTurn { turn, .. }) = &mut self.state {
            match permit {
                Permit::Approve | Permit::Choose { approves: true, .. } => turn.permissions.approved += 1,
                Permit::Reject | Permit::Escalated(_) | Permit::Choose { approves: false, .. } => {
                    turn.permissions.rejected += 1;
                }
                Permit::Unselected(_)
                | Permit::ElicitationResult(_)
                | Permit::Declined
                | Permit::Cancelled => {}
            }
        }
        self.emit(Effect::AnswerRequest(id, permit));
    }

    /// Answers the pending requests of a cancelled or ended turn as cancelled.
    pub(super) fn cancel_pending(&mut self, pending: Vec<PendingRequest>) {
        let cancelled =
            pending.into_iter().map(|request| Effect::AnswerRequest(request.id, Permit::Cancelled));
        self.out.extend(cancelled);
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
