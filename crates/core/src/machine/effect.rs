//! The effects of a session's state machine. The engine persists first and then executes the rest, in order.

use std::sync::Arc;

use crate::model::{
    AcpSessionId, AgentError, AgentRequestId, Fact, ForwardId, Lifecycle, LimitReached, Lineage,
    LineageReason, Permit, RecordSettings, ReplayVerdict, RequestId, RestoreError, SessionUsage, Setting,
    Turn, TurnId,
};

use super::{Deadline, ForwardedRequest};

/// One effect for the engine to execute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Start the agent's process and initialize it.
    StartAgent,
    /// Stop the agent's process. The run's record keeps the agent's fault, if there is one.
    StopAgent(Option<&'static str>),
    /// Send this call to the agent.
    Call(AgentCall),
    /// Answer a permission request or elicitation of the agent.
    AnswerRequest(AgentRequestId, Permit),
    /// Route a permission request or elicitation to the turn's client.
    RouteRequest(AgentRequestId),
    /// Reject any other request with "method not found".
    RefuseRequest(AgentRequestId),
    /// Persist an update of the agent and publish it.
    PersistUpdate(Arc<str>),
    /// Persist an update that turned out to be a replay, outside the conversation.
    PersistReplay(Arc<str>),
    /// Persist a fact of ours.
    Fact(Fact),
    /// Persist the turn's current state.
    SaveTurn(Turn),
    /// Persist the lineage. The first time, this creates the record.
    SaveLineage(Lineage),
    /// Persist the title that the agent reported.
    SaveTitle(Option<Box<str>>),
    /// Persist the usage that the agent reported.
    SaveUsage {
        /// The usage.
        usage: SessionUsage,
        /// Whether the last known cost stays.
        cost_stands: bool,
    },
    /// Persist what the running turn has cost so far.
    SaveCost(Turn),
    /// Persist the chosen and the current settings.
    SaveSettings(RecordSettings),
    /// Persist why the last restore failed, or clear it because the agent has the session again.
    SaveRestoreError(Option<RestoreError>),
    /// Persist whether the record is open, closed or deleted.
    SaveLifecycle(Lifecycle),
    /// Arm a deadline; arming it again restarts it.
    Arm(Deadline),
    /// Disarm the deadline that is armed.
    Disarm,
    /// Reply to the clients that wait for the session to be live.
    ReplyWake(Result<WakeOutcome, WakeError>),
    /// Report to the client that its prompt is accepted.
    TurnAccepted(RequestId, TurnId),
    /// Report to the client that its prompt is refused.
    TurnRefused(RequestId, PromptRefusal),
    /// Report to the client that its turn has ended.
    TurnEnded(Turn),
    /// Reply to a forwarded request of a client.
    ReplyForward(ForwardId, Result<Arc<str>, ForwardError>),
    /// Reply to those that asked to park the session; false if it has work.
    ReplyPark(bool),
    /// Reply to those that wait for the session to be closed.
    ReplyClose,
}

/// A call to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AgentCall {
    /// `session/new`.
    New,
    /// `session/fork`.
    Fork,
    /// `session/resume`.
    Resume,
    /// `session/load`.
    Load,
    /// `session/resume` with a replay.
    Replay,
    /// `session/list`, to find this session.
    List,
    /// `session/prompt`.
    Prompt {
        /// The turn.
        turn: TurnId,
        /// Its content blocks.
        prompt: Arc<str>,
        /// Whether to prepend the conversation so far.
        carry_history: bool,
    },
    /// `session/set_mode` or `session/set_config_option`, to restore a setting of the record.
    Set(Setting),
    /// A client's request, forwarded unchanged except for the session id.
    Forward(ForwardedRequest),
    /// `$/cancel_request` for a forwarded request that is in flight.
    CancelForward(ForwardId),
    /// `session/cancel`.
    Cancel,
    /// `session/close`.
    Close,
    /// `session/delete`.
    Delete,
}

/// Why a prompt was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PromptRefusal {
    /// The session is closing or closed.
    Closing,
    /// As many prompts wait as may.
    QueueFull {
        /// How many may.
        limit: usize,
    },
    /// The record already has a prompt with this request id.
    RequestExists,
    /// The session has reached a limit of cost or tokens.
    LimitReached(Box<LimitReached>),
}

/// Why a forwarded request has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ForwardError {
    /// The agent refused it, does not support it, or failed.
    Agent(AgentError),
    /// The session is closing or closed.
    Closing,
    /// Too many requests are in flight, or too many bytes are queued for the agent.
    TooMany,
}

/// Why a session could not become live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WakeError {
    /// The agent failed.
    Agent(AgentError),
    /// The session is being closed.
    Closing,
    /// A turn runs or is queued, so the ACP session cannot change.
    Busy,
    /// The record never had the ACP session to return to.
    UnknownSession(AcpSessionId),
}

/// How a session became live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeOutcome {
    /// It was live already.
    Live,
    /// The record was created.
    Created,
    /// The record was created with a session that the agent forked from another record's session.
    Forked,
    /// The agent restored the session.
    Restored {
        /// The method that restored it.
        rung: Rung,
        /// How the agent's replay compares with the stored events, if it replayed anything.
        replay: Option<ReplayVerdict>,
    },
    /// The agent restored an earlier ACP session of the record, as the user asked.
    Returned,
    /// The agent could not restore the session; a fresh ACP session replaced it.
    Fresh {
        /// Why.
        reason: LineageReason,
        /// Whether the agent lost any conversation, so that the user must be informed.
        announced: bool,
    },
}

/// The methods that restore a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rung {
    /// `session/resume`, without a replay.
    Resume,
    /// `session/load`, with a replay.
    Load,
    /// `session/resume` from the start, with a replay.
    Replay,
}

impl Rung {
    /// The protocol's method.
    pub fn method(self) -> &'static str {
        match self {
            Self::Resume | Self::Replay => "session/resume",
            Self::Load => "session/load",
        }
    }
}
