//! What a service answers, as plain values, and the protocol's form of each. A result is an object, never null.

use std::sync::Arc;

use agent_client_protocol_schema::v1 as acp;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::update::UpdateBody;
use crate::model::{AbsolutePath, AcpSessionId, AgentSessionId, ProtocolVersion, StopReason, Timestamp};

/// What a message says beside the protocol, by name.
pub type Meta = serde_json::Map<String, serde_json::Value>;

/// Something to be done once the client has the answer. It is dropped undone if the client never gets it.
pub type OnceTold = Box<dyn FnOnce() + Send>;

/// A session that is ready: the answer to new, load and resume.
pub struct SessionSetup {
    /// The session.
    pub session: AcpSessionId,
    /// The harness's own id for it, if it has one: told as `_meta.agentSessionId`.
    pub agent_session: Option<AgentSessionId>,
    /// Its modes, if it has any.
    pub modes: Option<Modes>,
    /// What somebody else says it offers, passed on as it is.
    pub raw: RawSetup,
    /// What else the answer's `_meta` says.
    pub meta: Meta,
    /// Updates that go out right after the answer.
    pub afterwards: Vec<UpdateBody>,
    /// What is done when these are out.
    pub once_told: Option<OnceTold>,
}

/// What a session offers, as raw JSON in the client's version of the protocol. Nothing of it is looked at.
#[derive(Debug, Clone, Default)]
pub struct RawSetup {
    /// Its modes, in the place of any that are typed. Version 2 has none.
    pub modes: Option<Box<RawValue>>,
    /// Its options.
    pub config_options: Option<Box<RawValue>>,
    /// The commands it understands. Version 1 has no place for them here: they are told as an update.
    pub commands: Option<Box<RawValue>>,
}

/// The answer to a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptAnswer {
    /// Why the turn stopped. The set is open: a service may pass on a reason we do not know.
    pub reason: StopReason,
    /// What the turn used, as a JSON object.
    pub usage: Option<Arc<str>>,
    /// The answer's `_meta`.
    pub meta: Meta,
}

/// The modes of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modes {
    /// The id of the one in force.
    pub current: String,
    /// All there are.
    pub available: Vec<Mode>,
}

/// One way of working.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mode {
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
    /// What it is about.
    pub title: Option<String>,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
    /// The row's `_meta`.
    pub meta: Meta,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SetupAnswer<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modes: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_options: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    available_commands: Option<&'a RawValue>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Meta>,
}

impl SessionSetup {
    /// A session of which there is nothing more to say.
    pub fn new(session: AcpSessionId) -> Self {
        let (meta, afterwards, raw) = (Meta::new(), Vec::new(), RawSetup::default());
        Self { session, agent_session: None, modes: None, raw, meta, afterwards, once_told: None }
    }

    /// The answer to whatever began the session, which says its id.
    pub(super) fn begun(&self, version: ProtocolVersion) -> String {
        to_json(&SetupAnswer { session_id: Some(self.session.as_str()), ..self.answer(version) })
    }

    /// The answer to whatever brought it back.
    pub(super) fn restored(&self, version: ProtocolVersion) -> String {
        to_json(&self.answer(version))
    }

    fn answer(&self, version: ProtocolVersion) -> SetupAnswer<'_> {
        let (modes, commands) = match version {
            ProtocolVersion::V1 => (self.raw_modes(), None),
            ProtocolVersion::V2 => (None, self.raw.commands.as_deref()),
        };
        let config_options = self.raw.config_options.as_deref();
        SetupAnswer {
            session_id: None,
            modes,
            config_options,
            available_commands: commands,
            meta: self.meta(),
        }
    }

    /// Whether it has modes that nobody has put into words of any version.
    pub(super) fn has_own_modes(&self) -> bool {
        self.modes.is_some() && self.raw.modes.is_none() && self.raw.config_options.is_none()
    }

    fn raw_modes(&self) -> Option<Box<RawValue>> {
        let typed = || self.acp_modes().and_then(|modes| to_raw_value(&modes).ok());
        self.raw.modes.clone().or_else(typed)
    }

    fn acp_modes(&self) -> Option<acp::SessionModeState> {
        let modes = self.modes.as_ref()?;
        let mode = |mode: &Mode| acp::SessionMode::new(mode_id(&mode.id), mode.name.clone());
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
        let row = |row: &SessionSummary| {
            acp::SessionInfo::new(acp::SessionId::new(row.session.as_str()), row.cwd.as_path())
                .title(row.title.clone())
                .updated_at(row.updated_at.map(|at| at.to_string()))
                .meta(some_meta(&row.meta))
        };
        let rows = self.sessions.iter().map(row).collect();
        let answer = acp::ListSessionsResponse::new(rows).next_cursor(self.next_cursor.clone());
        to_json(&answer.meta(some_meta(&self.meta)))
    }
}

/// What there is to say beside the protocol, if there is anything.
fn some_meta(meta: &Meta) -> Option<Meta> {
    (!meta.is_empty()).then(|| meta.clone())
}

impl From<StopReason> for PromptAnswer {
    fn from(reason: StopReason) -> Self {
        Self { reason, usage: None, meta: Meta::new() }
    }
}

impl PromptAnswer {
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
        to_json(&Wire { stop_reason: self.reason.as_str(), usage: self.usage(), meta: &self.meta })
    }

    /// What the turn used, if that is JSON.
    pub(super) fn usage(&self) -> Option<&RawValue> {
        self.usage.as_deref().and_then(|usage| serde_json::from_str(usage).ok())
    }
}

/// The answer to a prompt of version 2.
pub(super) fn inserted_answer(message: &str, meta: &Meta) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Wire<'a> {
        message_id: &'a str,
        #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
        meta: &'a Meta,
    }
    to_json(&Wire { message_id: message, meta })
}

pub(super) fn mode_id(id: &str) -> acp::SessionModeId {
    acp::SessionModeId::new(id)
}

pub(super) fn to_json<T: Serialize>(answer: &T) -> String {
    serde_json::to_string(answer).expect("an answer has only text, numbers and lists")
}
