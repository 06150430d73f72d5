//! The states of the machine. Each state carries only the data it needs.

use std::sync::Arc;

use crate::model::{
    AcpSessionId, Advertised, AgentError, AgentRequestId, Alignment, Exchange, LateStep, LineageReason,
    ReplayVerdict, RestoreError, RestoreProfile, Setting, StopReason, ToolUse, Turn, TurnError, TurnOutcome,
    TurnStop, Update,
};

use super::{OnResume, Rung, WakeOutcome};

/// The state of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MachineState {
    /// No agent.
    Parked,
    /// On the way to a live session.
    Starting(StartPhase),
    /// The agent has the session and nothing runs.
    Idle(LiveSession),
    /// A turn runs.
    Prompting(PromptTurn),
    /// `session/close` is in flight, perhaps during a running turn.
    Closing(Advertised, Option<Turn>),
    /// `session/delete` is in flight.
    Deleting,
    /// The process is being stopped.
    Stopping(AfterExit),
    /// Final state.
    Closed,
}

/// The phase of a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StartPhase {
    /// The agent's process is starting.
    Process,
    /// `session/list` is in flight, to find the session in it.
    Listing(Ladder),
    /// Waiting for the time from which the agent can load the session.
    LoadDelay(Ladder),
    /// `session/new` or `session/fork` is in flight.
    Creating(Advertised, Option<Reset>),
    /// The agent is restoring the session. Its replay is compared with the stored events and not shown.
    Restoring(Restore),
    /// The agent has the session; the chosen settings are being restored.
    Configuring(SettingsRestore),
}

/// The session that the agent is to provide.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum RestoreTarget {
    /// The record's current session, or a new one for a record without a session.
    #[default]
    Current,
    /// A session that exists only at the agent; the record is created when the agent has restored it.
    Adopted,
    /// A fork of the lineage's current session, which is still the original record's.
    Forked,
    /// An earlier session of the record. The lineage changes once the agent has restored it.
    Earlier(AcpSessionId),
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
    pub(super) outcome: WakeOutcome,
    /// The setting whose request is in flight.
    pub(super) requested: Setting,
    /// The settings that are not requested yet.
    pub(super) left: Vec<Setting>,
}

/// A session that the agent has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LiveSession {
    pub(super) advertised: Advertised,
    /// The rest of a replay that was answered before it was complete.
    pub(super) late_replay: Option<Box<LateReplay>>,
}

impl LiveSession {
    /// Whether an update continues a late replay; the first one that does not ends the replay. If the update completes
    /// it and the verdict changes, also returns the new verdict.
    pub(super) fn continues_replay(&mut self, update: &Update) -> (bool, Option<ReplayVerdict>) {
        let Some(LateReplay { alignment, recorded }) = self.late_replay.as_deref_mut() else {
            return (false, None);
        };
        let is_replayed = alignment.late(update) == LateStep::Replayed;
        let corrected = alignment.outcome().filter(|outcome| is_replayed && Some(*outcome) != *recorded);
        *recorded = corrected.or(*recorded);
        if !alignment.expects_more() {
            self.late_replay = None;
        }
        (is_replayed, corrected)
    }
}

/// A replay that may continue after it was compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LateReplay {
    pub(super) alignment: Alignment,
    /// The verdict that was recorded.
    pub(super) recorded: Option<ReplayVerdict>,
}

/// A running turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PromptTurn {
    pub(super) live: LiveSession,
    pub(super) turn: Turn,
    /// Why the turn was cancelled, if it was.
    pub(super) stopping: Option<StopCause>,
    /// Requests of the agent that are routed to clients and not answered yet.
    pub(super) pending: Vec<PendingRequest>,
    /// Whether a version 2 agent has confirmed the prompt, so that its idle state ends the turn.
    pub(super) is_inserted: bool,
    /// Whether its prompt carried the conversation so far into a fresh session.
    pub(super) carried_history: bool,
    /// What has arrived of the turn. Once anything has, its prompt is never sent again.
    pub(super) activity: Activity,
    /// How the agent stopped, if it stopped before it answered the prompt.
    pub(super) stopped: Option<Box<Result<TurnStop, AgentError>>>,
    pub(super) held: HeldReplay,
}

impl PromptTurn {
    /// How many requests of one turn may be pending. Further ones are rejected, so that the cost per request stays
    /// bounded.
    pub(super) const MAX_PENDING: usize = 1024;

    /// The initial state of a turn.
    pub(super) fn new(live: LiveSession, turn: Turn) -> Self {
        Self {
            live,
            turn,
            stopping: None,
            pending: Vec::new(),
            is_inserted: false,
            carried_history: false,
            activity: Activity::None,
            stopped: None,
            held: HeldReplay::default(),
        }
    }

    /// Adds a request to the pending ones, if there is room.
    pub(super) fn add_pending(
        &mut self,
        id: &AgentRequestId,
        tool: Option<ToolUse>,
        can_approve: bool,
    ) -> bool {
        let has_room = self.pending.len() < Self::MAX_PENDING;
        if has_room {
            self.pending.push(PendingRequest { id: id.clone(), tool, can_approve });
        }
        has_room
    }
}

/// Lines of a turn that look like the rest of a late replay. They are published if they turn out not to be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct HeldReplay {
    pub(super) lines: Vec<Arc<str>>,
    /// Whether the lines complete the replay.
    pub(super) is_complete: bool,
    /// The replay's verdict with these lines, if it differs from the recorded one.
    pub(super) corrected: Option<ReplayVerdict>,
}

/// What has arrived of a turn so far, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Activity {
    /// Nothing.
    None,
    /// An update that may echo the user's prompt, or a request.
    Received,
    /// Output of the agent, or its report that it works.
    Worked,
}

/// Why a turn is being stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StopCause {
    /// A client cancelled it.
    Cancelled,
    /// The turn reached a limit or cannot continue.
    Failing(Box<TurnError>),
}

impl StopCause {
    /// The turn's outcome, independent of the agent's response: some agents answer a cancel as if they had finished,
    /// others with an error. The response itself is persisted unchanged.
    pub(super) fn outcome(self) -> TurnOutcome {
        match self {
            Self::Cancelled => TurnOutcome::Stopped(StopReason::cancelled()),
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
