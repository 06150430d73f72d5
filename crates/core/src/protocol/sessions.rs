//! The params and results of `_acpx/sessions`, `_acpx/history` and `_acpx/agents`, for clients that show many sessions.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::model::{Cost, SessionIdentity, SettingValue};

/// The notification of changed sessions.
pub(crate) const SESSIONS_CHANGED: &str = "_acpx/sessions/changed";

/// The params of `_acpx/sessions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SessionsParams {
    /// Whether to report changes from now on.
    pub subscribe: bool,
    /// Maximum number of sessions.
    pub limit: Option<usize>,
    /// The end of the previous page.
    pub cursor: Option<String>,
    /// Only these records, also those that no client has prompted.
    pub ids: Option<Vec<String>>,
}

/// The result of `_acpx/sessions`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionsMeta {
    /// The sessions, last changed first.
    pub sessions: Vec<SessionRowMeta>,
    /// Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// The params of `_acpx/sessions/changed`.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionsChangedMeta {
    /// The new and changed sessions.
    pub changed: Vec<SessionRowMeta>,
    /// The ids of deleted records.
    pub removed: Vec<String>,
}

/// One session of a list.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionRowMeta {
    /// Its ids.
    #[serde(flatten)]
    pub ids: SessionIdentity,
    /// The agent, by its name or its command line.
    pub agent: String,
    /// The working directory.
    pub cwd: String,
    /// The name by which a shell finds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is doing.
    pub state: RowState,
    /// When it last changed.
    pub updated_at: String,
    /// When it began.
    pub created_at: String,
    /// The last message, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message: Option<LastMessageMeta>,
    /// How the last turn ended: its stop reason, or `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// What the agent's session has cost, as the agent reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The tokens in the agent's context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// How many prompts wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued: Option<usize>,
}

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RowState {
    /// A turn runs.
    Working,
    /// A permission request or form waits for an answer.
    Waiting,
    /// A prompt waits, and none runs.
    Queued,
    /// Its agent runs and has nothing to do.
    Idle,
    /// It has no agent.
    Parked,
    /// Its user has closed it.
    Closed,
}

/// The last message of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct LastMessageMeta {
    /// `user` or `agent`.
    pub role: &'static str,
    /// Its text on one line; of a message that was not read whole, the end.
    pub text: String,
}

/// The params of `_acpx/history`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryParams {
    /// The record.
    pub session_id: String,
    /// The turns before this event; absent, the last ones.
    pub before: Option<u64>,
    /// How many turns.
    pub turns: Option<u64>,
    /// Omits tool output longer than this.
    pub tool_output_bytes: Option<u64>,
}

/// The result of `_acpx/history`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryMeta {
    /// The params of `session/update`, oldest first.
    pub updates: Vec<Box<RawValue>>,
    /// The first event that is included: `before` of the next request.
    pub from: u64,
    /// Whether there are earlier events.
    pub more: bool,
}

/// The result of `_acpx/agents`.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentsMeta {
    /// The agents by name.
    pub agents: Vec<AgentChoiceMeta>,
    /// The directories of records, last used first.
    pub directories: Vec<UsedDirectoryMeta>,
}

/// An agent of which a session can be created.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentChoiceMeta {
    /// Its name.
    pub name: String,
    /// Whether the last used record is with this agent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub last_used: bool,
    /// The modes and models of its last session, in the form of ACP's `configOptions`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<KnownOptionMeta>,
}

/// An option of an agent, as it is known from a session.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KnownOptionMeta {
    /// Its id.
    pub config_id: String,
    /// Its name.
    pub name: String,
    /// What it is about, such as `mode` or `model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Always `select`.
    pub r#type: &'static str,
    /// Its value in that session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_value: Option<SettingValue>,
    /// The values it can have.
    pub options: Vec<OptionValueMeta>,
}

/// A value of an option.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct OptionValueMeta {
    /// The value.
    pub value: String,
    /// Its name: the store has none but the value itself.
    pub name: String,
}

/// A directory that a record works in.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsedDirectoryMeta {
    /// The directory, as the record has it.
    pub cwd: String,
    /// The agent of its last used record.
    pub agent: String,
    /// When that changed.
    pub updated_at: String,
}
