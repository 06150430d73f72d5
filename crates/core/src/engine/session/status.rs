//! Publishes a session's status and its agent's offer to all handles.

use std::sync::Arc;

use tokio::sync::watch;

use crate::acp::client::{AgentConnection, SessionOffer};
use crate::engine::RecordChanges;
use crate::engine::api::error::ExitReasonCell;
use crate::machine::WakeOutcome;
use crate::model::{AgentMemory, ProtocolVersion, RecordId, SessionIdentity, Setting, TurnId};

/// The published state of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionStatus {
    /// Its ids, once there is a record.
    pub identity: Option<SessionIdentity>,
    /// The process id of its agent, if one runs.
    pub agent_pid: Option<u32>,
    /// Whether it has an agent, from the first step of its start to the last of its shutdown.
    pub has_agent: bool,
    /// Whether a turn runs or is queued.
    pub has_work: bool,
    /// How many prompts wait for the running turn to end.
    pub queued: usize,
    /// Whether processes that its last agent left are still being ended.
    pub has_leftover: bool,
    /// How much of the conversation the agent remembers, once it has loaded the session in this process.
    pub memory: AgentMemory,
    /// The requested settings that could not be restored when the agent last loaded the session, each with the reason.
    pub unmet: Vec<(Setting, Box<str>)>,
    /// The last turn that began with a newly restored session, and how it was restored.
    pub awakened: Option<(TurnId, WakeOutcome)>,
}

/// What the agent advertised: its `initialize` result and the session's modes, options and commands.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgentOffer {
    pub(crate) offered: Arc<SessionOffer>,
    pub(crate) answer: Option<Arc<str>>,
    pub(crate) version: Option<ProtocolVersion>,
}

/// The sending ends of the state that a session's task publishes.
pub(crate) struct StatusPublisher {
    pub(crate) status: watch::Sender<SessionStatus>,
    pub(crate) offers: watch::Sender<AgentOffer>,
    /// How many holds the session has.
    pub(crate) held: watch::Receiver<usize>,
    /// Keeps the counter alive after the last hold is dropped.
    pub(crate) _holds: Arc<watch::Sender<usize>>,
    pub(crate) exit_reason: ExitReasonCell,
    pub(crate) record: RecordId,
    pub(crate) changes: RecordChanges,
}

impl StatusPublisher {
    pub(crate) fn publish(&self, status: SessionStatus) {
        let is_new = self.status.send_if_modified(|published| {
            let changed = *published != status;
            *published = status;
            changed
        });
        if is_new {
            self.changes.mark(&self.record);
        }
    }

    /// Publishes the offer of an agent that has loaded the session. It stays until another agent has.
    pub(crate) fn publish_offer(&self, connection: &AgentConnection) {
        let (offered, answer) = (connection.offered(), connection.answer());
        self.offers.send_if_modified(|published| {
            let is_published = Arc::ptr_eq(&published.offered, offered)
                && published.answer.as_ref().is_some_and(|published| Arc::ptr_eq(published, answer));
            if !is_published {
                *published = AgentOffer {
                    offered: offered.clone(),
                    answer: Some(answer.clone()),
                    version: Some(connection.version()),
                };
            }
            !is_published
        });
    }
}
