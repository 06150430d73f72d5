//! Why a call was refused, and the single mapping from reasons to JSON-RPC errors.

use std::error::Error;

use serde_json::{Value, json};

use super::params::ParamProblem;
use crate::acp::client_error;
use crate::model::{AcpSessionId, ErrorCode, ProtocolVersion};
use crate::wire::{Malformed, RpcError, WireError};

/// Why a call was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// A parameter is missing or wrong.
    #[error("invalid params")]
    InvalidParams(#[from] ParamProblem),
    /// The method does not exist, or its feature is not offered.
    #[error("there is no method {0}")]
    UnknownMethod(String),
    /// The session does not exist, or is not active on this connection.
    #[error("there is no session {0}")]
    UnknownSession(AcpSessionId),
    /// A request other than `initialize` came first.
    #[error("{0} came before initialize")]
    NotInitialized(String),
    /// The client supports only protocol versions older than all of ours.
    #[error("version {requested} of the protocol is not supported")]
    UnsupportedVersion {
        /// The requested version.
        requested: u16,
        /// The latest supported version.
        latest: ProtocolVersion,
    },
    /// The client sent `initialize` again after this version was negotiated.
    #[error("version {0} of the protocol is spoken already")]
    VersionSettled(u16),
    /// The message is malformed.
    #[error("this is no request")]
    Malformed(#[source] Malformed),
    /// The client has more concurrent requests than one connection may have.
    #[error("{0} requests are under way already")]
    TooManyRequests(usize),
    /// The handler of this method ended without a result. Its panic message is not sent to the client.
    #[error("the handler of {0} has failed")]
    HandlerFailed(String),
    /// A stored session cannot be read.
    #[error("cannot read the session {session}")]
    NotRead {
        /// The session.
        session: AcpSessionId,
        /// The storage error.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Events of a session cannot be persisted.
    #[error("cannot store the session {session}")]
    NotStored {
        /// The session.
        session: AcpSessionId,
        /// The storage error.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A session cannot be deleted.
    #[error("cannot delete the session {session}")]
    NotDeleted {
        /// The session.
        session: AcpSessionId,
        /// The storage error.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The sessions cannot be listed.
    #[error("cannot list the sessions")]
    NotListed {
        /// The storage error.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A message that must precede the reply could not be sent.
    #[error("cannot send to the client of the session {session}")]
    NotSent {
        /// The session.
        session: AcpSessionId,
        /// Why it could not be sent.
        source: WireError,
    },
    /// A forwarded error of another peer, unchanged.
    #[error("{0}")]
    PassedOn(RpcError),
    /// The agent shuts down before it handled the request. The dispatcher sends no reply: the client sees the
    /// connection end and sends the request to the next agent process.
    #[error("the agent is leaving")]
    Unanswered,
}

impl CallError {
    /// The error as sent to the client; `wants_data` keeps all its data. A forwarded error without data of ours stays
    /// unchanged.
    pub(super) fn for_client(&self, wants_data: bool) -> RpcError {
        match self {
            Self::PassedOn(error) if !client_error::has_ours(error) => error.clone(),
            _ => client_error::for_client(self.to_rpc(), wants_data),
        }
    }

    /// The error object with all its data.
    pub(crate) fn to_rpc(&self) -> RpcError {
        let error =
            |code, message: &str, data: Value| RpcError::new(code, message).with_data(&data.to_string());
        match self {
            Self::InvalidParams(problem) => error(
                RpcError::INVALID_PARAMS,
                &format!("Invalid params: {problem}"),
                json!({ "field": problem.field, "problem": problem.problem }),
            ),
            Self::UnknownMethod(method) => error(
                RpcError::METHOD_NOT_FOUND,
                "Method not found",
                json!({ "method": method, "details": self.to_string() }),
            ),
            Self::UnknownSession(session) => {
                let details = format!("{self}; open one of the listed sessions, or begin a new one");
                let data = json!({ "sessionId": session, "details": details });
                error(RpcError::RESOURCE_NOT_FOUND, "Resource not found", data)
            }
            Self::NotInitialized(method) => error(
                RpcError::INVALID_REQUEST,
                "Invalid request: initialize comes first",
                json!({ "method": method, "details": format!("{self}; send initialize first") }),
            ),
            Self::UnsupportedVersion { requested, latest } => {
                let supported: Vec<u16> = (1..=latest.number()).collect();
                error(
                    RpcError::UNSUPPORTED_VERSION,
                    "Unsupported protocol version",
                    json!({ "requested": requested, "supported": supported }),
                )
            }
            Self::VersionSettled(version) => error(
                RpcError::INVALID_REQUEST,
                &format!("Invalid request: version {version} of the protocol is spoken already"),
                json!({ "protocolVersion": version }),
            ),
            Self::Malformed(problem) => {
                RpcError::new(RpcError::INVALID_REQUEST, format!("Invalid request: {problem} is no request"))
            }
            Self::TooManyRequests(limit) => error(
                RpcError::INVALID_REQUEST,
                &format!("Invalid request: {limit} requests are under way already"),
                json!({ "reason": "too_many_requests", "acpx": { "code": ErrorCode::QueueFull } }),
            ),
            Self::HandlerFailed(_)
            | Self::NotRead { .. }
            | Self::NotStored { .. }
            | Self::NotDeleted { .. }
            | Self::NotListed { .. }
            | Self::NotSent { .. }
            | Self::Unanswered => {
                error(RpcError::INTERNAL, "Internal error", json!({ "details": with_causes(self) }))
            }
            Self::PassedOn(error) => error.clone(),
        }
    }
}

/// The error and its causes, in one line.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_error_names_its_subject_and_its_causes() {
        let session = || AcpSessionId::new("s").unwrap();
        let disk = || "the disk is full".into();
        let table = [
            (CallError::HandlerFailed("session/new".into()), "the handler of session/new has failed"),
            (
                CallError::NotRead { session: session(), source: disk() },
                "cannot read the session s: the disk is full",
            ),
            (
                CallError::NotStored { session: session(), source: disk() },
                "cannot store the session s: the disk is full",
            ),
            (
                CallError::NotDeleted { session: session(), source: disk() },
                "cannot delete the session s: the disk is full",
            ),
            (CallError::NotListed { source: disk() }, "cannot list the sessions: the disk is full"),
            (
                CallError::NotSent { session: session(), source: WireError::Closed },
                "cannot send to the client of the session s: the connection is closed",
            ),
        ];
        for (error, details) in table {
            let expected =
                json!({ "code": -32603, "message": "Internal error", "data": { "details": details } });
            assert_eq!(serde_json::to_value(error.to_rpc()).unwrap(), expected);
        }
    }
}
