//! What a service answers, as plain values, and the protocol's form of each. A result is an object, never null.

use std::sync::Arc;

use agent_client_protocol_schema::v1 as acp;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::update::UpdateBody;
use crate::model::{AbsolutePath, AcpSessionId, AgentSessionId, ProtocolVersion, StopReason, Timestamp};
use crate::wire::encode::json_string;
use crate::wire::splice::put;

/// What a message says beside the protocol, by name.
pub type Meta = serde_json::Map<String, serde_json::Value>;

/// Something to be done once the client has the answer. It is dropped undone if the client never gets it.
pub type DeliveryCallback = Box<dyn FnOnce() + Send>;

/// A session that is ready: the answer to new, load and resume.
pub struct SessionSetup {
    /// The session.
    pub session: AcpSessionId,
    /// The harness's own id for it, if it has one: told as `_meta.agentSessionId`.
    pub agent_session: Option<AgentSessionId>,
    /// Its modes, if it has any.
    pub modes: Option<Modes>,
    /// What somebody else answered for it, passed on as it is: a JSON object in the client's version of the protocol, in
    /// the place of any modes that are typed. What is said here of the session and in `_meta` is put in.
    pub passed_on: Option<String>,
    /// What else the answer's `_meta` says.
    pub meta: Meta,
    /// Updates that go out right after the answer.
    pub afterwards: Vec<UpdateBody>,
    /// What is done when these are out.
    pub once_told: Option<DeliveryCallback>,
}

/// The answer to a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptReply {
    /// Why the turn stopped. The set is open: a service may pass on a reason we do not know.
    pub reason: StopReason,
    /// What the turn used, as a JSON object.
    pub usage: Option<Arc<str>>,
    /// The answer's `_meta`.
    pub meta: Meta,
    /// What somebody else answered, passed on as it is in version 1, with the reason and the `_meta` put in.
    pub passed_on: Option<Arc<str>>,
}

/// The modes of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modes {
    /// The id of the one in force.
    pub current: String,
    /// All there are.
    pub available: Vec<SessionMode>,
}

/// One way of working.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionMode {
    /// Its id.
    pub id: String,
    /// Its name, for a person.
    pub name: String,
}

/// A page of `session/list`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPage {
    /// Its rows.
    pub sessions: Vec<SessionSummary>,
    /// Where the next page begins, if there is one.
    pub next_cursor: Option<String>,
    /// The answer's `_meta`.
    pub meta: Meta,
}

/// One row of `session/list`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// The session.
    pub session: AcpSessionId,
    /// Where it works.
    pub cwd: AbsolutePath,
    /// Its roots beside that.
    pub additional_directories: Vec<AbsolutePath>,
    /// What it is about.
    pub title: Option<String>,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
    /// The row's `_meta`.
    pub meta: Meta,
    /// The whole row as somebody else wrote it, passed on in the place of the above; both versions write it alike.
    pub passed_on: Option<Box<str>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SetupResult<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modes: Option<acp::SessionModeState>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Meta>,
}

impl SessionSetup {
    /// A session of which there is nothing more to say.
    pub fn new(session: AcpSessionId) -> Self {
        let (meta, afterwards) = (Meta::new(), Vec::new());
        Self { session, agent_session: None, modes: None, passed_on: None, meta, afterwards, once_told: None }
    }

    /// The answer to whatever began the session, which says its id.
    pub(super) fn begun(&self, version: ProtocolVersion) -> String {
        self.answer(Some(self.session.as_str()), version)
    }

    /// The answer to whatever brought it back.
    pub(super) fn restored(&self, version: ProtocolVersion) -> String {
        self.answer(None, version)
    }

    fn answer(&self, session_id: Option<&str>, version: ProtocolVersion) -> String {
        let meta = self.meta();
        if let Some(given) = &self.passed_on {
            let told = session_id.and_then(|session| put(given, &["sessionId"], &json_string(session)));
            return with_meta(told.unwrap_or_else(|| given.clone()), &meta.unwrap_or_default());
        }
        let modes = if version == ProtocolVersion::V1 { self.acp_modes() } else { None };
        to_json(&SetupResult { session_id, modes, meta })
    }

    /// Whether it has modes that nobody has put into words of any version.
    pub(super) fn has_own_modes(&self) -> bool {
        self.modes.is_some() && self.passed_on.is_none()
    }

    fn acp_modes(&self) -> Option<acp::SessionModeState> {
        let modes = self.modes.as_ref()?;
        let mode = |mode: &SessionMode| acp::SessionMode::new(mode_id(&mode.id), mode.name.clone());
        let available = modes.available.iter().map(mode).collect();
        Some(acp::SessionModeState::new(mode_id(&modes.current), available))
    }

    fn meta(&self) -> Option<Meta> {
        let inner =
            self.agent_session.as_ref().map(|inner| ("agentSessionId".to_owned(), inner.as_str().into()));
        let meta: Meta = self.meta.clone().into_iter().chain(inner).collect();
        (!meta.is_empty()).then_some(meta)
    }
}

impl SessionPage {
    pub(super) fn answer(&self) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            sessions: Vec<Box<RawValue>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            next_cursor: Option<&'a str>,
            #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
            meta: &'a Meta,
        }
        let sessions = self.sessions.iter().map(SessionSummary::row).collect();
        to_json(&Wire { sessions, next_cursor: self.next_cursor.as_deref(), meta: &self.meta })
    }
}

impl SessionSummary {
    fn row(&self) -> Box<RawValue> {
        let given = self.passed_on.as_ref().and_then(|row| RawValue::from_string(row.to_string()).ok());
        let path = |directory: &AbsolutePath| directory.as_path().to_path_buf();
        given.unwrap_or_else(|| {
            let row = acp::SessionInfo::new(acp::SessionId::new(self.session.as_str()), self.cwd.as_path())
                .additional_directories(self.additional_directories.iter().map(path).collect::<Vec<_>>())
                .title(self.title.clone())
                .updated_at(self.updated_at.map(|at| at.to_string()))
                .meta(some_meta(&self.meta));
            to_raw_value(&row).expect("a row has only text")
        })
    }
}

/// An answer of somebody else's with this in its `_meta`, which keeps what else it has.
fn with_meta(answer: String, meta: &Meta) -> String {
    let Some(whole) = (!meta.is_empty()).then(|| to_json(meta)) else { return answer };
    let spliced = meta
        .iter()
        .try_fold(answer.clone(), |told, (name, value)| put(&told, &["_meta", name], &value.to_string()));
    // A `_meta` that is no object says nothing, and ours takes its place.
    spliced.or_else(|| put(&answer, &["_meta"], &whole)).unwrap_or(answer)
}

/// What there is to say beside the protocol, if there is anything.
fn some_meta(meta: &Meta) -> Option<Meta> {
    (!meta.is_empty()).then(|| meta.clone())
}

impl From<StopReason> for PromptReply {
    fn from(reason: StopReason) -> Self {
        Self { reason, usage: None, meta: Meta::new(), passed_on: None }
    }
}

impl PromptReply {
    pub(super) fn to_json(&self) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            stop_reason: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            usage: Option<&'a RawValue>,
            #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
            meta: &'a Meta,
        }
        let reason = self.reason.as_str();
        let given =
            self.passed_on.as_deref().and_then(|given| put(given, &["stopReason"], &json_string(reason)));
        match given {
            Some(given) => with_meta(given, &self.meta),
            None => to_json(&Wire { stop_reason: reason, usage: self.usage(), meta: &self.meta }),
        }
    }

    /// What the turn used, if that is JSON.
    pub(super) fn usage(&self) -> Option<&RawValue> {
        self.usage.as_deref().and_then(|usage| serde_json::from_str(usage).ok())
    }
}

/// The answer to a prompt of version 2: what somebody else answered, with the id and the `_meta` put in, or our own.
pub(super) fn inserted_answer(message: &str, meta: &Meta, passed_on: Option<&str>) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Wire<'a> {
        message_id: &'a str,
        #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
        meta: &'a Meta,
    }
    match passed_on.and_then(|given| put(given, &["messageId"], &json_string(message))) {
        Some(given) => with_meta(given, meta),
        None => to_json(&Wire { message_id: message, meta }),
    }
}

pub(super) fn mode_id(id: &str) -> acp::SessionModeId {
    acp::SessionModeId::new(id)
}

pub(super) fn to_json<T: Serialize>(answer: &T) -> String {
    serde_json::to_string(answer).expect("an answer has only text, numbers and lists")
}
