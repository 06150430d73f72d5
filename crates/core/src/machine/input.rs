//! The inputs of a session's state machine. Everything that can happen to a session is an [`Input`].

use std::sync::Arc;
use std::time::Duration;

use crate::model::{
    AcpSessionId, Advertised, AgentError, AgentRequestId, AgentSessionId, AgentState, Exchange, ForwardId,
    HistoryExtent, OfferedSettings, PermissionPolicy, Permit, RequestId, RestoreProfile, SettingName,
    SetupOptions, Timestamp, ToolUse, Turn, TurnId, TurnLimits, TurnStop, Update, WakeOptions,
};

use super::ForwardedRequest;

/// One input of the machine. The time of the input is passed separately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// The turns that the last host left open, in order. Comes first, if at all.
    Recover(Vec<Turn>),
    /// A client asks for the session to be live.
    Wake(WakeOptions),
    /// A client returns to an earlier ACP session of the record.
    Return(AcpSessionId),
    /// A client sends a prompt.
    Prompt {
        /// The client's request id for the prompt.
        request: RequestId,
        /// The content blocks, a JSON array.
        prompt: Arc<str>,
        /// The permission policy of its turn.
        policy: PermissionPolicy,
        /// How to restore the session, if the prompt needs that.
        options: WakeOptions,
        /// Time limits of its turn.
        limits: TurnLimits,
    },
    /// A client sends a request that is forwarded to the agent, independent of any turn.
    Forward(ForwardedRequest),
    /// The client no longer waits for the response to its forwarded request.
    ForwardCancelled(ForwardId),
    /// A client cancels the running turn, or a given one.
    Cancel(Option<TurnId>),
    /// A client closes the session.
    Close,
    /// A client deletes the record: the session is closed, and the record is hidden from then on.
    Delete,
    /// No client needs the agent at the moment.
    Park,
    /// The session's host stops. The running turn is interrupted; queued prompts stay queued.
    HostStopping,
    /// The agent has started and answered `initialize`.
    AgentReady {
        /// The capabilities it advertised.
        advertised: Advertised,
        /// How this agent behaves where agents differ.
        profile: RestoreProfile,
        /// The conversation so far, for comparison with the agent's replay.
        exchanges: Vec<Exchange>,
        /// Time of the last message, for comparison with the agent's session list.
        last_message_at: Option<Timestamp>,
        /// How much history is carried into a fresh session, if it is carried at all.
        carried_history: Option<HistoryExtent>,
        /// What a resume replays.
        on_resume: OnResume,
    },
    /// The agent failed before it answered `initialize`; its process is gone.
    StartFailed(AgentError),
    /// The agent exited without a request from us.
    AgentExited(AgentError),
    /// The agent exited as requested.
    AgentStopped,
    /// `session/list` was searched for the session; the session's `updatedAt`, if the agent reports one.
    SessionListed(Option<Timestamp>),
    /// `session/new` was answered.
    SessionCreated {
        /// The new session.
        session: AcpSessionId,
        /// Its inner id, if the agent reports one.
        agent_session: Option<AgentSessionId>,
    },
    /// `session/resume` or `session/load` was answered.
    SessionRestored {
        /// The inner id, if the agent reports one.
        agent_session: Option<AgentSessionId>,
    },
    /// `session/new`, `session/resume` or `session/load` was refused.
    SetupRefused(AgentError),
    /// `session/new`, `session/resume` or `session/load` could not be sent.
    SetupImpossible(AgentError),
    /// `session/prompt` was answered.
    PromptAnswered(Result<TurnStop, AgentError>),
    /// Version 2 only: `session/prompt` was answered. The agent has accepted the prompt; its state reports the end.
    PromptInserted,
    /// The agent answered a forwarded request, or the request could not be sent.
    ForwardAnswered {
        /// The forwarded request.
        id: ForwardId,
        /// The agent's result, as raw JSON.
        answer: Result<Arc<str>, AgentError>,
    },
    /// A client removes a setting from those that the record restores.
    ForgetSetting(SettingName),
    /// The user chose a title, which the agent's titles do not replace.
    UserTitleSet,
    /// The agent was set up with these options.
    SetupAccepted(SetupOptions),
    /// The agent reported which settings it offers and their values. Precedes the input that carried the report.
    SettingsOffered(OfferedSettings),
    /// The agent answered our request to restore a setting.
    SettingAnswered(Result<(), AgentError>),
    /// `session/close` was answered, with a result or an error.
    CloseAnswered,
    /// `session/delete` was answered, with a result or an error.
    DeleteAnswered,
    /// The agent sent a `session/update`.
    Update {
        /// The parsed update.
        update: Update,
        /// The line, to be persisted.
        body: Arc<str>,
    },
    /// The agent reported whether it is working.
    StateReported {
        /// The reported state.
        state: AgentState,
        /// Whether the agent has background work outside its turns.
        background: bool,
        /// The line, to be persisted; `None` for a line outside the conversation, which is persisted already.
        body: Option<Arc<str>>,
        /// The request id of the turn, in case this input starts a turn of the agent's own.
        own_turn: RequestId,
    },
    /// The agent sent a permission request.
    Permission {
        /// The agent's request.
        id: AgentRequestId,
        /// The tool use it wants permission for.
        tool: ToolUse,
        /// Whether the request has options. One without options is answered as cancelled.
        has_options: bool,
        /// Whether at least one option is known to approve.
        can_approve: bool,
    },
    /// The agent sent an elicitation.
    Elicitation {
        /// The agent's request.
        id: AgentRequestId,
    },
    /// The agent requests a file or terminal operation, and its target is inside the session's directories.
    Tool {
        /// The agent's request.
        id: AgentRequestId,
        /// The tool use, for the policy to decide. `None` for an operation on a terminal that was already approved:
        /// that needs no further permission.
        tool: Option<ToolUse>,
        /// Whether a client approved exactly this earlier in the turn.
        granted: bool,
    },
    /// The agent withdrew a request.
    RequestWithdrawn {
        /// The agent's request.
        id: AgentRequestId,
    },
    /// A client answered a pending request.
    RequestAnswered {
        /// The request.
        id: AgentRequestId,
        /// The answer.
        permit: Permit,
    },
    /// No attached client can answer this pending request.
    RequestUnanswerable {
        /// The request.
        id: AgentRequestId,
        /// A short description of the request that may be persisted.
        summary: String,
    },
    /// The agent sent a request of any other method.
    OtherRequest {
        /// The agent's request.
        id: AgentRequestId,
    },
    /// An armed deadline has passed.
    Deadline(Deadline),
}

impl Input {
    /// Whether the agent was active, so that a prompt it received may have had an effect.
    pub(super) fn is_activity(&self) -> bool {
        match self {
            Self::Update { update, .. } => update.is_activity(),
            Self::Permission { .. }
            | Self::Elicitation { .. }
            | Self::Tool { .. }
            | Self::OtherRequest { .. } => true,
            _ => false,
        }
    }
}

/// What an agent replays after `session/resume`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnResume {
    /// Nothing, as the protocol requires.
    Nothing,
    /// Exactly the events after the last one in our record: the agent is an acpx host, which resumes after a cursor.
    Missed,
}

/// A time limit that the machine arms. The engine knows how long each one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Deadline {
    /// For the response to new, load, resume or list; each replayed update restarts it.
    Setup,
    /// For the response to a setting that is being restored.
    Setting,
    /// For the response to a forwarded request. Runs concurrently with the other deadlines.
    Forward(ForwardId),
    /// For the end of a cancelled turn.
    Cancel,
    /// The time from which the agent can load the session.
    Load(Timestamp),
    /// The time until a refused prompt is sent again.
    Retry(Duration),
    /// For the response to `session/close` or `session/delete`.
    Close,
    /// For the next prompt while the agent is idle; when it passes, the agent is parked.
    Idle,
    /// For a turn, from its acceptance to its end. Runs concurrently and is never armed: the turn carries its limit.
    Turn(TurnId),
    /// For any message from the agent during a turn; never armed either.
    Silence,
}
