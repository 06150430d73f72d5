//! A turn: one prompt from its acceptance to its end.

use std::sync::Arc;
use std::time::Duration;

use super::{AgentError, PermissionPolicy, RequestId, Timestamp, TurnId, WakeOptions};

/// One prompt and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Its number within the record.
    pub id: TurnId,
    /// The client's name for it, unique within the record.
    pub request: RequestId,
    /// The prompt's content blocks: a JSON array, as the client wrote it.
    pub prompt: Arc<str>,
    /// What the agent may do meanwhile.
    pub policy: PermissionPolicy,
    /// How the session is to be brought back for it, should that be needed.
    pub wishes: WakeOptions,
    /// How long it may take.
    pub limits: TurnLimits,
    /// When it was accepted.
    pub queued_at: Timestamp,
    /// How far it has come.
    pub state: TurnState,
    /// What it used, as the agent told it with its answer: a JSON object.
    pub usage: Option<Arc<str>>,
    /// What became of the permissions the agent asked for.
    pub permissions: PermissionCount,
}

/// How long a turn may take. Without a limit no clock of ours ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TurnLimits {
    /// From the prompt's acceptance to the end of the turn, however long it waits before it is sent.
    pub whole: Option<Duration>,
    /// Without a word from the agent while it has the turn and nothing of it waits for us.
    pub silence: Option<Duration>,
}

/// How many permissions were given in a turn, and how many were not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PermissionCount {
    /// Those the agent got.
    pub approved: u32,
    /// Those it did not get.
    pub rejected: u32,
}

impl Turn {
    /// The prompt of a turn that nobody has asked for: an agent of version 2 works by itself too.
    pub const NO_PROMPT: &str = "[]";

    /// Whether somebody has asked for it.
    pub fn is_asked(&self) -> bool {
        &*self.prompt != Self::NO_PROMPT
    }

    /// Whether the agent has answered the prompt. A cancelled or failed one proves nothing about what the agent
    /// has kept of the session.
    pub fn is_answered(&self) -> bool {
        match &self.state {
            TurnState::Ended { outcome: TurnOutcome::Stopped(reason), .. } => {
                *reason != StopReason::cancelled()
            }
            TurnState::Ended { outcome: TurnOutcome::Failed(_), .. }
            | TurnState::Queued
            | TurnState::Dispatched { .. }
            | TurnState::Interrupted { .. } => false,
        }
    }

    /// Whether it failed because its time was over, in it or before it was sent.
    pub fn is_overdue(&self) -> bool {
        match &self.state {
            TurnState::Ended { outcome: TurnOutcome::Failed(TurnError { code, .. }), .. } => {
                [TurnError::TIMEOUT, TurnError::QUEUE_TIMEOUT].contains(&&**code)
            }
            _ => false,
        }
    }

    /// Whether its prompt was sent to the agent and its end is not known.
    pub fn is_sent(&self) -> bool {
        matches!(self.state, TurnState::Dispatched { .. })
    }

    /// Whether it still waits for the agent.
    pub fn is_open(&self) -> bool {
        match self.state {
            TurnState::Queued | TurnState::Dispatched { .. } => true,
            TurnState::Ended { .. } | TurnState::Interrupted { .. } => false,
        }
    }
}

/// How far a turn has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnState {
    /// Accepted, not yet sent.
    Queued,
    /// Sent, or about to be: after a crash nobody knows whether the agent has seen it.
    Dispatched {
        /// When.
        at: Timestamp,
    },
    /// Over.
    Ended {
        /// When.
        at: Timestamp,
        /// How.
        outcome: TurnOutcome,
    },
    /// It was dispatched when its host died. It is never sent again by itself.
    Interrupted {
        /// When this was noticed.
        at: Timestamp,
    },
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnOutcome {
    /// The agent answered.
    Stopped(StopReason),
    /// It did not.
    Failed(TurnError),
}

/// Why the agent stopped, as it said it. The set is open: what we do not know is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopReason(Box<str>);

impl StopReason {
    /// The reason an agent gave.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The turn was cancelled.
    pub fn cancelled() -> Self {
        Self::new("cancelled")
    }

    /// The reason as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What went wrong with a turn, as it is stored and shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnError {
    /// The stable code.
    pub code: Box<str>,
    /// What happened, to what.
    pub message: Box<str>,
    /// The agent's own error object, unchanged, where there was one.
    pub acp: Option<Arc<str>>,
}

impl TurnError {
    /// The stable code of a turn that took too long.
    pub const TIMEOUT: &str = "TIMEOUT";
    /// The stable code of a prompt that waited too long, and was never sent.
    pub const QUEUE_TIMEOUT: &str = "QUEUE_TIMEOUT";
    /// The stable code of a turn whose agent was silent for too long.
    pub const IDLE_TIMEOUT: &str = "IDLE_TIMEOUT";

    /// A turn with this agent took longer than it may.
    pub fn took_too_long(agent: &str, limit: Duration) -> Self {
        let seconds = limit.as_secs_f32();
        let message =
            format!("the turn with the agent {agent:?} took longer than {seconds} s and was cancelled");
        Self::of_ours(Self::TIMEOUT, message)
    }

    /// A prompt waited for this for as long as its turn may take. How long it waited is not said: its client may have
    /// spent part of that time before it asked.
    pub fn waited_too_long(what: &str) -> Self {
        let message = format!("the prompt waited {what} until its time was over, and was not sent");
        Self::of_ours(Self::QUEUE_TIMEOUT, message)
    }

    /// An agent was silent for longer than it may be.
    pub fn silent_too_long(agent: &str, limit: Duration) -> Self {
        let seconds = limit.as_secs_f32();
        let message = format!("the agent {agent:?} said nothing for {seconds} s and the turn was cancelled");
        Self::of_ours(Self::IDLE_TIMEOUT, message)
    }

    fn of_ours(code: &str, message: String) -> Self {
        Self { code: code.into(), message: message.into(), acp: None }
    }
}

impl From<&AgentError> for TurnError {
    fn from(error: &AgentError) -> Self {
        let acp = match error {
            AgentError::Refused { acp, .. } | AgentError::InterruptedThere { acp, .. } => Some(acp.clone()),
            _ => None,
        };
        Self { code: error.code().into(), message: error.to_string().into(), acp }
    }
}
