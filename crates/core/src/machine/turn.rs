//! Turns: queues prompts, dispatches one at a time, cancels it, ends it, and handles the agent's updates during it.
//!
//! A version 2 agent reports its working state: the prompt's response only confirms receipt, and the idle state ends the
//! turn. An agent that works without a prompt gets a turn of its own, so that prompts queue behind it and clients see
//! it. The same holds for a remote acpx host of either version that works for other clients, or on a prompt from before
//! the connection was lost.
//!
//! A turn without a limit is ended by no clock. A turn that reaches a limit is cancelled like any other, and its outcome
//! names the limit. A queued prompt that reaches its limit is never sent.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::model::{
    AgentError, AgentState, Cost, ErrorCode, ErrorMeaning, Fact, FactError, MessageKind, PermissionCount,
    PermissionMode, PermissionPolicy, PromptRetry, ReplayVerdict, RequestId, SessionUsage, Spending,
    StopReason, Timestamp, Turn, TurnError, TurnId, TurnLimits, TurnOutcome, TurnState, TurnStop, Update,
    WakeOptions,
};

use super::state::{
    Activity, AfterExit, HeldReplay, MachineState, PromptTurn, SettingsRestore, StartPhase, StopCause,
};
use super::{AgentCall, Deadline, Effect, PromptRefusal, SessionMachine};

/// How many prompts may be queued in one session.
pub const MAX_QUEUED: usize = 256;
/// How many bytes may be held back within a turn. A longer replay is published.
const MAX_HELD_BYTES: usize = 256 * 1024;

/// The delay before the first retry of a prompt; it doubles with each one, up to the longest.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(10);

/// The delay before this retry, counted from 1.
fn retry_delay(attempt: u32) -> Duration {
    let factor = 2_u32.saturating_pow(attempt.saturating_sub(1));
    FIRST_RETRY.saturating_mul(factor).min(LONGEST_RETRY)
}

/// The queued prompts of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TurnQueue {
    pub(super) queued: VecDeque<Turn>,
    /// The record's last turn.
    last: Option<TurnId>,
    /// The prompt that the agent refused because it had lost the session, to be sent once more.
    resent: Option<Resent>,
    /// The prompt that the agent refused with an internal error.
    retry: Option<Retry>,
}

/// A prompt that is sent a second time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Resent {
    turn: TurnId,
    /// The agent's refusal of the first attempt.
    error: TurnError,
}

/// A prompt that is sent again after an internal error of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Retry {
    turn: TurnId,
    /// How many times it has been sent again, the next time included.
    attempt: u32,
    /// Whether its delay has not passed.
    is_waiting: bool,
    /// The agent's last refusal.
    error: TurnError,
}

impl TurnQueue {
    pub(super) fn after(last: Option<TurnId>) -> Self {
        Self { last, ..Self::default() }
    }

    /// A turn with the next number.
    fn new_turn(&mut self, now: Timestamp, request: RequestId, prompt: Arc<str>, state: TurnState) -> Turn {
        let id = self.last.map_or(TurnId::FIRST, TurnId::next);
        self.last = Some(id);
        Turn {
            id,
            request,
            prompt,
            policy: PermissionPolicy::default(),
            wake_options: WakeOptions::default(),
            limits: TurnLimits::default(),
            queued_at: now,
            state,
            usage: None,
            cost: None,
            permissions: PermissionCount::default(),
        }
    }

    fn take(&mut self, is_it: impl FnMut(&Turn) -> bool) -> Option<Turn> {
        let index = self.queued.iter().position(is_it)?;
        self.queued.remove(index)
    }

    /// The next prompt, if it waits to be sent again.
    fn waiting_retry(&self) -> Option<&Retry> {
        let next = self.queued.front()?.id;
        self.retry.as_ref().filter(|retry| retry.turn == next && retry.is_waiting)
    }

    /// The prompt to be sent again waits no longer.
    pub(super) fn end_retry_delay(&mut self) {
        if let Some(retry) = &mut self.retry {
            retry.is_waiting = false;
        }
    }

    /// How many times a prompt has been sent again.
    fn retries_of(&self, turn: TurnId) -> u32 {
        self.retry.as_ref().filter(|retry| retry.turn == turn).map_or(0, |retry| retry.attempt)
    }

    fn is_resent(&self, turn: TurnId) -> bool {
        self.resent.as_ref().is_some_and(|resent| resent.turn == turn)
    }
}

impl SessionMachine {
    /// Recovers the previous host's open turns: queued prompts stay queued, dispatched ones are never sent again.
    pub(super) fn recover(&mut self, now: Timestamp, turns: Vec<Turn>) {
        for mut turn in turns {
            match turn.state {
                TurnState::Queued => self.turns.queued.push_back(turn),
                TurnState::Dispatched { .. } => {
                    let message = "its host went away while this turn ran; it is not sent again";
                    self.interrupt(now, &mut turn, message);
                }
                TurnState::Ended { .. } | TurnState::Interrupted { .. } => {}
            }
        }
    }

    pub(super) fn interrupt(&mut self, now: Timestamp, turn: &mut Turn, message: &str) {
        turn.state = TurnState::Interrupted { at: now };
        self.meter.add_ended(turn);
        let error = FactError { code: ErrorCode::Interrupted, message: message.to_owned() };
        let fact = Fact::TurnEnded { turn: turn.id.0, stop_reason: None, error: Some(error) };
        self.emit(Effect::SaveTurn(turn.clone()));
        self.emit(Effect::Fact(fact));
    }

    pub(super) fn accept(
        &mut self,
        now: Timestamp,
        request: RequestId,
        prompt: Arc<str>,
        policy: PermissionPolicy,
        options: WakeOptions,
        limits: TurnLimits,
    ) {
        if self.is_closing() {
            return self.emit(Effect::TurnRefused(request, PromptRefusal::Closing));
        }
        let limit = limits.queue_depth.map_or(MAX_QUEUED, |depth| depth.min(MAX_QUEUED));
        if self.is_queue_full(limit) {
            return self.emit(Effect::TurnRefused(request, PromptRefusal::QueueFull { limit }));
        }
        if let Some(reached) = self.meter.reached_by(&limits) {
            return self.emit(Effect::TurnRefused(request, PromptRefusal::LimitReached(Box::new(reached))));
        }
        let turn = self.turns.new_turn(now, request.clone(), prompt, TurnState::Queued);
        let turn = Turn { policy, wake_options: options, limits, ..turn };
        self.emit(Effect::SaveTurn(turn.clone()));
        self.emit(Effect::TurnAccepted(request, turn.id));
        self.turns.queued.push_back(turn);
        match &mut self.state {
            MachineState::Parked => self.start_agent(),
            MachineState::Idle(_) => self.dispatch_next(now),
            MachineState::Stopping(then @ AfterExit::Park) => {
                *then = AfterExit::Wake;
                self.options = Some(options);
            }
            MachineState::Starting(_) | MachineState::Stopping(AfterExit::Wake) => {
                self.merge_options(options);
            }
            MachineState::Prompting(_)
            | MachineState::Closing(..)
            | MachineState::Deleting
            | MachineState::Stopping(AfterExit::Close)
            | MachineState::Closed => {}
        }
    }

    /// Whether this many prompts wait behind the running one, or behind the one that runs next.
    fn is_queue_full(&self, limit: usize) -> bool {
        let (queued, is_running) = (self.turns.queued.len(), self.running_turn().is_some());
        if is_running { queued >= limit } else { queued > limit }
    }

    /// Sends the next queued prompt if the session is idle; without one, arms the idle deadline. One that waits to be
    /// sent again keeps the others behind it.
    pub(super) fn dispatch_next(&mut self, now: Timestamp) {
        if self.turns.waiting_retry().is_some() {
            return;
        }
        let live = match self.take_state() {
            MachineState::Idle(live) => live,
            other => return self.state = other,
        };
        self.end_over_limit(now);
        let Some(mut turn) = self.turns.queued.pop_front() else {
            self.emit(Effect::Arm(Deadline::Idle));
            return self.state = MachineState::Idle(live);
        };
        self.emit(Effect::Disarm);
        if self.turns.is_resent(turn.id) {
            self.emit(Effect::Fact(Fact::PromptResent { turn: turn.id.0, retry: None }));
        } else if self.turns.retries_of(turn.id) == 0 {
            turn.state = TurnState::Dispatched { at: now };
            self.emit_started(&turn);
        }
        self.progress.is_prompted = true;
        let carry_history = std::mem::take(&mut self.history.is_due);
        let (id, prompt) = (turn.id, turn.prompt.clone());
        self.emit(Effect::Call(AgentCall::Prompt { turn: id, prompt, carry_history }));
        let prompting = PromptTurn { carried_history: carry_history, ..PromptTurn::new(live, turn) };
        self.state = MachineState::Prompting(prompting);
    }

    /// Ends the next prompts whose session has reached their limit: they are not sent.
    fn end_over_limit(&mut self, now: Timestamp) {
        while let Some(next) = self.turns.queued.front()
            && let Some(reached) = self.meter.reached_by(&next.limits)
            && let Some(turn) = self.turns.queued.pop_front()
        {
            let error = TurnError::over_limit(&reached, false);
            self.end_turn(now, turn, TurnOutcome::Failed(error));
        }
    }

    fn emit_started(&mut self, turn: &Turn) {
        self.emit(Effect::SaveTurn(turn.clone()));
        let request_id = turn.request.to_string();
        self.emit(Effect::Fact(Fact::TurnStarted { turn: turn.id.0, request_id, client: None }));
    }

    /// Begins a turn for work that the agent started without a prompt.
    pub(super) fn begin_own_turn(&mut self, now: Timestamp, request: RequestId) {
        // The agent works, perhaps on the prompt that it refused.
        self.fail_retry(now);
        let live = match self.take_state() {
            MachineState::Idle(live) => live,
            other => return self.state = other,
        };
        let dispatched = TurnState::Dispatched { at: now };
        let turn = self.turns.new_turn(now, request, Arc::from(Turn::NO_PROMPT), dispatched);
        // No client chose a policy, so attached clients are asked.
        let turn = Turn { policy: PermissionMode::Ask.into(), ..turn };
        self.emit(Effect::Disarm);
        self.emit_started(&turn);
        let (is_inserted, activity) = (true, Activity::Worked);
        self.state =
            MachineState::Prompting(PromptTurn { is_inserted, activity, ..PromptTurn::new(live, turn) });
    }

    pub(super) fn on_prompt_answer(&mut self, now: Timestamp, answer: Result<TurnStop, AgentError>) {
        match self.take_state() {
            MachineState::Prompting(prompting) => {
                if let Err(error) = &answer
                    && error.has_no_session()
                    && (prompting.live.advertised.restores() || error.meaning() == ErrorMeaning::Lost)
                {
                    return self.restart_after_prompt(now, prompting, error);
                }
                if let Err(error) = &answer
                    && self.may_retry(&prompting, error)
                {
                    return self.retry_later(prompting, error);
                }
                let PromptTurn { live, mut turn, stopping, pending, held, .. } = prompting;
                self.publish_held(held);
                self.cancel_pending(pending);
                let wants_login =
                    answer.as_ref().is_err_and(|error| error.meaning() == ErrorMeaning::LoginNeeded);
                let answered = match answer {
                    Ok(TurnStop { reason, usage }) => {
                        turn.usage = usage;
                        TurnOutcome::Stopped(reason)
                    }
                    Err(error) => TurnOutcome::Failed((&error).into()),
                };
                self.end_turn(now, turn, stopping.map_or(answered, StopCause::outcome));
                if wants_login {
                    // The login happens at start. The next prompt starts the agent with the credentials of that time.
                    return self.stop_agent(self.after_exit());
                }
                self.state = MachineState::Idle(live);
                self.dispatch_next(now);
            }
            MachineState::Closing(advertised, Some(mut turn)) => {
                turn.usage = answer.ok().and_then(|stopped| stopped.usage);
                self.end_cancelled(now, Some(turn));
                if advertised.close {
                    self.state = MachineState::Closing(advertised, None);
                } else {
                    // Nothing else is pending after the end of the turn.
                    self.delete_or_stop(advertised);
                }
            }
            other => self.state = other,
        }
    }

    /// Whether a refused prompt may be sent again: its user asked for that, the error may pass, and nothing of its turn
    /// has arrived.
    fn may_retry(&self, prompting: &PromptTurn, error: &AgentError) -> bool {
        let PromptTurn { turn, stopping, activity, is_inserted, .. } = prompting;
        let is_untouched = stopping.is_none() && *activity == Activity::None && !is_inserted;
        is_untouched && error.is_transient() && self.turns.retries_of(turn.id) < turn.limits.retries
    }

    /// Puts the refused prompt back in front of the queue until its delay has passed. Its turn stays the one that was
    /// dispatched, so a later host does not send it again.
    fn retry_later(&mut self, prompting: PromptTurn, error: &AgentError) {
        let PromptTurn { live, turn, pending, held, carried_history, .. } = prompting;
        self.publish_held(held);
        self.cancel_pending(pending);
        let attempt = self.turns.retries_of(turn.id) + 1;
        let delay = retry_delay(attempt);
        let retry = PromptRetry {
            attempt,
            of: turn.limits.retries,
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            reason: error.refusal_message(),
        };
        self.emit(Effect::Fact(Fact::PromptResent { turn: turn.id.0, retry: Some(retry) }));
        self.emit(Effect::Arm(Deadline::Retry(delay)));
        self.history.is_due |= carried_history;
        self.turns.retry = Some(Retry { turn: turn.id, attempt, is_waiting: true, error: error.into() });
        self.turns.queued.push_front(turn);
        self.state = MachineState::Idle(live);
    }

    /// The delay of a retry has passed.
    pub(super) fn on_retry_time(&mut self, now: Timestamp) {
        if self.turns.waiting_retry().is_some() {
            self.turns.end_retry_delay();
            self.dispatch_next(now);
        }
    }

    /// Ends the turn of a prompt that waits to be sent again, with the agent's refusal.
    pub(super) fn fail_retry(&mut self, now: Timestamp) -> bool {
        let Some(Retry { turn: id, error, .. }) = self.turns.waiting_retry().cloned() else { return false };
        if let Some(turn) = self.turns.take(|turn| turn.id == id) {
            self.end_turn(now, turn, TurnOutcome::Failed(error));
        }
        true
    }

    /// The agent refused a prompt because its process lost the session. The process is restarted, which restores the
    /// session, and the prompt is sent again: once, and only if nothing of its turn had arrived.
    fn restart_after_prompt(&mut self, now: Timestamp, prompting: PromptTurn, error: &AgentError) {
        let PromptTurn { turn, stopping, pending, held, activity, is_inserted, carried_history, .. } =
            prompting;
        self.publish_held(held);
        self.cancel_pending(pending);
        let had_effect = activity != Activity::None || is_inserted;
        match stopping {
            None if !had_effect && !self.turns.is_resent(turn.id) => {
                self.turns.resent = Some(Resent { turn: turn.id, error: error.into() });
                self.history.is_due |= carried_history;
                self.turns.queued.push_front(turn);
            }
            None => self.end_turn(now, turn, TurnOutcome::Failed(error.into())),
            Some(stopping) => self.end_turn(now, turn, stopping.outcome()),
        }
        self.restart_without_session();
    }

    pub(super) fn end_turn(&mut self, now: Timestamp, mut turn: Turn, outcome: TurnOutcome) {
        let (stop_reason, error) = match &outcome {
            TurnOutcome::Stopped(reason) => (Some(reason.as_str().to_owned()), None),
            TurnOutcome::Failed(TurnError { code, message, .. }) => {
                (None, Some(FactError { code: code.clone(), message: message.to_string() }))
            }
        };
        turn.state = TurnState::Ended { at: now, outcome };
        self.progress.last_message_at = Some(now);
        self.progress.is_answered |= turn.is_answered();
        self.meter.add_ended(&turn);
        self.emit(Effect::SaveTurn(turn.clone()));
        self.note_unenforced(&turn);
        self.emit(Effect::Fact(Fact::TurnEnded { turn: turn.id.0, stop_reason, error }));
        self.emit(Effect::TurnEnded(turn));
    }

    pub(super) fn end_cancelled(&mut self, now: Timestamp, turns: impl IntoIterator<Item = Turn>) {
        for turn in turns {
            self.end_turn(now, turn, TurnOutcome::Stopped(StopReason::cancelled()));
        }
    }

    pub(super) fn cancel(&mut self, now: Timestamp, wanted: Option<TurnId>) {
        let running = match &self.state {
            MachineState::Prompting(prompting) => Some(prompting.turn.id),
            _ => None,
        };
        if running.is_some() && wanted.is_none_or(|id| Some(id) == running) {
            return self.stop_turn(StopCause::Cancelled);
        }
        // To the client, a prompt that waits for its agent is the running one.
        let cancelled = wanted.or_else(|| self.next_queued().map(|turn| turn.id));
        let was_waiting = self.turns.waiting_retry().is_some();
        let cancelled = cancelled.and_then(|id| self.turns.take(|turn| turn.id == id));
        self.end_cancelled(now, cancelled);
        self.continue_after_retry(now, was_waiting);
    }

    /// Continues with the next prompt once none waits to be sent again any more.
    fn continue_after_retry(&mut self, now: Timestamp, was_waiting: bool) {
        if was_waiting {
            self.dispatch_next(now);
        }
    }

    /// Sends `session/cancel` and answers the turn's pending requests as cancelled. Does this once per turn.
    pub(super) fn stop_turn(&mut self, cause: StopCause) {
        let MachineState::Prompting(prompting) = &mut self.state else { return };
        if prompting.stopping.is_some() {
            return;
        }
        prompting.stopping = Some(cause);
        let pending = std::mem::take(&mut prompting.pending);
        self.emit(Effect::Call(AgentCall::Cancel));
        self.cancel_pending(pending);
        self.emit(Effect::Arm(Deadline::Cancel));
    }

    pub(super) fn on_turn_deadline(&mut self, now: Timestamp, id: TurnId) {
        let running = self.unstopped_turn().filter(|turn| turn.id == id);
        if let Some(limit) = running.and_then(|turn| turn.limits.whole) {
            let error = TurnError::took_too_long(&self.agent, limit);
            return self.stop_turn(StopCause::Failing(Box::new(error)));
        }
        let was_waiting = self.turns.waiting_retry().is_some();
        if let Some(turn) = self.turns.take(|turn| turn.id == id && turn.limits.whole.is_some()) {
            let waited_for = match self.current_turn() {
                Some(turn) => format!("behind turn {turn}"),
                None => format!("for the agent {:?} to be ready", self.agent),
            };
            self.end_turn(now, turn, TurnOutcome::Failed(TurnError::waited_too_long(&waited_for)));
            self.continue_after_retry(now, was_waiting);
        }
    }

    pub(super) fn on_silence_deadline(&mut self) {
        if let Some(limit) = self.unstopped_turn().and_then(|turn| turn.limits.silence) {
            let error = TurnError::silent_too_long(&self.agent, limit);
            self.stop_turn(StopCause::Failing(Box::new(error)));
        }
    }

    /// The agent reported or requested something, so its turn has had an effect. A refused prompt that waits to be sent
    /// once more is then not sent.
    pub(super) fn note_activity(&mut self, now: Timestamp) {
        match &mut self.state {
            MachineState::Prompting(prompting) => {
                prompting.activity = prompting.activity.max(Activity::Received);
            }
            MachineState::Stopping(_) => {
                let Some(Resent { turn: id, error }) = self.turns.resent.clone() else { return };
                if let Some(turn) = self.turns.take(|turn| turn.id == id) {
                    self.end_turn(now, turn, TurnOutcome::Failed(error));
                }
            }
            MachineState::Idle(_) => {
                let was_waiting = self.fail_retry(now);
                self.continue_after_retry(now, was_waiting);
            }
            _ => {}
        }
    }

    pub(super) fn on_update(&mut self, update: &Update, body: Arc<str>) {
        // Updates before the session exists or after its process ended do not belong to it.
        if self.has_no_process() {
            return;
        }
        match update {
            Update::Title(title) => {
                self.emit(Effect::SaveTitle(title.clone()));
                if self.progress.has_user_title {
                    return self.emit(Effect::PersistReplay(body));
                }
            }
            Update::Usage { usage, cost_stands } => {
                self.emit(Effect::SaveUsage { usage: usage.clone(), cost_stands: *cost_stands });
                self.meter_usage(usage, *cost_stands);
            }
            _ => {}
        }
        match &mut self.state {
            MachineState::Starting(StartPhase::Restoring(_)) => self.on_replayed_update(update, body),
            MachineState::Idle(live)
            | MachineState::Starting(StartPhase::Configuring(SettingsRestore { live, .. })) => {
                let (is_replayed, corrected) = live.continues_replay(update);
                self.emit(if is_replayed {
                    Effect::PersistReplay(body)
                } else {
                    Effect::PersistUpdate(body)
                });
                self.record_verdict(corrected);
            }
            MachineState::Prompting(_) => self.on_turn_update(update, body),
            _ => self.emit(Effect::PersistUpdate(body)),
        }
        if let Update::Usage { usage, .. } = update {
            self.enforce_limits(usage);
        }
    }

    fn has_no_process(&self) -> bool {
        matches!(
            self.state,
            MachineState::Parked | MachineState::Starting(StartPhase::Process) | MachineState::Closed
        )
    }

    /// In a turn, text that continues a late replay is held back until it is certain to be one, because a new answer
    /// may begin like an old one. It is certain once the replay is complete and more follows; it is then persisted
    /// outside the conversation. Thoughts, plans and tool calls belong to the turn: they end the replay.
    fn on_turn_update(&mut self, update: &Update, body: Arc<str>) {
        let MachineState::Prompting(prompting) = &mut self.state else { return };
        let is_message = matches!(
            update,
            Update::Chunk { kind: MessageKind::User | MessageKind::Agent, .. }
                | Update::Message { kind: MessageKind::User | MessageKind::Agent, .. }
        );
        if update.is_history() && !update.is_users() {
            prompting.activity = Activity::Worked;
        }
        let held_bytes: usize = prompting.held.lines.iter().map(|line| line.len()).sum();
        if update.is_history() && (!is_message || held_bytes > MAX_HELD_BYTES) {
            prompting.live.late_replay = None;
            prompting.held.is_complete = false;
        }
        let (is_replayed, corrected) = prompting.live.continues_replay(update);
        if is_replayed {
            prompting.held.lines.push(body);
            prompting.held.is_complete = prompting.live.late_replay.is_none();
            prompting.held.corrected = corrected.or(prompting.held.corrected);
            return;
        }
        if update.is_history() {
            let held = std::mem::take(&mut prompting.held);
            if held.is_complete {
                self.out.extend(held.lines.into_iter().map(Effect::PersistReplay));
                self.record_verdict(held.corrected);
            } else {
                self.publish_held(held);
            }
        }
        self.emit(Effect::PersistUpdate(body));
    }

    /// Records the verdict of a replay that is now complete, if it differs from the recorded one.
    fn record_verdict(&mut self, replay: Option<ReplayVerdict>) {
        self.out.extend(replay.map(|replay| Effect::Fact(Fact::ReplayedLate { replay })));
    }

    pub(super) fn publish_held(&mut self, held: HeldReplay) {
        self.out.extend(held.lines.into_iter().map(Effect::PersistUpdate));
    }

    pub(super) fn on_agent_state(
        &mut self,
        now: Timestamp,
        reported: AgentState,
        body: Option<Arc<str>>,
        own_turn: RequestId,
    ) {
        if self.has_no_process() {
            return;
        }
        let update = body.map(Effect::PersistUpdate);
        match (&mut self.state, reported) {
            (MachineState::Idle(_), AgentState::Working) => {
                self.begin_own_turn(now, own_turn);
                self.out.extend(update);
            }
            (MachineState::Prompting(_), reported) => {
                self.out.extend(update);
                self.on_state_in_turn(now, reported);
            }
            (MachineState::Closing(_, Some(_)), AgentState::Idle(stop)) => {
                self.out.extend(update);
                self.on_prompt_answer(now, stop.unwrap_or_else(|| Ok(StopReason::cancelled().into())));
            }
            (MachineState::Starting(phase), reported) => {
                if matches!(
                    phase,
                    StartPhase::Listing(_) | StartPhase::Creating(..) | StartPhase::Restoring(_)
                ) {
                    // The agent works on our request. For a setting this changes nothing: its deadline is another one.
                    self.out.push(Effect::Arm(Deadline::Setup));
                }
                match reported {
                    AgentState::Working => self.agent_work.early_turn = Some(own_turn),
                    AgentState::Idle(_) => self.agent_work.early_turn = None,
                    AgentState::Other => {}
                }
                self.out.extend(update);
            }
            _ => self.out.extend(update),
        }
    }

    /// Background work outside turns prevents parking, which would end it. When it stops, the idle time starts.
    pub(super) fn note_background(&mut self, background: bool) {
        let was_in_background = std::mem::replace(&mut self.agent_work.in_background, background);
        if was_in_background && !background {
            self.restart_idle_time();
        }
    }

    fn on_state_in_turn(&mut self, now: Timestamp, reported: AgentState) {
        let MachineState::Prompting(prompting) = &mut self.state else { return };
        let PromptTurn { stopping, is_inserted, activity, stopped, .. } = prompting;
        let stop = match reported {
            AgentState::Other => return,
            AgentState::Working => {
                *activity = Activity::Worked;
                *stopped = None;
                return;
            }
            AgentState::Idle(None) if stopping.is_some() => Ok(StopReason::cancelled().into()),
            // Agents also report idle when a session is ready, and that report may be late.
            AgentState::Idle(None) if *activity != Activity::Worked => return,
            AgentState::Idle(None) => Ok(StopReason::new("end_turn").into()),
            AgentState::Idle(Some(stop)) => stop,
        };
        // An agent may finish its work before it answers the prompt.
        if *is_inserted {
            self.on_prompt_answer(now, stop);
        } else {
            *stopped = Some(Box::new(stop));
        }
    }

    pub(super) fn on_prompt_inserted(&mut self, now: Timestamp) {
        let MachineState::Prompting(prompting) = &mut self.state else { return };
        prompting.is_inserted = true;
        if let Some(stop) = prompting.stopped.take() {
            self.on_prompt_answer(now, *stop);
        }
    }

    /// What the ended turns of the record have used, as it is stored.
    pub(crate) fn set_spent(&mut self, spent: Spending) {
        self.meter.set_spent(spent);
    }

    /// Takes a report of the session's usage.
    pub(super) fn meter_usage(&mut self, usage: &SessionUsage, cost_stands: bool) {
        self.meter.note_context(usage);
        let Some(reported) = usage.cost.as_ref().filter(|_| !cost_stands).and_then(Cost::money) else {
            return;
        };
        let counter = &mut self.meter.counter;
        let turn = match &mut self.state {
            MachineState::Prompting(prompting) if prompting.live.late_replay.is_none() => &mut prompting.turn,
            MachineState::Closing(_, Some(turn)) => turn,
            MachineState::Idle(live) if live.late_replay.is_none() => {
                return counter.between_turns(&reported);
            }
            _ => return counter.in_replay(&reported),
        };
        let Some(cost) = counter.in_turn(&reported) else {
            let turn = turn.id;
            return self.meter.note_baseline(turn);
        };
        let before = turn.cost.clone();
        turn.add_cost(cost);
        if turn.cost != before {
            let turn = turn.clone();
            self.emit(Effect::SaveCost(turn));
        }
    }

    /// Cancels the running turn if it has passed one of its limits.
    pub(super) fn enforce_limits(&mut self, usage: &SessionUsage) {
        let Some(turn) = self.unstopped_turn() else { return };
        if let Some(reached) = self.meter.passed_by(turn, usage.used) {
            let turn = turn.id;
            self.meter.note_stopped(turn, usage.used);
            self.stop_turn(StopCause::Failing(Box::new(TurnError::over_limit(&reached, true))));
        }
    }

    /// Reports limits that had no effect on an answered turn.
    pub(super) fn note_unenforced(&mut self, turn: &Turn) {
        let TurnState::Ended { outcome: TurnOutcome::Stopped(reason), .. } = &turn.state else { return };
        if *reason != StopReason::cancelled() {
            let facts = self.meter.unenforced(turn);
            self.out.extend(facts.into_iter().map(Effect::Fact));
        }
    }
}
