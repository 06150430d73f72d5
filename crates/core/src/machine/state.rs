//! The states of the machine. Each state carries only the data it needs.

use std::sync::Arc;

use crate::model::{
    Advertised, AgentError, AgentRequestId, Alignment, Exchange, LineageReason, ReplayVerdict, RestoreError,
    RestoreProfile, Setting, StopReason, ToolUse, Turn, TurnError, TurnId, TurnOutcome, TurnStop,
};

use super::{OnResume, Rung, WakeOutcome};

/// The state of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MachineState {
    /// No agent.
    Parked,
    /// The agent's process is starting.
    Starting,
    /// `session/list` is in flight, to find the session in it.
    Looking(Ladder),
    /// Waiting for the time from which the agent can load the session.
    Waiting(Ladder),
    /// `session/new` or `session/fork` is in flight.
    Creating(Advertised, Option<Reset>),
    /// The agent is restoring the session. Its replay is compared with the stored events and not shown.
    Restoring(Restore),
    /// The agent has the session; the chosen settings are being restored.
    Settling(SettingsRestore),
    /// The agent has the session and nothing runs.
    Idle(LiveSession),
    /// A turn runs.
    Prompting(PromptTurn),
    /// `session/close` is in flight, perhaps during a running turn.
    Closing(Advertised, Option<Turn>),
    /// `session/delete` is in flight.
    Deleting,
    /// The process is being ended.
    Ending(AfterExit),
    /// Final state.
    Closed,
}

/// A fresh session that replaces the current one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reset {
    pub(super) reason: LineageReason,
    pub(super) announced: bool,
    /// The failed restore that led to it, if one did.
    pub(super) error: Option<RestoreError>,
}

/// The progress of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ladder {
    pub(super) advertised: Advertised,
    pub(super) profile: RestoreProfile,
    /// The conversation so far.
    pub(super) exchanges: Vec<Exchange>,
    pub(super) on_resume: OnResume,
    pub(super) tried_resume: bool,
    pub(super) tried_load: bool,
    /// The last refusal that concerns the session. "Method not found" is not one.
    pub(super) refusal: Option<RestoreRefusal>,
}

/// A refused restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RestoreRefusal {
    /// Whether the agent reports the session as not found.
    pub(super) is_lost: bool,
    pub(super) error: RestoreError,
}

/// A restore request in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Restore {
    pub(super) ladder: Ladder,
    pub(super) rung: Rung,
    pub(super) alignment: Alignment,
}

/// Chosen settings that are being restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SettingsRestore {
    pub(super) live: LiveSession,
    /// How the session became live.
    pub(super) how: WakeOutcome,
    /// The setting whose request is in flight.
    pub(super) asked: Setting,
    /// The settings that are not requested yet.
    pub(super) left: Vec<Setting>,
}

/// A session that the agent has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LiveSession {
    pub(super) advertised: Advertised,
    /// The rest of a replay that was answered before it was complete.
    pub(super) owed: Option<Box<Owed>>,
}

/// A replay that may continue after it was compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owed {
    pub(super) alignment: Alignment,
    /// The verdict that was recorded.
    pub(super) told: Option<ReplayVerdict>,
}

/// A running turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PromptTurn {
    pub(super) live: LiveSession,
    pub(super) turn: Turn,
    /// Why the turn was cancelled, if it was.
    pub(super) stopping: Option<StopCause>,
    /// Requests of the agent that are routed to clients and not answered yet.
    pub(super) asked: Vec<PendingRequest>,
    /// Whether a version 2 agent has confirmed the prompt, so that its idle state ends the turn.
    pub(super) inserted: bool,
    /// Whether its prompt carried the conversation so far into a fresh session.
    pub(super) carried_history: bool,
    /// What has arrived of the turn. Once anything has, its prompt is never sent again.
    pub(super) activity: Activity,
    /// How the agent stopped, if it stopped before it answered the prompt.
    pub(super) stopped: Option<Box<Result<TurnStop, AgentError>>>,
    /// Lines that look like the rest of a late replay. They are published if they turn out not to be.
    pub(super) held: Vec<Arc<str>>,
    /// Whether the held lines complete the replay.
    pub(super) rest_came: bool,
    /// The replay's verdict with the held lines, if it differs from the recorded one.
    pub(super) corrected: Option<ReplayVerdict>,
}

/// A prompt that is sent a second time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resent {
    pub(super) turn: TurnId,
    /// The agent's refusal of the first attempt.
    pub(super) error: TurnError,
}

/// What has arrived of a turn so far, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Activity {
    /// Nothing.
    None,
    /// An update that may echo the user's prompt, or a request.
    Heard,
    /// Output of the agent, or its report that it works.
    Worked,
}

/// Why a turn is being stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StopCause {
    /// A client cancelled it.
    Asked,
    /// The turn reached a limit or cannot continue.
    Failing(Box<TurnError>),
}

impl StopCause {
    /// The turn's outcome, independent of the agent's response: some agents answer a cancel as if they had finished,
    /// others with an error. The response itself is persisted unchanged.
    pub(super) fn outcome(self) -> TurnOutcome {
        match self {
            Self::Asked => TurnOutcome::Stopped(StopReason::cancelled()),
            Self::Failing(error) => TurnOutcome::Failed(*error),
        }
    }
}

/// An unanswered permission request or elicitation of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PendingRequest {
    pub(super) id: AgentRequestId,
    /// The tool use it wants permission for; `None` for an elicitation.
    pub(super) tool: Option<ToolUse>,
    /// Whether one of its options is known to approve.
    pub(super) can_approve: bool,
}

/// What becomes of a record when its session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloseKind {
    /// It can still be restored by its id.
    Closed,
    /// Hidden from then on.
    Deleted,
}

/// What follows when the process has exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterExit {
    /// The session can be restored later.
    Park,
    /// A client already waits for it to be restored.
    Wake,
    /// It is closed.
    Close,
}
