//! Tracks whether a session is idle, running or waiting for its user, for version 2 clients. A version 1 agent does
//! not report this, so acpx derives it from its own facts and the agent's pending requests; a file or terminal
//! request counts only after a `PermissionAsked` fact. A version 2 agent reports it itself, and a fact that would
//! repeat it produces no update.
//!
//! The tracker takes every event in order, and can render the current state at any time for a client that attaches.

use serde::Serialize;
use serde_json::value::RawValue;

use super::line::{UpdateKind, UpdateLine};
use super::outgoing::{PromptOrigin, UpdateMeta, notification};
use crate::acp::agent::ClientFacts;
use crate::acp::client_error;
use crate::acp::translate::{idle_update, requires_action_update, running_update};
use crate::acp::{StateUpdate, state_update};
use crate::model::{
    Direction, ErrorCode, Event, EventKind, Fact, FactError, ProtocolVersion, RecordId, Seq, Timestamp,
};
use crate::wire::RpcError;
use crate::wire::encode::json_string;
use crate::wire::json::{self, MemberScan};

/// The state of a session after the events so far.
#[derive(Debug, Default)]
pub(crate) struct SessionState {
    now: SessionActivity,
    errors: ErrorForm,
    /// The running acpx turn and the request id of its prompt.
    turn: Option<ErrorTurn>,
    /// The id of the prompt request as JSON, and the agent's response to it. In version 1 the response ends the turn.
    prompt: Option<Box<str>>,
    answer: Option<RawPromptAnswer>,
    /// Whether the agent has sent a state update since the turn began.
    has_spoken: bool,
    /// Whether acpx reported `running` before the agent did, and whether the agent's last update only repeats that.
    is_ahead: bool,
    repeats: bool,
    /// The background work that a version 2 agent listed in its last state update, as JSON; `None` without a list.
    background: Option<Box<str>>,
    /// The ids of the pending requests, as JSON. A turn has few.
    questions: Vec<Box<str>>,
    /// The update that reported the last end of work, and the seq of its event.
    ended: Option<(Seq, Box<str>)>,
    /// The last event and its time.
    last_event: Option<(Seq, Timestamp)>,
}

/// How the client receives errors.
#[derive(Debug, Default)]
struct ErrorForm {
    /// The login methods advertised to the client, as a JSON list.
    logins: Option<Box<str>>,
    /// What the user can do if a login is missing.
    login_hint: Option<Box<str>>,
    /// Whether the client wants all data of an error.
    wants_data: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum SessionActivity {
    #[default]
    Idle,
    Running,
    RequiresAction,
    /// A state that acpx does not know, as the agent's update. It may mean work or not.
    Other(Box<str>),
}

impl SessionActivity {
    fn is_known_to_work(&self) -> bool {
        matches!(self, Self::Running | Self::RequiresAction)
    }
}

/// A turn as identified in an error.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorTurn {
    turn: u64,
    request_id: String,
}

/// The acpx part of the error that ends a turn.
#[derive(Serialize)]
struct TurnErrorData<'a> {
    code: &'a ErrorCode,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    turn: ErrorTurn,
    #[serde(skip_serializing_if = "Option::is_none")]
    acp: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

/// An agent's response to a prompt, as JSON. In version 2 only an error is relevant to the end of the turn.
#[derive(Debug)]
enum RawPromptAnswer {
    Result(Box<str>),
    Error(Box<str>),
}

/// The members that identify a request or a response, as JSON; `null` counts as absent.
pub(super) struct RequestEnvelope<'a> {
    pub(super) id: Option<&'a str>,
    method: Option<&'a str>,
    pub(super) result: Option<&'a str>,
    error: Option<&'a str>,
}

impl<'a> RequestEnvelope<'a> {
    pub(super) fn read(body: &'a str) -> Option<Self> {
        let members = json::scan(body, &["id", "method", "result", "error"]).filter(MemberScan::is_plain)?;
        let [id, method, result, error] = members.values.map(|value| value.filter(|value| *value != "null"));
        Some(Self { id, method, result, error })
    }
}

impl SessionState {
    /// The state before any event, for this client.
    pub(crate) fn to(client: &ClientFacts) -> Self {
        let (logins, login_hint) = (client.logins.clone(), client.login_hint.clone());
        let errors = ErrorForm { logins, login_hint, wants_data: client.error_data };
        Self { errors, ..Self::default() }
    }

    /// Takes the next event; returns the update for a change of state that the agent does not report itself.
    pub(crate) fn take(&mut self, event: &Event) -> Option<Box<str>> {
        let is_v1 = ProtocolVersion::from_number(event.protocol) == Some(ProtocolVersion::V1);
        self.repeats = false;
        self.last_event = Some((event.seq, event.at));
        match (event.direction, event.kind) {
            (Direction::Ours, _) => self.fact(event),
            (Direction::FromAgent, EventKind::Update) => {
                self.on_agent_update(event);
                None
            }
            (Direction::ToAgent, EventKind::Request) => {
                let RequestEnvelope { id, method, .. } = RequestEnvelope::read(&event.body)?;
                if method.and_then(json::string).as_deref() == Some("session/prompt") {
                    self.prompt = id.map(Into::into);
                }
                None
            }
            (Direction::FromAgent, EventKind::Request) if is_v1 && event.turn.is_some() => {
                let RequestEnvelope { id, method, .. } = RequestEnvelope::read(&event.body)?;
                let asks = ["session/request_permission", "elicitation/create"];
                if method.and_then(json::string).is_some_and(|method| asks.contains(&&*method)) {
                    self.questions.extend(id.map(Box::from));
                }
                None
            }
            (Direction::FromAgent, EventKind::Response) if self.prompt.is_some() => {
                self.answered(&event.body, is_v1)
            }
            (Direction::ToAgent, EventKind::Response) if !self.questions.is_empty() => {
                let RequestEnvelope { id, .. } = RequestEnvelope::read(&event.body)?;
                self.questions.retain(|open| id.is_none_or(|id| **open != *id));
                let goes_on = self.questions.is_empty() && self.now == SessionActivity::RequiresAction;
                goes_on.then(|| {
                    self.now = SessionActivity::Running;
                    running_update()
                })
            }
            _ => None,
        }
    }

    /// Called when no further event is available: returns the `requires_action` update if the session waits for its
    /// user. A request that a policy answers is resolved before that, so it is never reported.
    pub(crate) fn pause(&mut self) -> Option<Box<str>> {
        let waits = !self.questions.is_empty() && self.now == SessionActivity::Running;
        waits.then(|| {
            self.now = SessionActivity::RequiresAction;
            requires_action_update()
        })
    }

    /// The line with the current state and the seq of the last event. A client that receives it continues with the
    /// next event.
    pub(crate) fn standing_line(&self, record: &RecordId, missed: Option<Seq>) -> String {
        let running = self.turn.as_ref().filter(|_| self.now != SessionActivity::Idle);
        let origin = running.map(|running| PromptOrigin {
            turn: running.turn,
            request_id: running.request_id.clone(),
            client: None,
        });
        let meta = self.last_event.map(|(seq, at)| UpdateMeta::of(seq, at)).unwrap_or_default();
        let meta = UpdateMeta { origin: origin.as_ref(), ..meta };
        notification(&json_string(record.as_str()), &self.standing(missed), &meta)
    }

    /// The update with the current state. If the last end of work is at or after the event `missed`, it is the update
    /// that reported that end. A client that already received the end gets a plain idle update.
    pub(super) fn standing(&self, missed: Option<Seq>) -> Box<str> {
        let update = match (&self.now, &self.ended) {
            (SessionActivity::Other(update), _) => return update.clone(),
            (SessionActivity::Idle, Some((at, update))) if missed.is_some_and(|missed| *at >= missed) => {
                return update.clone();
            }
            (SessionActivity::Running, _) if self.questions.is_empty() => running_update(),
            (SessionActivity::Running | SessionActivity::RequiresAction, _) => requires_action_update(),
            (SessionActivity::Idle, _) => idle_update("{}"),
        };
        match (&self.background, update.strip_suffix('}')) {
            (Some(background), Some(update)) => format!(r#"{update},"background":{background}}}"#).into(),
            _ => update,
        }
    }

    /// The running turn and the request id of its prompt.
    pub(crate) fn running_turn(&self) -> Option<(u64, &str)> {
        self.turn.as_ref().map(|running| (running.turn, &*running.request_id))
    }

    /// Whether the session is idle.
    pub(super) fn is_idle(&self) -> bool {
        self.now == SessionActivity::Idle
    }

    /// Whether the last event only repeats a state that was already sent.
    pub(super) fn repeats(&self) -> bool {
        self.repeats
    }

    /// Takes a state update of a version 2 agent.
    fn on_agent_update(&mut self, event: &Event) {
        if memchr::memmem::find(event.body.as_bytes(), b"state_update").is_none() {
            return;
        }
        let Some(line) = UpdateLine::of(event).filter(|line| line.head.kind == UpdateKind::RunState) else {
            return;
        };
        self.has_spoken = true;
        self.repeats = std::mem::take(&mut self.is_ahead) && is_same_json(line.update, &running_update());
        let background = json::get(line.update, &["background"]);
        self.background = background.filter(|list| *list != "null").map(Into::into);
        match state_update(line.params.text) {
            Some(StateUpdate::Idle { .. }) => {
                self.now = SessionActivity::Idle;
                self.ended = Some((event.seq, line.update.into()));
            }
            Some(StateUpdate::Running) => self.now = SessionActivity::Running,
            Some(StateUpdate::RequiresAction) => self.now = SessionActivity::RequiresAction,
            Some(_) => self.now = SessionActivity::Other(line.update.into()),
            // An unreadable state changes nothing.
            None => {}
        }
    }

    /// Takes a response. A version 2 agent confirms the prompt with it: from then on the session is running, unless
    /// the agent reports another state.
    fn answered(&mut self, body: &str, is_v1: bool) -> Option<Box<str>> {
        let RequestEnvelope { id, result, error, .. } = RequestEnvelope::read(body)?;
        if id != self.prompt.as_deref() {
            return None;
        }
        self.answer = match (result, error) {
            (Some(result), _) if is_v1 => Some(RawPromptAnswer::Result(result.into())),
            (None, Some(error)) => Some(RawPromptAnswer::Error(error.into())),
            _ => None,
        };
        let begins = !is_v1 && result.is_some() && self.turn.is_some();
        let is_news = begins && !self.has_spoken && !self.now.is_known_to_work();
        self.is_ahead |= is_news;
        is_news.then(|| {
            self.now = SessionActivity::Running;
            running_update()
        })
    }

    fn fact(&mut self, event: &Event) -> Option<Box<str>> {
        match Fact::from_body(&event.body)? {
            Fact::TurnStarted { turn, request_id, .. } => {
                (self.turn, self.prompt, self.answer) = (Some(ErrorTurn { turn, request_id }), None, None);
                (self.has_spoken, self.is_ahead) = (false, false);
                if ProtocolVersion::from_number(event.protocol) == Some(ProtocolVersion::V2) {
                    // The agent may reject the prompt, and reports itself when it works.
                    return None;
                }
                let is_news = !self.now.is_known_to_work();
                self.now = SessionActivity::Running;
                is_news.then(running_update)
            }
            // A turn that never started can end while another one runs. That does not end the running turn.
            Fact::TurnEnded { turn, stop_reason, error } => {
                let over = self.turn.take_if(|runs| runs.turn == turn)?;
                (self.prompt, self.is_ahead) = (None, false);
                self.questions.clear();
                let answer = self.answer.take();
                if self.now == SessionActivity::Idle {
                    return None;
                }
                self.now = SessionActivity::Idle;
                let update = match error {
                    Some(error) => failed(over, &error, answer.as_ref(), &self.errors),
                    None => stopped(stop_reason.as_deref().unwrap_or("error"), answer.as_ref()),
                };
                self.ended = Some((event.seq, update.clone()));
                Some(update)
            }
            Fact::PermissionAsked { request } if event.turn.is_some() => {
                self.questions.push(request.into());
                None
            }
            // The end of the agent process also ends its work outside of acpx turns.
            Fact::AgentEnded { .. } => {
                self.background = None;
                let is_news = self.turn.is_none() && self.now != SessionActivity::Idle;
                is_news.then(|| {
                    self.now = SessionActivity::Idle;
                    idle_update("{}")
                })
            }
            _ => None,
        }
    }
}

/// The version 2 update for the state of a turn after a fact, for agents of either version.
pub(crate) fn turn_state(fact: &Fact, request_id: &str) -> Option<Box<str>> {
    match fact {
        Fact::TurnStarted { .. } => Some(running_update()),
        Fact::TurnEnded { turn, error: Some(error), .. } => {
            let turn = ErrorTurn { turn: *turn, request_id: request_id.to_owned() };
            // Only hosts receive this update, and they want all data.
            Some(failed(turn, error, None, &ErrorForm { wants_data: true, ..ErrorForm::default() }))
        }
        Fact::TurnEnded { stop_reason, .. } => Some(stopped(stop_reason.as_deref().unwrap_or("error"), None)),
        _ => None,
    }
}

/// Whether two objects are equal as JSON values.
fn is_same_json(one: &str, other: &str) -> bool {
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    read(one).is_some_and(|one| Some(one) == read(other))
}

/// The update that ends a turn, with `usage` and `_meta` of the agent's response.
fn stopped(reason: &str, answer: Option<&RawPromptAnswer>) -> Box<str> {
    let mut data = format!(r#"{{"stopReason":{}"#, json_string(reason));
    if let Some(RawPromptAnswer::Result(result)) = answer {
        for name in ["usage", "_meta"] {
            if let Some(value) = json::get(result, &[name]) {
                data.extend([",\"", name, "\":", value]);
            }
        }
    }
    data.push('}');
    idle_update(&data)
}

/// The update that ends a failed turn: its error is the one that a version 1 client receives as the response.
fn failed(
    turn: ErrorTurn,
    error: &FactError,
    answer: Option<&RawPromptAnswer>,
    form: &ErrorForm,
) -> Box<str> {
    let FactError { code, message } = error;
    let data = TurnErrorData { code, hint: code.hint(), turn, acp: None, message: None };
    let json =
        |data: &TurnErrorData<'_>| serde_json::to_string(data).expect("text, numbers and raw JSON are JSON");
    let theirs = match answer {
        Some(RawPromptAnswer::Error(raw)) => serde_json::from_str::<&RawValue>(raw).ok(),
        _ => None,
    };
    let rpc_error = match theirs {
        Some(acp) => {
            let data = TurnErrorData { acp: Some(acp), message: Some(message), ..data };
            client_error::in_its_words(acp.get(), &json(&data))
        }
        None => RpcError::internal(message).with_data(&format!(r#"{{"acpx":{}}}"#, json(&data))),
    };
    let is_login = *code == ErrorCode::AuthRequired;
    let rpc_error = if is_login {
        client_error::wanting_login(rpc_error, form.logins.as_deref(), form.login_hint.as_deref())
    } else {
        rpc_error
    };
    let rpc_error = client_error::for_client(rpc_error, form.wants_data);
    let rpc_error = serde_json::to_string(&rpc_error).expect("an error has only text, numbers and raw JSON");
    format!(r#"{{"sessionUpdate":"state_update","state":"idle","stopReason":"error","error":{rpc_error}}}"#)
        .into()
}
