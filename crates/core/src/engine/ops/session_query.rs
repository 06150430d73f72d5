//! What the agent of a session is asked about all its sessions, on the session's own connection.
//!
//! It has nothing to do with the session: no line of it is kept, none counts as something that the session does or says,
//! and the agent may be parked meanwhile. Whoever asks is told so, and asks a process of its own.

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

/// What is asked.
#[derive(Debug, Clone)]
pub(crate) enum Inquiry {
    /// A page of its list, of a directory or of all, from a cursor on.
    List { cwd: Option<AbsolutePath>, cursor: Option<String> },
    /// To delete a session that is none of ours, with what the client says besides.
    Delete(AcpSessionId, Option<ExtraParams>),
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionQueryError {
    /// The agent has no such method.
    NotOffered,
    /// There is no agent that could be asked, or it does not read what it is sent, or it went away before it answered.
    NotThere,
}

impl Inquiry {
    /// The protocol's method.
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::List { .. } => "session/list",
            Self::Delete(..) => "session/delete",
        }
    }

    /// The request for it, if the agent has the method.
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
    /// Asks the agent, if it is there.
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
        self.outward.push(SessionAction::Send(request));
    }

    pub(crate) fn take_inquired(&mut self, id: &RpcId, answer: AgentResponse) {
        if let Some(inquirer) = self.inquirers.remove(id) {
            tell(inquirer, Ok(answer));
        }
    }
}
