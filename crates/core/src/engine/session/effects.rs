//! Feeds the state machine and executes its effects: persist and commit first, then act.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::acp::client::{ListedSession, OutgoingLine, SessionWorkspace};
use crate::acp::{Cursor, ExtraParams, acpx_peer};
use crate::machine::{
    AgentCall, Deadline, Effect, ForwardError, ForwardedRequest, Input, PromptRefusal, WakeError, WakeOutcome,
};
use crate::model::{
    AgentError, AgentProfile, Fact, ForwardId, ProtocolVersion, RequestId, Scope, Setting, Timestamp, Turn,
    TurnId,
};

use crate::store::StoreError;
use crate::wire::encode::json_string;

use super::exit_reason::ExitReason;
use super::replies::tell;
use super::task::SessionTask;
use crate::engine::agent::live_agent;
use crate::engine::agent::live_agent::LiveAgent;
use crate::engine::agent::remote_host::RemoteHostState;
use crate::engine::api::turn_handle::TurnEnd;
use crate::engine::ops::relocate::Moving;
use crate::engine::permissions::dispatch::Consulting;
use crate::engine::permissions::request::ResponderSender;
use crate::engine::restore::history;

/// How many bytes may be exchanged before there is a record to store them in.
pub(crate) const UNBORN_BYTES: usize = 64 << 20;

/// An action to execute once its cause is persisted.
pub(crate) enum SessionAction {
    Start,
    End,
    Send(OutgoingLine),
    Consult(Consulting),
    /// The session is in the agent's list.
    Found(Box<ListedSession>),
    Awake(Result<WakeOutcome, WakeError>),
    Accepted(RequestId, TurnId),
    /// The prompt is part of the conversation, with the result of a version 2 agent.
    Inserted(TurnId, Option<Arc<str>>),
    Refused(RequestId, PromptRefusal),
    Over(TurnEnd),
    Passed(ForwardId, Result<Arc<str>, ForwardError>),
    Parked(bool),
    Forgotten(Option<Setting>, oneshot::Sender<Option<Setting>>),
    Scope(Scope, oneshot::Sender<Result<(), StoreError>>),
    Move(Box<Moving>),
    Joined(RequestId, Option<ResponderSender>, oneshot::Sender<Option<Turn>>),
    Closed,
}

/// How many lines of an agent were discarded.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LostLines {
    /// Because they were no messages.
    pub(crate) garbage: u64,
    /// Because they were too long.
    dropped: u64,
}

impl SessionTask {
    pub(crate) fn now(&self) -> Timestamp {
        (self.shared.settings.clock)()
    }

    /// Feeds the machine with an input and the inputs that follow from it, and collects the effects.
    pub(crate) fn feed(&mut self, input: Input) {
        self.inputs.push_back(input);
        while let Some(input) = self.inputs.pop_front() {
            let now = self.now();
            let turn = self.machine.current_turn();
            for mut effect in self.machine.handle(now, input) {
                match &mut effect {
                    Effect::Fact(fact) => {
                        self.waiters.name_asker(fact);
                        if matches!(fact, Fact::TurnStarted { .. }) {
                            self.garbage_before = self.lost_lines().garbage;
                        }
                        // Discarded lines do not concern a turn that was only queued.
                        if matches!(fact, Fact::TurnEnded { turn: ended, .. } if turn == Some(TurnId(*ended)))
                        {
                            self.consultations.end_turn();
                            self.persist_terminal_output_of(turn, false);
                            self.persist_lost_lines(now);
                        }
                        self.knowledge.take(self.journal.last().next(), fact);
                        self.journal.set_memory(self.knowledge.memory());
                    }
                    Effect::ReplyWake(Ok(how)) => self.knowledge.awake(*how),
                    Effect::SaveTurn(turn) if !turn.is_asked() => self.knowledge.begins_unasked(turn.id),
                    _ => {}
                }
                if let Some(effect) = self.journal.persist_effect(now, effect) {
                    self.collect(now, turn, effect);
                }
            }
            self.stop_unwanted();
        }
    }

    /// The agent's discarded lines; after its end, the final numbers.
    pub(crate) fn lost_lines(&self) -> LostLines {
        let counted = |agent: &LiveAgent| {
            let peer = agent.connection.peer();
            LostLines { garbage: peer.garbage_lines(), dropped: peer.dropped_lines() }
        };
        self.agent.as_ref().map_or(self.lost, counted)
    }

    /// Persists how many lines were discarded since the last call because they were too long, and how many were no
    /// messages.
    fn persist_lost_lines(&mut self, now: Timestamp) {
        let LostLines { garbage, dropped } = self.lost_lines();
        let unread = garbage.saturating_sub(self.garbage_before);
        self.garbage_before = garbage;
        if unread > 0 {
            self.journal.append_fact(now, &Fact::LinesUnread { lines: unread });
        }
        self.dropped = dropped.saturating_sub(self.dropped_before);
        self.dropped_before = dropped;
        if self.dropped > 0 {
            let limit = self.shared.settings.wire.line_bytes as u64;
            self.journal.append_fact(now, &Fact::LinesDropped { lines: self.dropped, limit });
        }
    }

    /// `turn` is the turn that ran when the input arrived: its lines belong to it even if they end it.
    fn collect(&mut self, now: Timestamp, turn: Option<TurnId>, effect: Effect) {
        match effect {
            // A line that begins a turn belongs to it.
            Effect::PersistUpdate(body) => {
                self.journal.append_update(now, turn.or_else(|| self.machine.current_turn()), body);
            }
            Effect::PersistReplay(body) => self.journal.append_notification(now, turn, body),
            Effect::Call(call) => self.ask(now, turn, call),
            Effect::AnswerRequest(ask, permit) => self.permit(now, turn, &ask, &permit),
            Effect::RouteRequest(ask) => self.put_later(now, turn, ask),
            Effect::RefuseRequest(ask) => self.refuse(now, turn, &ask),
            Effect::Arm(deadline) => self.arm(deadline),
            Effect::Disarm => self.deadline = None,
            Effect::StartAgent => self.actions.push(SessionAction::Start),
            Effect::StopAgent(fault) => {
                self.fault = fault;
                self.actions.push(SessionAction::End);
            }
            Effect::ReplyWake(news) => self.actions.push(SessionAction::Awake(news)),
            Effect::TurnAccepted(request, turn) => {
                self.metas.accepted(&request, turn);
                self.actions.push(SessionAction::Accepted(request, turn));
            }
            Effect::TurnRefused(request, refusal) => {
                self.metas.refused(&request);
                self.actions.push(SessionAction::Refused(request, refusal));
            }
            Effect::TurnEnded(over) => {
                self.received = 0;
                self.metas.over(over.id);
                if turn == Some(over.id) {
                    self.consultations.forget();
                }
                let seq = Some(self.journal.last());
                // The agent's messages do not concern a turn that was only queued.
                let (answer, meta, dropped_lines) = if turn == Some(over.id) {
                    (self.prompted.take(), self.idle_meta.take(), std::mem::take(&mut self.dropped))
                } else {
                    (None, None, 0)
                };
                self.actions.push(SessionAction::Over(TurnEnd {
                    turn: over,
                    seq,
                    answer,
                    meta,
                    dropped_lines,
                }));
            }
            Effect::ReplyForward(pass, answer) => self.actions.push(SessionAction::Passed(pass, answer)),
            Effect::ReplyPark(parked) => self.actions.push(SessionAction::Parked(parked)),
            Effect::ReplyClose => self.actions.push(SessionAction::Closed),
            Effect::Fact(_)
            | Effect::SaveTurn(_)
            | Effect::SaveLineage(_)
            | Effect::SaveTitle(_)
            | Effect::SaveSettings(_)
            | Effect::SaveRestoreError(_)
            | Effect::SaveLifecycle(_) => {}
        }
    }

    pub(crate) fn arm(&mut self, deadline: Deadline) {
        let limit = match deadline {
            Deadline::Setup => Some(self.start_limit()),
            Deadline::Setting => Some(self.place.setting_patience(self.start_limit())),
            Deadline::Load(at) => Some(at.since(self.now())),
            Deadline::Cancel => Some(self.shared.settings.cancel_grace),
            Deadline::Close => Some(self.shared.settings.close_grace),
            Deadline::Idle => self.idle_time(),
            Deadline::Forward(pass) => return self.limits.passed(pass, self.start_limit()),
            // These have their own timers, set by the turns' limits.
            Deadline::Turn(_) | Deadline::Silence => return,
        };
        // A time beyond the clock's range is no limit.
        let at = limit.and_then(|limit| Instant::now().checked_add(limit));
        self.deadline = at.map(|at| (deadline, at));
    }

    /// How long the agent may take to answer a setup request.
    fn start_limit(&self) -> Duration {
        match &self.agent {
            Some(agent) => self.place.start_limit(agent.connection.profile()),
            None => self.place.start_limit(&AgentProfile::default()),
        }
    }

    fn ask(&mut self, now: Timestamp, turn: Option<TurnId>, call: AgentCall) {
        let prompted = if let AgentCall::Prompt { turn, .. } = &call { Some(*turn) } else { None };
        let passed = if let AgentCall::Forward(pass) = &call { Some(pass.id) } else { None };
        let is_setting = matches!(call, AgentCall::Set(_));
        let is_end = matches!(call, AgentCall::Cancel | AgentCall::Close | AgentCall::Delete);
        if prompted.is_some() {
            (self.received, self.idle_meta) = (0, None);
        }
        let is_restore = matches!(call, AgentCall::Resume | AgentCall::Replay | AgentCall::Load);
        let taken = if is_restore { self.reserve_restored_id() } else { Ok(()) };
        match taken.map_or_else(|error| Some(Err(error)), |()| self.outgoing(call)) {
            Some(Ok(outgoing)) => {
                self.send(now, prompted.or(turn), outgoing);
                if let Some(turn) = prompted.filter(|_| !self.agent_says_insertion()) {
                    self.actions.push(SessionAction::Inserted(turn, None));
                }
            }
            Some(Err(error)) if prompted.is_some() => {
                self.inputs.push_back(Input::PromptAnswered(Err(error)));
            }
            Some(Err(error)) => self.inputs.push_back(match passed {
                Some(pass) => Input::ForwardAnswered { id: pass, answer: Err(error) },
                None if is_setting => Input::SettingAnswered(Err(error)),
                None => Input::SetupImpossible(error),
            }),
            // The machine calls only advertised methods, and only while an agent runs.
            None => {}
        }
        if is_end {
            self.withdraw_tools(|_| true);
        }
    }

    /// Whether the agent reports when a prompt becomes part of the conversation. In version 1, sending it is enough.
    fn agent_says_insertion(&self) -> bool {
        self.agent.as_ref().is_some_and(|agent| agent.connection.version() == ProtocolVersion::V2)
    }

    /// The line of a call; `None` if there is no agent or it does not support the method.
    fn outgoing(&mut self, call: AgentCall) -> Option<Result<OutgoingLine, AgentError>> {
        let connection = &mut self.agent.as_mut()?.connection;
        let place = SessionWorkspace {
            cwd: &self.place.cwd,
            additional_directories: &self.place.additional_directories,
            mcp_servers: &self.place.mcp_servers.list,
            besides: self.place.besides.as_ref(),
        };
        if call == AgentCall::New {
            return Some(connection.new_session(place));
        }
        let session = self.machine.target_session()?;
        match call {
            AgentCall::New => None,
            AgentCall::Fork => Some(connection.fork_session(session, place)),
            AgentCall::Resume => {
                let missed = self.far.as_ref().and_then(RemoteHostState::missed);
                let from = |seq| ExtraParams::with_ours(place.besides, "replayFrom", &Cursor::json_from(seq));
                let besides = missed.map(from);
                let place = SessionWorkspace { besides: besides.as_ref().or(place.besides), ..place };
                Some(connection.resume()?.request(session, place))
            }
            AgentCall::Replay => Some(connection.replay()?.request(session, place)),
            AgentCall::Load => Some(connection.load()?.request(session, place)),
            AgentCall::List => {
                self.pages = 1;
                let cwd = (!self.machine.is_adopting()).then_some(&self.place.cwd);
                Some(Ok(connection.list()?.request(cwd, None)))
            }
            AgentCall::Prompt { turn, prompt, carry_history } => {
                let mut besides = self.metas.of(turn).cloned();
                if let Some(request) = self.machine.running_request().filter(|_| self.far.is_some()) {
                    let name = json_string(&acpx_peer::name_of(self.journal.record(), request.as_str()));
                    besides = Some(ExtraParams::with_ours(besides.as_ref(), "requestId", &name));
                }
                let history = self.history.take().filter(|_| carry_history);
                let carried = history.map(|history| history::with_history(&prompt, &history));
                Some(connection.prompt(session, carried.as_deref().unwrap_or(&prompt), besides.as_ref()))
            }
            AgentCall::Set(setting) => Some(connection.set(&setting, session)),
            AgentCall::Forward(ForwardedRequest { id, method, params, .. }) => {
                Some(connection.passing(&method).and_then(|passing| passing.request(id, session, &params)))
            }
            AgentCall::CancelForward(pass) => Some(Ok(connection.withdraw(pass)?)),
            AgentCall::Cancel => {
                let besides = self.metas.cancelling.as_ref();
                let left = self.far.as_ref().and_then(RemoteHostState::left).map(|prompt| {
                    let name = json_string(&acpx_peer::name_of(self.journal.record(), prompt));
                    ExtraParams::with_ours(besides, "requestId", &name)
                });
                Some(Ok(connection.cancel(session, left.as_ref().or(besides))))
            }
            AgentCall::Close => Some(Ok(connection.close()?.request(session))),
            AgentCall::Delete => {
                Some(Ok(connection.delete()?.request(session, self.metas.deleting.as_ref())))
            }
        }
    }

    /// Sends a line that is not persisted.
    pub(crate) fn send_unkept(&mut self, outgoing: OutgoingLine) {
        self.actions.push(SessionAction::Send(outgoing));
    }

    pub(crate) fn send(&mut self, now: Timestamp, turn: Option<TurnId>, outgoing: OutgoingLine) {
        self.journal.append_line(now, turn, outgoing.kept());
        self.limits.spoken();
        self.actions.push(SessionAction::Send(outgoing));
    }

    pub(crate) async fn execute(&mut self, actions: SessionAction) -> Result<(), StoreError> {
        match actions {
            SessionAction::Start => self.start_agent(),
            SessionAction::End => self.end_agent(),
            SessionAction::Send(outgoing) => self.send_now(outgoing).await,
            SessionAction::Consult(consulting) => self.consult(consulting),
            SessionAction::Found(row) => self.on_session_listed(*row).await,
            SessionAction::Awake(news) => {
                // The agent did not accept the launch values, so the record keeps its own.
                if matches!(news, Err(WakeError::Agent(_))) {
                    self.forget_given();
                }
                self.waiters.tell_awake(&news);
                // A session that was never opened cannot be restored.
                self.over |= news.is_err() && !self.journal.has_record();
            }
            SessionAction::Accepted(request, turn) => self.waiters.tell_accepted(&request, turn),
            SessionAction::Inserted(turn, answer) => self.waiters.tell_inserted(turn, answer),
            SessionAction::Refused(request, refusal) => {
                self.launch_values.remove(&request);
                self.waiters.tell_refused(&request, refusal);
            }
            SessionAction::Over(end) => {
                self.launch_values.remove(&end.turn.request);
                self.waiters.tell_over(end);
            }
            SessionAction::Passed(pass, answer) => self.waiters.tell_passed(pass, answer),
            SessionAction::Parked(parked) => self.waiters.tell_parked(parked),
            SessionAction::Forgotten(wish, reply) => tell(reply, wish),
            SessionAction::Scope(scope, reply) => match self.journal.set_scope(scope).await {
                Err(error) if !matches!(error, StoreError::ScopeTaken { .. }) => return Err(error),
                kept => tell(reply, kept),
            },
            SessionAction::Move(moving) => return self.move_to(*moving).await,
            SessionAction::Joined(request, responder, reply) => {
                let turn = self.journal.turn_of(&request).await?;
                if let (Some(turn), Some(responder)) =
                    (turn.as_ref().filter(|turn| turn.is_open()), responder)
                {
                    self.waiters.advise(turn.id, responder);
                }
                tell(reply, turn);
            }
            SessionAction::Closed => {
                // Leftovers of an agent that exited by itself are ended before the session is reported as closed.
                self.clear_leftover().await;
                self.journal.commit().await?;
                self.over = true;
                if self.machine.is_deleted() {
                    self.told.exit_reason.set(ExitReason::Deleted);
                }
                self.stop_listening();
                self.waiters.tell_closed(&self.deletion);
            }
        }
        Ok(())
    }

    fn start_agent(&mut self) {
        // The agent is started with the values of the first queued prompt, or else of the last wake.
        let first =
            self.machine.next_queued().and_then(|turn| self.launch_values.get(&turn.request)).cloned();
        if let Some(launch_values) = first {
            self.prepare(launch_values);
        }
        let servers = &self.place.mcp_servers;
        if self.journal.has_record() && !servers.left_out.is_empty() {
            let (names, reason) = (servers.left_out.clone(), servers.unread.clone());
            let now = self.now();
            self.journal.append_fact(now, &Fact::McpServersLeftOut { names, reason });
        }
        let predecessor = self.leftover.as_ref().map(|leftover| leftover.gone.clone());
        let (place, shared, record) =
            (self.place.clone(), self.shared.clone(), self.journal.record().clone());
        self.coming = Some(Box::pin(live_agent::start_for(record, place, shared, predecessor)));
    }

    async fn send_now(&mut self, outgoing: OutgoingLine) {
        let Some(agent) = &mut self.agent else { return };
        if agent.sending.send(outgoing).await.is_err() {
            // The next receive sees the end and reports its cause.
            agent.connection.peer().abort();
        }
    }
}
