//! Queries about all sessions of an agent, sent on a session's own connection.
//!
//! They do not belong to the session: their lines are not persisted and do not count as activity, and the agent may be
//! parked before it replies. The caller then gets an error and starts a separate process.

use tokio::sync::oneshot;

use crate::acp::ExtraParams;
use crate::acp::client::{AgentConnection, AgentResponse, OutgoingLine};
use crate::model::{AbsolutePath, AcpSessionId};
use crate::wire::RpcId;

use crate::engine::Session;
use crate::engine::session::commands::SessionCommand;
use crate::engine::session::effects::SessionAction;
use crate::engine::session::replies::tell;
use crate::engine::session::task::SessionTask;

/// A query.
#[derive(Debug, Clone)]
pub(crate) enum Inquiry {
    /// A page of the agent's list, for one directory or all, from a cursor on.
    List { cwd: Option<AbsolutePath>, cursor: Option<String> },
    /// Deletes a session that has no record here, with the client's extra params.
    Delete(AcpSessionId, Option<ExtraParams>),
}

/// Why there is no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionQueryError {
    /// The agent does not support the method.
    NotOffered,
    /// No agent runs, its send queue is full, or it exited before it replied.
    NotThere,
}

impl Inquiry {
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
            Self::Delete(session, besides) => {
                connection.delete().map(|delete| delete.request(session, besides.as_ref()))
            }
        }
    }
}

impl Session {
    /// Sends the query to the agent, if it runs.
    pub(crate) async fn inquire(&self, inquiry: Inquiry) -> Result<AgentResponse, SessionQueryError> {
        let (reply, answer) = oneshot::channel();
        let asked = self.ask(SessionCommand::Inquire(inquiry, reply), answer).await;
        asked.unwrap_or(Err(SessionQueryError::NotThere))
    }
}

impl SessionTask {
    pub(crate) fn inquire(
        &mut self,
        inquiry: &Inquiry,
        reply: oneshot::Sender<Result<AgentResponse, SessionQueryError>>,
    ) {
        let agent = self.agent.as_mut().filter(|agent| self.machine.is_live() && agent.sending.has_room());
        let Some(agent) = agent else { return tell(reply, Err(SessionQueryError::NotThere)) };
        let Some(request) = inquiry.request(&agent.connection) else {
            return tell(reply, Err(SessionQueryError::NotOffered));
        };
        let Some(id) = agent.connection.inquire(&request) else {
            return tell(reply, Err(SessionQueryError::NotThere));
        };
        self.inquirers.insert(id, reply);
        self.actions.push(SessionAction::Send(request));
    }

    pub(crate) fn take_inquired(&mut self, id: &RpcId, answer: AgentResponse) {
        if let Some(inquirer) = self.inquirers.remove(id) {
            tell(inquirer, Ok(answer));
        }
    }
}
