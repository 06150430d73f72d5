//! What host and client exchange beyond ACP: the types of `_meta.acpx` and of the `_acpx/*` methods, and errors on the
//! socket. `docs/reference/extensions.md` describes all of it for other clients.

pub(crate) mod acpx_meta;
mod host_error;
pub(crate) mod host_message;
pub(crate) mod import_params;
pub(crate) mod limits;
pub mod meta;
pub(crate) mod pending_requests;
pub(crate) mod prune;
pub(crate) mod queue;
pub(crate) mod rpc_error;
pub(crate) mod sessions;
pub(crate) mod watched_event;

pub use host_error::HostError;
pub use host_message::HostMessage;
pub(crate) use import_params::AgentNames;
pub use import_params::{
    ArchiveMeta, ArchiveParams, ConfiguredAgent, FileMeta, ImportMeta, ImportParams, ImportedRecordMeta,
};
pub use pending_requests::{
    AnswerParams, OptionMeta, PendingMeta, PendingParams, PendingRequestMeta, ResponderMeta,
};
pub use prune::{PruneMeta, PruneParams, PruneSkip, PruneSkipMeta};
pub use queue::{
    CancelledMeta, QueueDropMeta, QueueDropParams, QueueMeta, QueueParams, QueuedPromptMeta, TurnCancelParams,
};
pub use rpc_error::{HostErrorResponse, startup_error_line};
pub use watched_event::WatchedEvent;
