//! The agent side of ACP, versions 1 and 2: a dispatcher that turns a connection's messages into calls of a service.
//!
//! [`serve`] keeps the rules that every agent must follow. `initialize` comes first, params are checked before a
//! handler runs, a turn runs concurrently with other requests and ends exactly once, a cancelled turn is never an
//! error, and updates precede their reply. The agent's behaviour is an [`AgentService`], which sees plain values and
//! never the protocol's own types.

mod call;
mod client;
mod error;
mod insertion;
mod link;
mod offer;
mod params;
mod permission;
mod prompt;
mod serve;
mod service;
mod session_lanes;
mod sessions;
mod setup;
mod turn;
mod update;
mod v2_adapter;
mod worker;

pub use call::{CallExtras, ListCall, NewCall, OptionValue, PromptCall, RestoreCall, SetCall, SetChoice};
pub(crate) use call::{ExtensionCall, ForkCall, LoginCall, StopCall};
pub use client::Elicitation;
pub(crate) use client::{ClientFacts, FileAccess, TerminalLogin};
pub use error::CallError;
pub(crate) use error::with_causes;
pub use insertion::TurnLink;
pub use link::{ClientLink, ClientRequestError};
pub use offer::{Feature, Offer};
pub use params::ParamProblem;
pub use permission::{PermissionOption, PermissionOptionKind, PermissionOutcome, ToolPermissionRequest};
pub use serve::serve;
pub use service::AgentService;
pub use setup::{Meta, Modes, PromptReply, SessionMode, SessionPage, SessionSetup, SessionSummary};
pub use turn::{CancelCause, Cancellation};
pub use update::{
    NotAnUpdate, PlanItem, PlanStatus, SlashCommand, ToolCallKind, ToolCallStatus, ToolOutput, ToolReport,
    UpdateBody,
};
