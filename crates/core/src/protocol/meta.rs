//! Our additions to ACP: the object under `_meta.acpx` of requests and responses, and the params of our own methods.
//! All of them are here, and `docs/reference/extensions.md` lists them.
//!
//! Both ends of a connection use these types, so that they cannot disagree. Unknown members are ignored, and an absent
//! member keeps the meaning from before it was introduced.

use serde::{Deserialize, Serialize};

use crate::model::{AgentProfile, Fallback, LoginPolicy, ProtocolVersion, SetupOptions};

mod answers;
mod conversions;
mod environment;
mod forgotten_settings;
mod turn_terms;
mod wait_reason;

pub(crate) use answers::{AgentStateMeta, InsertedMeta, KeptMeta, ListMeta};
pub use answers::{
    AwakeningMeta, DeletedMeta, MemoryMeta, MovedMeta, RenamedMeta, SessionMeta, TurnMeta, UnmetSettingMeta,
};
pub(crate) use environment::{SecretVariablesMeta, VariablesMeta};
pub use forgotten_settings::ForgottenMeta;
pub use turn_terms::TurnTermsMeta;
pub use wait_reason::{WaitReasonAnswer, WaitReasonMeta};

/// The supported versions of the protocol between our clients and a host. Version 2 added remote clients, version 3
/// their scopes and the page.
pub const PROTOCOL: ProtocolRange = ProtocolRange { oldest: 1, newest: 3 };

/// The request with which a server announces a remote client.
pub(crate) const REMOTE_CLIENT: &str = "_acpx/remote";

/// The versions in which a host can restrict a remote client.
pub(crate) const REMOTE_CLIENT_PROTOCOL: ProtocolRange = ProtocolRange { oldest: 3, ..PROTOCOL };

/// A range of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtocolRange {
    /// The oldest.
    pub oldest: u32,
    /// The newest.
    pub newest: u32,
}

impl ProtocolRange {
    /// Whether two ranges overlap.
    pub(crate) fn meets(self, other: Self) -> bool {
        self.oldest <= other.newest && other.oldest <= self.newest
    }
}

/// In the response to `initialize`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostMeta {
    /// The protocol versions it supports.
    pub protocol: ProtocolRange,
    /// The program's version.
    pub version: String,
}

/// In `initialize`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GreetingMeta {
    /// The bridge's description of its client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientMeta>,
    /// Whether a bridged client wants the event number with every update.
    #[serde(skip_serializing_if = "is_false")]
    pub seq: bool,
    /// Whether a version 1 client wants state notifications about turns that it did not start.
    #[serde(skip_serializing_if = "is_false")]
    pub states: bool,
}

/// In `session/cancel` by a client without a prompt of its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CancelMeta {
    /// The request id of the prompt to cancel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Under `client` in `initialize`: defaults for all requests of a connection.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientMeta {
    /// The agent of its sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentMeta>,
    /// How agents are started.
    #[serde(flatten)]
    pub launch: LaunchMeta,
    /// The client's working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Whether every update carries its event number.
    #[serde(skip_serializing_if = "is_false")]
    pub seq: bool,
    /// Permissions and time limits of turns.
    #[serde(flatten)]
    pub terms: TurnTermsMeta,
}

/// How agents are started, for one request or for all requests of a connection.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LaunchMeta {
    /// The agents' complete environment. It is never persisted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<(OsText, OsText)>,
    /// Additional variables for single agents, by agent name.
    #[serde(skip_serializing_if = "VariablesMeta::is_empty")]
    pub variables: VariablesMeta,
    /// Variables that the user marked as secrets for single agents, by agent name.
    #[serde(skip_serializing_if = "SecretVariablesMeta::is_empty")]
    pub secret_variables: SecretVariablesMeta,
    /// How long an agent may be idle before it is parked; 0 means forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// What to do if an agent offers logins and no credential is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginPolicy>,
}

/// The params of `_acpx/remote`: a server's description of a remote client, sent before the client's first message.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that the user of a server allows or not"
)]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RemoteClientMeta {
    /// Settings for every request of the client; they override its own.
    pub client: ClientMeta,
    /// The client's identity for quotas: a token, or an address.
    pub who: String,
    /// Whether it was started by an agent of this home, and so may approve nothing.
    #[serde(skip_serializing_if = "is_false")]
    pub confined: bool,
    /// Whether it may use approve-all.
    #[serde(skip_serializing_if = "is_false")]
    pub approve_all: bool,
    /// Whether it may start programs on this machine as MCP servers.
    #[serde(skip_serializing_if = "is_false")]
    pub stdio_servers: bool,
    /// Whether it may send unknown params and `_meta` through to its agent.
    #[serde(rename = "besides", skip_serializing_if = "is_false")]
    pub extra_params: bool,
    /// What it may do with sessions.
    #[serde(skip_serializing_if = "AccessScope::is_full")]
    pub scope: AccessScope,
    /// Set for the page: it sees the records of all agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<PageMeta>,
}

/// What a remote client may do with the sessions that it sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessScope {
    /// Everything that a remote client may do.
    #[default]
    Full,
    /// Read sessions, and answer permission requests and forms.
    Answer,
    /// Read sessions.
    Read,
}

impl AccessScope {
    /// Its word in JSON and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Answer => "answer",
            Self::Read => "read",
        }
    }

    /// Whether a client with this scope may do what needs the other one.
    pub(crate) fn includes(self, needed: Self) -> bool {
        match self {
            Self::Full => true,
            Self::Answer => needed != Self::Full,
            Self::Read => needed == Self::Read,
        }
    }

    /// Whether it permits everything that a remote client may do.
    pub fn is_full(&self) -> bool {
        *self == Self::Full
    }
}

/// What a server declares about the page.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PageMeta {
    /// The agents of new sessions. The page names one of them by its name.
    pub agents: Vec<AgentMeta>,
    /// The configuration file with the MCP servers of new sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_source: Option<String>,
}

impl PageMeta {
    /// The agent of this name.
    pub(crate) fn agent(&self, name: &str) -> Option<AgentMeta> {
        self.agents.iter().find(|agent| agent.name.as_deref() == Some(name)).cloned()
    }
}

/// In `session/new`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NewMeta {
    /// The agent of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentMeta>,
    /// How a shell finds the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<ShellMeta>,
    /// The id of a session that the agent has: the record gets that one instead of a fresh one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_session: Option<String>,
    /// Options of every request that may start an agent.
    #[serde(flatten)]
    pub start: StartMeta,
}

/// In every request that may start an agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StartMeta {
    /// How the agent is started.
    #[serde(flatten)]
    pub launch: LaunchMeta,
    /// How long the client waits for the agent to be ready. Then it gets an error with the pending step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_wait_ms: Option<u64>,
    /// The configuration file that the MCP servers come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_source: Option<String>,
    /// What the user fixed about the agent. The record keeps it; absent members keep the record's.
    #[serde(skip_serializing_if = "SetupOptions::is_empty")]
    pub setup: SetupOptions,
    /// Settings to choose before the response, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<SettingMeta>,
    /// Whether each update carries its event number.
    #[serde(skip_serializing_if = "is_false")]
    pub with_seq: bool,
    /// Whether the client wants no `session/update`: it watches instead, or needs none.
    #[serde(skip_serializing_if = "is_false")]
    pub without_updates: bool,
}

/// A setting to choose.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SettingMeta {
    /// The option's id or category; absent for the mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// The value; `true` or `false` for a boolean option.
    pub value: String,
}

/// In `session/load` and `session/resume`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreMeta {
    /// The agent's current launch command: a named agent may have moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentMeta>,
    /// How to restore the session.
    #[serde(flatten)]
    pub wishes: WakeOptionsMeta,
    /// The id of the earlier ACP session that the record returns to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_to: Option<String>,
    /// Whether the agent need not start yet: the next prompt starts it.
    #[serde(skip_serializing_if = "is_false")]
    pub later: bool,
    /// Whether the session keeps its additional directories if the request names none.
    #[serde(skip_serializing_if = "is_false")]
    pub same_directories: bool,
    /// Where the replay starts, as in `replayFrom` of version 2. `null` means no replay.
    #[serde(deserialize_with = "crate::model::even_null", skip_serializing_if = "Option::is_none")]
    pub replay_from: Option<serde_json::Value>,
    /// Limits of the replay.
    pub replay: ReplayMeta,
    /// Options of every request that may start an agent.
    #[serde(flatten)]
    pub start: StartMeta,
}

/// Limits of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplayMeta {
    /// Only the last turns, this many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Omits tool output longer than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_output_bytes: Option<u64>,
}

/// How to restore a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WakeOptionsMeta {
    /// What to do if the agent cannot restore it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// Whether a fresh session gets the conversation so far.
    #[serde(skip_serializing_if = "is_false")]
    pub carry_history: bool,
}

/// In `session/prompt`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PromptMeta {
    /// The client's id for the prompt. A prompt with a known id is not sent again: the response is that of the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Whether a user is present at the client; by default, if it sets no policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interactive: Option<bool>,
    /// How much of the turn's time limit the client has already used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spent_ms: Option<u64>,
    /// Whether a turn that reached its time limit is answered as soon as it has ended, before its remaining updates.
    #[serde(skip_serializing_if = "is_false")]
    pub answer_at_limit: bool,
    /// Permissions and time limits of the turn.
    #[serde(flatten)]
    pub terms: TurnTermsMeta,
    /// How to restore the session, if that is needed by then.
    #[serde(flatten)]
    pub wishes: WakeOptionsMeta,
}

/// The agent of a new session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentMeta {
    /// Its name, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The program and its arguments. The page leaves them out.
    #[serde(default)]
    pub argv: Vec<String>,
    /// The newest protocol version to negotiate; absent for version 1, or for the session's stored version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<ProtocolVersion>,
    /// The user's profile of its behaviour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<AgentProfile>,
}

/// How a shell finds a session, in addition to agent and directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ShellMeta {
    /// The session's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Directories to search for an open session first, nearest first: if there is one, it is the result. Without this,
    /// an open session of the same scope is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unless_in: Option<Vec<String>>,
}

/// An operating system string: almost always Unicode, otherwise bytes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OsText {
    /// Unicode.
    Text(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that a serializer's predicate has")]
fn is_false(flag: &bool) -> bool {
    !flag
}
