//! The results that a service returns, as plain values, and their JSON. A result is an object, never null.

use std::sync::Arc;

use agent_client_protocol_schema::v1 as acp;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::update::UpdateBody;
use crate::model::{AbsolutePath, AcpSessionId, AgentSessionId, ProtocolVersion, StopReason, Timestamp};
use crate::wire::encode::json_string;
use crate::wire::json;

/// The members of a `_meta` object.
pub type Meta = serde_json::Map<String, serde_json::Value>;

/// Runs once the reply is written to the connection. It is dropped without a call if the reply is never written.
pub(crate) type DeliveryCallback = Box<dyn FnOnce() + Send>;

/// A session that is ready: the reply to new, load, resume and fork.
pub struct SessionSetup {
    /// The session.
    pub session: AcpSessionId,
    /// The harness's own id for it, if it has one; sent as `_meta.agentSessionId`.
    pub agent_session: Option<AgentSessionId>,
    /// Its modes, if it has any.
    pub modes: Option<Modes>,
    /// Another agent's reply, to forward: a JSON object in the client's protocol version. It replaces typed modes; our
    /// session id and `_meta` are merged into it.
    pub forwarded: Option<String>,
    /// Further members of the reply's `_meta`.
    pub meta: Meta,
    /// Updates to send right after the reply.
    pub afterwards: Vec<UpdateBody>,
    /// Called when the reply and these updates are written.
    pub on_delivered: Option<DeliveryCallback>,
}

/// The reply to a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptReply {
    /// Why the turn stopped. The set is open: a service may forward an unknown reason.
    pub reason: StopReason,
    /// The usage of the turn, as a JSON object.
    pub usage: Option<Arc<str>>,
    /// The reply's `_meta`.
    pub meta: Meta,
    /// Another agent's reply, forwarded in version 1 with our stop reason and `_meta` merged in.
    pub forwarded: Option<Arc<str>>,
}

/// The modes of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modes {
    /// The id of the current mode.
    pub current: String,
    /// All modes.
    pub available: Vec<SessionMode>,
}

/// One mode of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionMode {
    /// Its id.
    pub id: String,
    /// Its display name.
    pub name: String,
}

/// A page of `session/list`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPage {
    /// Its rows.
    pub sessions: Vec<SessionSummary>,
    /// Where the next page begins, if there is one.
    pub next_cursor: Option<String>,
    /// The reply's `_meta`.
    pub meta: Meta,
}

/// One row of `session/list`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// The session.
    pub session: AcpSessionId,
    /// Its working directory.
    pub cwd: AbsolutePath,
    /// Its additional roots.
    pub additional_directories: Vec<AbsolutePath>,
    /// Its title.
    pub title: Option<String>,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
    /// The row's `_meta`.
    pub meta: Meta,
    /// The whole row of another agent, forwarded instead of the fields above. Rows are the same in both versions.
    pub forwarded: Option<Box<str>>,
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
    /// A session without optional members.
    pub fn new(session: AcpSessionId) -> Self {
        let (meta, afterwards) = (Meta::new(), Vec::new());
        Self {
            session,
            agent_session: None,
            modes: None,
            forwarded: None,
            meta,
            afterwards,
            on_delivered: None,
        }
    }

    /// The reply to a request that created the session; contains its id.
    pub(super) fn begun(&self, version: ProtocolVersion) -> String {
        self.answer(Some(self.session.as_str()), version)
    }

    /// The reply to a request that restored it.
    pub(super) fn restored(&self, version: ProtocolVersion) -> String {
        self.answer(None, version)
    }

    fn answer(&self, session_id: Option<&str>, version: ProtocolVersion) -> String {
        let meta = self.meta();
        if let Some(given) = &self.forwarded {
            let spliced =
                session_id.and_then(|session| json::set(given, &["sessionId"], &json_string(session)));
            return with_meta(spliced.unwrap_or_else(|| given.clone()), &meta.unwrap_or_default());
        }
        let modes = if version == ProtocolVersion::V1 { self.acp_modes() } else { None };
        to_json(&SetupResult { session_id, modes, meta })
    }

    /// Whether it has typed modes and no forwarded reply.
    pub(super) fn has_own_modes(&self) -> bool {
        self.modes.is_some() && self.forwarded.is_none()
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
        let given = self.forwarded.as_ref().and_then(|row| RawValue::from_string(row.to_string()).ok());
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

/// Merges `meta` into the `_meta` of a forwarded reply.
fn with_meta(answer: String, meta: &Meta) -> String {
    let Some(whole) = (!meta.is_empty()).then(|| to_json(meta)) else { return answer };
    let spliced = meta.iter().try_fold(answer.clone(), |spliced, (name, value)| {
        json::set(&spliced, &["_meta", name], &value.to_string())
    });
    // A `_meta` that is not an object is replaced.
    spliced.or_else(|| json::set(&answer, &["_meta"], &whole)).unwrap_or(answer)
}

/// The `_meta` object, unless it is empty.
fn some_meta(meta: &Meta) -> Option<Meta> {
    (!meta.is_empty()).then(|| meta.clone())
}

impl From<StopReason> for PromptReply {
    fn from(reason: StopReason) -> Self {
        Self { reason, usage: None, meta: Meta::new(), forwarded: None }
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
        let given = self
            .forwarded
            .as_deref()
            .and_then(|given| json::set(given, &["stopReason"], &json_string(reason)));
        match given {
            Some(given) => with_meta(given, &self.meta),
            None => to_json(&Wire { stop_reason: reason, usage: self.usage(), meta: &self.meta }),
        }
    }

    /// The usage of the turn, if it is valid JSON.
    pub(super) fn usage(&self) -> Option<&RawValue> {
        self.usage.as_deref().and_then(|usage| serde_json::from_str(usage).ok())
    }
}

/// The version 2 reply to a prompt: another agent's reply with this id and `_meta` merged in, or our own.
pub(super) fn inserted_answer(message: &str, meta: &Meta, forwarded: Option<&str>) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Wire<'a> {
        message_id: &'a str,
        #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
        meta: &'a Meta,
    }
    match forwarded.and_then(|given| json::set(given, &["messageId"], &json_string(message))) {
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
