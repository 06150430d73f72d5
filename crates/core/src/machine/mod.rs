//! The state machine of a session, as a pure function: [`SessionMachine::handle`] takes an input and returns effects.
//! No I/O, no clock, no async; every hard case is a table test.
//!
//! Invariants: one turn at a time, prompts in the order of acceptance; an unadvertised capability is never used; a
//! replay is never published as new; a dispatched turn is never dispatched again, unless the agent refused it as an
//! unknown session before anything of it arrived; a changed ACP session is a new lineage row, announced if conversation
//! was lost.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::model::{
    AcpSessionId, AgentError, Decision, ErrorCode, Fact, FactError, Fallback, HistoryExtent, Lifecycle,
    Lineage, OfferedSettings, PermissionCount, PermissionPolicy, Record, RecordSettings, RequestId,
    RestoreError, StopReason, Timestamp, ToolUse, Turn, TurnError, TurnId, TurnLimits, TurnOutcome,
    TurnState, UnattendedPolicy, Update, WakeOptions,
};

mod effect;
mod ending;
mod input;
mod ladder;
mod limits;
mod passing;
mod prompting;
mod settling;
mod state;
mod tools;
mod waiting;
mod working;

pub use effect::{AgentCall, Effect, ForwardError, PromptRefusal, Rung, WakeError, WakeOutcome};
pub use input::{Deadline, Input, OnResume};
pub use passing::{ForwardedRequest, MAX_FORWARDS};
pub use waiting::WaitCondition;

use passing::InFlightForward;
use state::{Activity, AfterExit, CloseKind, LiveSession, MachineState, PromptTurn, Resent};

/// How many prompts may be queued in one session.
pub const MAX_QUEUED: usize = 256;

/// The state machine of one session.
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts of a record that have nothing to do with each other"
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionMachine {
    agent: String,
    state: MachineState,
    /// The queued prompts.
    queue: VecDeque<Turn>,
    /// Forwarded requests that wait for the agent to have the session.
    waiting: VecDeque<ForwardedRequest>,
    /// Forwarded requests that were sent and not answered yet.
    passed: Vec<InFlightForward>,
    /// The settings that the agent offers, as last reported.
    offered: OfferedSettings,
    /// The record's chosen and current settings, and whether they changed since they were persisted.
    settings: RecordSettings,
    settings_changed: bool,
    lineage: Option<Lineage>,
    /// The session exists only at the agent; the record is created when the agent has restored it.
    is_adopting: bool,
    /// The lineage is still the original record's; the agent is to fork its session.
    is_forking: bool,
    last_turn: Option<TurnId>,
    /// Whether an agent ever answered a prompt of this record.
    answered: bool,
    /// Whether the current ACP session may have received a prompt, so that losing it is announced. It has not if acpx
    /// created it and sent it none.
    is_prompted: bool,
    /// The prompt that the agent refused because it had lost the session, to be sent once more.
    resent: Option<Resent>,
    /// The earlier ACP session that the record returns to once the agent has restored it.
    returning: Option<AcpSessionId>,
    /// Why the last attempt to restore the session failed, as it is stored.
    restore_error: Option<RestoreError>,
    /// Time of the last message, for comparison with the agent's list.
    last_message_at: Option<Timestamp>,
    lifecycle: Lifecycle,
    /// The agent has been working since before the session was live: the request id for that turn.
    works: Option<RequestId>,
    /// Whether the agent last reported background work outside its turns.
    background: bool,
    /// What becomes of the record when the session ends.
    ends: CloseKind,
    /// How the waiting clients want the session to be restored; `None` while no client waits.
    options: Option<WakeOptions>,
    /// How much history is carried into a fresh session, if it is carried.
    carried: Option<HistoryExtent>,
    /// The next prompt carries the history.
    carry: bool,
    out: Vec<Effect>,
}

impl SessionMachine {
    /// A session that does not exist yet.
    pub fn new(agent: impl Into<String>) -> Self {
        Self {
            agent: agent.into(),
            state: MachineState::Parked,
            queue: VecDeque::new(),
            waiting: VecDeque::new(),
            passed: Vec::new(),
            offered: OfferedSettings::default(),
            settings: RecordSettings::default(),
            settings_changed: false,
            lineage: None,
            is_adopting: false,
            is_forking: false,
            last_turn: None,
            answered: false,
            is_prompted: false,
            resent: None,
            returning: None,
            restore_error: None,
            last_message_at: None,
            lifecycle: Lifecycle::Open,
            works: None,
            background: false,
            ends: CloseKind::Closed,
            options: None,
            carried: None,
            carry: false,
            out: Vec::new(),
        }
    }

    /// A session of the agent that has no record yet. The agent's replay becomes its history.
    pub fn adopting(agent: impl Into<String>, session: AcpSessionId, now: Timestamp) -> Self {
        Self { lineage: Some(Lineage::adopted(session, now)), is_adopting: true, ..Self::new(agent) }
    }

    /// A session that the agent is to fork from a record's session.
    pub fn forking(record: &Record) -> Self {
        // The fork is a new record, which has yet to persist the settings it inherits.
        let settings_changed = record.settings != RecordSettings::default();
        Self { is_forking: true, lifecycle: Lifecycle::Open, settings_changed, ..Self::of_record(record) }
    }

    /// A session of a stored record.
    pub fn of_record(record: &Record) -> Self {
        Self {
            lineage: Some(record.lineage.clone()),
            last_turn: record.last_turn,
            answered: record.answered_turns > 0,
            is_prompted: record.last_turn.is_some(),
            restore_error: record.restore_error.clone(),
            lifecycle: record.lifecycle,
            settings: record.settings.clone(),
            ..Self::new(record.agent.label())
        }
    }

    /// Whether the session still has to be adopted from the agent.
    pub fn is_adopting(&self) -> bool {
        self.is_adopting
    }

    /// Applies an input and returns its effects, in order.
    pub fn handle(&mut self, now: Timestamp, input: Input) -> Vec<Effect> {
        if input.is_activity() {
            self.note_activity(now);
        }
        match input {
            Input::Recover(turns) => self.recover(now, turns),
            Input::Wake(options) => self.wake(options),
            Input::Return(session) => self.return_to(session),
            Input::Prompt { request, prompt, policy, options, limits } => {
                self.accept(now, request, prompt, policy, options, limits);
            }
            Input::Forward(pass) => self.pass(pass),
            Input::ForwardCancelled(pass) => self.pass_withdrawn(pass),
            Input::ForwardAnswered { id, answer } => self.pass_answered(id, answer),
            Input::SettingsOffered(offered) => self.offer(offered),
            Input::ForgetSetting(setting) => self.forget(&setting),
            Input::SettingAnswered(answer) => self.setting_answered(now, answer),
            Input::Cancel(turn) => self.cancel(now, turn),
            Input::Close => self.close(now),
            Input::Delete => {
                self.ends = CloseKind::Deleted;
                self.close(now);
            }
            Input::Park => self.park(),
            Input::HostStopping => self.leave(now),
            Input::AgentReady {
                advertised,
                profile,
                exchanges,
                last_message_at,
                carried_history,
                on_resume,
            } => {
                self.carried = carried_history;
                self.last_message_at = last_message_at.or(self.last_message_at);
                self.agent_ready(now, advertised, profile, exchanges, on_resume);
            }
            Input::StartFailed(error) => self.start_failed(now, &error),
            Input::AgentExited(error) => self.agent_gone(now, &error),
            Input::AgentStopped => self.agent_ended(now),
            Input::SessionListed(changed) => self.listed(now, changed),
            Input::SessionCreated { session, agent_session } => self.opened(now, session, agent_session),
            Input::SessionRestored { agent_session } => self.restored(now, agent_session),
            Input::SetupRefused(error) => self.setup_refused(now, &error),
            Input::SetupImpossible(error) => self.setup_impossible(now, &error),
            Input::PromptAnswered(answer) => self.prompt_answered(now, answer),
            Input::PromptInserted => self.prompt_inserted(now),
            Input::CloseAnswered => self.close_answered(now),
            Input::DeleteAnswered => self.delete_answered(),
            Input::Update { update, body } => self.update(&update, body),
            Input::StateReported { state, background, body, own_turn } => {
                self.note_background(background);
                self.agent_state(now, state, body, own_turn);
            }
            Input::Elicitation { id } => self.elicitation(id),
            Input::RequestWithdrawn { id } => self.withdrawn(&id),
            Input::Permission { id, tool, has_options, can_approve } => {
                self.permission(id, tool, has_options, can_approve);
            }
            Input::Tool { id, tool, granted } => self.tool(id, tool, granted),
            Input::RequestAnswered { id, permit } => self.advised(&id, permit),
            Input::RequestUnanswerable { id, summary } => self.unanswered(&id, summary),
            Input::OtherRequest { id } => self.request(id),
            Input::Deadline(deadline) => self.deadline(now, deadline),
        }
        if self.settings_changed {
            self.settings_changed = false;
            self.do_(Effect::SaveSettings(self.settings.clone()));
        }
        std::mem::take(&mut self.out)
    }

    /// The turn that arriving updates belong to.
    pub fn current_turn(&self) -> Option<TurnId> {
        match &self.state {
            MachineState::Prompting(PromptTurn { turn, .. }) | MachineState::Closing(_, Some(turn)) => {
                Some(turn.id)
            }
            _ => None,
        }
    }

    /// The request id of the running turn.
    pub fn running_request(&self) -> Option<&RequestId> {
        match &self.state {
            MachineState::Prompting(PromptTurn { turn, .. }) | MachineState::Closing(_, Some(turn)) => {
                Some(&turn.request)
            }
            _ => None,
        }
    }

    /// The earlier ACP session that the record returns to, if it does.
    pub fn returning(&self) -> Option<&AcpSessionId> {
        self.returning.as_ref()
    }

    /// The ACP session that calls to the agent use: the current one, or the earlier one that the record returns to.
    pub fn target_session(&self) -> Option<&AcpSessionId> {
        self.returning.as_ref().or_else(|| Some(&self.lineage.as_ref()?.current().session))
    }

    /// The unfinished turns: the running one, then the queued ones.
    pub fn open_turns(&self) -> impl Iterator<Item = &Turn> {
        let running = match &self.state {
            MachineState::Prompting(PromptTurn { turn, .. }) | MachineState::Closing(_, Some(turn)) => {
                Some(turn)
            }
            _ => None,
        };
        running.into_iter().chain(&self.queue)
    }

    /// The record's ACP sessions, once there is one.
    pub fn lineage(&self) -> Option<&Lineage> {
        self.lineage.as_ref()
    }

    /// Whether the current ACP session may have received a prompt.
    pub fn is_prompted(&self) -> bool {
        self.is_prompted
    }

    /// Whether the session would be lost with the agent's process.
    pub fn has_only_memory(&self) -> bool {
        match &self.state {
            MachineState::Idle(live) => self.is_prompted && !live.advertised.restores(),
            _ => false,
        }
    }

    /// Whether a fresh session would get the conversation so far.
    pub fn carries_history(&self) -> bool {
        self.options.is_some_and(|options| options.carry_history) && self.answered
    }

    /// Whether the agent has the session.
    pub fn is_live(&self) -> bool {
        matches!(self.state, MachineState::Idle(_) | MachineState::Prompting(_))
    }

    /// Whether a turn runs or is queued.
    pub fn has_work(&self) -> bool {
        self.current_turn().is_some() || !self.queue.is_empty()
    }

    /// Whether requests of the running turn stay pending while no client can answer.
    pub fn waits_for_answers(&self) -> bool {
        match &self.state {
            MachineState::Prompting(PromptTurn { turn, .. }) => turn.policy.unasked == UnattendedPolicy::Wait,
            _ => false,
        }
    }

    /// Whether a client has to approve this tool use now.
    pub fn asks_about(&self, tool: &ToolUse) -> bool {
        match &self.state {
            MachineState::Prompting(PromptTurn { turn, .. }) => {
                turn.policy.rule(tool).decision == Decision::Ask
            }
            _ => false,
        }
    }

    /// Whether a rule of the running turn escalates this tool use.
    pub fn is_escalated(&self, tool: &ToolUse) -> bool {
        match &self.state {
            MachineState::Prompting(PromptTurn { turn, .. }) => turn.policy.rule(tool).escalated_by.is_some(),
            _ => false,
        }
    }

    /// Whether no turn runs or is queued and no client request is in flight.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, MachineState::Idle(_) | MachineState::Parked)
            && self.queue.is_empty()
            && !self.is_asked()
    }

    /// Whether the record is deleted.
    pub fn is_deleted(&self) -> bool {
        self.lifecycle.is_deleted()
    }

    fn is_closing(&self) -> bool {
        matches!(
            self.state,
            MachineState::Closing(..)
                | MachineState::Deleting
                | MachineState::Ending(AfterExit::Close)
                | MachineState::Closed
        )
    }

    fn take_state(&mut self) -> MachineState {
        std::mem::replace(&mut self.state, MachineState::Parked)
    }

    fn do_(&mut self, effect: Effect) {
        self.out.push(effect);
    }

    /// The next queued prompt.
    pub fn next_queued(&self) -> Option<&Turn> {
        self.queue.front()
    }

    /// Takes over the previous host's open turns: queued prompts stay queued, dispatched ones are never sent again.
    fn recover(&mut self, now: Timestamp, turns: Vec<Turn>) {
        for mut turn in turns {
            match turn.state {
                TurnState::Queued => self.queue.push_back(turn),
                TurnState::Dispatched { .. } => {
                    self.interrupt(
                        now,
                        &mut turn,
                        "its host went away while this turn ran; it is not sent again",
                    );
                }
                TurnState::Ended { .. } | TurnState::Interrupted { .. } => {}
            }
        }
    }

    fn interrupt(&mut self, now: Timestamp, turn: &mut Turn, message: &str) {
        turn.state = TurnState::Interrupted { at: now };
        let error = FactError { code: ErrorCode::Interrupted, message: message.to_owned() };
        let fact = Fact::TurnEnded { turn: turn.id.0, stop_reason: None, error: Some(error) };
        self.do_(Effect::SaveTurn(turn.clone()));
        self.do_(Effect::Fact(fact));
    }

    fn wake(&mut self, options: WakeOptions) {
        let begins_afresh = options.fallback == Fallback::Reset;
        if let Some(refused) = self.refuses_reset().filter(|_| begins_afresh) {
            return self.do_(Effect::ReplyWake(Err(refused)));
        }
        match &mut self.state {
            MachineState::Parked => {
                self.options = Some(options);
                self.start_for_queue();
            }
            MachineState::Idle(_) if begins_afresh => {
                self.options = Some(options);
                self.end_process(AfterExit::Wake);
            }
            MachineState::Idle(_) | MachineState::Prompting(_) => {
                self.do_(Effect::ReplyWake(Ok(WakeOutcome::Live)));
            }
            MachineState::Ending(then @ AfterExit::Park) => {
                self.options = Some(options);
                *then = AfterExit::Wake;
            }
            MachineState::Starting
            | MachineState::Looking(_)
            | MachineState::Waiting(_)
            | MachineState::Creating(..)
            | MachineState::Restoring(_)
            | MachineState::Settling(_)
            | MachineState::Ending(AfterExit::Wake) => self.wake_along(options),
            MachineState::Closing(..)
            | MachineState::Deleting
            | MachineState::Ending(AfterExit::Close)
            | MachineState::Closed => {
                self.do_(Effect::ReplyWake(Err(WakeError::Closing)));
            }
        }
    }

    /// Why the session cannot be reset now, if it cannot: a turn runs, or the session is being set up.
    pub fn refuses_reset(&self) -> Option<WakeError> {
        match &self.state {
            _ if self.is_closing() => Some(WakeError::Closing),
            MachineState::Parked | MachineState::Idle(_) | MachineState::Ending(AfterExit::Park) => None,
            _ => Some(WakeError::Busy),
        }
    }

    /// Merges the options of clients that wait for the same start; the ones that lose less win.
    fn wake_along(&mut self, options: WakeOptions) {
        let Some(own) = &mut self.options else {
            self.options = Some(options);
            return;
        };
        own.carry_history |= options.carry_history;
        match (own.fallback, options.fallback) {
            (Fallback::Reset, _) => {}
            (_, Fallback::Never) => own.fallback = Fallback::Never,
            (Fallback::Always, Fallback::Auto) => own.fallback = Fallback::Auto,
            _ => {}
        }
    }

    /// When a fresh session may replace the one that is restored.
    fn fallback(&self) -> Fallback {
        self.options.unwrap_or_default().fallback
    }

    /// Why the record cannot return to an ACP session now, if it cannot.
    pub fn refuses_return(&self, session: &AcpSessionId) -> Option<WakeError> {
        match &self.state {
            _ if self.is_closing() => Some(WakeError::Closing),
            _ if self.lineage.as_ref().is_none_or(|lineage| lineage.row_of(session).is_none()) => {
                Some(WakeError::UnknownSession(session.clone()))
            }
            MachineState::Parked | MachineState::Idle(_)
                if !self.has_work() && !self.is_asked() && !self.background =>
            {
                None
            }
            _ => Some(WakeError::Busy),
        }
    }

    /// A client returns to an earlier ACP session of the record. The lineage changes once the agent has restored it.
    fn return_to(&mut self, session: AcpSessionId) {
        if self.refuses_return(&session).is_some() {
            return;
        }
        let is_current = self.target_session() == Some(&session);
        match &self.state {
            MachineState::Idle(_) if is_current => self.do_(Effect::ReplyWake(Ok(WakeOutcome::Live))),
            MachineState::Idle(_) => {
                self.returning = Some(session);
                self.end_process(AfterExit::Wake);
            }
            _ => {
                self.returning = Some(session).filter(|_| !is_current);
                self.start_for_queue();
            }
        }
    }

    /// The agent reported or requested something, so its turn has had an effect. A refused prompt that waits to be sent
    /// once more is then not sent.
    fn note_activity(&mut self, now: Timestamp) {
        match &mut self.state {
            MachineState::Prompting(prompting) => {
                prompting.activity = prompting.activity.max(Activity::Heard);
            }
            MachineState::Ending(_) => {
                let Some(Resent { turn, error }) = self.resent.clone() else { return };
                if let Some(index) = self.queue.iter().position(|queued| queued.id == turn)
                    && let Some(turn) = self.queue.remove(index)
                {
                    self.end_turn(now, turn, TurnOutcome::Failed(error));
                }
            }
            _ => {}
        }
    }

    fn accept(
        &mut self,
        now: Timestamp,
        request: RequestId,
        prompt: Arc<str>,
        policy: PermissionPolicy,
        options: WakeOptions,
        limits: TurnLimits,
    ) {
        if self.is_closing() {
            return self.do_(Effect::TurnRefused(request, PromptRefusal::Closing));
        }
        if self.queue.len() >= MAX_QUEUED {
            return self.do_(Effect::TurnRefused(request, PromptRefusal::QueueFull));
        }
        let id = self.last_turn.map_or(TurnId::FIRST, TurnId::next);
        self.last_turn = Some(id);
        let turn = Turn {
            id,
            request: request.clone(),
            prompt,
            policy,
            wishes: options,
            limits,
            queued_at: now,
            state: TurnState::Queued,
            usage: None,
            permissions: PermissionCount::default(),
        };
        self.do_(Effect::SaveTurn(turn.clone()));
        self.do_(Effect::TurnAccepted(request, id));
        self.queue.push_back(turn);
        match &mut self.state {
            MachineState::Parked => self.start_for_queue(),
            MachineState::Idle(_) => self.dispatch_next(now),
            MachineState::Ending(then @ AfterExit::Park) => {
                *then = AfterExit::Wake;
                self.options = Some(options);
            }
            MachineState::Starting
            | MachineState::Looking(_)
            | MachineState::Waiting(_)
            | MachineState::Creating(..)
            | MachineState::Restoring(_)
            | MachineState::Settling(_)
            | MachineState::Ending(AfterExit::Wake) => self.wake_along(options),
            MachineState::Prompting(_)
            | MachineState::Closing(..)
            | MachineState::Deleting
            | MachineState::Ending(AfterExit::Close)
            | MachineState::Closed => {}
        }
    }

    /// Starts the agent for the queued prompts and waiting requests, with their merged options.
    fn start_for_queue(&mut self) {
        let queued = self.queue.iter().map(|turn| turn.wishes);
        let wishes: Vec<WakeOptions> = queued.chain(self.waiting.iter().map(|pass| pass.options)).collect();
        for options in wishes {
            self.wake_along(options);
        }
        self.works = None;
        self.background = false;
        self.state = MachineState::Starting;
        self.do_(Effect::StartAgent);
    }

    /// The agent did not get the session: the waiting clients get the error. If the record was to return to an earlier
    /// session, only that fails; later prompts and requests are for the session that the record has.
    fn fail_waiters(&mut self, now: Timestamp, error: &AgentError) {
        self.options = None;
        self.do_(Effect::ReplyWake(Err(WakeError::Agent(error.clone()))));
        if self.returning.take().is_some() {
            return;
        }
        self.passes_in_vain(&ForwardError::Agent(error.clone()));
        for turn in std::mem::take(&mut self.queue) {
            self.end_turn(now, turn, TurnOutcome::Failed(error.into()));
        }
    }

    fn end_turn(&mut self, now: Timestamp, mut turn: Turn, outcome: TurnOutcome) {
        let (stop_reason, error) = match &outcome {
            TurnOutcome::Stopped(reason) => (Some(reason.as_str().to_owned()), None),
            TurnOutcome::Failed(TurnError { code, message, .. }) => {
                (None, Some(FactError { code: code.clone(), message: message.to_string() }))
            }
        };
        turn.state = TurnState::Ended { at: now, outcome };
        self.last_message_at = Some(now);
        self.answered |= turn.is_answered();
        self.do_(Effect::SaveTurn(turn.clone()));
        self.do_(Effect::Fact(Fact::TurnEnded { turn: turn.id.0, stop_reason, error }));
        self.do_(Effect::TurnEnded(turn));
    }

    fn cancel_queued(&mut self, now: Timestamp, id: TurnId) {
        if let Some(index) = self.queue.iter().position(|turn| turn.id == id)
            && let Some(turn) = self.queue.remove(index)
        {
            self.end_turn(now, turn, TurnOutcome::Stopped(StopReason::cancelled()));
        }
    }

    /// The session is live: sends what was waiting.
    fn become_live(&mut self, now: Timestamp, live: LiveSession, how: WakeOutcome) {
        if self.lifecycle != Lifecycle::Open {
            self.lifecycle = Lifecycle::Open;
            self.do_(Effect::SaveLifecycle(Lifecycle::Open));
        }
        // A client's options apply to one start only.
        self.options = None;
        self.do_(Effect::ReplyWake(Ok(how)));
        self.state = MachineState::Idle(live);
        self.pass_waiting();
        if !self.go_on_working(now) {
            self.dispatch_next(now);
        }
    }

    fn note_title(&mut self, update: &Update) {
        if let Update::Title(title) = update {
            self.do_(Effect::SaveTitle(title.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
