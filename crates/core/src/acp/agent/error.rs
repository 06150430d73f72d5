//! Why a call was refused, and the one table from reason to JSON-RPC error.

use serde_json::{Value, json};

use super::params::ParamProblem;
use crate::model::AcpSessionId;
use crate::wire::RpcError;

/// Why a call was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// A parameter is missing or wrong.
    #[error("invalid params")]
    InvalidParams(#[from] ParamProblem),
    /// The method does not exist, or belongs to a feature that is not offered.
    #[error("there is no method {0}")]
    UnknownMethod(String),
    /// The session does not exist, or is not active on this connection.
    #[error("there is no session {0}")]
    UnknownSession(AcpSessionId),
    /// Something other than `initialize` came first.
    #[error("{0} came before initialize")]
    NotInitialized(String),
    /// The session's turn has not ended. A second prompt is refused rather than queued: version 1 has no way
    /// to say that a prompt waits, and a client that cancels could not say which of the two it means.
    #[error("the session {0} has a running turn")]
    TurnRunning(AcpSessionId),
    /// The client has more requests under way than one connection may have.
    #[error("{0} requests are under way already")]
    TooManyRequests(usize),
    /// Something broke that is no fault of the client's.
    #[error("{0}")]
    Internal(String),
    /// An error of someone else's, passed on as it is.
    #[error("{0}")]
    PassedOn(RpcError),
}

impl CallError {
    /// The error object that goes to the client.
    pub fn to_rpc(&self) -> RpcError {
        let error =
            |code, message: &str, data: Value| RpcError::new(code, message).with_data(&data.to_string());
        match self {
            Self::InvalidParams(problem) => error(
                RpcError::INVALID_PARAMS,
                &format!("Invalid params: {problem}"),
                json!({ "field": problem.field, "problem": problem.problem }),
            ),
            Self::UnknownMethod(method) => {
                error(RpcError::METHOD_NOT_FOUND, "Method not found", json!({ "method": method }))
            }
            Self::UnknownSession(session) => {
                error(RpcError::RESOURCE_NOT_FOUND, "Resource not found", json!({ "sessionId": session }))
            }
            Self::NotInitialized(method) => error(
                RpcError::INVALID_REQUEST,
                "Invalid request: initialize comes first",
                json!({ "method": method }),
            ),
            Self::TurnRunning(session) => error(
                RpcError::INVALID_REQUEST,
                &format!("Invalid request: the session {session} has a running turn"),
                json!({ "sessionId": session, "reason": "turn_running" }),
            ),
            Self::TooManyRequests(limit) => error(
                RpcError::INVALID_REQUEST,
                &format!("Invalid request: {limit} requests are under way already"),
                json!({ "reason": "too_many_requests" }),
            ),
            Self::Internal(details) => {
                error(RpcError::INTERNAL, "Internal error", json!({ "details": details }))
            }
            Self::PassedOn(error) => error.clone(),
        }
    }
}
