//! The domain as plain values: ids, records, lineage, events, turns, conversations.
//!
//! Nothing here does I/O, waits or reads a clock. Wire types and stored types are separate; the modules that use them
//! convert.

/// Gives an enum its stable names, which files, options and the protocol contain. `parse` also reads the aliases.
macro_rules! stable_names {
    ($type:ident: $($variant:ident = $name:literal $(| $alias:literal)*),+ $(,)?) => {
        impl $type {
            #[cfg(test)]
            const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The stable name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Reads a stable name.
            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $($name $(| $alias)* => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

mod agent;
mod alignment;
mod command_line;
mod conversation;
mod digest;
mod error_code;
mod event;
mod exchanges;
mod failure;
mod ids;
mod json_node;
mod lineage;
mod login;
mod mcp;
mod memory;
mod notification;
mod path;
mod policy;
mod process;
mod profile;
mod protocol;
mod record;
mod scope;
mod secrets;
mod setting;
mod setup_options;
mod spending;
mod terminal;
mod time;
mod turn;
mod update;

pub(crate) use agent::OfferedAnswer;
pub use agent::{Advertised, AgentAnswer, AgentBuild, AgentSpec, narrowest, unmistakable};
pub use alignment::ReplayVerdict;
pub(crate) use alignment::{Alignment, Exchange, LateStep, ReplayStep};
pub use command_line::{UnterminatedQuote, split_command_line};
pub(crate) use conversation::is_another_call;
pub use conversation::{Conversation, ConversationMessage, Entry, ToolCall};
pub use digest::{hex, hmac_sha256_hex, sha256_hex};
pub use error_code::{ErrorClass, ErrorCode};
pub use event::{
    ClientName, Direction, EndedProcess, Event, EventKind, Fact, FactError, HistoryExtent, PromptRetry,
};
pub use exchanges::ExchangeCheckpoint;
pub(crate) use exchanges::{ExchangeFold, ExchangeFoldState, StoredExchange};
pub use failure::{AgentError, ErrorMeaning, Fallback, MissedDeadline, RestoreError, WakeOptions};
pub use ids::{
    AcpSessionId, AgentSessionId, HostId, InvalidId, LineageIndex, RecordId, RequestId, Seq, SessionIdentity,
    TurnId,
};
pub(crate) use ids::{AgentRequestId, ForwardId, OwnMessageId, prompt_message_id, run_message_id};
pub(crate) use json_node::even_null;
pub use json_node::{JsonMembers, JsonNode, WrongMember};
pub(crate) use lineage::InnerIdChange;
pub use lineage::{Lineage, LineageReason, LineageRow};
pub(crate) use login::join_login_methods;
pub use login::{
    LoginMethod, LoginMethodKind, LoginPolicy, LoginVariable, credential_token, credential_variable,
    token_of_variable,
};
pub use mcp::{McpServer, McpServerRef, McpTransport, NamedValue};
pub use memory::AgentMemory;
pub use notification::{
    DeliveryOutcome, Notification, NotificationEvent, NotificationKind, QueuedNotification, SinkStatus,
};
pub use path::{AbsolutePath, DirectoryNameKind, DirectoryNames, PathProblem};
pub use policy::{
    Decision, PermissionMode, PermissionPolicy, Permit, Ruling, ToolKind, ToolPolicy, ToolUse,
    UnattendedPolicy,
};
pub use process::{AgentEnd, AgentExit, AgentRun, ProcessIdentity};
pub(crate) use profile::RestoreProfile;
pub use profile::{AgentProfile, ErrorRow, LoadWait, Profiles, runs_package};
pub use protocol::ProtocolVersion;
pub use record::{Lifecycle, Record, SessionInfo, title_of};
pub use scope::{AgentKey, InvalidSessionName, Scope, SessionName};
pub(crate) use secrets::PLACEHOLDER;
pub use secrets::{Secrets, is_secret_name};
pub use setting::{
    Choices, MODEL_OPTION, OfferedSetting, OfferedSettings, RecordSettings, Setting, SettingError,
    SettingName, SettingValue, UnmetSetting,
};
pub use setup_options::{SetupOptions, SystemPrompt};
pub(crate) use spending::CostCounter;
pub use spending::{Budget, LimitReached, Money, Spending, SpendingLimits, TurnTokens};
pub(crate) use terminal::PreviousContent;
pub use terminal::{TerminalText, TerminalTexts, command_line};
pub use time::{InvalidTimestamp, Timestamp};
pub use turn::{
    AgentState, PermissionCount, StopReason, Turn, TurnError, TurnLimits, TurnOutcome, TurnState, TurnStop,
};
pub use update::{ChunkContent, Content, Cost, MessageKind, SessionUsage, Update};
