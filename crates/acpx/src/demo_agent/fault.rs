//! Errors with which real agents refuse to restore a session. They all differ, so clients are tested with each of them.

use acpx_core::acp::agent::{CallError, ParamProblem};
use acpx_core::model::AcpSessionId;
use acpx_core::wire::RpcError;
use clap::ValueEnum;
use serde_json::{Value, json};

/// How load or resume fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RestoreFault {
    /// -32002 with the session's id, as the protocol says
    NotFound,
    /// -32002 and nothing more
    NotFoundPlain,
    /// -32603 with "Session not found" in its details
    NotFoundInternal,
    /// -32603 with "no rollout found for thread id …" in its details
    NoRollout,
    /// -32603 with the name of a service that failed
    #[value(help = "-32603 \"OpenCode service failure\"")]
    ServiceFailure,
    /// -32602 for a session id it does not like
    InvalidParams,
    /// -32600: another process writes to the session
    BusyActiveWriter,
    /// -31002: the session is already open
    BusyOpen,
    /// -32003: the session is active
    BusyActive,
    /// -32000: a login is needed first
    Auth,
    /// -32603 and nothing more
    Internal,
}

impl RestoreFault {
    /// The error for a request about this session.
    pub(crate) fn error(self, session: &AcpSessionId) -> CallError {
        let plain = |code, message: &str| CallError::PassedOn(RpcError::new(code, message));
        let with = |code, message: &str, data: Value| {
            CallError::PassedOn(RpcError::new(code, message).with_data(&data.to_string()))
        };
        match self {
            Self::NotFound => CallError::UnknownSession(session.clone()),
            Self::NotFoundPlain => plain(RpcError::RESOURCE_NOT_FOUND, "Resource not found"),
            Self::NotFoundInternal => broken("Session not found"),
            Self::NoRollout => broken(&format!("no rollout found for thread id {session}")),
            Self::ServiceFailure => plain(RpcError::INTERNAL, "OpenCode service failure"),
            Self::InvalidParams => ParamProblem::new("sessionId", "is unknown").into(),
            Self::BusyActiveWriter => with(
                RpcError::INVALID_REQUEST,
                "Invalid request: the thread has an active writer",
                json!({ "reason": "thread_active_writer" }),
            ),
            Self::BusyOpen => plain(-31002, "Session is already open"),
            Self::BusyActive => plain(-32003, "Session is active"),
            Self::Auth => plain(RpcError::AUTH_REQUIRED, "Authentication required"),
            Self::Internal => plain(RpcError::INTERNAL, "Internal error"),
        }
    }
}

/// The -32603 error with these details that many agents use for internal failures.
pub(super) fn broken(details: &str) -> CallError {
    let data = json!({ "details": details });
    CallError::PassedOn(RpcError::new(RpcError::INTERNAL, "Internal error").with_data(&data.to_string()))
}
