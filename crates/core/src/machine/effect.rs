//! Everything a session causes. The engine performs effects in order, what is to be kept first.

use std::sync::Arc;

use crate::model::{
    AcpSessionId, AgentError, Fact, Lifecycle, Lineage, LineageReason, RecordSettings, ReplayVerdict,
    RequestId, RestoreError, Setting, Turn, TurnId,
};

use super::{AskId, Deadline, ForwardedRequest, PassId};

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Start the agent's process and initialize it.
    StartAgent,
    /// End the agent's process, for what it has done wrong, if it has: its run keeps that.
    EndAgent(Option<&'static str>),
    /// Send this to the agent.
    Ask(AgentCall),
    /// Answer a question of the agent.
    Permit(AskId, Permit),
    /// Ask the turn's client what to answer a question of the agent.
    Consult(AskId),
    /// Answer any other request: we have no such method.
    Refuse(AskId),
    /// Keep an update of the agent and show it.
    Keep(Arc<str>),
    /// Keep an update of the agent that proved to be a replay: it is no part of the conversation.
    KeepAside(Arc<str>),
    /// Keep a fact of ours.
    Fact(Fact),
    /// Keep a turn as it stands.
    SaveTurn(Turn),
    /// Keep the lineage as it stands; the first time, this is when the record comes to exist.
    SaveLineage(Lineage),
    /// Keep the agent's title.
    SaveTitle(Option<Box<str>>),
    /// Keep what is wished and shown of the settings.
    SaveSettings(RecordSettings),
    /// Keep why the last attempt to restore failed, or that the agent has the session again.
    SaveRestoreError(Option<RestoreError>),
    /// Keep whether the record takes part.
    SaveLifecycle(Lifecycle),
    /// Set a time limit; a limit of the same name starts again.
    Arm(Deadline),
    /// Lift the time limit, whichever it is.
    Disarm,
    /// Tell whoever waits for the session to be live.
    Awake(Result<WakeOutcome, WakeError>),
    /// Tell the client its turn is accepted.
    TurnAccepted(RequestId, TurnId),
    /// Tell the client its turn cannot be accepted.
    TurnRefused(RequestId, PromptRefusal),
    /// Tell the client its turn is over.
    TurnOver(Turn),
    /// Tell the client what became of its request.
    Passed(PassId, Result<Arc<str>, ForwardError>),
    /// Tell whoever waits for the session to be parked; false if it has work.
    Parked(bool),
    /// Tell whoever waits for the session to be closed.
    Closed,
}

/// What is sent to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentCall {
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
        /// Whether to tell the conversation so far before it.
        carry_history: bool,
    },
    /// `session/set_mode` or `session/set_config_option`, for a wish of the record.
    Set(Setting),
    /// A request of a client, as it is but for the session id.
    Pass(ForwardedRequest),
    /// `$/cancel_request`, for a request of a client that is out.
    Withdraw(PassId),
    /// `session/cancel`.
    Cancel,
    /// `session/close`.
    Close,
    /// `session/delete`.
    Delete,
}

/// The answer to a question of the agent: to a permission request, or to one for something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permit {
    /// Yes.
    Approve,
    /// No.
    Reject,
    /// No, because a rule wants it asked and nobody was there to be; the rule.
    Escalated(Box<str>),
    /// One of the agent's options, which somebody chose.
    Choose {
        /// Its id.
        option: Box<str>,
        /// Whether it is a yes.
        approves: bool,
        /// The whole result in which a client said so, a JSON object.
        said: Option<Arc<str>>,
    },
    /// Somebody's answer to a permission that chooses nothing: the result, a JSON object.
    Unchosen(Arc<str>),
    /// Somebody's answer to what is no permission: the result, a JSON object.
    Elicited(Arc<str>),
    /// Nobody answers what is no permission.
    Declined,
    /// The turn is being cancelled, or the question was.
    Cancelled,
}

/// Why a prompt was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptRefusal {
    /// The session is closing or closed.
    Closing,
    /// Too many prompts wait.
    QueueFull,
    /// The record has had a prompt of this name.
    RequestExists,
}

/// Why a client's request has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForwardError {
    /// The agent refused it, does not offer it, or is in the way.
    Agent(AgentError),
    /// The session is closing or closed.
    Closing,
    /// Too many requests are under way, or too much waits to be read by the agent.
    TooMany,
}

/// Why a session is not live, though somebody wants it to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WakeError {
    /// The agent is in the way.
    Agent(AgentError),
    /// The session is being closed.
    Closing,
    /// A turn runs or waits, so the ACP session cannot change.
    Busy,
    /// The record never had the ACP session that it is to return to.
    UnknownSession(AcpSessionId),
}

/// How a session came to be live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeOutcome {
    /// It was.
    Live,
    /// The record began.
    Created,
    /// The record began with a session that the agent forked from another one's, and that knows what that one knew.
    Forked,
    /// The agent has it again.
    Restored {
        /// By which rung of the ladder.
        rung: Rung,
        /// How what it replayed compares with what we keep, if it replayed anything.
        replay: Option<ReplayVerdict>,
    },
    /// The agent has an earlier ACP session of the record again, as the user asked.
    Returned,
    /// The agent could not bring it back; a fresh ACP session took over.
    Fresh {
        /// Why.
        reason: LineageReason,
        /// Whether there was something to forget, so that a person must be told.
        announced: bool,
    },
}

/// The ways to bring a session back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rung {
    /// `session/resume`: no replay.
    Resume,
    /// `session/load`: the agent replays.
    Load,
    /// `session/resume` from the start: the agent replays.
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
