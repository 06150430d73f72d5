//! Queries about all sessions of an agent, sent on a session's own connection.
//!
//! They do not belong to the session: their lines are not persisted and do not count as activity, and the agent may be
//! parked before it replies. The caller then gets an error and starts a separate process.

use crate::acp::ExtraParams;
use crate::acp::client::{AgentConnection, OutgoingLine};
use crate::model::{AbsolutePath, AcpSessionId};

/// A query.
#[derive(Debug, Clone)]
pub(crate) enum AgentQuery {
    /// A page of the agent's list, for one directory or all, from a cursor on.
    List { cwd: Option<AbsolutePath>, cursor: Option<String> },
    /// Deletes a session that has no record here, with the client's extra params.
    Delete(AcpSessionId, Option<ExtraParams>),
}

/// Why there is no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentQueryError {
    /// The agent does not support the method.
    NotOffered,
    /// No agent runs, its send queue is full, or it exited before it replied.
    NotRunning,
}

impl AgentQuery {
    /// The ACP method.
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::List { .. } => "session/list",
            Self::Delete(..) => "session/delete",
        }
    }

    /// The request, if the agent supports the method.
    pub(crate) fn request(&self, connection: &AgentConnection) -> Option<OutgoingLine> {
        match self {
            Self::List { cwd, cursor } => {
                connection.list().map(|list| list.request(cwd.as_ref(), cursor.as_deref()))
            }
            Self::Delete(session, extra_params) => {
                connection.delete().map(|delete| delete.request(session, extra_params.as_ref()))
            }
        }
    }
}
