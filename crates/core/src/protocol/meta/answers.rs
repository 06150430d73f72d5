//! Our additions to the responses of a host: ids, the state of a session, and how a turn ended.

use serde::{Deserialize, Serialize};

use super::is_false;
use crate::model::{FactError, ReplayVerdict, SessionIdentity, SettingValue};

/// How a session became live, and the state of its agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentStateMeta {
    /// How the session became live, for this request or before this turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awakening: Option<AwakeningMeta>,
    /// What the agent remembers, if that is less than the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryMeta>,
    /// Chosen settings that could not be restored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unmet_settings: Vec<UnmetSettingMeta>,
}

/// In the responses to `session/new`, `session/load` and `session/resume`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionMeta {
    /// The record's ids.
    #[serde(flatten)]
    pub ids: SessionIdentity,
    /// Whether this request created the record.
    #[serde(default)]
    pub created: bool,
    /// The record that was closed to make room in its scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_record_id: Option<String>,
    /// How the session became live, and the state of its agent.
    #[serde(flatten)]
    pub agent: AgentStateMeta,
    /// Whether the MCP servers of this request were ignored; absent if the agent has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<KeptMeta>,
    /// The same for its additional directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_directories: Option<KeptMeta>,
    /// The same for the options of its setup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<KeptMeta>,
    /// The last event that the client has received or does not need: a client resumes after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
}

/// A chosen setting that could not be restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnmetSettingMeta {
    /// The option's id; absent for the mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// The chosen value.
    pub value: SettingValue,
    /// The reason.
    pub reason: String,
}

/// What became of the MCP servers, the additional directories or the setup options of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeptMeta {
    /// The agent keeps its current ones: it is working, another client uses the session, or the agent could not restore
    /// the session after a restart.
    Kept,
}

/// In the response to `session/list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ListMeta {
    /// Why the agent's own sessions are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_error: Option<String>,
}

/// How a session became live.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwakeningMeta {
    /// `live`, `created`, `fresh`, or the protocol's method that restored or forked it.
    pub by: String,
    /// How the agent's replay compares with the stored events, if it replayed anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayVerdict>,
    /// Why a fresh session replaced the earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether conversation was lost, so that the user must be informed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub announced: bool,
}

/// What an agent remembers of a conversation, if not all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryMeta {
    /// `fresh`, `compacted`, `shorter` or `different`.
    pub how: String,
    /// For a fresh session, the first event that it can know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Why a fresh session replaced the earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// In the response to `session/prompt`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnMeta {
    /// The record's ids at the end of the turn.
    #[serde(flatten)]
    pub ids: Option<SessionIdentity>,
    /// The turn's number within its record.
    pub turn: u64,
    /// The client's id for the prompt.
    pub request_id: String,
    /// From the prompt's acceptance to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// How many permission requests were approved.
    pub approved: u32,
    /// How many were rejected.
    pub rejected: u32,
    /// How the session became live, and the state of its agent.
    #[serde(flatten)]
    pub agent: AgentStateMeta,
    /// The record's last event at the end of the turn: a follower continues after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Why the agent stopped, if version 1 has no stop reason for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The limit of cost or tokens for which acpx cancelled the turn or did not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<FactError>,
    /// How many lines of the agent exceeded the line limit and were dropped.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped_lines: u64,
    /// Token usage of a turn that failed, as the agent reported it. The response of any other turn has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<serde_json::Value>,
}

/// In the response to `session/prompt` of version 2, which is sent when the prompt is part of the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InsertedMeta {
    /// The turn's number within its record.
    pub turn: u64,
    /// The client's id for the prompt.
    pub request_id: String,
    /// How the session became live, and the state of its agent.
    #[serde(flatten)]
    pub agent: AgentStateMeta,
}

/// In the response to `session/delete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletedMeta {
    /// Why the agent may still have the session.
    pub kept_by_agent: String,
}

/// The result of `_acpx/rename`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenamedMeta {
    /// The record's ids.
    #[serde(flatten)]
    pub ids: SessionIdentity,
    /// Its new name, if it has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its new title, if it has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// The result of `_acpx/move`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MovedMeta {
    /// The record's ids.
    #[serde(flatten)]
    pub ids: SessionIdentity,
    /// Its additional directories outside the old directory, which are unchanged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub staying_directories: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that a serializer's predicate has")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
