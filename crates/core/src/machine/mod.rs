//! The state machine of a session, as a pure function: `SessionMachine::handle` takes an input and returns effects.
//! No I/O, no clock, no async; every hard case is a table test.
//!
//! Invariants: one turn at a time, prompts in the order of acceptance; an unadvertised capability is never used; a
//! replay is never published as new; a dispatched turn is never dispatched again, unless the agent refused it as an
//! unknown session before anything of it arrived; a changed ACP session is a new lineage row, announced if conversation
//! was lost.

use crate::model::{
    AcpSessionId, AgentError, AgentRequestId, CostCounter, Decision, ErrorMeaning, Fallback, ForwardId,
    HistoryExtent, Lifecycle, Lineage, LineageReason, OfferedSettings, Record, RequestId, RestoreError,
    Setting, SettingName, Timestamp, ToolUse, Turn, TurnId, UnattendedPolicy, WakeOptions,
};

mod close;
mod config;
mod effect;
mod forward;
mod input;
mod permissions;
mod restore;
mod spending;
mod state;
mod turn;

pub(crate) use effect::{AgentCall, Effect, ForwardError, PromptRefusal, WakeError};
pub use effect::{Rung, WakeOutcome};
pub(crate) use forward::ForwardedRequest;
pub(crate) use input::{Deadline, Input, OnResume};
pub use turn::MAX_QUEUED;

use config::SessionConfig;
use forward::{Forwards, InFlightForward};
use spending::SpendingMeter;
use state::{
    AfterExit, CloseKind, MachineState, PromptTurn, Reset, RestoreTarget, SettingsRestore, StartPhase,
};
use turn::TurnQueue;

/// The state machine of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionMachine {
    agent: String,
    state: MachineState,
    turns: TurnQueue,
    forwards: Forwards,
    config: SessionConfig,
    lineage: Option<Lineage>,
    target: RestoreTarget,
    progress: ConversationProgress,
    /// Why the last attempt to restore the session failed, as it is stored.
    restore_error: Option<RestoreError>,
    lifecycle: Lifecycle,
    agent_work: AgentWork,
    /// What becomes of the record when the session ends.
    close_kind: CloseKind,
    /// How the waiting clients want the session to be restored; `None` while no client waits.
    options: Option<WakeOptions>,
    history: CarriedHistory,
    meter: SpendingMeter,
    out: Vec<Effect>,
}

/// How far the conversation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ConversationProgress {
    /// Whether an agent ever answered a prompt of this record, or of the conversation that it adopted.
    is_answered: bool,
    /// Whether the current ACP session may have received a prompt, so that losing it is announced. It has not if acpx
    /// created it and sent it none.
    is_prompted: bool,
    /// For comparison with the agent's list.
    last_message_at: Option<Timestamp>,
    /// Whether the user chose a title, so that clients do not see the agent's.
    has_user_title: bool,
}

/// The agent's work outside the turns of clients.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct AgentWork {
    /// The agent has been working since before the session was live: the request id for that turn.
    early_turn: Option<RequestId>,
    /// Whether the agent last reported background work outside its turns.
    in_background: bool,
}

/// The conversation so far, for a fresh session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct CarriedHistory {
    /// How much history is carried into a fresh session, if it is carried.
    extent: Option<HistoryExtent>,
    /// The next prompt carries the history.
    is_due: bool,
}

/// What a session waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitCondition {
    /// The agent's process to start and answer `initialize`.
    AgentStart,
    /// The time from which the agent can load sessions.
    LoadTime,
    /// The agent's response to this method.
    Answer(Box<str>),
    /// The end of the turn; the agent has received the prompt.
    TurnEnd,
    /// Answers of clients to pending requests of the agent.
    PendingRequests {
        /// The oldest pending request.
        first: AgentRequestId,
        /// How many are pending.
        open: usize,
    },
    /// The agent's process to exit.
    AgentExit,
}

impl SessionMachine {
    /// A session that does not exist yet.
    pub(crate) fn new(agent: impl Into<String>) -> Self {
        Self {
            agent: agent.into(),
            state: MachineState::Parked,
            turns: TurnQueue::default(),
            forwards: Forwards::default(),
            config: SessionConfig::default(),
            lineage: None,
            target: RestoreTarget::Current,
            progress: ConversationProgress::default(),
            restore_error: None,
            lifecycle: Lifecycle::Open,
            agent_work: AgentWork::default(),
            close_kind: CloseKind::Closed,
            options: None,
            history: CarriedHistory::default(),
            meter: SpendingMeter::default(),
            out: Vec::new(),
        }
    }

    /// A session of the agent that has no record yet. The agent's replay becomes its history.
    pub(crate) fn adopting(agent: impl Into<String>, session: AcpSessionId, now: Timestamp) -> Self {
        let lineage = Some(Lineage::adopted(session, now));
        Self { lineage, target: RestoreTarget::Adopted, ..Self::new(agent) }
    }

    /// A session that the agent is to fork from a record's session.
    pub(crate) fn forking(record: &Record) -> Self {
        Self {
            target: RestoreTarget::Forked,
            lifecycle: Lifecycle::Open,
            config: SessionConfig::inherited(record.settings.clone()),
            ..Self::of_record(record)
        }
    }

    /// A session of a stored record.
    pub(crate) fn of_record(record: &Record) -> Self {
        let cost = record.info.usage.as_ref().and_then(|usage| usage.cost.as_ref()?.money());
        Self {
            lineage: Some(record.lineage.clone()),
            turns: TurnQueue::after(record.last_turn),
            progress: ConversationProgress {
                is_answered: record.answered_turns > 0 || record.is_adopted(),
                is_prompted: record.last_turn.is_some(),
                last_message_at: None,
                has_user_title: record.info.user_title.is_some(),
            },
            restore_error: record.restore_error.clone(),
            lifecycle: record.lifecycle,
            config: SessionConfig::of_record(record.settings.clone()),
            meter: SpendingMeter::new(CostCounter::of_session(Some(&record.lineage), cost)),
            ..Self::new(record.agent.label())
        }
    }

    /// Applies an input and returns its effects, in order.
    pub(crate) fn handle(&mut self, now: Timestamp, input: Input) -> Vec<Effect> {
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
            Input::Forward(request) => self.forward(request),
            Input::ForwardCancelled(id) => self.cancel_forward(id),
            Input::ForwardAnswered { id, answer } => self.on_forward_answer(id, answer),
            Input::SettingsOffered(offered) => self.on_settings_offered(offered),
            Input::ForgetSetting(setting) => self.config.forget(&setting),
            Input::SetupAccepted(setup) => self.config.accept_setup(setup),
            Input::UserTitleSet => self.progress.has_user_title = true,
            Input::SettingAnswered(answer) => self.on_setting_answer(now, answer),
            Input::Cancel(turn) => self.cancel(now, turn),
            Input::Close => self.close(now),
            Input::Delete => {
                self.close_kind = CloseKind::Deleted;
                self.close(now);
            }
            Input::Park => self.park(),
            Input::HostStopping => self.stop_host(now),
            Input::AgentReady {
                advertised,
                profile,
                exchanges,
                last_message_at,
                carried_history,
                on_resume,
            } => {
                self.history.extent = carried_history;
                self.progress.last_message_at = last_message_at.or(self.progress.last_message_at);
                self.on_agent_ready(now, advertised, profile, exchanges, on_resume);
            }
            Input::StartFailed(error) => self.on_start_failure(now, &error),
            Input::AgentExited(error) => self.on_agent_exit(now, &error),
            Input::AgentStopped => self.on_agent_stopped(now),
            Input::SessionListed(changed) => self.on_listed(now, changed),
            Input::SessionCreated { session, agent_session } => self.on_created(now, session, agent_session),
            Input::SessionRestored { agent_session } => self.on_restored(now, agent_session),
            Input::SetupRefused(error) => self.on_setup_refused(now, &error),
            Input::SetupImpossible(error) => self.on_setup_impossible(now, &error),
            Input::PromptAnswered(answer) => self.on_prompt_answer(now, answer),
            Input::PromptInserted => self.on_prompt_inserted(now),
            Input::CloseAnswered => self.on_close_answer(now),
            Input::DeleteAnswered => self.on_delete_answer(),
            Input::Update { update, body } => self.on_update(&update, body),
            Input::StateReported { state, background, body, own_turn } => {
                self.note_background(background);
                self.on_agent_state(now, state, body, own_turn);
            }
            Input::Elicitation { id } => self.on_elicitation(id),
            Input::RequestWithdrawn { id } => self.withdraw_request(&id),
            Input::Permission { id, tool, has_options, can_approve } => {
                self.on_permission_request(id, tool, has_options, can_approve);
            }
            Input::Tool { id, tool, granted } => self.on_tool_request(id, tool, granted),
            Input::RequestAnswered { id, permit } => self.on_client_answer(&id, permit),
            Input::RequestUnanswerable { id, summary } => self.on_unanswerable(&id, summary),
            Input::OtherRequest { id } => self.on_other_request(id),
            Input::Deadline(deadline) => self.on_deadline(now, deadline),
        }
        self.out.extend(self.config.take_changed().map(Effect::SaveSettings));
        std::mem::take(&mut self.out)
    }

    fn on_settings_offered(&mut self, offered: OfferedSettings) {
        let forwards = self.is_live().then_some(&self.forwards);
        self.config.on_offered(offered, forwards);
    }

    /// Whether the session still has to be adopted from the agent.
    pub(crate) fn is_adopting(&self) -> bool {
        self.target == RestoreTarget::Adopted
    }

    fn running_turn(&self) -> Option<&Turn> {
        match &self.state {
            MachineState::Prompting(PromptTurn { turn, .. }) | MachineState::Closing(_, Some(turn)) => {
                Some(turn)
            }
            _ => None,
        }
    }

    /// The turn that arriving updates belong to.
    pub(crate) fn current_turn(&self) -> Option<TurnId> {
        self.running_turn().map(|turn| turn.id)
    }

    /// The request id of the running turn.
    pub(crate) fn running_request(&self) -> Option<&RequestId> {
        self.running_turn().map(|turn| &turn.request)
    }

    /// The unfinished turns: the running one, then the queued ones.
    pub(crate) fn open_turns(&self) -> impl Iterator<Item = &Turn> {
        self.running_turn().into_iter().chain(&self.turns.queued)
    }

    /// The turns that can still reach a limit: the running one, unless it is being stopped, and the queued ones.
    pub(crate) fn limited_turns(&self) -> impl Iterator<Item = &Turn> {
        self.unstopped_turn().into_iter().chain(&self.turns.queued).filter(|turn| turn.limits.whole.is_some())
    }

    /// The running turn, unless it is being stopped.
    pub(crate) fn unstopped_turn(&self) -> Option<&Turn> {
        match &self.state {
            MachineState::Prompting(PromptTurn { turn, stopping: None, .. }) => Some(turn),
            _ => None,
        }
    }

    /// How many prompts are queued.
    pub(crate) fn queued_count(&self) -> usize {
        self.turns.queued.len()
    }

    /// The next queued prompt.
    pub(crate) fn next_queued(&self) -> Option<&Turn> {
        self.turns.queued.front()
    }

    /// The earlier ACP session that the record returns to, if it does.
    pub(crate) fn returning(&self) -> Option<&AcpSessionId> {
        match &self.target {
            RestoreTarget::Earlier(session) => Some(session),
            _ => None,
        }
    }

    /// The ACP session that calls to the agent use: the current one, or the earlier one that the record returns to.
    pub(crate) fn target_session(&self) -> Option<&AcpSessionId> {
        self.returning().or_else(|| Some(&self.lineage.as_ref()?.current().session))
    }

    /// The record's ACP sessions, once there is one.
    pub(crate) fn lineage(&self) -> Option<&Lineage> {
        self.lineage.as_ref()
    }

    /// Whether the session would be lost with the agent's process.
    pub(crate) fn has_only_memory(&self) -> bool {
        match &self.state {
            MachineState::Idle(live) => self.progress.is_prompted && !live.advertised.restores(),
            _ => false,
        }
    }

    /// Whether a fresh session would get the conversation so far.
    pub(crate) fn carries_history(&self) -> bool {
        self.options.is_some_and(|options| options.carry_history) && self.progress.is_answered
    }

    /// Whether the agent has the session.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.state, MachineState::Idle(_) | MachineState::Prompting(_))
    }

    /// Whether a turn runs or is queued.
    pub(crate) fn has_work(&self) -> bool {
        self.open_turns().next().is_some()
    }

    /// Whether requests of the running turn stay pending while no client can answer.
    pub(crate) fn waits_for_answers(&self) -> bool {
        match &self.state {
            MachineState::Prompting(PromptTurn { turn, .. }) => turn.policy.unasked == UnattendedPolicy::Wait,
            _ => false,
        }
    }

    /// Whether a client has to approve this tool use now.
    pub(crate) fn needs_approval(&self, tool: &ToolUse) -> bool {
        match &self.state {
            MachineState::Prompting(PromptTurn { turn, .. }) => {
                turn.policy.rule(tool).decision == Decision::Ask
            }
            _ => false,
        }
    }

    /// Whether a rule of the running turn escalates this tool use.
    pub(crate) fn is_escalated(&self, tool: &ToolUse) -> bool {
        match &self.state {
            MachineState::Prompting(PromptTurn { turn, .. }) => turn.policy.rule(tool).escalated_by.is_some(),
            _ => false,
        }
    }

    /// Whether no turn runs or is queued and no client request is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.state, MachineState::Idle(_) | MachineState::Parked)
            && self.turns.queued.is_empty()
            && self.forwards.first_awaited().is_none()
    }

    /// Whether the record is deleted.
    pub(crate) fn is_deleted(&self) -> bool {
        self.lifecycle.is_deleted()
    }

    /// The chosen settings that could not be restored, each with the reason.
    pub(crate) fn unmet_settings(&self) -> Vec<(Setting, Box<str>)> {
        let open = self.config.settings.unconfirmed();
        open.filter_map(|(setting, _, reason)| Some((setting.clone(), reason?.into()))).collect()
    }

    /// The chosen setting that a user's word for an option refers to; without a word, the chosen mode.
    pub(crate) fn chosen_setting(&self, word: Option<&str>) -> Option<Setting> {
        self.config.settings.chosen_by(word).cloned()
    }

    /// The method of a request that a client waits for.
    pub(crate) fn forwarded_method(&self, id: ForwardId) -> Option<&str> {
        self.forwards.awaited(id).map(|request| &*request.method)
    }

    /// What the session waits for; `None` if it waits only for clients.
    pub(crate) fn wait_condition(&self) -> Option<WaitCondition> {
        let method = match &self.state {
            MachineState::Parked | MachineState::Closed => return None,
            MachineState::Starting(phase) => match phase {
                StartPhase::Process => return Some(WaitCondition::AgentStart),
                StartPhase::LoadDelay(_) => return Some(WaitCondition::LoadTime),
                StartPhase::Listing(_) => "session/list",
                StartPhase::Creating(_, Some(Reset { reason: LineageReason::Forked, .. })) => "session/fork",
                StartPhase::Creating(..) => "session/new",
                StartPhase::Restoring(restore) => restore.rung.method(),
                StartPhase::Configuring(SettingsRestore { requested, .. }) => match requested.name {
                    SettingName::Mode => "session/set_mode",
                    SettingName::Option(_) => "session/set_config_option",
                },
            },
            MachineState::Idle(_) => &self.forwards.first_awaited()?.method,
            MachineState::Prompting(PromptTurn { stopping: Some(_), .. }) => "session/cancel",
            MachineState::Prompting(PromptTurn { pending, is_inserted, .. }) => {
                match (pending.first(), is_inserted) {
                    (Some(first), _) => {
                        let (first, open) = (first.id.clone(), pending.len());
                        return Some(WaitCondition::PendingRequests { first, open });
                    }
                    (None, true) => return Some(WaitCondition::TurnEnd),
                    (None, false) => "session/prompt",
                }
            }
            MachineState::Closing(advertised, _) if !advertised.close => "session/cancel",
            MachineState::Closing(..) => "session/close",
            MachineState::Deleting => "session/delete",
            MachineState::Stopping(_) => return Some(WaitCondition::AgentExit),
        };
        Some(WaitCondition::Answer(method.into()))
    }

    fn is_closing(&self) -> bool {
        matches!(
            self.state,
            MachineState::Closing(..)
                | MachineState::Deleting
                | MachineState::Stopping(AfterExit::Close)
                | MachineState::Closed
        )
    }

    fn take_state(&mut self) -> MachineState {
        std::mem::replace(&mut self.state, MachineState::Parked)
    }

    fn emit(&mut self, effect: Effect) {
        self.out.push(effect);
    }

    fn wake(&mut self, options: WakeOptions) {
        let is_reset = options.fallback == Fallback::Reset;
        if let Some(refused) = self.reset_refusal().filter(|_| is_reset) {
            return self.emit(Effect::ReplyWake(Err(refused)));
        }
        match &mut self.state {
            MachineState::Parked => {
                self.options = Some(options);
                self.start_agent();
            }
            MachineState::Idle(_) if is_reset => {
                self.options = Some(options);
                self.stop_agent(AfterExit::Wake);
            }
            MachineState::Idle(_) | MachineState::Prompting(_) => {
                self.emit(Effect::ReplyWake(Ok(WakeOutcome::Live)));
            }
            MachineState::Stopping(then @ AfterExit::Park) => {
                self.options = Some(options);
                *then = AfterExit::Wake;
            }
            MachineState::Starting(_) | MachineState::Stopping(AfterExit::Wake) => {
                self.merge_options(options);
            }
            MachineState::Closing(..)
            | MachineState::Deleting
            | MachineState::Stopping(AfterExit::Close)
            | MachineState::Closed => self.emit(Effect::ReplyWake(Err(WakeError::Closing))),
        }
    }

    /// Why the session cannot be reset now, if it cannot: a turn runs, or the session is being set up.
    pub(crate) fn reset_refusal(&self) -> Option<WakeError> {
        match &self.state {
            _ if self.is_closing() => Some(WakeError::Closing),
            MachineState::Parked | MachineState::Idle(_) | MachineState::Stopping(AfterExit::Park) => None,
            _ => Some(WakeError::Busy),
        }
    }

    /// Merges the options of clients that wait for the same start; the ones that lose less win.
    fn merge_options(&mut self, options: WakeOptions) {
        let Some(merged) = &mut self.options else {
            self.options = Some(options);
            return;
        };
        merged.carry_history |= options.carry_history;
        match (merged.fallback, options.fallback) {
            (Fallback::Reset, _) => {}
            (_, Fallback::Never) => merged.fallback = Fallback::Never,
            (Fallback::Always, Fallback::Auto) => merged.fallback = Fallback::Auto,
            _ => {}
        }
    }

    /// Why the record cannot return to an ACP session now, if it cannot.
    pub(crate) fn return_refusal(&self, session: &AcpSessionId) -> Option<WakeError> {
        match &self.state {
            _ if self.is_closing() => Some(WakeError::Closing),
            _ if self.lineage.as_ref().is_none_or(|lineage| lineage.row_of(session).is_none()) => {
                Some(WakeError::UnknownSession(session.clone()))
            }
            MachineState::Parked | MachineState::Idle(_)
                if self.is_idle() && !self.agent_work.in_background =>
            {
                None
            }
            _ => Some(WakeError::Busy),
        }
    }

    /// A client returns to an earlier ACP session of the record. The lineage changes once the agent has restored it.
    fn return_to(&mut self, session: AcpSessionId) {
        if self.return_refusal(&session).is_some() {
            return;
        }
        let is_current = self.target_session() == Some(&session);
        let is_live = self.is_live();
        if is_current && is_live {
            return self.emit(Effect::ReplyWake(Ok(WakeOutcome::Live)));
        }
        if !is_current {
            self.target = RestoreTarget::Earlier(session);
        }
        if is_live { self.stop_agent(AfterExit::Wake) } else { self.start_agent() }
    }

    /// Forwards a client's request, or lets it wait for the agent to have the session.
    fn forward(&mut self, request: ForwardedRequest) {
        if self.is_closing() {
            return self.emit(Effect::ReplyForward(request.id, Err(ForwardError::Closing)));
        }
        if !self.forwards.make_room() {
            return self.emit(Effect::ReplyForward(request.id, Err(ForwardError::TooMany)));
        }
        if self.is_live() {
            self.restart_idle_time();
            return self.send_forward(request);
        }
        let options = request.options;
        self.forwards.waiting.push(request);
        match &mut self.state {
            MachineState::Parked => {
                self.options = Some(options);
                self.start_agent();
            }
            MachineState::Stopping(then @ AfterExit::Park) => {
                *then = AfterExit::Wake;
                self.options = Some(options);
            }
            _ => self.merge_options(options),
        }
    }

    fn send_forward(&mut self, request: ForwardedRequest) {
        let setting = request.setting.as_ref();
        let before = setting.and_then(|setting| self.config.current(&setting.name)).cloned();
        self.forwards.send(request, before, &mut self.out);
    }

    /// The session is live: sends the waiting requests.
    fn send_waiting_forwards(&mut self) {
        for request in std::mem::take(&mut self.forwards.waiting) {
            self.send_forward(request);
        }
    }

    fn on_forward_answer(&mut self, id: ForwardId, answer: Result<std::sync::Arc<str>, AgentError>) {
        let Some(request) = self.forwards.get(id) else { return };
        let has_no_session = answer.as_ref().is_err_and(AgentError::has_no_session);
        // A dead worker proves no loss, so an agent that cannot restore the session keeps it.
        let may_recover = answer.as_ref().is_err_and(|error| error.meaning() == ErrorMeaning::WorkerDied)
            && self.has_only_memory();
        let is_lost = has_no_session && !may_recover && matches!(self.state, MachineState::Idle(_));
        if is_lost && request.can_be_resent() {
            return self.restart_without_session();
        }
        let Some(InFlightForward { request, before, is_awaited }) = self.forwards.take(id) else { return };
        if let Some(setting) = request.setting.filter(|_| answer.is_ok()) {
            self.config.choose(setting, before.as_ref());
        }
        if is_awaited {
            self.emit(Effect::ReplyForward(id, answer.map_err(ForwardError::Agent)));
            self.restart_idle_time();
        }
        if is_lost {
            self.restart_without_session();
        }
    }

    /// The client cancelled its request.
    fn cancel_forward(&mut self, id: ForwardId) {
        self.forwards.waiting.retain(|request| request.id != id);
        if self.forwards.abandon(id).is_some() {
            self.emit(Effect::Call(AgentCall::CancelForward(id)));
            self.restart_idle_time();
        }
    }

    /// The agent missed the deadline of a forwarded request.
    fn expire_forward(&mut self, id: ForwardId) {
        if self.forwards.awaited(id).is_none() {
            return;
        }
        let reply = self.forwards.abandon(id).map(|request| forward::unanswered(&self.agent, request));
        self.emit(Effect::Call(AgentCall::CancelForward(id)));
        self.out.extend(reply);
        self.restart_idle_time();
    }

    /// Restarts the idle deadline of an idle agent. A prompt that waits for its retry keeps its own deadline.
    fn restart_idle_time(&mut self) {
        if matches!(self.state, MachineState::Idle(_)) && self.turns.queued.is_empty() {
            self.emit(Effect::Arm(Deadline::Idle));
        }
    }
}

#[cfg(test)]
mod tests;
