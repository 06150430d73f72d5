//! Turns: dispatches one prompt at a time, cancels it, ends it, and handles the agent's updates and requests during it.

use std::sync::Arc;

use crate::model::{
    AgentError, AgentRequestId, Decision, ErrorMeaning, Fact, LateStep, MessageKind, Permit, ReplayVerdict,
    StopReason, Timestamp, ToolKind, ToolUse, TurnId, TurnOutcome, TurnState, TurnStop, UnattendedPolicy,
    Update,
};

use super::state::{
    Activity, LiveSession, MachineState, Owed, PendingRequest, PromptTurn, Resent, SettingsRestore, StopCause,
};
use super::{AgentCall, Deadline, Effect, SessionMachine};

/// How many bytes may be held back within a turn. A longer replay is published.
const MAX_HELD_BYTES: usize = 256 * 1024;
/// How many requests of one turn may be pending. Further ones are rejected, so that the cost per request stays bounded.
pub(super) const OPEN_REQUESTS: usize = 1024;

impl SessionMachine {
    /// Sends the next queued prompt if the session is idle; without one, arms the idle deadline.
    pub(super) fn dispatch_next(&mut self, now: Timestamp) {
        let live = match self.take_state() {
            MachineState::Idle(live) => live,
            other => return self.state = other,
        };
        let Some(mut turn) = self.queue.pop_front() else {
            self.do_(Effect::Arm(Deadline::Idle));
            return self.state = MachineState::Idle(live);
        };
        self.do_(Effect::Disarm);
        if self.is_resent(turn.id) {
            self.do_(Effect::Fact(Fact::PromptResent { turn: turn.id.0 }));
        } else {
            turn.state = TurnState::Dispatched { at: now };
            self.do_(Effect::SaveTurn(turn.clone()));
            let request_id = turn.request.to_string();
            self.do_(Effect::Fact(Fact::TurnStarted { turn: turn.id.0, request_id, client: None }));
        }
        self.is_prompted = true;
        let carry_history = std::mem::take(&mut self.carry);
        self.do_(Effect::Call(AgentCall::Prompt {
            turn: turn.id,
            prompt: turn.prompt.clone(),
            carry_history,
        }));
        self.state = MachineState::Prompting(PromptTurn {
            carried_history: carry_history,
            ..PromptTurn::begun(live, turn)
        });
    }

    fn is_resent(&self, turn: TurnId) -> bool {
        self.resent.as_ref().is_some_and(|resent| resent.turn == turn)
    }

    pub(super) fn prompt_answered(&mut self, now: Timestamp, answer: Result<TurnStop, AgentError>) {
        match self.take_state() {
            MachineState::Prompting(prompting) => {
                if let Err(error) = &answer
                    && error.has_no_session()
                    && (prompting.live.advertised.restores() || error.meaning() == ErrorMeaning::Lost)
                {
                    return self.restart_after_prompt(now, prompting, error);
                }
                let PromptTurn { live, mut turn, stopping, asked, held, .. } = prompting;
                self.release(held);
                self.take_back(asked);
                let wants_login =
                    answer.as_ref().is_err_and(|error| error.meaning() == ErrorMeaning::LoginNeeded);
                let said = match answer {
                    Ok(TurnStop { reason, usage }) => {
                        turn.usage = usage;
                        TurnOutcome::Stopped(reason)
                    }
                    Err(error) => TurnOutcome::Failed((&error).into()),
                };
                self.end_turn(now, turn, stopping.map_or(said, StopCause::outcome));
                if wants_login {
                    return self.end_without_login();
                }
                self.state = MachineState::Idle(live);
                self.dispatch_next(now);
            }
            MachineState::Closing(advertised, Some(mut turn)) => {
                turn.usage = answer.ok().and_then(|stopped| stopped.usage);
                self.end_turn(now, turn, TurnOutcome::Stopped(StopReason::cancelled()));
                if advertised.close {
                    self.state = MachineState::Closing(advertised, None);
                } else {
                    // Nothing else is pending after the end of the turn.
                    self.let_go(advertised);
                }
            }
            other => self.state = other,
        }
    }

    /// The agent refused a prompt because its process lost the session. The process is restarted, which restores the
    /// session, and the prompt is sent again: once, and only if nothing of its turn had arrived.
    fn restart_after_prompt(&mut self, now: Timestamp, prompting: PromptTurn, error: &AgentError) {
        let PromptTurn { turn, stopping, asked, held, activity, inserted, carried_history, .. } = prompting;
        self.release(held);
        self.take_back(asked);
        let had_effect = activity != Activity::None || inserted;
        match stopping {
            None if !had_effect && !self.is_resent(turn.id) => {
                self.resent = Some(Resent { turn: turn.id, error: error.into() });
                self.carry |= carried_history;
                self.queue.push_front(turn);
            }
            None => self.end_turn(now, turn, TurnOutcome::Failed(error.into())),
            Some(stopping) => self.end_turn(now, turn, stopping.outcome()),
        }
        self.restart_without_session();
    }

    pub(super) fn cancel(&mut self, now: Timestamp, wanted: Option<TurnId>) {
        let MachineState::Prompting(prompting) = &mut self.state else {
            // To the client, a prompt that waits for its agent is the running one.
            if let Some(id) = wanted.or_else(|| self.queue.front().map(|turn| turn.id)) {
                self.cancel_queued(now, id);
            }
            return;
        };
        match wanted {
            Some(id) if id != prompting.turn.id => self.cancel_queued(now, id),
            _ => self.stop(StopCause::Asked),
        }
    }

    /// Sends `session/cancel` and answers the turn's pending requests as cancelled. Does this once per turn.
    pub(super) fn stop(&mut self, why: StopCause) {
        let MachineState::Prompting(prompting) = &mut self.state else { return };
        if prompting.stopping.is_some() {
            return;
        }
        prompting.stopping = Some(why);
        let asked = std::mem::take(&mut prompting.asked);
        self.do_(Effect::Call(AgentCall::Cancel));
        self.take_back(asked);
        self.do_(Effect::Arm(Deadline::Cancel));
    }

    pub(super) fn update(&mut self, update: &Update, body: Arc<str>) {
        // Updates before the session exists or after its process ended do not belong to it.
        if matches!(self.state, MachineState::Parked | MachineState::Starting | MachineState::Closed) {
            return;
        }
        self.note_title(update);
        match &mut self.state {
            MachineState::Restoring(_) => self.replayed(update, body),
            MachineState::Idle(live) | MachineState::Settling(SettingsRestore { live, .. }) => {
                let (is_owed, corrected) = owed(live, update);
                self.do_(if is_owed { Effect::PersistReplay(body) } else { Effect::PersistUpdate(body) });
                self.correct(corrected);
            }
            MachineState::Prompting(_) => self.said_in_a_turn(update, body),
            _ => self.do_(Effect::PersistUpdate(body)),
        }
    }

    /// In a turn, text that continues a late replay is held back until it is certain to be one, because a new answer
    /// may begin like an old one. It is certain once the replay is complete and more follows; it is then persisted
    /// outside the conversation. Thoughts, plans and tool calls belong to the turn: they end the replay.
    fn said_in_a_turn(&mut self, update: &Update, body: Arc<str>) {
        let MachineState::Prompting(prompting) = &mut self.state else { return };
        let is_message = matches!(
            update,
            Update::Chunk { kind: MessageKind::User | MessageKind::Agent, .. }
                | Update::Message { kind: MessageKind::User | MessageKind::Agent, .. }
        );
        if update.is_history() && !update.is_users() {
            prompting.activity = Activity::Worked;
        }
        let held_bytes: usize = prompting.held.iter().map(|line| line.len()).sum();
        if update.is_history() && (!is_message || held_bytes > MAX_HELD_BYTES) {
            prompting.live.owed = None;
            prompting.rest_came = false;
        }
        let (is_owed, corrected) = owed(&mut prompting.live, update);
        if is_owed {
            prompting.held.push(body);
            prompting.rest_came = prompting.live.owed.is_none();
            prompting.corrected = corrected.or(prompting.corrected);
            return;
        }
        if update.is_history() {
            let held = std::mem::take(&mut prompting.held);
            let corrected = prompting.corrected.take();
            if prompting.rest_came {
                self.out.extend(held.into_iter().map(Effect::PersistReplay));
                self.correct(corrected);
            } else {
                self.release(held);
            }
        }
        self.do_(Effect::PersistUpdate(body));
    }

    /// Records the verdict of a replay that is now complete, if it differs from the recorded one.
    fn correct(&mut self, replay: Option<ReplayVerdict>) {
        self.out.extend(replay.map(|replay| Effect::Fact(Fact::ReplayedLate { replay })));
    }

    /// Publishes held lines.
    pub(super) fn release(&mut self, held: Vec<Arc<str>>) {
        self.out.extend(held.into_iter().map(Effect::PersistUpdate));
    }

    /// Answers any other request of the agent.
    pub(super) fn request(&mut self, id: AgentRequestId) {
        if self.can_be_answered() {
            self.do_(Effect::RefuseRequest(id));
        }
    }

    /// Whether an agent is running that reads our responses.
    pub(super) fn can_be_answered(&self) -> bool {
        !matches!(
            self.state,
            MachineState::Parked | MachineState::Starting | MachineState::Ending(_) | MachineState::Closed
        )
    }

    pub(super) fn permission(
        &mut self,
        id: AgentRequestId,
        tool: ToolUse,
        has_options: bool,
        can_approve: bool,
    ) {
        if !self.can_be_answered() {
            return;
        }
        let permit = match &mut self.state {
            MachineState::Prompting(PromptTurn { stopping: Some(_), .. })
            | MachineState::Closing(..)
            | MachineState::Deleting => Permit::Cancelled,
            _ if !has_options => Permit::Cancelled,
            MachineState::Prompting(PromptTurn { turn, asked, .. }) => match turn.policy.rule(&tool).decision
            {
                Decision::Approve if can_approve => Permit::Approve,
                // Without an option that approves, the request is rejected, and the turn counts it as rejected.
                Decision::Approve | Decision::Reject => Permit::Reject,
                Decision::Ask if asked.len() >= OPEN_REQUESTS => Permit::Reject,
                Decision::Ask => {
                    asked.push(PendingRequest { id: id.clone(), tool: Some(tool), can_approve });
                    return self.do_(Effect::RouteRequest(id));
                }
            },
            // Outside a turn there is no policy that allows anything.
            _ => Permit::Reject,
        };
        self.answer(id, permit);
    }

    /// Routes an elicitation to the turn's client. The policy does not apply, because an elicitation grants nothing.
    pub(super) fn elicitation(&mut self, id: AgentRequestId) {
        if !self.can_be_answered() {
            return;
        }
        let answer = match &mut self.state {
            MachineState::Prompting(PromptTurn { stopping: Some(_), .. })
            | MachineState::Closing(..)
            | MachineState::Deleting => Permit::Cancelled,
            MachineState::Prompting(PromptTurn { asked, .. }) if asked.len() >= OPEN_REQUESTS => {
                Permit::Declined
            }
            MachineState::Prompting(PromptTurn { asked, .. }) => {
                asked.push(PendingRequest { id: id.clone(), tool: None, can_approve: false });
                return self.do_(Effect::RouteRequest(id));
            }
            _ => Permit::Declined,
        };
        self.answer(id, answer);
    }

    /// The agent withdrew the request; it still gets a response.
    pub(super) fn withdrawn(&mut self, id: &AgentRequestId) {
        if let Some(open) = self.take_open(id) {
            self.take_back(vec![open]);
        }
    }

    /// An answer that arrives after the turn, or after the request was withdrawn, grants nothing.
    pub(super) fn advised(&mut self, id: &AgentRequestId, permit: Permit) {
        if let Some(open) = self.take_open(id) {
            self.answer(open.id, permit);
        }
    }

    /// No client can answer. The turn's policy decides whether the request stays pending; if not, an elicitation is
    /// declined.
    pub(super) fn unanswered(&mut self, id: &AgentRequestId, what: String) {
        let MachineState::Prompting(PromptTurn { turn, asked, .. }) = &self.state else { return };
        let Some(open) = asked.iter().find(|open| open.id == *id) else { return };
        let escalated = open.tool.as_ref().and_then(|tool| turn.policy.rule(tool).escalated_by);
        let permit = match (&open.tool, escalated, turn.policy.unasked) {
            // The agent can still withdraw it, and a cancel still answers it.
            (_, _, UnattendedPolicy::Wait) => return,
            (None, ..) => Permit::Declined,
            (Some(_), Some(rule), UnattendedPolicy::Deny | UnattendedPolicy::Fail) => {
                Permit::Escalated(rule.into())
            }
            (Some(_), None, UnattendedPolicy::Fail) => return self.fail_for_want_of_an_answer(what),
            // Here too, a request without an option that approves is rejected.
            (Some(tool), None, UnattendedPolicy::Deny)
                if tool.kind() == ToolKind::Reads && open.can_approve =>
            {
                Permit::Approve
            }
            (Some(_), None, UnattendedPolicy::Deny) => Permit::Reject,
        };
        self.advised(id, permit);
    }

    /// Cancels the turn at once; it fails when the agent has stopped.
    fn fail_for_want_of_an_answer(&mut self, what: String) {
        let error = AgentError::NobodyToAsk { agent: self.agent.clone(), what };
        self.stop(StopCause::Failing(Box::new((&error).into())));
    }

    /// Removes a request from the pending ones.
    fn take_open(&mut self, id: &AgentRequestId) -> Option<PendingRequest> {
        let MachineState::Prompting(PromptTurn { asked, .. }) = &mut self.state else { return None };
        let index = asked.iter().position(|open| open.id == *id)?;
        Some(asked.swap_remove(index))
    }

    pub(super) fn answer(&mut self, id: AgentRequestId, permit: Permit) {
        if let MachineState::Prompting(PromptTurn { turn, .. }) = &mut self.state {
            match permit {
                Permit::Approve | Permit::Choose { approves: true, .. } => turn.permissions.approved += 1,
                Permit::Reject | Permit::Escalated(_) | Permit::Choose { approves: false, .. } => {
                    turn.permissions.rejected += 1;
                }
                Permit::Unchosen(_) | Permit::Elicited(_) | Permit::Declined | Permit::Cancelled => {}
            }
        }
        self.do_(Effect::AnswerRequest(id, permit));
    }

    /// Answers the pending requests of a cancelled or ended turn as cancelled.
    pub(super) fn take_back(&mut self, asked: Vec<PendingRequest>) {
        self.out.extend(asked.into_iter().map(|open| Effect::AnswerRequest(open.id, Permit::Cancelled)));
    }
}

/// Whether an update continues a replay; the first one that does not ends the replay. If the update completes it and
/// the verdict changes, also returns the new verdict.
fn owed(live: &mut LiveSession, update: &Update) -> (bool, Option<ReplayVerdict>) {
    let Some(Owed { alignment, told }) = live.owed.as_deref_mut() else { return (false, None) };
    let is_owed = alignment.late(update) == LateStep::Owed;
    let corrected = alignment.outcome().filter(|outcome| is_owed && Some(*outcome) != *told);
    *told = corrected.or(*told);
    if !alignment.is_owed() {
        live.owed = None;
    }
    (is_owed, corrected)
}
