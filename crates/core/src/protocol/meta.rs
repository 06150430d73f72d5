//! What our own clients say beside the protocol: the object under `_meta.acpx` of requests and answers, and the
//! params of our own methods. Every addition of ours to ACP is here, and listed in `docs/reference/extensions.md`.
//!
//! Both ends of a connection use these types, so that they cannot disagree. An unknown member is passed over,
//! and an absent one means what it meant before the member was invented.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::{AgentProfile, ProtocolVersion};

mod answers;
mod conversions;
mod environment;
mod forgotten_settings;
mod turn_terms;
mod wait_reason;

pub use answers::{
    AwakeningMeta, DeletedMeta, IdsMeta, InsertedMeta, KeptMeta, ListMeta, MemoryMeta, MovedMeta,
    SessionMeta, TurnMeta, UnmetSettingMeta,
};
pub use environment::{SecretVariablesMeta, VariablesMeta};
pub use forgotten_settings::ForgottenMeta;
pub use turn_terms::{PolicyMeta, TurnTermsMeta, UnattendedMeta};
pub use wait_reason::{WaitReasonAnswer, WaitReasonMeta};

/// The versions of the protocol between our clients and a host, oldest and newest that are understood. The second has
/// clients from elsewhere.
pub const PROTOCOL: ProtocolRange = ProtocolRange { oldest: 1, newest: 2 };

/// How a server says that a client is from elsewhere.
pub(crate) const ELSEWHERE: &str = "_acpx/elsewhere";

/// The versions in which a host can be told that a client is from elsewhere, and keeps it to what such a one may.
pub(crate) const FROM_ELSEWHERE: ProtocolRange = ProtocolRange { oldest: 2, ..PROTOCOL };

/// A range of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtocolRange {
    /// The oldest.
    pub oldest: u32,
    /// The newest.
    pub newest: u32,
}

impl ProtocolRange {
    /// Whether two ends have a version in common.
    pub fn meets(self, other: Self) -> bool {
        self.oldest <= other.newest && other.oldest <= self.newest
    }
}

/// In the answer to `initialize`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostMeta {
    /// What it understands.
    pub protocol: ProtocolRange,
    /// The program's version.
    pub version: String,
}

/// In `initialize`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GreetingMeta {
    /// What a bridge says of its client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientMeta>,
    /// Whether a client that is joined by a bridge wants the number of its event with every update.
    #[serde(skip_serializing_if = "is_false")]
    pub seq: bool,
    /// Whether a client of version 1 wants to be told of turns that it has not asked for.
    #[serde(skip_serializing_if = "is_false")]
    pub states: bool,
}

/// In `session/cancel` of a client that has asked for nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CancelMeta {
    /// The prompt that is meant, by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Under `client` in `initialize`: what holds for every request of a connection that says nothing else.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientMeta {
    /// The agent that its sessions are made with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentMeta>,
    /// The agents' whole environment. It is never stored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<(OsText, OsText)>,
    /// What is set over that for single agents, by their names.
    #[serde(skip_serializing_if = "VariablesMeta::is_empty")]
    pub variables: VariablesMeta,
    /// The names of variables that the user has marked as secrets for single agents, by the agents' names.
    #[serde(skip_serializing_if = "SecretVariablesMeta::is_empty")]
    pub secret_variables: SecretVariablesMeta,
    /// How long an agent may have nothing to do before it is parked; 0 for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// What to do where an agent offers logins and no credential is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginMeta>,
    /// The directory that the client was started in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Whether every update is to tell the number of its event.
    #[serde(skip_serializing_if = "is_false")]
    pub seq: bool,
    /// What turns allow their agent, and how long they may take.
    #[serde(flatten)]
    pub terms: TurnTermsMeta,
}

/// The params of `_acpx/elsewhere`: what a server says of a client that it let in from elsewhere, before the client
/// says anything itself.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that the user of a server allows or not"
)]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RemoteClientMeta {
    /// What holds for every request of the client, whatever the client says itself.
    pub client: ClientMeta,
    /// Who it is, so that what belongs to one can be bounded: a token, or an address.
    pub who: String,
    /// Whether it speaks for an agent of this home, and so decides nothing.
    #[serde(skip_serializing_if = "is_false")]
    pub confined: bool,
    /// Whether it may let an agent do everything unasked.
    #[serde(skip_serializing_if = "is_false")]
    pub approve_all: bool,
    /// Whether it may have programs started on this machine as MCP servers.
    #[serde(skip_serializing_if = "is_false")]
    pub stdio_servers: bool,
    /// Whether it may say to its agent what only the agent understands.
    #[serde(skip_serializing_if = "is_false")]
    pub besides: bool,
}

/// In `session/new`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NewMeta {
    /// The agent to make the session with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentMeta>,
    /// What a shell finds the session by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<ShellMeta>,
    /// Everything a client says that may start an agent.
    #[serde(flatten)]
    pub start: StartMeta,
}

/// In every request that may start an agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StartMeta {
    /// The agent's whole environment. It is never stored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<(OsText, OsText)>,
    /// What is set over that for single agents, by their names.
    #[serde(skip_serializing_if = "VariablesMeta::is_empty")]
    pub variables: VariablesMeta,
    /// The names of variables that the user has marked as secrets for single agents, by the agents' names.
    #[serde(skip_serializing_if = "SecretVariablesMeta::is_empty")]
    pub secret_variables: SecretVariablesMeta,
    /// How long the agent may have nothing to do before it is parked; 0 for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// What to do where the agent offers logins and no credential is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginMeta>,
    /// How long the client waits for the agent to be ready. Then it is told what the agent has not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_wait_ms: Option<u64>,
    /// The configuration file that the MCP servers come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_source: Option<String>,
    /// What is chosen of the session's settings before the answer, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<SettingMeta>,
    /// Whether each update says which event it is.
    #[serde(skip_serializing_if = "is_false")]
    pub with_seq: bool,
    /// Whether the client leaves `session/update` to others: it watches, or does not care.
    #[serde(skip_serializing_if = "is_false")]
    pub without_updates: bool,
}

/// A setting that is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SettingMeta {
    /// The option, by its id or by its category; absent, the mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// The value; `true` or `false` for one that is on or off.
    pub value: String,
}

/// In `session/load` and `session/resume`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreMeta {
    /// How the session's agent is started now: one that has a name may have moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentMeta>,
    /// How the session is to be brought back.
    #[serde(flatten)]
    pub wishes: WakeOptionsMeta,
    /// The earlier ACP session of the record that it returns to, by its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_to: Option<String>,
    /// Whether the agent need not run yet: a prompt that follows starts it.
    #[serde(skip_serializing_if = "is_false")]
    pub later: bool,
    /// Whether the session keeps its additional directories where none are named.
    #[serde(skip_serializing_if = "is_false")]
    pub same_directories: bool,
    /// Where the conversation is told from, as in `replayFrom` of version 2. `null` is nowhere.
    #[serde(deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub replay_from: Option<serde_json::Value>,
    /// How much of it.
    pub replay: ReplayMeta,
    /// Everything a client says that may start an agent.
    #[serde(flatten)]
    pub start: StartMeta,
}

/// How much of a conversation a client wants to be told again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplayMeta {
    /// Only so many turns, the last ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// No output of a tool that is longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_output_bytes: Option<u64>,
}

/// How a session is to be brought back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WakeOptionsMeta {
    /// What to do when the agent cannot restore it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<FallbackMeta>,
    /// Whether a fresh session is told the conversation so far.
    #[serde(skip_serializing_if = "is_false")]
    pub carry_history: bool,
}

/// When a fresh session may replace one that the agent does not restore. The aliases are names of earlier versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FallbackMeta {
    /// If the agent reports it as not found, or can restore nothing.
    #[serde(alias = "fresh")]
    Auto,
    /// After any refusal.
    Always,
    /// Never.
    #[serde(alias = "refuse")]
    Never,
    /// At once, without an attempt to restore.
    Reset,
}

/// In `session/prompt`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PromptMeta {
    /// The client's name for the prompt. Asked again under the same name, a prompt is not sent again: the
    /// answer is that of the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Whether the client has a person before it who can be asked; absent, it has unless it says a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interactive: Option<bool>,
    /// How much of the turn's time the client has spent before it asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spent_ms: Option<u64>,
    /// Whether a turn whose time is over is answered as soon as it has ended, before what the client was not told of it.
    #[serde(skip_serializing_if = "is_false")]
    pub answer_at_limit: bool,
    /// What the turn allows its agent, and how long it may take.
    #[serde(flatten)]
    pub terms: TurnTermsMeta,
    /// How the session is to be brought back, should that be needed by then.
    #[serde(flatten)]
    pub wishes: WakeOptionsMeta,
}

/// What to do where an agent offers logins and no credential is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoginMeta {
    /// Go on: it may be logged in already.
    #[default]
    Skip,
    /// Fail.
    Fail,
}

/// The agent of a new session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentMeta {
    /// Its name, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The newest version of the protocol that it is asked for; absent, the first, or the one that a session has been
    /// spoken in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<ProtocolMeta>,
    /// What its user says of how it behaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileMeta>,
}

/// How an agent behaves, as in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "serde_json::Value", into = "serde_json::Value")]
pub struct ProfileMeta(pub Arc<AgentProfile>);

/// A version of the protocol, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct ProtocolMeta(pub ProtocolVersion);

/// What a shell finds a session by, beside agent and directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ShellMeta {
    /// The session's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where an open session is looked for first, nearest directory first: one that is there is the answer.
    /// Without this, an open session of the same scope is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unless_in: Option<Vec<String>>,
}

/// A text of the operating system: almost always Unicode, and otherwise bytes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OsText {
    /// Unicode.
    Text(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

/// Absent is `None`; `null` is a value like any other.
fn even_null<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Option<serde_json::Value>, D::Error> {
    serde_json::Value::deserialize(source).map(Some)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that a serializer's predicate has")]
fn is_false(flag: &bool) -> bool {
    !flag
}
