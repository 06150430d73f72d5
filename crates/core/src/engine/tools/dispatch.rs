//! Serves an agent's file and terminal requests: resolves the path, gets permission, then executes. Terminal output is
//! stored as it arrives, each piece once. So polls of a terminal's output are answered without being stored, except for
//! the answer that reports the exit.

use std::sync::Arc;

use crate::acp::client::{PermissionRequest, RedactedLine, TerminalRequest, ToolAnswer, ToolRequest};
use crate::machine::Input;
use crate::model::{AgentRequestId, Fact, Permit, PreviousContent, ProtocolVersion, ToolUse, TurnId};
use crate::tools::{
    CommandLine, RECORD_VARIABLE, RootedPath, TerminalProcess, TerminalView, TerminationOutcome,
};
use crate::wire::RpcError;

use super::run::{Checked, FileWanted, ToolJobKind, ToolOutcome, ToolRequestOrigin, unusable};
use super::terminal_output::status;
use crate::engine::permissions::denied::denied;
use crate::engine::permissions::request;
use crate::engine::permissions::request::ClientOffer;
use crate::engine::session::task::{Ask, SessionTask};

/// How many bytes an agent's pending file and terminal requests may have together.
const ASKED_BYTES: usize = 64 << 20;

/// A file or terminal request of an agent.
pub(crate) struct ToolAsk {
    request: ToolRequest,
    /// The request's params, unchanged.
    params: Arc<str>,
    /// Its line, if it is not persisted yet.
    line: Option<RedactedLine>,
    /// The resolved path.
    located: Option<RootedPath>,
    /// The file's content, if a client is asked for permission.
    old: Option<PreviousContent>,
    /// The permission request for it.
    question: Option<PermissionRequest>,
}

impl ToolAsk {
    /// The permission request for it.
    pub(crate) fn question(&self) -> Option<&PermissionRequest> {
        self.question.as_ref()
    }

    /// The tool use that a policy decides about.
    pub(crate) fn tool_use(&self) -> Option<ToolUse> {
        self.request.tool_use()
    }

    /// The client capability that makes asking unnecessary.
    pub(crate) fn offer(&self) -> Option<ClientOffer> {
        match self.request {
            ToolRequest::Read { .. } => Some(ClientOffer::Reading),
            ToolRequest::Write { .. } => Some(ClientOffer::Writing),
            ToolRequest::Create(_) => Some(ClientOffer::Terminals),
            _ => None,
        }
    }
}

impl SessionTask {
    /// Handles a file or terminal request.
    pub(crate) fn on_tool_request(
        &mut self,
        ask: AgentRequestId,
        request: ToolRequest,
        params: Arc<str>,
        line: RedactedLine,
    ) {
        let (now, turn) = (self.now(), self.machine.current_turn());
        let is_poll = matches!(request, ToolRequest::Output(_));
        let kept_later = if is_poll {
            Some(line)
        } else {
            self.journal.append_line(now, turn, line);
            None
        };
        let path = match &request {
            ToolRequest::Read { path, .. } | ToolRequest::Write { path, .. } => Some(path.clone()),
            ToolRequest::Create(TerminalRequest { cwd, .. }) => {
                Some(cwd.clone().unwrap_or_else(|| self.place.cwd.to_string()))
            }
            _ => None,
        };
        let sort = match request {
            ToolRequest::WaitForExit(_) => ToolJobKind::Wait,
            ToolRequest::Kill(_) | ToolRequest::Release(_) => ToolJobKind::End,
            _ => ToolJobKind::Work,
        };
        let is_shown = matches!(request, ToolRequest::Write { .. })
            && request.tool_use().is_some_and(|tool| self.machine.asks_about(&tool));
        let Some(agent) = &mut self.agent else { return };
        // A pending request is held in memory with all that it wants to write.
        let asked = |ask: &Ask| if let Ask::Tool(tool) = ask { tool.params.len() } else { 0 };
        let is_too_long = params.len() + self.asks.values().map(asked).sum::<usize>() > ASKED_BYTES;
        if is_too_long || (!is_poll && !agent.tools.has_room(sort)) {
            self.asks.insert(ask.clone(), Ask::Refused(unusable("too many requests at once")));
            return self.feed(Input::OtherRequest { id: ask });
        }
        if let Some(path) = &path {
            let length = match &request {
                ToolRequest::Write { content, .. } => content.len(),
                _ => 0,
            };
            agent.tools.check(ToolRequestOrigin { ask: ask.clone(), turn }, path, length, is_shown);
        }
        let tool = ToolAsk { request, params, line: kept_later, located: None, old: None, question: None };
        self.asks.insert(ask.clone(), Ask::Tool(Box::new(tool)));
        if path.is_none() {
            self.feed(Input::Tool { id: ask, tool: None, granted: false });
        }
    }

    /// Handles the outcome of a request. `None` means that it is time to store terminal output.
    pub(crate) fn on_tool_outcome(&mut self, done: Option<(ToolRequestOrigin, ToolOutcome)>) {
        let Some((origin, done)) = done else { return self.persist_terminal_output(false) };
        match done {
            ToolOutcome::Checked(checked) => self.on_path_checked(origin.ask, checked),
            ToolOutcome::Answered(answer) => self.answer_tool(&origin, answer),
            ToolOutcome::Read(answer, room) => {
                self.answer_tool(&origin, answer);
                drop(room);
            }
            ToolOutcome::Passed(result) => {
                if let Some(agent) = &self.agent {
                    let answer = agent.connection.pass_back(&origin.ask, &result);
                    self.send(self.now(), self.turn_of(&origin), answer);
                }
            }
            ToolOutcome::Started(started) => self.on_terminal_started(&origin, *started),
            ToolOutcome::Ended(id, answer) => {
                self.persist_terminal_output(false);
                if answer == ToolAnswer::Done
                    && let Some(agent) = &mut self.agent
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
        let Some(Ask::Tool(tool)) = self.asks.get_mut(&ask) else { return };
        match checked {
            Ok(Checked { located, old }) => {
                tool.located = located;
                // The permission request belongs to no tool call that the agent has reported.
                let call = format!("acpx.{}", self.journal.last());
                tool.question = session.zip(self.agent.as_ref()).map(|(session, agent)| {
                    agent.connection.question(&tool.request, &session, &call, old.as_ref())
                });
                tool.old = old;
                let cwd = self.place.cwd.to_string();
                let granted = self.consultations.take_grant(&tool.request, tool.old.as_ref(), &cwd);
                let tool = tool.request.tool_use();
                self.feed(Input::Tool { id: ask, tool, granted });
            }
            Err(error) => {
                self.asks.insert(ask.clone(), Ask::Refused(error));
                self.feed(Input::OtherRequest { id: ask });
            }
        }
    }

    /// Executes a request, or replies why not.
    pub(crate) fn permit_tool(
        &mut self,
        turn: Option<TurnId>,
        ask: &AgentRequestId,
        tool: ToolAsk,
        permit: &Permit,
    ) {
        let origin = ToolRequestOrigin { ask: ask.clone(), turn };
        match permit {
            Permit::Approve | Permit::Choose { approves: true, .. } => self.do_tool(origin, tool),
            Permit::Cancelled | Permit::Unchosen(_) => {
                self.answer_tool(&origin, Err(RpcError::request_cancelled()));
            }
            Permit::Escalated(rule) => {
                self.answer_tool(&origin, Err(denied(tool.request.method(), Some(rule))));
            }
            Permit::Reject | Permit::Choose { .. } | Permit::Declined | Permit::Elicited(_) => {
                self.answer_tool(&origin, Err(denied(tool.request.method(), None)));
            }
        }
    }

    fn do_tool(&mut self, origin: ToolRequestOrigin, tool: ToolAsk) {
        match tool.request {
            ToolRequest::Read { .. } | ToolRequest::Write { .. } => self.serve_file(origin, tool),
            ToolRequest::Create(request) => self.start_terminal(origin, request, tool.located.as_ref()),
            ToolRequest::Output(id) => self.show_terminal(&origin, &id, tool.line),
            ToolRequest::WaitForExit(id) => self.wait_for_exit(origin, &id),
            ToolRequest::Kill(id) => self.end_terminal(origin, &id, false),
            ToolRequest::Release(id) => self.end_terminal(origin, &id, true),
        }
    }

    /// Serves a file through the turn's client if it supports that, because the client may have unsaved changes.
    fn serve_file(&mut self, origin: ToolRequestOrigin, tool: ToolAsk) {
        let question = request::RequestDetails {
            params: tool.params.clone(),
            version: ProtocolVersion::V1,
            seq: self.journal.last(),
            lineage: self.journal.lineage(),
            wanted: None,
            waits: false,
            since: None,
            offer: tool.offer(),
        };
        let client = request::put(question, origin.turn.and_then(|turn| self.waiters.responder(turn))).answer;
        let ToolAsk { request, located, old: shown, .. } = tool;
        if let (Some(agent), Some(place)) = (&mut self.agent, located) {
            agent.tools.serve_file(origin, FileWanted { request, place, shown }, client);
        }
    }

    fn start_terminal(
        &mut self,
        origin: ToolRequestOrigin,
        request: TerminalRequest,
        place: Option<&RootedPath>,
    ) {
        // Stores the end of finished commands, which makes room.
        self.persist_terminal_output(false);
        let (Some(agent), Some(place)) = (&mut self.agent, place) else { return };
        if !agent.tools.make_room_for_terminal(origin.turn) {
            let words = "too many terminals; release those that are done with";
            return self.answer_tool(&origin, Err(unusable(words)));
        }
        let TerminalRequest { command, args, env, output_bytes, .. } = request;
        let line = CommandLine { command, args, env, cwd: place.real_path(), output_bytes };
        let spawner = self.shared.spawner.clone();
        let environment =
            self.place.environment.clone().with(RECORD_VARIABLE, self.journal.record().as_str());
        let (grace, changed) = (self.shared.settings.process, Arc::clone(&agent.tools.changed));
        agent.tools.begin(origin, ToolJobKind::Start, async move {
            match TerminalProcess::start(&spawner, &line, &environment, grace, changed).await {
                Ok(terminal) => ToolOutcome::Started(Box::new((line.to_string(), terminal))),
                Err(error) => ToolOutcome::Answered(Err(unusable(&error.to_string()))),
            }
        });
    }

    fn on_terminal_started(
        &mut self,
        origin: &ToolRequestOrigin,
        (command, terminal): (String, TerminalProcess),
    ) {
        let Some(agent) = &mut self.agent else { return };
        let id: Box<str> = crate::wire::new_uuid().to_string().into();
        agent.tools.add(id.clone(), terminal, origin.turn);
        let command = agent.connection.without_secrets(&command);
        let fact = Fact::TerminalStarted { terminal_id: id.to_string(), command };
        self.journal.append_fact_in(self.now(), self.turn_of(origin), &fact);
        self.answer_tool(origin, Ok(ToolAnswer::Created(id)));
    }

    /// Replies with a terminal's output. The output itself is already stored, so the reply is stored only once, when
    /// the command has ended.
    fn show_terminal(&mut self, origin: &ToolRequestOrigin, id: &str, line: Option<RedactedLine>) {
        self.persist_terminal_output(false);
        let (now, turn) = (self.now(), self.machine.current_turn());
        let Some(agent) = &mut self.agent else { return };
        let Some(running) = agent.tools.terminal(id) else {
            if let Some(line) = line {
                self.journal.append_line(now, turn, line);
            }
            return self.answer_tool(origin, Err(no_terminal(id)));
        };
        let TerminalView { output, is_cut: truncated, exit } = running.terminal.shown();
        let is_kept = exit.is_some() && !std::mem::replace(&mut running.is_told, exit.is_some());
        let exit = exit.as_ref().map(status);
        let answer = agent.connection.provide(&origin.ask, &ToolAnswer::Shown { output, truncated, exit });
        if is_kept {
            if let Some(line) = line {
                self.journal.append_line(now, turn, line);
            }
            self.send(now, turn, answer);
        } else {
            self.send_unkept(answer);
        }
    }

    fn wait_for_exit(&mut self, origin: ToolRequestOrigin, id: &str) {
        let Some(agent) = &mut self.agent else { return };
        let Some(running) = agent.tools.terminal(id) else {
            return self.answer_tool(&origin, Err(no_terminal(id)));
        };
        let (exited, id) = (running.terminal.exited(), Box::from(id));
        agent.tools.begin(origin, ToolJobKind::Wait, async {
            let exit = exited.await.as_ref().map(status).unwrap_or_default();
            ToolOutcome::Ended(id, ToolAnswer::Exited(exit))
        });
    }

    /// Ends a terminal's command, and removes the terminal if it is released. Releasing an unknown terminal succeeds,
    /// so an agent may release one repeatedly.
    fn end_terminal(&mut self, origin: ToolRequestOrigin, id: &str, is_released: bool) {
        let Some(agent) = &mut self.agent else { return };
        let Some(running) = agent.tools.terminal(id) else {
            let answer = if is_released { Ok(ToolAnswer::Done) } else { Err(no_terminal(id)) };
            return self.answer_tool(&origin, answer);
        };
        let (terminal, grace) = (Arc::clone(&running.terminal), self.shared.settings.process);
        let id = Box::from(id);
        agent.tools.begin(origin, ToolJobKind::End, async move {
            let _ended: TerminationOutcome = terminal.kill(grace).await;
            if is_released {
                ToolOutcome::Ended(id, ToolAnswer::Done)
            } else {
                ToolOutcome::Answered(Ok(ToolAnswer::Done))
            }
        });
    }

    /// Replies to a file or terminal request.
    fn answer_tool(&mut self, origin: &ToolRequestOrigin, answer: Result<ToolAnswer, RpcError>) {
        let Some(agent) = &self.agent else { return };
        let answer = match answer {
            Ok(answer) => agent.connection.provide(&origin.ask, &answer),
            Err(error) => agent.connection.refusal(&origin.ask, &error),
        };
        self.send(self.now(), self.turn_of(origin), answer);
    }

    /// The agent withdrew a request.
    pub(crate) fn withdraw_tool(&mut self, ask: &AgentRequestId) {
        self.withdraw_tools(|open| open == ask);
    }

    /// Replies immediately to requests that the agent withdrew, or that are cancelled with their turn.
    pub(crate) fn withdraw_tools(&mut self, is_meant: impl Fn(&AgentRequestId) -> bool) {
        let withdrawn = self.agent.as_mut().map(|agent| agent.tools.withdraw(is_meant)).unwrap_or_default();
        for origin in withdrawn {
            self.asks.remove(&origin.ask);
            self.answer_tool(&origin, Err(RpcError::request_cancelled()));
        }
    }

    /// Whether the agent has a pending request with this id.
    pub(crate) fn is_open(&self, ask: &AgentRequestId) -> bool {
        self.asks.contains_key(ask) || self.agent.as_ref().is_some_and(|agent| agent.tools.is_open(ask))
    }

    /// Whether the agent waits for a reply of ours.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.asks.is_empty() || self.agent.as_ref().is_some_and(|agent| agent.tools.is_busy())
    }

    /// Stores new terminal output. With `all` nothing more will come, and all of it is stored.
    pub(crate) fn persist_terminal_output(&mut self, all: bool) {
        self.persist_terminal_output_of(self.machine.current_turn(), all);
    }

    /// Stores new terminal output as part of this turn.
    pub(crate) fn persist_terminal_output_of(&mut self, turn: Option<TurnId>, all: bool) {
        let now = self.now();
        let Some(agent) = &mut self.agent else { return };
        let connection = &agent.connection;
        let news = agent.tools.terminals().map(|(id, running)| running.facts(id, connection, all));
        let facts: Vec<Fact> = news.flatten().collect();
        for fact in facts {
            self.journal.append_fact_in(now, turn, &fact);
        }
    }
}

fn no_terminal(id: &str) -> RpcError {
    let data = serde_json::json!({ "terminalId": id });
    RpcError::new(RpcError::RESOURCE_NOT_FOUND, format!("there is no terminal {id}"))
        .with_data(&data.to_string())
}
