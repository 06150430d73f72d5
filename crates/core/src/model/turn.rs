//! A turn: one prompt from its acceptance to its end.

use std::sync::Arc;
use std::time::Duration;

use super::{
    AgentError, ErrorCode, LimitReached, Money, PermissionPolicy, RequestId, SpendingLimits, Timestamp,
    TurnId, WakeOptions,
};

/// One prompt and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Its number within the record.
    pub id: TurnId,
    /// The client's name for it, unique within the record.
    pub request: RequestId,
    /// The prompt's content blocks: a JSON array, as the client wrote it.
    pub prompt: Arc<str>,
    /// What the agent may do during the turn.
    pub policy: PermissionPolicy,
    /// How to restore the session for it, if necessary.
    pub wake_options: WakeOptions,
    /// How long it may take, and how much it may use.
    pub limits: TurnLimits,
    /// When it was accepted.
    pub queued_at: Timestamp,
    /// How far it has come.
    pub state: TurnState,
    /// Its usage from the agent's response: a JSON object.
    pub usage: Option<Arc<str>>,
    /// What it cost, from the session's running total; `None` if that is unknown.
    pub cost: Option<Money>,
    /// How many permission requests were approved and rejected.
    pub permissions: PermissionCount,
}

/// How long a turn may take, and how much it may use. Without a limit, acpx does not end it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TurnLimits {
    /// From the prompt's acceptance to the end of the turn, including the time in the queue.
    pub whole: Option<Duration>,
    /// Without a message from the agent, while it runs the turn and none of its requests is pending with us.
    pub silence: Option<Duration>,
    /// What it and its session may use.
    pub spending: SpendingLimits,
    /// How often its prompt is sent again if the agent refuses it with an internal error before anything of the turn
    /// has arrived. It is not stored: a prompt that survives its host in the queue is not sent again.
    pub retries: u32,
    /// How many prompts may wait behind the running one when it is accepted; `None` for the session's own limit. It is
    /// not stored: an accepted prompt stays.
    pub queue_depth: Option<usize>,
}

/// The numbers of approved and rejected permission requests in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PermissionCount {
    /// Approved requests.
    pub approved: u32,
    /// Rejected requests.
    pub rejected: u32,
}

/// The result of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnStop {
    /// Why the turn stopped.
    pub reason: StopReason,
    /// Token usage as the agent reported it: a JSON object.
    pub usage: Option<Arc<str>>,
}

impl From<StopReason> for TurnStop {
    fn from(reason: StopReason) -> Self {
        Self { reason, usage: None }
    }
}

/// The working state that a version 2 agent reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentState {
    /// The agent works, or waits for an answer to a request.
    Working,
    /// The agent is idle; how its work ended, if it reports that.
    Idle(Option<Result<TurnStop, AgentError>>),
    /// A state that we do not know.
    Other,
}

impl Turn {
    /// The prompt of a turn that the agent began by itself, as version 2 agents may.
    pub(crate) const NO_PROMPT: &str = "[]";

    /// Whether a client has prompted it.
    pub(crate) fn is_prompted(&self) -> bool {
        &*self.prompt != Self::NO_PROMPT
    }

    /// Whether the agent has answered the prompt. After a cancelled or failed turn it is unknown what the agent has
    /// stored of the session.
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

    /// Whether it failed because of its time limit, before or after it was sent.
    pub(crate) fn is_overdue(&self) -> bool {
        match &self.state {
            TurnState::Ended { outcome: TurnOutcome::Failed(TurnError { code, .. }), .. } => {
                matches!(code, ErrorCode::Timeout | ErrorCode::QueueTimeout)
            }
            _ => false,
        }
    }

    /// Whether its prompt was sent to the agent and its end is not known.
    pub(crate) fn is_sent(&self) -> bool {
        matches!(self.state, TurnState::Dispatched { .. })
    }

    /// When it ended, or when its interruption was noticed.
    pub fn ended_at(&self) -> Option<Timestamp> {
        match self.state {
            TurnState::Ended { at, .. } | TurnState::Interrupted { at } => Some(at),
            TurnState::Queued | TurnState::Dispatched { .. } => None,
        }
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
    /// Sent, or about to be: after a crash it is unknown whether the agent has received it.
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
    /// It was dispatched when its host died. It is never resent automatically.
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

/// The agent's stop reason. Unknown reasons are stored unchanged.
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

    /// The reason as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a turn failed, as it is stored and shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnError {
    /// The stable code.
    pub code: ErrorCode,
    /// What happened, to what.
    pub message: Box<str>,
    /// The agent's own error object, unchanged, where there was one.
    pub acp: Option<Arc<str>>,
}

impl TurnError {
    /// A turn with this agent exceeded its time limit.
    pub fn took_too_long(agent: &str, limit: Duration) -> Self {
        let seconds = limit.as_secs_f32();
        let message =
            format!("the turn with the agent {agent:?} took longer than {seconds} s and was cancelled");
        Self::of_ours(ErrorCode::Timeout, message)
    }

    /// A prompt waited for `what` until its turn's time limit. The message omits the duration, because the client may
    /// have spent part of the time before it sent the prompt.
    pub(crate) fn waited_too_long(what: &str) -> Self {
        let message = format!("the prompt waited {what} until its time was over, and was not sent");
        Self::of_ours(ErrorCode::QueueTimeout, message)
    }

    /// An agent exceeded its silence limit.
    pub(crate) fn silent_too_long(agent: &str, limit: Duration) -> Self {
        let seconds = limit.as_secs_f32();
        let message = format!("the agent {agent:?} said nothing for {seconds} s and the turn was cancelled");
        Self::of_ours(ErrorCode::IdleTimeout, message)
    }

    /// A turn has passed a limit of cost or tokens, or its session had reached one before it was sent.
    pub(crate) fn over_limit(reached: &LimitReached, was_sent: bool) -> Self {
        let what = if was_sent { "the turn was cancelled" } else { "the prompt was not sent" };
        Self::of_ours(reached.code(), format!("{reached}; {what}"))
    }

    fn of_ours(code: ErrorCode, message: String) -> Self {
        Self { code, message: message.into(), acp: None }
    }
}

impl From<&AgentError> for TurnError {
    fn from(error: &AgentError) -> Self {
        let acp = match error {
            AgentError::Refused { acp, .. } | AgentError::InterruptedThere { acp, .. } => Some(acp.clone()),
            _ => None,
        };
        Self { code: error.code(), message: error.to_string().into(), acp }
    }
}
