//! Whether a session works, as clients of version 2 are told. An agent of version 1 does not say it: our facts do, and
//! its questions. A file or a command that it wants is a question only if a fact says that somebody is asked. One of
//! version 2 says it itself, and then the fact that follows is not told again.
//!
//! It takes every event in order and can be asked at any time, so that whoever comes hears how the session stands.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::line::{UpdateKind, UpdateLine};
use super::outgoing::{PromptOrigin, UpdateMeta, notification};
use crate::acp::agent::ClientFacts;
use crate::acp::told_error;
use crate::acp::translate::{idle_update, requires_action_update, running_update};
use crate::acp::{StateUpdate, state_update};
use crate::model::{
    AgentError, Direction, Event, EventKind, Fact, FactError, ProtocolVersion, RecordId, Seq, Timestamp,
};
use crate::wire::RpcError;
use crate::wire::encode::json_string;
use crate::wire::splice::{PathStep, locate};

/// How a session stands, by the events so far.
#[derive(Debug, Default)]
pub(crate) struct SessionState {
    now: SessionActivity,
    errors: ErrorForm,
    /// The turn of ours that runs, and the name of its prompt.
    turn: Option<ErrorTurn>,
    /// The id of its prompt, as JSON, and the agent's answer to it: what version 1 says of a turn's end.
    prompt: Option<Box<str>>,
    answer: Option<RawPromptAnswer>,
    /// Whether the agent has told a state of its own since the turn began.
    has_spoken: bool,
    /// Whether it was told that the session works before the agent said so, and whether it says no more than that now.
    is_ahead: bool,
    repeats: bool,
    /// What an agent of version 2 last said to go on beside its turns, as JSON, if it says so at all.
    background: Option<Box<str>>,
    /// The ids of the questions that wait for an answer, as JSON. A turn has few.
    questions: Vec<Box<str>>,
    /// The update that told the last end of work, and its event.
    ended: Option<(Seq, Box<str>)>,
    /// The last event, and when it was kept.
    heard: Option<(Seq, Timestamp)>,
}

/// How the client receives errors.
#[derive(Debug, Default)]
struct ErrorForm {
    /// The ways to log in that it was offered, a list of JSON.
    logins: Option<Box<str>>,
    /// What its user can do where a login is missing.
    login_hint: Option<Box<str>>,
    /// Whether it wants all data of an error.
    wants_data: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum SessionActivity {
    #[default]
    Idle,
    Running,
    RequiresAction,
    /// A state that only its agent knows: the update that told it. It may be work or none.
    Other(Box<str>),
}

impl SessionActivity {
    fn is_known_to_work(&self) -> bool {
        matches!(self, Self::Running | Self::RequiresAction)
    }
}

/// A turn as an error names it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorTurn {
    turn: u64,
    request_id: String,
}

/// What we say of an error that ends a turn.
#[derive(Serialize)]
struct TurnErrorData<'a> {
    code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    turn: ErrorTurn,
    #[serde(skip_serializing_if = "Option::is_none")]
    acp: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

/// An agent's answer to a prompt, as JSON. In version 2 only a refusal says anything of the turn's end.
#[derive(Debug)]
enum RawPromptAnswer {
    Result(Box<str>),
    Error(Box<str>),
}

/// The members of a request or an answer that say what it is to.
#[derive(Deserialize)]
pub(super) struct RequestEnvelope<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl SessionState {
    /// How a session stands before any event, for this client.
    pub(crate) fn to(client: &ClientFacts) -> Self {
        let (logins, login_hint) = (client.logins.clone(), client.login_hint.clone());
        let errors = ErrorForm { logins, login_hint, wants_data: client.error_data };
        Self { errors, ..Self::default() }
    }

    /// Takes the next event; the update that tells what changes by it, where the agent does not say so itself.
    pub(crate) fn take(&mut self, event: &Event) -> Option<Box<str>> {
        let is_first = ProtocolVersion::from_number(event.protocol) == Some(ProtocolVersion::V1);
        self.repeats = false;
        self.heard = Some((event.seq, event.at));
        match (event.direction, event.kind) {
            (Direction::Ours, _) => self.fact(event),
            (Direction::FromAgent, EventKind::Update) => {
                self.said(event);
                None
            }
            (Direction::ToAgent, EventKind::Request) => {
                let RequestEnvelope { id, method, .. } = serde_json::from_str(&event.body).ok()?;
                if method.as_deref() == Some("session/prompt") {
                    self.prompt = id.map(|id| id.get().into());
                }
                None
            }
            (Direction::FromAgent, EventKind::Request) if is_first && event.turn.is_some() => {
                let RequestEnvelope { id, method, .. } = serde_json::from_str(&event.body).ok()?;
                let asks = ["session/request_permission", "elicitation/create"];
                if method.is_some_and(|method| asks.contains(&&*method)) {
                    self.questions.extend(id.map(|id| Box::from(id.get())));
                }
                None
            }
            (Direction::FromAgent, EventKind::Response) if self.prompt.is_some() => {
                self.answered(&event.body, is_first)
            }
            (Direction::ToAgent, EventKind::Response) if !self.questions.is_empty() => {
                let RequestEnvelope { id, .. } = serde_json::from_str(&event.body).ok()?;
                self.questions.retain(|open| id.is_none_or(|id| **open != *id.get()));
                let goes_on = self.questions.is_empty() && self.now == SessionActivity::RequiresAction;
                goes_on.then(|| {
                    self.now = SessionActivity::Running;
                    running_update()
                })
            }
            _ => None,
        }
    }

    /// Nothing more is known at the moment: the update that tells that the session waits for its user, if it does. What
    /// a policy answers is answered together with its being asked, and is told to nobody.
    pub(crate) fn pause(&mut self) -> Option<Box<str>> {
        let waits = !self.questions.is_empty() && self.now == SessionActivity::Running;
        waits.then(|| {
            self.now = SessionActivity::RequiresAction;
            requires_action_update()
        })
    }

    /// The line that tells how the session stands, and by which event: whoever has it goes on with the next.
    pub(crate) fn standing_line(&self, record: &RecordId, missed: Option<Seq>) -> String {
        let running = self.turn.as_ref().filter(|_| self.now != SessionActivity::Idle);
        let asked = running.map(|running| PromptOrigin {
            turn: running.turn,
            request_id: running.request_id.clone(),
            client: None,
        });
        let beside = self.heard.map(|(seq, at)| UpdateMeta::of(seq, at)).unwrap_or_default();
        let beside = UpdateMeta { asked: asked.as_ref(), ..beside };
        notification(&json_string(record.as_str()), &self.standing(missed), &beside)
    }

    /// The update that tells how the session stands. Of the last end of work it tells to those who missed it: it has
    /// been since the event they name. Whoever was there for it has heard it.
    pub(super) fn standing(&self, missed: Option<Seq>) -> Box<str> {
        let told = match (&self.now, &self.ended) {
            (SessionActivity::Other(told), _) => return told.clone(),
            (SessionActivity::Idle, Some((at, told))) if missed.is_some_and(|missed| *at >= missed) => {
                return told.clone();
            }
            (SessionActivity::Running, _) if self.questions.is_empty() => running_update(),
            (SessionActivity::Running | SessionActivity::RequiresAction, _) => requires_action_update(),
            (SessionActivity::Idle, _) => idle_update("{}"),
        };
        match (&self.background, told.strip_suffix('}')) {
            (Some(background), Some(told)) => format!(r#"{told},"background":{background}}}"#).into(),
            _ => told,
        }
    }

    /// The turn that runs, and the name of its prompt.
    pub(crate) fn running_turn(&self) -> Option<(u64, &str)> {
        self.turn.as_ref().map(|running| (running.turn, &*running.request_id))
    }

    /// Whether nothing works.
    pub(super) fn is_idle(&self) -> bool {
        self.now == SessionActivity::Idle
    }

    /// Whether the last event only says what was told before it.
    pub(super) fn repeats(&self) -> bool {
        self.repeats
    }

    /// Takes what an agent of version 2 says of its state.
    fn said(&mut self, event: &Event) {
        if memchr::memmem::find(event.body.as_bytes(), b"state_update").is_none() {
            return;
        }
        let Some(line) = UpdateLine::of(event).filter(|line| line.head.kind == UpdateKind::Running) else {
            return;
        };
        self.has_spoken = true;
        self.repeats = std::mem::take(&mut self.is_ahead) && says_only(line.update, &running_update());
        let background = locate(line.update, &[PathStep::Key("background")]);
        let background = background.and_then(|range| line.update.get(range));
        self.background = background.filter(|list| *list != "null").map(Into::into);
        match state_update(line.params.text) {
            Some(StateUpdate::Idle { .. }) => {
                self.now = SessionActivity::Idle;
                self.ended = Some((event.seq, line.update.into()));
            }
            Some(StateUpdate::Running) => self.now = SessionActivity::Running,
            Some(StateUpdate::RequiresAction) => self.now = SessionActivity::RequiresAction,
            Some(_) => self.now = SessionActivity::Other(line.update.into()),
            // What is no state changes none.
            None => {}
        }
    }

    /// Takes an answer. One of version 2 to the prompt says that it was taken: from then on the session works, if
    /// the agent does not say otherwise itself.
    fn answered(&mut self, body: &str, is_first: bool) -> Option<Box<str>> {
        let RequestEnvelope { id, result, error, .. } = serde_json::from_str(body).ok()?;
        if id.map(RawValue::get) != self.prompt.as_deref() {
            return None;
        }
        self.answer = match (result, error) {
            (Some(result), _) if is_first => Some(RawPromptAnswer::Result(result.get().into())),
            (None, Some(error)) => Some(RawPromptAnswer::Error(error.get().into())),
            _ => None,
        };
        let begins = !is_first && result.is_some() && self.turn.is_some();
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
                    // Its agent may refuse the prompt, and says itself when it works.
                    return None;
                }
                let is_news = !self.now.is_known_to_work();
                self.now = SessionActivity::Running;
                is_news.then(running_update)
            }
            // One that never began may end while another runs, and is no end of that.
            Fact::TurnEnded { turn, stop_reason, error } => {
                let over = self.turn.take_if(|runs| runs.turn == turn)?;
                (self.prompt, self.is_ahead) = (None, false);
                self.questions.clear();
                let answer = self.answer.take();
                if self.now == SessionActivity::Idle {
                    return None;
                }
                self.now = SessionActivity::Idle;
                let told = match error {
                    Some(error) => failed(over, &error, answer.as_ref(), &self.errors),
                    None => stopped(stop_reason.as_deref().unwrap_or("error"), answer.as_ref()),
                };
                self.ended = Some((event.seq, told.clone()));
                Some(told)
            }
            Fact::PermissionAsked { request } if event.turn.is_some() => {
                self.questions.push(request.into());
                None
            }
            // What works outside of any turn of ours works no more.
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

/// The update of version 2 that tells how a turn stands by a fact, whoever its agent is.
pub(crate) fn turn_state(fact: &Fact, request_id: &str) -> Option<Box<str>> {
    match fact {
        Fact::TurnStarted { .. } => Some(running_update()),
        Fact::TurnEnded { turn, error: Some(error), .. } => {
            let turn = ErrorTurn { turn: *turn, request_id: request_id.to_owned() };
            // Only hosts receive it, and they want all data.
            Some(failed(turn, error, None, &ErrorForm { wants_data: true, ..ErrorForm::default() }))
        }
        Fact::TurnEnded { stop_reason, .. } => Some(stopped(stop_reason.as_deref().unwrap_or("error"), None)),
        _ => None,
    }
}

/// Whether two objects say the same, however they are written.
fn says_only(one: &str, other: &str) -> bool {
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    read(one).is_some_and(|one| Some(one) == read(other))
}

/// The update that ends a turn, with what the agent's answer says beside the reason.
fn stopped(reason: &str, answer: Option<&RawPromptAnswer>) -> Box<str> {
    let mut said = format!(r#"{{"stopReason":{}"#, json_string(reason));
    if let Some(RawPromptAnswer::Result(result)) = answer {
        for name in ["usage", "_meta"] {
            if let Some(value) = locate(result, &[PathStep::Key(name)]).and_then(|range| result.get(range)) {
                said.extend([",\"", name, "\":", value]);
            }
        }
    }
    said.push('}');
    idle_update(&said)
}

/// The update that ends a turn which failed: the error as a client of version 1 gets it for an answer.
fn failed(
    turn: ErrorTurn,
    error: &FactError,
    answer: Option<&RawPromptAnswer>,
    form: &ErrorForm,
) -> Box<str> {
    let FactError { code, message } = error;
    let said = TurnErrorData { code, hint: AgentError::hint_of(code), turn, acp: None, message: None };
    let json =
        |said: &TurnErrorData<'_>| serde_json::to_string(said).expect("text, numbers and raw JSON are JSON");
    let theirs = match answer {
        Some(RawPromptAnswer::Error(raw)) => serde_json::from_str::<&RawValue>(raw).ok(),
        _ => None,
    };
    let told = match theirs {
        Some(acp) => {
            let said = TurnErrorData { acp: Some(acp), message: Some(message), ..said };
            told_error::in_its_words(acp.get(), &json(&said))
        }
        None => RpcError::internal(message).with_data(&format!(r#"{{"acpx":{}}}"#, json(&said))),
    };
    let is_login = code == told_error::LOGIN_WANTED;
    let told = if is_login {
        told_error::wanting_login(told, form.logins.as_deref(), form.login_hint.as_deref())
    } else {
        told
    };
    let told = told_error::for_client(told, form.wants_data);
    let told = serde_json::to_string(&told).expect("an error has only text, numbers and raw JSON");
    format!(r#"{{"sessionUpdate":"state_update","state":"idle","stopReason":"error","error":{told}}}"#).into()
}
