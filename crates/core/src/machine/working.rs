//! Turns of version 2 agents, which report their working state: the prompt's response only confirms receipt, and the
//! idle state ends the turn. An agent that works without a prompt gets a turn of its own, so that prompts queue behind
//! it and clients see it. The same holds for a remote acpx host of either version that works for other clients, or on a
//! prompt from before the connection was lost.

use std::sync::Arc;

use crate::model::{
    AgentState, Fact, PermissionCount, PermissionMode, RequestId, StopReason, Timestamp, Turn, TurnId,
    TurnLimits, TurnState, WakeOptions,
};

use super::state::{Activity, LiveSession, MachineState, PromptTurn};
use super::{Deadline, Effect, SessionMachine};

impl SessionMachine {
    pub(super) fn agent_state(
        &mut self,
        now: Timestamp,
        state: AgentState,
        body: Option<Arc<str>>,
        own: RequestId,
    ) {
        match (&mut self.state, state) {
            (MachineState::Parked | MachineState::Starting | MachineState::Closed, _) => {}
            (MachineState::Idle(_), AgentState::Working) => {
                self.begin_own_turn(now, own);
                self.keep_said(body);
            }
            (MachineState::Prompting(_), state) => {
                self.keep_said(body);
                self.state_in_a_turn(now, state);
            }
            (MachineState::Closing(_, Some(_)), AgentState::Idle(how)) => {
                self.keep_said(body);
                self.prompt_answered(now, how.unwrap_or_else(|| Ok(StopReason::cancelled().into())));
            }
            (state, told) => {
                let is_asked = matches!(
                    state,
                    MachineState::Looking(_) | MachineState::Creating(..) | MachineState::Restoring(_)
                );
                let is_setup =
                    is_asked || matches!(state, MachineState::Waiting(_) | MachineState::Settling(_));
                if is_asked {
                    // The agent works on our request. For a setting this changes nothing: its deadline is another one.
                    self.do_(Effect::Arm(Deadline::Setup));
                }
                if is_setup {
                    match told {
                        AgentState::Working => self.works = Some(own),
                        AgentState::Idle(_) => self.works = None,
                        AgentState::Other => {}
                    }
                }
                self.keep_said(body);
            }
        }
    }

    fn keep_said(&mut self, body: Option<Arc<str>>) {
        if let Some(body) = body {
            self.do_(Effect::PersistUpdate(body));
        }
    }

    /// Background work outside turns prevents parking, which would end it. When it stops, the idle time starts.
    pub(super) fn note_background(&mut self, background: bool) {
        let was_at_it = std::mem::replace(&mut self.background, background);
        if was_at_it && !background && matches!(self.state, MachineState::Idle(_)) {
            self.do_(Effect::Arm(Deadline::Idle));
        }
    }

    fn state_in_a_turn(&mut self, now: Timestamp, state: AgentState) {
        let MachineState::Prompting(PromptTurn { stopping, inserted, activity, stopped, .. }) =
            &mut self.state
        else {
            return;
        };
        let how = match state {
            AgentState::Other => return,
            AgentState::Working => {
                *activity = Activity::Worked;
                *stopped = None;
                return;
            }
            // Agents also report idle when a session is ready, and that report may be late.
            AgentState::Idle(None) if !(*activity == Activity::Worked || stopping.is_some()) => return,
            AgentState::Idle(None) if stopping.is_some() => Ok(StopReason::cancelled().into()),
            AgentState::Idle(None) => Ok(StopReason::new("end_turn").into()),
            AgentState::Idle(Some(how)) => how,
        };
        // An agent may finish its work before it answers the prompt.
        if *inserted {
            self.prompt_answered(now, how);
        } else {
            *stopped = Some(Box::new(how));
        }
    }

    pub(super) fn prompt_inserted(&mut self, now: Timestamp) {
        let MachineState::Prompting(prompting) = &mut self.state else { return };
        prompting.inserted = true;
        if let Some(how) = prompting.stopped.take() {
            self.prompt_answered(now, *how);
        }
    }

    /// Begins a turn for work that the agent started before the session was live.
    pub(super) fn go_on_working(&mut self, now: Timestamp) -> bool {
        let own = self.works.take();
        let is_at_work = own.is_some();
        if let Some(own) = own {
            self.begin_own_turn(now, own);
        }
        is_at_work
    }

    fn begin_own_turn(&mut self, now: Timestamp, request: RequestId) {
        let live = match self.take_state() {
            MachineState::Idle(live) => live,
            other => return self.state = other,
        };
        let id = self.last_turn.map_or(TurnId::FIRST, TurnId::next);
        self.last_turn = Some(id);
        let turn = Turn {
            id,
            request,
            prompt: Arc::from(Turn::NO_PROMPT),
            // No client chose a policy, so attached clients are asked.
            policy: PermissionMode::Ask.into(),
            wishes: WakeOptions::default(),
            limits: TurnLimits::default(),
            queued_at: now,
            state: TurnState::Dispatched { at: now },
            usage: None,
            permissions: PermissionCount::default(),
        };
        self.do_(Effect::Disarm);
        self.do_(Effect::SaveTurn(turn.clone()));
        let request_id = turn.request.to_string();
        self.do_(Effect::Fact(Fact::TurnStarted { turn: id.0, request_id, client: None }));
        self.state = MachineState::Prompting(PromptTurn {
            inserted: true,
            activity: Activity::Worked,
            ..PromptTurn::begun(live, turn)
        });
    }
}

impl PromptTurn {
    /// The initial state of a turn.
    pub(super) fn begun(live: LiveSession, turn: Turn) -> Self {
        Self {
            live,
            turn,
            stopping: None,
            asked: Vec::new(),
            inserted: false,
            carried_history: false,
            activity: Activity::None,
            stopped: None,
            held: Vec::new(),
            rest_came: false,
            corrected: None,
        }
    }
}
