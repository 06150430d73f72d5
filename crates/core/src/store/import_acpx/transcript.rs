//! Converts a journal of npm acpx into events without numbers, facts, turns and sessions.
//!
//! The output depends only on the lines read so far and never on later ones, so a journal that has grown produces the
//! same steps and then more. This is how an import detects growth and change, and how an interrupted import
//! continues. A turn without a recorded end becomes interrupted, as does one that npm acpx itself marked that way.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::{JournalAnswer, count_permission, created_session, failure};
use super::direction::{Directions, JournalRequest};
use super::journal::{JournalLine, JournalMessage, MarkedResult, string};
use crate::model::{
    AcpSessionId, AgentSessionId, Direction, ErrorCode, EventKind, Fact, FactError, LineageReason,
    PermissionCount, PermissionPolicy, RequestId, Secrets, StopReason, Timestamp, Turn, TurnError, TurnId,
    TurnLimits, TurnOutcome, TurnState, WakeOptions,
};

/// npm acpx's next process writes this for a turn whose process died.
const OUTCOME_UNKNOWN: &str = "WATCH_OUTCOME_UNKNOWN";

/// One step to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ImportStep {
    /// The conversation is in this ACP session from here on.
    Session {
        session: AcpSessionId,
        /// The inner id, if the agent sent it with the new session.
        inner: Option<AgentSessionId>,
        /// Why, if it replaces another.
        reason: LineageReason,
    },
    /// The MCP servers the agent was given, by name.
    Servers(Vec<String>),
    /// A turn that has ended. Its fact follows.
    Turn(Box<Turn>),
    /// An event.
    Line(ImportEvent),
}

/// An event without its number and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ImportEvent {
    pub(super) turn: Option<TurnId>,
    pub(super) direction: Direction,
    pub(super) kind: EventKind,
    pub(super) body: Arc<str>,
}

/// A line that is neither a message nor a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InvalidLine;

/// The conversion's state between two lines.
#[derive(Debug)]
pub(super) struct Transcript {
    /// The time of every turn: journals contain none.
    at: Timestamp,
    out: Vec<ImportStep>,
    directions: Directions,
    secrets: Secrets,
    /// The session of the last prompt.
    session: Option<AcpSessionId>,
    /// The session that was created last, and the inner id the agent sent with it.
    created_session: Option<(String, Option<AgentSessionId>)>,
    answered: bool,
    turns: u64,
    requests: HashSet<Box<str>>,
    /// A turn that was announced and whose prompt has not been sent.
    announced: Option<RequestId>,
    open: Option<ImportTurn>,
}

#[derive(Debug)]
struct ImportTurn {
    id: TurnId,
    request: RequestId,
    prompt: Arc<str>,
    /// Whether a marker will end it; otherwise the response does.
    is_marked: bool,
    /// The agent's response to the prompt.
    answer: Option<JournalAnswer>,
    permissions: PermissionCount,
}

impl Transcript {
    pub(super) fn new(at: Timestamp) -> Self {
        Self {
            at,
            out: Vec::new(),
            directions: Directions::default(),
            secrets: Secrets::default(),
            session: None,
            created_session: None,
            answered: false,
            turns: 0,
            requests: HashSet::new(),
            announced: None,
            open: None,
        }
    }

    /// Converts the next line of the journal.
    pub(super) fn convert_line(&mut self, line: &str) -> Result<(), InvalidLine> {
        match JournalLine::read(line).ok_or(InvalidLine)? {
            JournalLine::Segment { request: None } | JournalLine::OtherMarker => {}
            JournalLine::Segment { request: Some(request) } => {
                let request = self.redact(&request);
                self.segment(&request);
            }
            JournalLine::TurnStarted { request } => {
                self.interrupt();
                let request = self.redact(&request);
                self.announced = Some(self.request_id(&request));
            }
            JournalLine::TurnResult { request, result } => {
                let (request, redacted) = (self.redact(&request), self.secrets.redact_json(result.get()));
                let result = redacted.as_deref().unwrap_or(result.get());
                let result = serde_json::from_str(result).map_err(|_| InvalidLine)?;
                self.turn_result(&request, result)?;
            }
            JournalLine::Message(message) => self.message(line, message),
        }
        Ok(())
    }

    /// Ends the journal.
    pub(super) fn finish(&mut self) {
        self.interrupt();
    }

    /// The steps of the lines since the last call, in order.
    pub(super) fn drain(&mut self) -> std::vec::Drain<'_, ImportStep> {
        self.out.drain(..)
    }

    /// A text of npm acpx without the secrets found in the journal so far.
    pub(super) fn redact(&self, words: &str) -> String {
        self.secrets.redact_text(words).into_owned()
    }

    /// Handles a segment that begins within an unknown turn: the segment with the turn's beginning is missing.
    fn segment(&mut self, request: &str) {
        if self.open.is_none() && self.announced.is_none() && !self.requests.contains(request) {
            let request = self.request_id(request);
            self.begin_turn(request, "[]".into(), true);
        }
    }

    fn turn_result(&mut self, request: &str, result: MarkedResult) -> Result<(), InvalidLine> {
        match (self.open.take(), self.announced.take()) {
            (Some(turn), _) if turn.request.as_str() == request => self.end_marked(turn, result),
            (None, Some(announced)) if announced.as_str() == request => self.end_unsent(announced, result),
            (open, announced) => {
                (self.open, self.announced) = (open, announced);
                if self.requests.contains(request) {
                    return Err(InvalidLine);
                }
                self.interrupt();
                let request = self.request_id(request);
                self.end_unsent(request, result);
            }
        }
        Ok(())
    }

    /// Only the redacted line is used further, so that no secret ends up in a turn. A line that cannot be stored is
    /// replaced by a placeholder.
    fn message(&mut self, line: &str, message: JournalMessage<'_>) {
        let redacted = match call(&message) {
            Some((method, params)) => self.secrets.redact_call(line, &method, params.map(RawValue::get)),
            None => self.secrets.redact_json(line),
        };
        let kept = match redacted.as_deref().map(JournalLine::read) {
            None => Some(message),
            Some(Some(JournalLine::Message(redacted))) => Some(redacted),
            Some(_) => None,
        };
        let origin = self.directions.locate(kept.as_ref().unwrap_or(&message));
        if let (EventKind::Request, Some((method, params))) = (origin.kind, kept.as_ref().and_then(call)) {
            self.request(&method, params);
        }
        self.out.push(ImportStep::Line(ImportEvent {
            turn: self.open.as_ref().map(|turn| turn.id),
            direction: origin.direction,
            kind: origin.kind,
            body: redacted.as_deref().unwrap_or(line).into(),
        }));
        if let (Some(JournalMessage::Response { result, error, .. }), Some(request)) = (kept, origin.answers)
        {
            self.answer(&request, result, error);
        }
    }

    fn request(&mut self, method: &str, params: Option<&RawValue>) {
        match method {
            "session/new" | "session/load" | "session/resume" => self.servers(params),
            "session/prompt" => self.prompt(params),
            _ => {}
        }
    }

    fn servers(&mut self, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        struct Setup {
            #[serde(rename = "mcpServers")]
            servers: Vec<Server>,
        }
        #[derive(Deserialize)]
        struct Server {
            name: String,
        }
        if let Some(Ok(setup)) = params.map(|params| serde_json::from_str::<Setup>(params.get())) {
            self.out.push(ImportStep::Servers(setup.servers.into_iter().map(|server| server.name).collect()));
        }
    }

    fn prompt(&mut self, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        struct Prompt<'a> {
            #[serde(default, rename = "sessionId")]
            session: String,
            #[serde(borrow)]
            prompt: &'a RawValue,
        }
        let params = params.and_then(|params| serde_json::from_str::<Prompt<'_>>(params.get()).ok());
        let (session, blocks) =
            params.map_or((String::new(), "[]"), |read| (read.session, read.prompt.get()));
        // A prompt that npm acpx resends after an error stays in its turn.
        if self.open.as_ref().is_some_and(|turn| turn.is_marked) {
            return;
        }
        if let Ok(session) = AcpSessionId::new(session) {
            self.enter_session(&session);
        }
        if let Some(request) = self.announced.take() {
            self.begin_turn(request, blocks.into(), true);
        } else {
            self.interrupt();
            let request = self.request_id("");
            self.begin_turn(request, blocks.into(), false);
        }
    }

    /// Records a change of session: npm acpx created a fresh one since the last prompt.
    fn enter_session(&mut self, session: &AcpSessionId) {
        if self.session.as_ref() == Some(session) {
            return;
        }
        let reason = if self.answered { LineageReason::LoadFailed } else { LineageReason::NotMaterialised };
        let made = self.created_session.take().filter(|(made, _)| made == session.as_str());
        let inner = made.and_then(|(_, inner)| inner);
        let inner_id = inner.as_ref().map(|inner| inner.as_str().to_owned());
        self.out.push(ImportStep::Session { session: session.clone(), inner, reason });
        if let Some(before) = self.session.replace(session.clone()) {
            let fact = Fact::SessionReset {
                reason: reason.as_str().to_owned(),
                from_acpx_session_id: before.as_str().to_owned(),
                acpx_session_id: session.as_str().to_owned(),
                agent_session_id: inner_id,
                announced: self.answered,
                carried: None,
                error: None,
            };
            self.fact(None, &fact);
        }
    }

    fn begin_turn(&mut self, request: RequestId, prompt: Arc<str>, is_marked: bool) {
        let id = self.next_turn();
        let request_id = request.to_string();
        self.fact(Some(id), &Fact::TurnStarted { turn: id.0, request_id, client: None });
        let permissions = PermissionCount::default();
        self.open = Some(ImportTurn { id, request, prompt, is_marked, answer: None, permissions });
    }

    fn answer(&mut self, request: &JournalRequest, result: Option<&RawValue>, error: Option<&RawValue>) {
        if &*request.method == "session/new" {
            self.created_session = result.and_then(created_session);
        }
        let Some(turn) = &mut self.open else { return };
        match &*request.method {
            "session/request_permission" => count_permission(&mut turn.permissions, request, result),
            "session/prompt" => {
                turn.answer = JournalAnswer::read(result, error);
                if !turn.is_marked {
                    self.interrupt();
                }
            }
            _ => {}
        }
    }

    fn end_marked(&mut self, turn: ImportTurn, result: MarkedResult) {
        let error = result.error.unwrap_or_default();
        let outcome = match (&*result.status, result.stop_reason) {
            ("cancelled", _) => TurnOutcome::Stopped(StopReason::cancelled()),
            (_, Some(reason)) => TurnOutcome::Stopped(StopReason::new(reason)),
            ("completed", None) => TurnOutcome::Stopped(turn.stop_reason()),
            _ if error.detail_code.as_deref() == Some(OUTCOME_UNKNOWN) => {
                self.open = Some(turn);
                return self.interrupt();
            }
            _ => {
                let acp = match &turn.answer {
                    Some(JournalAnswer::Refused { acp }) => Some(acp.clone()),
                    Some(JournalAnswer::Stopped { .. }) | None => None,
                };
                TurnOutcome::Failed(failure(error.detail_code.or(error.code), error.message, acp))
            }
        };
        self.end(turn, outcome);
    }

    /// Adds a turn that ended before its prompt was sent. The journal does not contain the prompt then.
    fn end_unsent(&mut self, request: RequestId, result: MarkedResult) {
        let (id, prompt) = (self.next_turn(), "[]".into());
        let permissions = PermissionCount::default();
        self.end_marked(
            ImportTurn { id, request, prompt, is_marked: true, answer: None, permissions },
            result,
        );
    }

    /// Ends the open turn with what is known of it. A turn that was only announced leaves nothing.
    fn interrupt(&mut self) {
        self.announced = None;
        let Some(turn) = self.open.take() else { return };
        match &turn.answer {
            Some(JournalAnswer::Stopped { reason, .. }) => {
                let outcome = TurnOutcome::Stopped(reason.clone());
                self.end(turn, outcome);
            }
            Some(JournalAnswer::Refused { acp }) => {
                let message = format!("the agent refused session/prompt: {acp}");
                let outcome = TurnOutcome::Failed(failure(None, Some(message), Some(acp.clone())));
                self.end(turn, outcome);
            }
            None => {
                let message = "npm acpx kept no end of this turn; it is not sent again".to_owned();
                let error = FactError { code: ErrorCode::Interrupted, message };
                let fact = Fact::TurnEnded { turn: turn.id.0, stop_reason: None, error: Some(error) };
                self.push_turn(turn, TurnState::Interrupted { at: self.at }, &fact);
            }
        }
    }

    fn end(&mut self, turn: ImportTurn, outcome: TurnOutcome) {
        let (stop_reason, error) = match &outcome {
            TurnOutcome::Stopped(reason) => (Some(reason.as_str().to_owned()), None),
            TurnOutcome::Failed(TurnError { code, message, .. }) => {
                (None, Some(FactError { code: code.clone(), message: message.to_string() }))
            }
        };
        let fact = Fact::TurnEnded { turn: turn.id.0, stop_reason, error };
        self.push_turn(turn, TurnState::Ended { at: self.at, outcome }, &fact);
    }

    fn push_turn(&mut self, turn: ImportTurn, state: TurnState, fact: &Fact) {
        let usage = match turn.answer {
            Some(JournalAnswer::Stopped { usage, .. }) => usage,
            Some(JournalAnswer::Refused { .. }) | None => None,
        };
        let turn = Turn {
            id: turn.id,
            request: turn.request,
            prompt: turn.prompt,
            // The journal does not contain it. This is the default both there and here.
            policy: PermissionPolicy::default(),
            wake_options: WakeOptions::default(),
            limits: TurnLimits::default(),
            queued_at: self.at,
            state,
            usage,
            cost: None,
            permissions: turn.permissions,
        };
        self.answered |= turn.is_answered();
        let id = turn.id;
        self.out.push(ImportStep::Turn(Box::new(turn)));
        self.fact(Some(id), fact);
    }

    fn fact(&mut self, turn: Option<TurnId>, fact: &Fact) {
        let (direction, kind) = (Direction::Ours, EventKind::Fact);
        self.out.push(ImportStep::Line(ImportEvent { turn, direction, kind, body: fact.to_body() }));
    }

    fn next_turn(&mut self) -> TurnId {
        self.turns += 1;
        TurnId(self.turns)
    }

    /// The journal's id, or one of ours if it is empty or already used: ids are unique within a record.
    fn request_id(&mut self, id: &str) -> RequestId {
        let mut id: Box<str> = id.into();
        let mut number = self.turns;
        while id.is_empty() || self.requests.contains(&id) {
            number += 1;
            id = format!("imported-{number}").into();
        }
        self.requests.insert(id.clone());
        RequestId::new(id).expect("an id that is empty was given another one")
    }
}

/// The method and the params of a request or notification.
fn call<'a>(message: &JournalMessage<'a>) -> Option<(Cow<'a, str>, Option<&'a RawValue>)> {
    match message {
        JournalMessage::Request { method, params, .. } | JournalMessage::Notification { method, params } => {
            Some((string(method.get()).unwrap_or_default(), *params))
        }
        JournalMessage::Response { .. } => None,
    }
}

impl ImportTurn {
    /// The agent's stop reason, if it sent one.
    fn stop_reason(&self) -> StopReason {
        match &self.answer {
            Some(JournalAnswer::Stopped { reason, .. }) => reason.clone(),
            Some(JournalAnswer::Refused { .. }) | None => StopReason::new("unknown"),
        }
    }
}

#[cfg(test)]
mod tests;
