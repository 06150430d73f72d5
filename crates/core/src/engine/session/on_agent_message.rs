//! Translates an agent's messages into inputs of the state machine.

use std::sync::Arc;

use crate::acp::client::{
    AgentResponse, ListPage, ListedSession, ParsedMessage, ReceivedMessage, RedactedLine, ToolAnswer,
    ToolRequest,
};
use crate::acp::idle_meta;
use crate::machine::Input;
use crate::model::{
    AcpSessionId, AgentError, AgentRequestId, AgentState, Direction, EventKind, Fact, ForwardId,
    Notification, NotificationEvent, NotificationKind, RecordId, RequestId, TurnId, Update,
};
use crate::tools::TerminalProcess;
use crate::wire::RpcError;

use super::effects::{MAX_BYTES_BEFORE_RECORD, SessionAction};
use super::replies::Deletion;
use super::task::SessionTask;
use crate::engine::agent::live_agent::Leftover;
use crate::engine::permissions::dispatch::InboundRequest;
use crate::engine::permissions::request::{ClientDecision, QuestionKind};
use crate::engine::restore::list_lookup::is_same_directory;
use crate::engine::tools::dispatch::PendingTool;
use crate::engine::tools::run::{Checked, ToolOutcome, ToolRequestOrigin, unusable};

/// How many bytes an agent's pending file and terminal requests may have together.
const PENDING_TOOL_BYTES: usize = 64 << 20;

impl SessionTask {
    /// Handles one message of the agent.
    pub(super) fn on_agent_message(&mut self, message: ReceivedMessage) {
        let ReceivedMessage { meaning, line, size } = message;
        self.journal.log.received(line.kind, size);
        let now = self.now();
        self.timers.on_exchange();
        self.timers.wait.set_last_message(Some(now));
        if let ParsedMessage::QueryAnswer(id, response) = meaning {
            return self.replies.send_queried(&id, response);
        }
        let is_over = !self.journal.has_record() && self.journal.waiting_bytes() > MAX_BYTES_BEFORE_RECORD;
        if self.agent.count_received(size) > self.shared.settings.turn_bytes || is_over {
            return self.stop_flood();
        }
        let turn = self.machine.current_turn();
        if let Some(ask) = meaning.ask().filter(|ask| self.is_pending(ask)).cloned() {
            // The decision on the first request must not apply to this one.
            self.journal.append_line(now, turn, &line);
            return self.refuse(
                now,
                turn,
                &ask,
                &RpcError::invalid_request("a request with this id is still open"),
            );
        }
        match meaning {
            ParsedMessage::Update(update) => return self.on_update(update, &line),
            ParsedMessage::State(state, background) => return self.on_agent_state(state, background, &line),
            ParsedMessage::LinkState(link) => {
                if let Some(fact) = self.agent.remote_host_mut().and_then(|host| host.set_link(link)) {
                    self.journal.append_fact_in(now, turn, &fact);
                }
                return;
            }
            ParsedMessage::Tool(ask, request, params) => {
                return self.on_tool_request(ask, request, params, line);
            }
            _ => {}
        }
        self.journal.append_line(now, turn, &line);
        self.feed_offer();
        match meaning {
            ParsedMessage::Permission(ask, request) => {
                let (tool, has_options) = (request.tool.clone(), request.has_any_option());
                let can_approve = request.can_be_approved();
                self.permissions.add(ask.clone(), InboundRequest::Permission(request));
                self.feed(Input::Permission { id: ask, tool, has_options, can_approve });
            }
            ParsedMessage::Elicitation(ask, params) => {
                self.permissions.add(ask.clone(), InboundRequest::Elicitation(params));
                self.feed(Input::Elicitation { id: ask });
            }
            ParsedMessage::Withdrawn(ask) => {
                self.withdraw_tools(|open| *open == ask);
                self.feed(Input::RequestWithdrawn { id: ask });
            }
            ParsedMessage::Refused(ask, error) => {
                self.permissions.add(ask.clone(), InboundRequest::Refused(error));
                self.feed(Input::OtherRequest { id: ask });
            }
            ParsedMessage::Answer(response) => self.on_response(response),
            ParsedMessage::Update(_)
            | ParsedMessage::State(..)
            | ParsedMessage::LinkState(_)
            | ParsedMessage::Tool(..)
            | ParsedMessage::QueryAnswer(..)
            | ParsedMessage::Nothing => {}
        }
    }

    fn on_update(&mut self, update: Update, line: &RedactedLine) {
        if self.machine.is_adopting() {
            self.restore.note_update(&update);
        }
        let record = self.journal.record();
        if self.agent.remote_host().is_some_and(|host| host.is_own_prompt(record, &update, line)) {
            return self.journal.append_notification(
                self.now(),
                self.machine.current_turn(),
                line.body().clone(),
            );
        }
        self.memory.apply_update(&update);
        self.journal.set_memory(self.memory.memory());
        self.feed_offer();
        self.feed(Input::Update { update, body: line.body().clone() });
    }

    /// Whether the agent has a pending request with this id.
    fn is_pending(&self, ask: &AgentRequestId) -> bool {
        self.permissions.is_pending(ask) || self.agent.live().is_some_and(|agent| agent.tools.is_open(ask))
    }

    /// Feeds the agent's offer to the machine, if it has changed.
    fn feed_offer(&mut self) {
        if let Some(offered) = self.agent.changed_offer() {
            self.feed(Input::SettingsOffered(offered));
        }
    }

    /// Ends an agent that sends more than it may.
    fn stop_flood(&mut self) {
        let Some(agent) = self.agent.detach() else { return };
        agent.connection.peer().abort();
        let limit = if self.journal.has_record() {
            self.shared.settings.turn_bytes
        } else {
            MAX_BYTES_BEFORE_RECORD as u64
        };
        let during = match self.machine.current_turn() {
            Some(turn) => format!("in turn {turn}"),
            None => "outside any turn".to_owned(),
        };
        let error = AgentError::Flooded { agent: self.launch.agent.label().into_owned(), limit, during };
        let leftover = Leftover::of(agent, self.shared.settings.process);
        self.lose_agent(leftover, error);
    }

    /// Handles a state update of the agent. One that a remote acpx host sends as an extension is not part of the
    /// conversation.
    fn on_agent_state(&mut self, state: AgentState, background: bool, line: &RedactedLine) {
        let own = RequestId::new(crate::wire::new_uuid().to_string()).expect("a UUID is not empty");
        if let Some(host) = self.agent.remote_host_mut() {
            host.note_state(self.journal.record(), &state, line);
        }
        let is_part = line.kind == EventKind::Update;
        // It may end the turn later: an agent can finish its work before it replies to the prompt.
        self.replies.idle_meta = if is_part { idle_meta(line.body()) } else { None };
        let body = is_part.then(|| line.body().clone());
        if !is_part {
            self.journal.append_line(self.now(), self.machine.current_turn(), line);
        }
        self.feed(Input::StateReported { state, background, body, own_turn: own });
    }

    /// Reserves an ACP session for this record. If another record is live on it, returns that record.
    fn reserve_id(&mut self, session: &AcpSessionId) -> Result<(), RecordId> {
        let (ids, agent) = (&self.shared.live_ids, &self.launch.agent);
        self.agent.reserve_id(ids, agent, session.clone(), self.journal.record())
    }

    /// Reserves the ACP session that is to be restored. Otherwise two records could write to it at once.
    pub(super) fn reserve_restored_id(&mut self) -> Result<(), AgentError> {
        let session = self.machine.target_session().cloned();
        let Some(session) = session.filter(|_| !self.agent.has_reserved_id()) else { return Ok(()) };
        let agent = self.launch.agent.label().into_owned();
        self.reserve_id(&session).map_err(|record| AgentError::SessionInUse { agent, session, record })
    }

    fn on_response(&mut self, response: AgentResponse) {
        match response {
            AgentResponse::Opened(Ok((session, inner))) => {
                if self.reserve_id(&session).is_ok() {
                    self.persist_launch();
                    self.feed(Input::SessionCreated { session, agent_session: inner });
                } else {
                    let agent = self.launch.agent.label().into_owned();
                    let error = AgentError::SessionIdTaken { agent, session };
                    self.feed(Input::SetupRefused(error));
                }
            }
            AgentResponse::Restored(Ok(inner)) => {
                if let Some(title) = self.restore.take_title() {
                    self.journal.set_first_title(title);
                }
                self.persist_launch();
                self.feed(Input::SessionRestored { agent_session: inner });
            }
            AgentResponse::Opened(Err(error)) | AgentResponse::Restored(Err(error)) => {
                self.feed(Input::SetupRefused(error));
            }
            AgentResponse::Inserted(answer) => {
                let turn = self.machine.current_turn();
                self.actions.extend(turn.map(|turn| SessionAction::Inserted(turn, Some(answer))));
                self.feed(Input::PromptInserted);
            }
            AgentResponse::Prompted(answer, result) => {
                self.replies.prompt_result = result;
                self.feed(Input::PromptAnswered(answer));
                self.replies.prompt_result = None;
            }
            AgentResponse::Forwarded(forward, answer, update) => {
                if let Some(body) = update {
                    let line = RedactedLine::assume_redacted(Direction::Ours, EventKind::Update, body);
                    self.journal.append_line(self.now(), self.machine.current_turn(), &line);
                }
                self.feed(match forward {
                    ForwardId::OURS => Input::SettingAnswered(answer.map(drop)),
                    forward => Input::ForwardAnswered { id: forward, answer },
                });
            }
            AgentResponse::Closed(_) => self.feed(Input::CloseAnswered),
            AgentResponse::Listed(page) => self.on_list_page(page.ok()),
            AgentResponse::Deleted(answer) => {
                self.replies.deletion = Deletion::Answered(answer);
                self.feed(Input::DeleteAnswered);
            }
            // Logins do not use the agent of a session.
            AgentResponse::Login(_) | AgentResponse::Other => {}
        }
    }

    /// Persists the launch values after the agent has set the session up with them.
    fn persist_launch(&mut self) {
        let before = std::mem::replace(&mut self.persisted_launch, self.launch.persisted());
        if self.launch.has_moved(&before.agent) {
            self.journal.set_agent_command(&self.launch.agent);
        }
        if self.launch.additional_directories != before.additional_directories {
            self.journal.set_additional_directories(&self.launch.additional_directories);
        }
        self.feed(Input::SetupAccepted(self.launch.setup.clone()));
        if self.launch.mcp_servers.left_out.is_empty() {
            self.journal.set_mcp_servers(self.launch.mcp_servers.kept());
        }
    }

    /// Looks for this session on a page of the agent's list. A failed list counts as not found.
    fn on_list_page(&mut self, page: Option<ListPage>) {
        let Some(ListPage { sessions, next }) = page else { return self.feed(Input::SessionListed(None)) };
        let wanted = self.machine.target_session();
        if let Some(row) = sessions.into_iter().find(|row| Some(&row.session) == wanted) {
            return self.actions.push(SessionAction::Found(Box::new(row)));
        }
        let list = self.agent.live().and_then(|agent| agent.connection.list());
        match (next, list) {
            (Some(cursor), Some(list)) if self.restore.count_page() => {
                let cwd = (!self.machine.is_adopting()).then_some(&self.launch.cwd);
                let request = list.request(cwd, Some(&cursor));
                self.send(self.now(), None, request);
            }
            _ => self.feed(Input::SessionListed(None)),
        }
    }

    /// Applies the session's row of the agent's list. An adopted session must have the requested directory.
    pub(super) async fn on_session_listed(&mut self, row: ListedSession) {
        let ListedSession { session, updated_at, title, cwd, .. } = row;
        if let Some(cwd) = cwd.filter(|_| self.machine.is_adopting())
            && !is_same_directory(&self.shared.disk, &self.launch.cwd, &cwd).await
        {
            let agent = self.launch.agent.label().into_owned();
            let error = AgentError::WorksElsewhere { agent, session, cwd };
            return self.feed(Input::SetupImpossible(error));
        }
        // The title of a fresh session does not describe the earlier conversation.
        let is_whole = self.machine.lineage().is_none_or(|lineage| lineage.rows().len() == 1);
        if let Some(title) = title.filter(|title| is_whole && !title.trim().is_empty()) {
            self.journal.set_first_title(title);
        }
        if let Some(at) = updated_at {
            self.journal.note_external_message(self.now(), at);
        }
        self.feed(Input::SessionListed(updated_at));
    }

    /// Persists that a client is asked about a file or a command. The agent's own request does not show that, because
    /// the decision to ask is made here.
    pub(super) fn record_permission_asked(&mut self, ask: &AgentRequestId) {
        if self.permissions.is_tool(ask) {
            let fact = Fact::PermissionAsked { request: ask.0.to_string() };
            self.journal.append_fact_in(self.now(), self.machine.current_turn(), &fact);
        }
    }

    /// Queues the notification that a listed request is pending.
    pub(super) fn notify_waiting(&mut self, ask: &AgentRequestId, question: Option<String>) {
        let (Some(question_id), Some(kind)) = (question, self.permissions.kind_of(ask)) else { return };
        let event = |wants_text: bool| NotificationEvent::Waiting {
            question_id,
            is_form: kind == QuestionKind::Elicitation,
            text: self.permissions.title_of(ask).filter(|_| wants_text).map(|title| self.redact(title)),
        };
        let queue = &self.shared.settings.notifications;
        let now = self.now();
        if let Some(notification) = queue.notification(now, NotificationKind::Waiting, event) {
            let due_at = self.permissions.notify(ask, now);
            self.journal.queue_notification(Notification { due_at, ..notification });
        }
    }

    /// Text of the agent without secrets.
    fn redact(&self, text: &str) -> String {
        self.agent.live().map(|agent| agent.connection.redact(text)).unwrap_or_default()
    }

    /// Applies a client's decision; `None` if there is none.
    pub(super) fn on_decision(&mut self, ask: &AgentRequestId, decision: Option<ClientDecision>) {
        let decided = self.permissions.on_decision(ask.clone(), decision, |text| self.redact(text));
        let Some((input, granted)) = decided else { return };
        self.feed(input);
        // A decision that was not accepted grants nothing.
        if let Some(granted) = granted.filter(|_| !self.permissions.is_pending(ask)) {
            self.permissions.decisions.grant(granted);
        }
    }

    /// Handles a file or terminal request.
    fn on_tool_request(
        &mut self,
        ask: AgentRequestId,
        request: ToolRequest,
        params: Arc<str>,
        line: RedactedLine,
    ) {
        let turn = self.machine.current_turn();
        let mut tool = PendingTool::new(request, params);
        if tool.is_poll() {
            tool.line = Some(line);
        } else {
            self.journal.append_line(self.now(), turn, &line);
        }
        let is_shown = matches!(tool.request, ToolRequest::Write { .. })
            && tool.request.tool_use().is_some_and(|tool| self.machine.needs_approval(&tool));
        // A pending request is held in memory with all that it wants to write.
        let is_too_long = tool.params.len() + self.permissions.tool_bytes() > PENDING_TOOL_BYTES;
        let Some(agent) = self.agent.live_mut() else { return };
        if is_too_long || !agent.tools.has_room_for(&tool) {
            let error = unusable("too many requests at once");
            self.permissions.add(ask.clone(), InboundRequest::Refused(error));
            return self.feed(Input::OtherRequest { id: ask });
        }
        let origin = ToolRequestOrigin { ask: ask.clone(), turn };
        let is_checked = agent.tools.check(origin, &tool, &self.launch.cwd, is_shown);
        self.permissions.add(ask.clone(), InboundRequest::Tool(Box::new(tool)));
        if !is_checked {
            self.feed(Input::Tool { id: ask, tool: None, granted: false });
        }
    }

    /// Handles the outcome of a request. `None` means that it is time to store terminal output.
    pub(super) fn on_tool_outcome(&mut self, outcome: Option<(ToolRequestOrigin, ToolOutcome)>) {
        let Some((origin, outcome)) = outcome else { return self.persist_terminal_output(false) };
        match outcome {
            ToolOutcome::Checked(checked) => self.on_path_checked(origin.ask, checked),
            ToolOutcome::Answered(answer) => self.answer_tool(&origin, answer),
            ToolOutcome::Read(answer, room) => {
                self.answer_tool(&origin, answer);
                drop(room);
            }
            ToolOutcome::Forwarded(result) => {
                if let Some(agent) = self.agent.live() {
                    let answer = agent.connection.forward_result(&origin.ask, &result);
                    self.send(self.now(), self.turn_of(&origin), answer);
                }
            }
            ToolOutcome::Started(started) => self.on_terminal_started(&origin, *started),
            ToolOutcome::Ended(id, answer) => {
                self.persist_terminal_output(false);
                if answer == ToolAnswer::Done
                    && let Some(agent) = self.agent.live_mut()
                {
                    agent.tools.forget(&id);
                }
                self.answer_tool(&origin, Ok(answer));
            }
        }
    }

    /// The turn that the reply belongs to: the one of the request, unless it has ended.
    fn turn_of(&self, origin: &ToolRequestOrigin) -> Option<TurnId> {
        self.machine.current_turn().filter(|turn| origin.turn == Some(*turn))
    }

    fn on_path_checked(&mut self, ask: AgentRequestId, checked: Result<Checked, RpcError>) {
        let session = self.machine.lineage().map(|lineage| lineage.current().session.clone());
        // The permission request belongs to no tool call that the agent has reported.
        let call = format!("acpx.{}", self.journal.last());
        let agent = self.agent.live();
        let input = self.permissions.on_path_checked(
            ask,
            checked,
            |request, old| Some(agent?.connection.question(request, &session?, &call, old)),
            self.launch.cwd.as_str(),
        );
        if let Some(input) = input {
            self.feed(input);
        }
    }

    fn on_terminal_started(
        &mut self,
        origin: &ToolRequestOrigin,
        (command, terminal): (String, TerminalProcess),
    ) {
        let Some(agent) = self.agent.live_mut() else { return };
        let id: Box<str> = crate::wire::new_uuid().to_string().into();
        agent.tools.add(id.clone(), terminal, origin.turn);
        let command = agent.connection.redact(&command);
        let fact = Fact::TerminalStarted { terminal_id: id.to_string(), command };
        self.journal.append_fact_in(self.now(), self.turn_of(origin), &fact);
        self.answer_tool(origin, Ok(ToolAnswer::Created(id)));
    }

    /// Replies to a file or terminal request.
    pub(super) fn answer_tool(&mut self, origin: &ToolRequestOrigin, answer: Result<ToolAnswer, RpcError>) {
        let Some(agent) = self.agent.live() else { return };
        let answer = match answer {
            Ok(answer) => agent.connection.provide(&origin.ask, &answer),
            Err(error) => agent.connection.refusal(&origin.ask, &error),
        };
        self.send(self.now(), self.turn_of(origin), answer);
    }

    /// Replies immediately to requests that the agent withdrew, or that are cancelled with their turn.
    pub(super) fn withdraw_tools(&mut self, is_meant: impl Fn(&AgentRequestId) -> bool) {
        let withdrawn = self.agent.live_mut().map(|agent| agent.tools.withdraw(is_meant)).unwrap_or_default();
        for origin in withdrawn {
            self.permissions.remove(&origin.ask);
            self.answer_tool(&origin, Err(RpcError::request_cancelled()));
        }
    }

    /// Stores new terminal output. With `all` nothing more will come, and all of it is stored.
    pub(super) fn persist_terminal_output(&mut self, all: bool) {
        self.persist_terminal_output_of(self.machine.current_turn(), all);
    }

    /// Stores new terminal output as part of this turn.
    pub(super) fn persist_terminal_output_of(&mut self, turn: Option<TurnId>, all: bool) {
        let now = self.now();
        for fact in self.agent.terminal_facts(all) {
            self.journal.append_fact_in(now, turn, &fact);
        }
    }
}
