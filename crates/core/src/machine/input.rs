//! Everything that can happen to a session.

use std::sync::Arc;

use crate::model::{
    AcpSessionId, AgentError, AgentSessionId, ErrorMeaning, Exchange, HistoryExtent, OfferedSettings,
    PermissionPolicy, RequestId, RestoreProfile, SettingName, StopReason, Timestamp, ToolUse, Turn, TurnId,
    TurnLimits, Update, WakeOptions,
};

use super::{ForwardedRequest, PassId, Permit};

/// One thing that happened. Time comes beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The turns that the last host left open, in order. Comes first, if at all.
    Recover(Vec<Turn>),
    /// A client wants the agent to have the session.
    Wake(WakeOptions),
    /// A client returns to an earlier ACP session of the record.
    Return(AcpSessionId),
    /// A client prompts.
    Prompt {
        /// Its name for the prompt.
        request: RequestId,
        /// The content blocks, a JSON array.
        prompt: Arc<str>,
        /// What the agent may do meanwhile.
        policy: PermissionPolicy,
        /// How the session is to be brought back for it, should that be needed.
        options: WakeOptions,
        /// How long its turn may take.
        limits: TurnLimits,
    },
    /// A client has a request for the agent, beside any turn.
    Pass(ForwardedRequest),
    /// The client no longer waits for its answer.
    PassWithdrawn(PassId),
    /// A client cancels the running turn, or a given one.
    Cancel(Option<TurnId>),
    /// A client closes the session.
    Close,
    /// A client deletes the record: its session is closed, and nobody is to find it again.
    Delete,
    /// Nobody needs the agent at the moment.
    Park,
    /// The session's host stops. What runs is interrupted, and what waits goes on waiting.
    Leave,
    /// The agent has started and answered `initialize`.
    AgentReady {
        /// What it offers.
        advertised: Advertised,
        /// How it behaves where agents differ.
        habits: RestoreProfile,
        /// The conversation so far, for comparison with what it may replay.
        exchanges: Vec<Exchange>,
        /// When something was last said in it, for comparison with the agent's list.
        spoken_at: Option<Timestamp>,
        /// How much of it a fresh session will be told, if it is to be told.
        carried: Option<HistoryExtent>,
        /// What a resume brings.
        on_resume: OnResume,
    },
    /// The agent did not come that far; nothing of it is left.
    StartFailed(AgentError),
    /// The agent has gone without being asked.
    AgentGone(AgentError),
    /// The agent has gone as it was asked to.
    AgentEnded,
    /// `session/list` was looked through; when the agent last saw the session change, if it says so.
    Listed(Option<Timestamp>),
    /// `session/new` was answered.
    Opened {
        /// The new session.
        session: AcpSessionId,
        /// Its inner id, if told.
        inner: Option<AgentSessionId>,
    },
    /// `session/resume` or `session/load` was answered.
    Restored {
        /// The inner id, if told.
        inner: Option<AgentSessionId>,
    },
    /// `session/new`, `session/resume` or `session/load` was refused.
    SetupRefused {
        /// What the refusal means.
        reading: ErrorMeaning,
        /// The refusal itself.
        error: AgentError,
    },
    /// `session/new`, `session/resume` or `session/load` could not even be sent.
    SetupImpossible(AgentError),
    /// `session/prompt` was answered.
    PromptAnswered(Result<TurnStop, AgentError>),
    /// `session/prompt` of version 2 was answered: the agent has the prompt, and its state tells when it is done.
    PromptInserted,
    /// A request of a client was answered, or could not even be sent.
    PassAnswered {
        /// Which.
        pass: PassId,
        /// The agent's result, JSON as it wrote it.
        answer: Result<Arc<str>, AgentError>,
    },
    /// A client wants a setting to be wished no more.
    Forget(SettingName),
    /// The agent has told what it offers to choose from, and what is chosen; it comes before whatever told it.
    Offered(OfferedSettings),
    /// A setting that the agent was asked for is set, or is not.
    SettingAnswered(Result<(), AgentError>),
    /// `session/close` was answered, well or badly.
    CloseAnswered,
    /// `session/delete` was answered, well or badly.
    DeleteAnswered,
    /// The agent reports something.
    Update {
        /// What.
        update: Update,
        /// The line, to be kept.
        body: Arc<str>,
    },
    /// The agent says whether it works.
    State {
        /// Whether.
        state: AgentState,
        /// Whether something goes on beside its turns, whatever it says of those.
        background: bool,
        /// The line, to be kept; one that is no part of the conversation is kept already.
        body: Option<Arc<str>>,
        /// The name of the turn, should the agent begin one by this.
        own: RequestId,
    },
    /// The agent asks for permission.
    Permission {
        /// Its request.
        ask: AskId,
        /// What it wants to do.
        tool: ToolUse,
        /// Whether it offers any answer. To one that does not, nobody can say anything.
        has_options: bool,
        /// Whether one of them is known to approve.
        can_approve: bool,
    },
    /// The agent asks the user for something else.
    Elicitation {
        /// Its request.
        ask: AskId,
    },
    /// The agent wants a file or a terminal, and what it wants is inside the session's directories.
    Tool {
        /// Its request.
        ask: AskId,
        /// What it wants, for a policy to decide; `None` if it is something with a terminal that it was given: whoever may
        /// begin may go on, and end it.
        tool: Option<ToolUse>,
        /// Whether somebody has been asked just this in the turn, and has approved.
        granted: bool,
    },
    /// The agent no longer wants an answer to what it asked.
    Withdrawn {
        /// Its request.
        ask: AskId,
    },
    /// Somebody has said what to answer.
    Advised {
        /// The request.
        ask: AskId,
        /// The answer.
        permit: Permit,
    },
    /// Nobody is there who could be asked this.
    Unanswered {
        /// The request.
        ask: AskId,
        /// What it wants, in few words that may be kept.
        what: String,
    },
    /// The agent asks for anything else.
    Request {
        /// Its request.
        ask: AskId,
    },
    /// A time that was armed is up.
    Deadline(Deadline),
}

impl Input {
    /// Whether the agent has done something, so that a prompt it has may have had an effect.
    pub(super) fn is_activity(&self) -> bool {
        match self {
            Self::Update { update, .. } => update.is_activity(),
            Self::Permission { .. } | Self::Elicitation { .. } | Self::Tool { .. } | Self::Request { .. } => {
                true
            }
            _ => false,
        }
    }
}

/// How a prompt was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnStop {
    /// Why the turn stopped.
    pub reason: StopReason,
    /// What it used, as the agent told it: a JSON object.
    pub usage: Option<Arc<str>>,
}

impl From<StopReason> for TurnStop {
    fn from(reason: StopReason) -> Self {
        Self { reason, usage: None }
    }
}

/// Whether an agent of version 2 works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentState {
    /// It does, or waits for somebody.
    Working,
    /// It does not. How its work ended, if it says so.
    Idle(Option<Result<TurnStop, AgentError>>),
    /// It says something that we do not know.
    Other,
}

/// What an agent tells with `session/resume`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnResume {
    /// Nothing, as the protocol says.
    Nothing,
    /// All that was said since the last that is kept, and nothing else: a host of ours goes on after a number.
    Missed,
}

/// A request of the agent, as raw JSON-RPC id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AskId(pub Box<str>);

#[expect(clippy::struct_excessive_bools, reason = "one flag for each capability of the protocol")]
/// What the agent advertised, as far as the ladder and the end of a session depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Advertised {
    /// `session/load`.
    pub load: bool,
    /// `session/resume` with a replay.
    pub replay: bool,
    /// `session/resume`.
    pub resume: bool,
    /// `session/list`.
    pub list: bool,
    /// `session/close`.
    pub close: bool,
    /// `session/delete`.
    pub delete: bool,
}

impl Advertised {
    /// Whether the agent can bring a session back at all.
    pub fn restores(self) -> bool {
        self.load || self.resume || self.replay
    }
}

/// A time limit that the machine sets. How long each is, the engine knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Deadline {
    /// For the answer to new, load, resume or list; each replayed update starts it again.
    Setup,
    /// For the answer to a setting that is restored.
    Setting,
    /// For the answer to a client's request. It runs beside the others.
    Pass(PassId),
    /// For the turn to end after it was cancelled.
    Cancel,
    /// For the moment from which the agent can load the session.
    Load(Timestamp),
    /// For the answer to `session/close` or `session/delete`.
    Close,
    /// For the next prompt, while the agent has nothing to do; then it is parked.
    Idle,
    /// For a turn, from its acceptance to its end. It runs beside the others and is not armed: the turn says it.
    Turn(TurnId),
    /// For a word from the agent that has a turn, likewise.
    Silence,
}
