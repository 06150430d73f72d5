//! Feeds the state machine and executes its effects: persist and commit first, then act.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::acp::client::{Escalation, ListedSession, OutgoingLine, SessionWorkspace, ToolRequest};
use crate::acp::{Cursor, ExtraParams, acpx_peer};
use crate::machine::{
    AgentCall, Deadline, Effect, ForwardError, ForwardedRequest, Input, PromptRefusal, WakeError, WakeOutcome,
};
use crate::model::{
    AgentError, AgentProfile, AgentRequestId, Fact, ForwardId, Permit, ProtocolVersion, RequestId, Setting,
    Timestamp, ToolUse, TurnId,
};
use crate::store::StoreError;
use crate::wire::RpcError;
use crate::wire::encode::json_string;

use super::commands::DeferredCommand;
use super::replies::{send, send_all};
use super::task::SessionTask;
use crate::engine::agent::remote_host::RemoteHostState;
use crate::engine::agent::slot::LostLines;
use crate::engine::api::error::ExitReason;
use crate::engine::api::prompt::TurnEnd;
use crate::engine::permissions::dispatch::InboundRequest;
use crate::engine::permissions::request::denied;
use crate::engine::permissions::request::{self, RequestDetails};
use crate::engine::restore::history;
use crate::engine::tools::dispatch::{CommandContext, PendingTool, ToolReply};
use crate::engine::tools::run::ToolRequestOrigin;

/// How many bytes may be exchanged before there is a record to store them in.
pub(crate) const MAX_BYTES_BEFORE_RECORD: usize = 64 << 20;

/// An action to execute once its cause is persisted.
pub(crate) enum SessionAction {
    StartAgent,
    StopAgent(Option<&'static str>),
    ReplyWake(Result<WakeOutcome, WakeError>),
    TurnAccepted(RequestId, TurnId),
    TurnRefused(RequestId, PromptRefusal),
    ReplyForward(ForwardId, Result<Arc<str>, ForwardError>),
    ReplyPark(bool),
    ReplyClose,
    /// A command that has to follow the changes before it.
    Command(DeferredCommand),
    Send(OutgoingLine),
    /// Dispatch a request of the agent to the client of a turn.
    AskClient(AgentRequestId, Option<TurnId>, Box<RequestDetails>),
    /// The session is in the agent's list.
    Found(Box<ListedSession>),
    /// The prompt is part of the conversation, with the result of a version 2 agent.
    Inserted(TurnId, Option<Arc<str>>),
    Over(Box<TurnEnd>),
    Forgotten(Option<Setting>, oneshot::Sender<Option<Setting>>),
    /// Replies which queued prompts were dropped.
    QueueDropped(Vec<RequestId>, oneshot::Sender<Vec<RequestId>>),
}

impl SessionTask {
    pub(super) fn now(&self) -> Timestamp {
        (self.shared.settings.clock)()
    }

    /// Feeds the machine with an input and the inputs that follow from it, and collects the effects.
    pub(super) fn feed(&mut self, input: Input) {
        let (mut first, mut following) = (Some(input), VecDeque::new());
        while let Some(input) = first.take().or_else(|| following.pop_front()) {
            let now = self.now();
            let turn = self.machine.current_turn();
            for mut effect in self.machine.handle(now, input) {
                self.observe(now, turn, &mut effect);
                if let Some(effect) = self.journal.persist_effect(now, effect) {
                    following.extend(self.collect(now, turn, effect));
                }
            }
            // The running prompt of a remote host may have been cancelled here before, and is now a turn here.
            let turn = self.machine.current_turn();
            if turn.is_some() && self.agent.remote_host_mut().is_some_and(RemoteHostState::take_unwanted) {
                following.push_back(Input::Cancel(turn));
            }
        }
    }

    /// Notes what an effect means for the agent's memory and the turn's clients, before it is persisted.
    fn observe(&mut self, now: Timestamp, turn: Option<TurnId>, effect: &mut Effect) {
        self.journal.log.effect(effect);
        match effect {
            Effect::Fact(fact) => {
                self.replies.name_client(fact);
                self.journal.queue_notification(self.shared.settings.notifications.of_fact(now, fact));
                if matches!(fact, Fact::TurnStarted { .. }) {
                    self.agent.begin_turn();
                }
                // Discarded lines do not concern a turn that was only queued.
                if matches!(fact, Fact::TurnEnded { turn: ended, .. } if turn == Some(TurnId(*ended))) {
                    self.permissions.decisions.end_turn();
                    self.persist_terminal_output_of(turn, false);
                    self.persist_lost_lines(now);
                }
                self.memory.apply_fact(self.journal.last().next(), fact);
                self.journal.set_memory(self.memory.memory());
            }
            Effect::ReplyWake(Ok(how)) => self.memory.awake(*how),
            Effect::SaveTurn(turn) if !turn.is_prompted() => self.memory.begins_unasked(turn.id),
            _ => {}
        }
    }

    /// Persists how many lines were discarded in the turn that ends: those that were no messages, and those that were
    /// too long.
    fn persist_lost_lines(&mut self, now: Timestamp) {
        let LostLines { garbage, dropped } = self.agent.end_turn();
        if garbage > 0 {
            self.journal.append_fact(now, &Fact::LinesUnread { lines: garbage });
        }
        if dropped > 0 {
            let limit = self.shared.settings.wire.line_bytes as u64;
            self.journal.append_fact(now, &Fact::LinesDropped { lines: dropped, limit });
        }
    }

    /// Collects what an effect persists, and queues the action that follows the commit. Returns an input that follows
    /// from it. `turn` is the turn that ran when the input arrived: its lines belong to it even if they end it.
    fn collect(&mut self, now: Timestamp, turn: Option<TurnId>, effect: Effect) -> Option<Input> {
        match effect {
            // A line that begins a turn belongs to it.
            Effect::PersistUpdate(body) => {
                self.journal.append_update(now, turn.or_else(|| self.machine.current_turn()), body);
            }
            Effect::PersistReplay(body) => self.journal.append_notification(now, turn, body),
            Effect::Call(call) => return self.call(now, turn, call),
            Effect::AnswerRequest(ask, permit) => self.permit(now, turn, &ask, &permit),
            Effect::RouteRequest(ask) => self.schedule_dispatch(now, turn, ask),
            Effect::RefuseRequest(ask) => {
                if let Some(InboundRequest::Refused(error)) = self.permissions.remove(&ask) {
                    self.refuse(now, turn, &ask, &error);
                }
            }
            Effect::Arm(deadline) => self.arm(deadline),
            Effect::Disarm => self.timers.disarm(),
            Effect::TurnEnded(over) => {
                self.agent.reset_received();
                let is_current = turn == Some(over.id);
                if is_current {
                    self.permissions.decisions.withdraw_all();
                }
                let dropped_lines = is_current.then(|| self.agent.take_dropped_in_turn());
                let end = self.replies.turn_end(over, self.journal.last(), dropped_lines);
                self.actions.push(SessionAction::Over(Box::new(end)));
            }
            Effect::TurnAccepted(request, turn) => {
                self.replies.assign_turn(&request, turn);
                self.actions.push(SessionAction::TurnAccepted(request, turn));
            }
            Effect::StartAgent => self.actions.push(SessionAction::StartAgent),
            Effect::StopAgent(fault) => self.actions.push(SessionAction::StopAgent(fault)),
            Effect::ReplyWake(outcome) => self.actions.push(SessionAction::ReplyWake(outcome)),
            Effect::TurnRefused(request, why) => self.actions.push(SessionAction::TurnRefused(request, why)),
            Effect::ReplyForward(id, answer) => self.actions.push(SessionAction::ReplyForward(id, answer)),
            Effect::ReplyPark(parked) => self.actions.push(SessionAction::ReplyPark(parked)),
            Effect::ReplyClose => self.actions.push(SessionAction::ReplyClose),
            // The journal has persisted these.
            Effect::Fact(_)
            | Effect::SaveTurn(_)
            | Effect::SaveLineage(_)
            | Effect::SaveTitle(_)
            | Effect::SaveUsage { .. }
            | Effect::SaveCost(_)
            | Effect::SaveSettings(_)
            | Effect::SaveRestoreError(_)
            | Effect::SaveLifecycle(_) => {}
        }
        None
    }

    /// Schedules a request of the agent to be dispatched once it is persisted.
    fn schedule_dispatch(&mut self, now: Timestamp, turn: Option<TurnId>, ask: AgentRequestId) {
        let is_escalated = |tool: &ToolUse| self.machine.is_escalated(tool);
        let content = self.permissions.content_of(&ask, is_escalated);
        let (Some((params, wanted, offer)), Some(version)) = (content, self.agent.version()) else { return };
        let (seq, lineage) = (self.journal.last(), self.journal.lineage());
        let (waits, since) = (self.machine.waits_for_answers(), Some(now));
        let details = RequestDetails { params, version, seq, lineage, wanted, waits, since, offer };
        self.actions.push(SessionAction::AskClient(ask, turn, Box::new(details)));
    }

    /// Replies to a pending request of the agent, or executes it.
    fn permit(&mut self, now: Timestamp, turn: Option<TurnId>, ask: &AgentRequestId, permit: &Permit) {
        // A scheduled request is dropped: the agent may reuse its id by then.
        self.actions.retain(|action| !matches!(action, SessionAction::AskClient(next, ..) if next == ask));
        let (request, identity) = (self.permissions.remove(ask), self.identity());
        let Some(agent) = self.agent.live_mut() else { return };
        let answer = match request {
            Some(InboundRequest::Permission(request)) => match (permit, identity) {
                (Permit::Escalated(rule), Some(identity)) => {
                    let escalation = Escalation { rule, identity, at: now };
                    agent.connection.escalate(ask, &request, &escalation)
                }
                _ => agent.connection.permit(ask, &request, permit),
            },
            Some(InboundRequest::Elicitation(params)) => agent.connection.elicited(ask, &params, permit),
            Some(InboundRequest::Tool(tool)) => return self.permit_tool(turn, ask, *tool, permit),
            Some(InboundRequest::Refused(_)) | None => return,
        };
        self.send(now, turn, answer);
    }

    /// Executes a file or terminal request, or replies why not.
    fn permit_tool(
        &mut self,
        turn: Option<TurnId>,
        ask: &AgentRequestId,
        tool: PendingTool,
        permit: &Permit,
    ) {
        let origin = ToolRequestOrigin { ask: ask.clone(), turn };
        let error = match permit {
            Permit::Approve | Permit::Choose { approves: true, .. } => {
                return self.execute_tool(&origin, tool);
            }
            Permit::Cancelled | Permit::Unselected(_) => RpcError::request_cancelled(),
            Permit::Escalated(rule) => denied(tool.request.method(), Some(rule)),
            Permit::Reject | Permit::Choose { .. } | Permit::Declined | Permit::ElicitationResult(_) => {
                denied(tool.request.method(), None)
            }
        };
        self.answer_tool(&origin, Err(error));
    }

    fn execute_tool(&mut self, origin: &ToolRequestOrigin, mut tool: PendingTool) {
        // Stores the end of finished commands, which makes room for another one.
        if matches!(tool.request, ToolRequest::Create(_) | ToolRequest::Output(_)) {
            self.persist_terminal_output(false);
        }
        let is_file = matches!(tool.request, ToolRequest::Read { .. } | ToolRequest::Write { .. });
        let client = is_file.then(|| {
            let (seq, lineage) = (self.journal.last(), self.journal.lineage());
            let (params, version, offer) = (tool.params.clone(), ProtocolVersion::V1, tool.offer());
            let (wanted, waits, since) = (None, false, None);
            let details = RequestDetails { params, version, seq, lineage, wanted, waits, since, offer };
            request::send_request(details, origin.turn.and_then(|turn| self.replies.responder(turn))).answer
        });
        let (line, grace) = (tool.line.take(), self.shared.settings.process);
        let (spawner, environment) = (&self.shared.spawner, &self.launch.environment);
        let (record, terminal_bytes) = (self.journal.record(), self.shared.settings.terminal_bytes);
        let context = CommandContext { spawner, environment, record, grace, terminal_bytes };
        let Some(agent) = self.agent.live_mut() else { return };
        match agent.tools.execute(origin.clone(), tool, client, &context) {
            ToolReply::Later => {}
            ToolReply::Now(answer) => {
                if let Some(line) = line {
                    self.journal.append_line(self.now(), self.machine.current_turn(), &line);
                }
                self.answer_tool(origin, answer);
            }
            ToolReply::Unpersisted(answer) => {
                let answer = agent.connection.provide(&origin.ask, &answer);
                self.actions.push(SessionAction::Send(answer));
            }
        }
    }

    /// Replies to a request of the agent with an error.
    pub(super) fn refuse(
        &mut self,
        now: Timestamp,
        turn: Option<TurnId>,
        ask: &AgentRequestId,
        error: &RpcError,
    ) {
        if let Some(agent) = self.agent.live() {
            let answer = agent.connection.refusal(ask, error);
            self.send(now, turn, answer);
        }
    }

    fn arm(&mut self, deadline: Deadline) {
        let limit = match deadline {
            Deadline::Setup => Some(self.start_limit()),
            Deadline::Setting => Some(self.launch.setting_limit(self.start_limit())),
            Deadline::Load(at) => Some(at.since(self.now())),
            Deadline::Retry(delay) => Some(delay),
            Deadline::Cancel => Some(self.shared.settings.cancel_grace),
            Deadline::Close => Some(self.shared.settings.close_grace),
            Deadline::Idle => {
                let limit = self.timers.idle_limit(self.machine.has_only_memory());
                limit.filter(|_| *self.status.held.borrow() == 0)
            }
            Deadline::Forward(forward) => return self.timers.on_forwarded(forward, self.start_limit()),
            // These have their own timers, set by the turns' limits.
            Deadline::Turn(_) | Deadline::Silence => return,
        };
        self.timers.arm(deadline, limit);
    }

    /// Begins the idle time again, if the agent is idle.
    pub(super) fn restart_idle_time(&mut self) {
        if self.machine.is_live() && self.machine.is_idle() {
            self.arm(Deadline::Idle);
        }
    }

    /// How long the agent may take to answer a setup request.
    fn start_limit(&self) -> Duration {
        match self.agent.live() {
            Some(agent) => self.launch.start_limit(agent.connection.profile()),
            None => self.launch.start_limit(&AgentProfile::default()),
        }
    }

    /// Sends a call to the agent. Returns the input for a call that cannot be sent.
    fn call(&mut self, now: Timestamp, turn: Option<TurnId>, call: AgentCall) -> Option<Input> {
        let prompted = if let AgentCall::Prompt { turn, .. } = &call { Some(*turn) } else { None };
        let forward_id = if let AgentCall::Forward(forward) = &call { Some(forward.id) } else { None };
        let is_setting = matches!(call, AgentCall::Set(_));
        let is_end = matches!(call, AgentCall::Cancel | AgentCall::Close | AgentCall::Delete);
        if prompted.is_some() {
            self.agent.reset_received();
            self.replies.idle_meta = None;
        }
        let is_restore = matches!(call, AgentCall::Resume | AgentCall::Replay | AgentCall::Load);
        let reserved = if is_restore { self.reserve_restored_id() } else { Ok(()) };
        let failure = match reserved.map_or_else(|error| Some(Err(error)), |()| self.outgoing(call)) {
            Some(Ok(outgoing)) => {
                self.send(now, prompted.or(turn), outgoing);
                // A version 2 agent reports when the prompt becomes part of the conversation. In version 1, sending
                // it is enough.
                let inserted = prompted.filter(|_| self.agent.version() != Some(ProtocolVersion::V2));
                self.actions.extend(inserted.map(|turn| SessionAction::Inserted(turn, None)));
                None
            }
            Some(Err(error)) => Some(match forward_id {
                _ if prompted.is_some() => Input::PromptAnswered(Err(error)),
                Some(forward) => Input::ForwardAnswered { id: forward, answer: Err(error) },
                None if is_setting => Input::SettingAnswered(Err(error)),
                None => Input::SetupImpossible(error),
            }),
            // The machine calls only advertised methods, and only while an agent runs.
            None => None,
        };
        if is_end {
            self.withdraw_tools(|_| true);
        }
        failure
    }

    /// The line of a call; `None` if there is no agent or it does not support the method.
    fn outgoing(&mut self, call: AgentCall) -> Option<Result<OutgoingLine, AgentError>> {
        let (connection, remote_host) = self.agent.connection_mut()?;
        let extra_params = ExtraParams::with_setup(self.launch.extra_params.as_ref(), &self.launch.setup);
        let workspace = SessionWorkspace {
            cwd: &self.launch.cwd,
            additional_directories: &self.launch.additional_directories,
            mcp_servers: &self.launch.mcp_servers.list,
            extra_params: extra_params.as_ref(),
        };
        if call == AgentCall::New {
            return Some(connection.new_session(workspace));
        }
        let session = self.machine.target_session()?;
        match call {
            AgentCall::New => None,
            AgentCall::Fork => Some(connection.fork_session(session, workspace)),
            AgentCall::Resume => {
                let missed = remote_host.and_then(RemoteHostState::missed);
                let from = |seq| {
                    ExtraParams::with_ours(workspace.extra_params, "replayFrom", &Cursor::json_from(seq))
                };
                let extra_params = missed.map(from);
                let workspace = SessionWorkspace {
                    extra_params: extra_params.as_ref().or(workspace.extra_params),
                    ..workspace
                };
                Some(connection.resume()?.request(session, workspace))
            }
            AgentCall::Replay => Some(connection.replay()?.request(session, workspace)),
            AgentCall::Load => Some(connection.load()?.request(session, workspace)),
            AgentCall::List => {
                self.restore.begin_list();
                let cwd = (!self.machine.is_adopting()).then_some(&self.launch.cwd);
                Some(Ok(connection.list()?.request(cwd, None)))
            }
            AgentCall::Prompt { turn, prompt, carry_history } => {
                let mut extra_params = self.replies.extra_params_of(turn).cloned();
                if let Some(request) = self.machine.running_request().filter(|_| remote_host.is_some()) {
                    let name = json_string(&acpx_peer::name_of(self.journal.record(), request.as_str()));
                    extra_params = Some(ExtraParams::with_ours(extra_params.as_ref(), "requestId", &name));
                }
                let history = self.restore.transcript.take().filter(|_| carry_history);
                let carried = history.map(|history| history::with_history(&prompt, &history));
                Some(connection.prompt(session, carried.as_deref().unwrap_or(&prompt), extra_params.as_ref()))
            }
            AgentCall::Set(setting) => Some(connection.set(&setting, session)),
            AgentCall::Forward(ForwardedRequest { id, method, params, .. }) => {
                Some(connection.forwarding(&method).and_then(|method| method.request(id, session, &params)))
            }
            AgentCall::CancelForward(forward) => Some(Ok(connection.withdraw(forward)?)),
            AgentCall::Cancel => {
                let extra_params = self.replies.cancel_params.as_ref();
                let left = remote_host.and_then(RemoteHostState::left).map(|prompt| {
                    let name = json_string(&acpx_peer::name_of(self.journal.record(), prompt));
                    ExtraParams::with_ours(extra_params, "requestId", &name)
                });
                Some(Ok(connection.cancel(session, left.as_ref().or(extra_params))))
            }
            AgentCall::Close => Some(Ok(connection.close()?.request(session))),
            AgentCall::Delete => {
                Some(Ok(connection.delete()?.request(session, self.replies.delete_params.as_ref())))
            }
        }
    }

    /// Persists a line, and sends it after the commit.
    pub(super) fn send(&mut self, now: Timestamp, turn: Option<TurnId>, outgoing: OutgoingLine) {
        self.journal.log.sent(&outgoing);
        self.journal.append_line(now, turn, &outgoing.redacted());
        self.timers.on_exchange();
        self.actions.push(SessionAction::Send(outgoing));
    }

    pub(super) async fn execute(&mut self, action: SessionAction) -> Result<(), StoreError> {
        match action {
            SessionAction::Command(command) => return self.on_deferred_command(command).await,
            SessionAction::Send(outgoing) => {
                if let Some(agent) = self.agent.live_mut()
                    && agent.send_queue.send(outgoing).await.is_err()
                {
                    // The next receive sees the end and reports its cause.
                    agent.connection.peer().abort();
                }
            }
            SessionAction::AskClient(ask, turn, details) => {
                let responder = turn.and_then(|turn| self.replies.responder(turn));
                self.permissions.dispatch(ask, *details, responder);
            }
            SessionAction::Found(row) => self.on_session_listed(*row).await,
            SessionAction::Inserted(turn, answer) => self.replies.send_inserted(turn, answer),
            SessionAction::Over(end) => self.replies.send_over(*end),
            SessionAction::Forgotten(setting, reply) => send(reply, setting),
            SessionAction::QueueDropped(dropped, reply) => send(reply, dropped),
            SessionAction::StartAgent => self.start_agent(),
            SessionAction::StopAgent(fault) => {
                self.persist_terminal_output(true);
                let strays = self.shared.strays(self.journal.record().as_str());
                self.agent.end(fault, strays, self.shared.settings.process);
                self.forget_agent();
            }
            SessionAction::ReplyWake(outcome) => {
                // The agent did not accept the launch values, so the record keeps its own.
                if matches!(outcome, Err(WakeError::Agent(_))) {
                    self.launch.restore(self.persisted_launch.clone());
                }
                send_all(&mut self.replies.wakes, &outcome);
                // A session that was never opened cannot be restored.
                self.over |= outcome.is_err() && !self.journal.has_record();
            }
            SessionAction::TurnAccepted(request, turn) => self.replies.send_accepted(&request, turn),
            SessionAction::TurnRefused(request, refusal) => self.replies.send_refused(&request, refusal),
            SessionAction::ReplyForward(forward, answer) => self.replies.send_forwarded(forward, answer),
            SessionAction::ReplyPark(parked) => send_all(&mut self.replies.parks, &parked),
            SessionAction::ReplyClose => {
                // Leftovers of an agent that exited by itself are ended before the session is reported as closed.
                self.clear_leftover().await;
                self.journal.commit().await?;
                self.over = true;
                if self.machine.is_deleted() {
                    self.status.exit_reason.set(ExitReason::Deleted);
                }
                self.stop_listening();
                self.replies.send_closed();
            }
        }
        Ok(())
    }

    fn start_agent(&mut self) {
        // The agent is started with the values of the first queued prompt, or else of the last wake.
        let first = self.machine.next_queued().and_then(|turn| self.replies.launch_values(&turn.request));
        if let Some(launch_values) = first.cloned() {
            self.prepare_launch(launch_values);
        }
        let servers = &self.launch.mcp_servers;
        if self.journal.has_record() && !servers.left_out.is_empty() {
            let (names, reason) = (servers.left_out.clone(), servers.unread.clone());
            self.journal.append_fact(self.now(), &Fact::McpServersLeftOut { names, reason });
        }
        self.agent.start(self.journal.record().clone(), self.launch.clone(), self.shared.clone());
    }
}
