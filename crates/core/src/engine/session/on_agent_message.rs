//! Translates an agent's messages into inputs of the state machine.

use crate::acp::client::{AgentResponse, ParsedMessage, ReceivedMessage, RedactedLine};
use crate::acp::idle_meta;
use crate::machine::Input;
use crate::model::{
    AcpSessionId, AgentError, AgentState, Direction, EventKind, ForwardId, RecordId, RequestId, title_of,
};

use super::effects::{SessionAction, UNBORN_BYTES};
use super::task::{Ask, SessionTask};
use crate::engine::ops::delete::Deletion;

impl SessionTask {
    /// Handles one message of the agent.
    pub(crate) fn on_agent_message(&mut self, said: ReceivedMessage) {
        let ReceivedMessage { meaning, line, size } = said;
        self.limits.spoken();
        self.glance.heard(self.now());
        if let ParsedMessage::Inquired(id, answer) = meaning {
            return self.take_inquired(&id, answer);
        }
        self.received += size as u64;
        let unborn = !self.journal.has_record() && self.journal.waiting_bytes() > UNBORN_BYTES;
        if self.received > self.shared.settings.turn_bytes || unborn {
            return self.stop_flood();
        }
        if let Some(ask) = meaning.ask().filter(|ask| self.is_open(ask)).cloned() {
            return self.refuse_second(&ask, line);
        }
        match meaning {
            ParsedMessage::Update(update) => {
                if self.machine.is_adopting() {
                    self.note_first_words(&update);
                }
                if self.is_own_prompt(&update, &line) {
                    return self.journal.append_notification(
                        self.now(),
                        self.machine.current_turn(),
                        line.body,
                    );
                }
                self.knowledge.hear(&update);
                self.journal.set_memory(self.knowledge.memory());
                self.note_offers();
                return self.feed(Input::Update { update, body: line.body });
            }
            ParsedMessage::State(state, background) => return self.on_agent_state(state, background, line),
            ParsedMessage::Way(way) => return self.on_link_state(way),
            ParsedMessage::Tool(ask, request, params) => {
                return self.on_tool_request(ask, request, params, line);
            }
            _ => {}
        }
        let (now, turn) = (self.now(), self.machine.current_turn());
        self.journal.append_line(now, turn, line);
        self.note_offers();
        match meaning {
            ParsedMessage::Permission(ask, request) => {
                let (tool, has_options) = (request.tool.clone(), request.has_any_option());
                let can_approve = request.can_be_approved();
                self.asks.insert(ask.clone(), Ask::Permission(request));
                self.feed(Input::Permission { id: ask, tool, has_options, can_approve });
            }
            ParsedMessage::Elicitation(ask, params) => {
                self.asks.insert(ask.clone(), Ask::Elicitation(params));
                self.feed(Input::Elicitation { id: ask });
            }
            ParsedMessage::Withdrawn(ask) => {
                self.withdraw_tool(&ask);
                self.feed(Input::RequestWithdrawn { id: ask });
            }
            ParsedMessage::Refused(ask, error) => {
                self.asks.insert(ask.clone(), Ask::Refused(error));
                self.feed(Input::OtherRequest { id: ask });
            }
            ParsedMessage::Answer(answer) => self.on_response(answer),
            ParsedMessage::Update(_)
            | ParsedMessage::State(..)
            | ParsedMessage::Way(_)
            | ParsedMessage::Tool(..)
            | ParsedMessage::Inquired(..)
            | ParsedMessage::Nothing => {}
        }
    }

    /// Handles a state update of the agent. One that a remote acpx host sends as an extension is not part of the
    /// conversation.
    fn on_agent_state(&mut self, state: AgentState, background: bool, line: RedactedLine) {
        let own = RequestId::new(crate::wire::new_uuid().to_string()).expect("a UUID is not empty");
        self.note_far_state(&state, &line);
        let is_part = line.kind == EventKind::Update;
        // It may end the turn later: an agent can finish its work before it replies to the prompt.
        self.idle_meta = if is_part { idle_meta(&line.body) } else { None };
        let body = is_part.then(|| line.body.clone());
        if !is_part {
            self.journal.append_line(self.now(), self.machine.current_turn(), line);
        }
        self.feed(Input::StateReported { state, background, body, own_turn: own });
    }

    /// Reserves an ACP session for this record. If another record is live on it, returns that record.
    fn reserve_id(&mut self, session: &AcpSessionId) -> Result<(), RecordId> {
        let (agent, record) = (&self.place.agent, self.journal.record());
        self.live_id = Some(self.shared.live_ids.take(agent, session.clone(), record)?);
        Ok(())
    }

    /// Reserves the ACP session that is to be restored. Otherwise two records could write to it at once.
    pub(crate) fn reserve_restored_id(&mut self) -> Result<(), AgentError> {
        let session = self.machine.target_session().cloned();
        let Some(session) = session.filter(|_| self.live_id.is_none()) else { return Ok(()) };
        let agent = self.place.agent.label().into_owned();
        self.reserve_id(&session).map_err(|record| AgentError::SessionInUse { agent, session, record })
    }

    fn on_response(&mut self, answer: AgentResponse) {
        match answer {
            AgentResponse::Opened(Ok((session, inner))) => {
                // A session that could not be restored is not live any more.
                self.live_id = None;
                if self.reserve_id(&session).is_ok() {
                    self.own_given();
                    self.feed(Input::SessionCreated { session, agent_session: inner });
                } else {
                    let agent = self.place.agent.label().into_owned();
                    let error = AgentError::SessionIdTaken { agent, session };
                    self.feed(Input::SetupRefused(error));
                }
            }
            AgentResponse::Restored(Ok(inner)) => {
                if let Some(title) = title_of(&self.first_words) {
                    self.journal.set_first_title(title);
                }
                self.first_words.clear();
                self.own_given();
                self.feed(Input::SessionRestored { agent_session: inner });
            }
            AgentResponse::Opened(Err(error)) | AgentResponse::Restored(Err(error)) => {
                self.feed(Input::SetupRefused(error));
            }
            AgentResponse::Inserted(answer) => {
                let inserted =
                    self.machine.current_turn().map(|turn| SessionAction::Inserted(turn, Some(answer)));
                self.actions.extend(inserted);
                self.feed(Input::PromptInserted);
            }
            AgentResponse::Prompted(answer, result) => {
                self.prompted = result;
                self.feed(Input::PromptAnswered(answer));
                self.prompted = None;
            }
            AgentResponse::Passed(pass, answer, told) => {
                if let Some(body) = told {
                    let line = RedactedLine { direction: Direction::Ours, kind: EventKind::Update, body };
                    self.journal.append_line(self.now(), self.machine.current_turn(), line);
                }
                self.feed(match pass {
                    ForwardId::OURS => Input::SettingAnswered(answer.map(drop)),
                    pass => Input::ForwardAnswered { id: pass, answer },
                });
            }
            AgentResponse::Closed(_) => self.feed(Input::CloseAnswered),
            AgentResponse::Listed(page) => self.on_list_page(page.ok()),
            AgentResponse::Deleted(answer) => {
                self.deletion = Deletion::Answered(answer);
                self.feed(Input::DeleteAnswered);
            }
            // Logins do not use the agent of a session.
            AgentResponse::Login(_) | AgentResponse::Other => {}
        }
    }
}
