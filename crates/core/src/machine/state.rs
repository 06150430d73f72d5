//! Where a session stands. Each state carries what that state needs and nothing else.

use std::sync::Arc;

use crate::model::{
    AgentError, Alignment, Exchange, LineageReason, ReplayVerdict, RestoreError, RestoreProfile, Setting,
    StopReason, ToolUse, Turn, TurnError, TurnId, TurnOutcome,
};

use super::{Advertised, AskId, OnResume, Rung, TurnStop, WakeOutcome};

/// Where a session stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MachineState {
    /// No agent.
    Parked,
    /// The agent's process is coming up.
    Starting,
    /// The agent is looking for the session in its list.
    Looking(Ladder),
    /// The agent is not to load the session yet.
    Waiting(Ladder),
    /// The agent is making a session.
    Creating(Advertised, Option<Reset>),
    /// The agent is bringing the session back. What it replays is compared, not shown.
    Restoring(Restore),
    /// The agent has the session, and is set as it was wished to be.
    Settling(SettingsRestore),
    /// The agent has the session and nothing runs.
    Idle(LiveSession),
    /// A turn runs.
    Prompting(PromptTurn),
    /// `session/close` is under way, perhaps over a running turn.
    Closing(Advertised, Option<Turn>),
    /// `session/delete` is under way.
    Deleting,
    /// The process is being ended.
    Ending(AfterExit),
    /// The end.
    Closed,
}

/// A fresh session about to take over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reset {
    pub(super) reason: LineageReason,
    pub(super) announced: bool,
    /// The failed restore that led to it, if one did.
    pub(super) error: Option<RestoreError>,
}

/// How far down the ladder we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ladder {
    pub(super) advertised: Advertised,
    pub(super) habits: RestoreProfile,
    /// The conversation so far.
    pub(super) exchanges: Vec<Exchange>,
    pub(super) on_resume: OnResume,
    pub(super) tried_resume: bool,
    pub(super) tried_load: bool,
    /// The last refusal that says something about the session. A method that the agent does not have says nothing.
    pub(super) refusal: Option<RestoreRefusal>,
}

/// A refused restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RestoreRefusal {
    /// Whether the agent reports the session as not found.
    pub(super) is_lost: bool,
    pub(super) error: RestoreError,
}

/// One rung under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Restore {
    pub(super) ladder: Ladder,
    pub(super) rung: Rung,
    pub(super) alignment: Alignment,
}

/// Wishes that are being restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SettingsRestore {
    pub(super) live: LiveSession,
    /// How the session came to be live.
    pub(super) how: WakeOutcome,
    /// The one that the agent has been asked for.
    pub(super) asked: Setting,
    /// Those that it has not.
    pub(super) left: Vec<Setting>,
}

/// A session the agent has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LiveSession {
    pub(super) advertised: Advertised,
    /// What a replay that was answered too early still owes.
    pub(super) owed: Option<Box<Owed>>,
}

/// A replay of which more may come than had when it was compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owed {
    pub(super) alignment: Alignment,
    /// How it was said to compare.
    pub(super) told: Option<ReplayVerdict>,
}

/// A running turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PromptTurn {
    pub(super) live: LiveSession,
    pub(super) turn: Turn,
    /// Why the agent was told to stop, if it was.
    pub(super) stopping: Option<StopCause>,
    /// What somebody has been asked and has not answered.
    pub(super) asked: Vec<PendingRequest>,
    /// Whether the agent has the prompt, so that its being idle ends the turn. One of version 1 ends it otherwise.
    pub(super) inserted: bool,
    /// Whether its prompt told the conversation so far to a fresh session.
    pub(super) carried_history: bool,
    /// What has arrived of it. Once anything has, its prompt is never sent again.
    pub(super) activity: Activity,
    /// How the agent stopped, if that came before it had answered the prompt.
    pub(super) stopped: Option<Box<Result<TurnStop, AgentError>>>,
    /// Lines that look like the rest of a late replay. They are shown after all if they were not.
    pub(super) held: Vec<Arc<str>>,
    /// Whether the held lines are all that the replay owed.
    pub(super) rest_came: bool,
    /// How the replay compares with them, if that is otherwise than it was said.
    pub(super) corrected: Option<ReplayVerdict>,
}

/// A prompt that is sent a second time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resent {
    pub(super) turn: TurnId,
    /// The agent's refusal of the first.
    pub(super) error: TurnError,
}

/// What has arrived of a turn so far, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Activity {
    /// Nothing.
    None,
    /// An update that may be the user's own, or a request.
    Heard,
    /// The agent has said or done something in it, or that it works.
    Worked,
}

/// Why an agent was told to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StopCause {
    /// Somebody cancelled the turn.
    Asked,
    /// The turn has come to a limit, or cannot go on.
    Failing(Box<TurnError>),
}

impl StopCause {
    /// How the turn ends, whatever the agent says: some answer a cancel as if they had finished, and others with an
    /// error. What they said is kept as they said it.
    pub(super) fn outcome(self) -> TurnOutcome {
        match self {
            Self::Asked => TurnOutcome::Stopped(StopReason::cancelled()),
            Self::Failing(error) => TurnOutcome::Failed(*error),
        }
    }
}

/// A question of the agent that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PendingRequest {
    pub(super) ask: AskId,
    /// The tool call that it wants permission for; one that wants something else has none.
    pub(super) tool: Option<ToolUse>,
    /// Whether an answer that it offers is known to approve.
    pub(super) can_approve: bool,
}

/// What a record is once its session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloseKind {
    /// It can still be restored by its id.
    Closed,
    /// Nobody is to find it again.
    Deleted,
}

/// What follows when the process is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterExit {
    /// The session can be brought back.
    Park,
    /// Somebody already wants it back.
    Wake,
    /// It is closed.
    Close,
}
