//! What a host says beside the protocol in its answers: whose they are, how a session stands and how a turn ended.

use serde::{Deserialize, Serialize};

use super::is_false;
use crate::model::{ReplayVerdict, SettingValue};

/// The three ids of a record as they stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdsMeta {
    /// The record.
    pub acpx_record_id: String,
    /// The ACP session in force.
    pub acpx_session_id: String,
    /// The harness's own id, if told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_session_id: Option<String>,
}

/// In the answers to `session/new`, `session/load` and `session/resume`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionMeta {
    /// Whose answer it is.
    #[serde(flatten)]
    pub ids: IdsMeta,
    /// Whether this request made the record.
    #[serde(default)]
    pub created: bool,
    /// The record that was closed to make room in its scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_record_id: Option<String>,
    /// How the session came to be live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awakening: Option<AwakeningMeta>,
    /// What the agent remembers, if that is less than the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryMeta>,
    /// The wishes for its settings that could not be restored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmet_settings: Vec<UnmetSettingMeta>,
    /// What became of the MCP servers that this request named; absent if the agent has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<KeptMeta>,
    /// Likewise of its additional directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_directories: Option<KeptMeta>,
    /// The last event that the client was told, or need not be told: whoever comes back goes on after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
}

/// A setting that was wished and could not be restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnmetSettingMeta {
    /// The option's id; absent, it is the mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// What was wished.
    pub value: SettingValue,
    /// Why it is not so.
    pub reason: String,
}

/// What became of the MCP servers or the additional directories that a request named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeptMeta {
    /// The agent keeps those it has: it is at work, somebody else is at the session, or it could be given nothing back
    /// of what it remembers.
    Kept,
}

/// In the answer to `session/list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    /// Why the agent's own sessions are not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_error: Option<String>,
}

/// How a session came to be live.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwakeningMeta {
    /// `live`, `created`, `fresh`, or the protocol's method that restored or forked it.
    pub by: String,
    /// How what the agent replayed compares with what is kept, if it replayed anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayVerdict>,
    /// Why a fresh session took over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether something was forgotten by that, so that a person must be told.
    #[serde(default, skip_serializing_if = "is_false")]
    pub announced: bool,
}

/// What an agent remembers of a conversation, where that is less than all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryMeta {
    /// `fresh`, `compacted`, `shorter` or `different`.
    pub how: String,
    /// Of a fresh session, the first event that it can know of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Why a fresh session took over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// In the answer to `session/prompt`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnMeta {
    /// The ids of its record when it was over.
    #[serde(flatten)]
    pub ids: Option<IdsMeta>,
    /// The turn's number within its record.
    pub turn: u64,
    /// The client's name for the prompt.
    pub request_id: String,
    /// From the prompt's acceptance to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// How many permissions were approved and how many were not.
    pub approved: u32,
    /// See above.
    pub rejected: u32,
    /// How the session came to be live before this turn, if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awakening: Option<AwakeningMeta>,
    /// What the agent remembers, if that is less than the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryMeta>,
    /// The wishes for the session's settings that could not be restored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmet_settings: Vec<UnmetSettingMeta>,
    /// The record's last event when the turn was over: whoever follows goes on after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Why the agent stopped, where version 1 has no word for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// How many lines of the agent were longer than a line may be, and are lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped_lines: u64,
}

/// In the answer to `session/prompt` of version 2, which comes when the prompt is part of the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InsertedMeta {
    /// The turn's number within its record.
    pub turn: u64,
    /// The client's name for the prompt.
    pub request_id: String,
    /// How the session came to be live before this turn, if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awakening: Option<AwakeningMeta>,
    /// What the agent remembers, if that is less than the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryMeta>,
    /// The wishes for the session's settings that could not be restored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmet_settings: Vec<UnmetSettingMeta>,
}

/// In the answer to `session/delete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletedMeta {
    /// Why the agent may still have the session.
    pub kept_by_agent: String,
}

/// The answer to `_acpx/move`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MovedMeta {
    /// The record's ids.
    #[serde(flatten)]
    pub ids: IdsMeta,
    /// Its additional directories that were not inside of the old one, and stay what they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub staying_directories: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that a serializer's predicate has")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
