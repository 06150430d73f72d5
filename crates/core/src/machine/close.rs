//! How a session stops: parked, closed, deleted, or because its agent exited.

use crate::model::{Advertised, AgentError, Fact, Lifecycle, Timestamp, Turn, TurnOutcome};

use super::state::{AfterExit, CloseKind, LiveSession, MachineState, PromptTurn, StartPhase, StopCause};
use super::{AgentCall, Deadline, Effect, ForwardError, SessionMachine, WakeError};

impl SessionMachine {
    pub(super) fn park(&mut self) {
        match &self.state {
            MachineState::Parked => self.emit(Effect::ReplyPark(true)),
            MachineState::Idle(_)
                if self.turns.queued.is_empty()
                    && self.forwards.first_awaited().is_none()
                    && !self.agent_work.in_background =>
            {
                self.stop_agent(AfterExit::Park);
            }
            // The reply follows when the agent has exited.
            MachineState::Stopping(AfterExit::Park | AfterExit::Wake) => {}
            _ => self.emit(Effect::ReplyPark(false)),
        }
    }

    pub(super) fn stop_host(&mut self, now: Timestamp) {
        let turn = match self.take_state() {
            MachineState::Prompting(PromptTurn { turn, held, .. }) => {
                self.publish_held(held);
                Some(turn)
            }
            MachineState::Closing(_, turn) => turn,
            _ => None,
        };
        // A prompt that waits to be sent once more counts as sent.
        let resent = self.turns.queued.pop_front_if(|turn| turn.is_sent());
        for mut turn in turn.into_iter().chain(resent) {
            self.interrupt(now, &mut turn, "its host was stopped while this turn ran; it is not sent again");
            self.emit(Effect::TurnEnded(turn));
        }
        self.state = MachineState::Closed;
    }

    pub(super) fn close(&mut self, now: Timestamp) {
        let queued = std::mem::take(&mut self.turns.queued);
        self.end_cancelled(now, queued);
        self.forwards.fail_waiting(&ForwardError::Closing, &mut self.out);
        self.forwards.fail_in_flight(&ForwardError::Closing, &mut self.out);
        match self.take_state() {
            MachineState::Parked => self.closed(now),
            MachineState::Idle(live) => self.close_live(&live, None),
            MachineState::Prompting(PromptTurn { live, turn, held, pending, .. }) => {
                self.publish_held(held);
                self.cancel_pending(pending);
                self.close_live(&live, Some(turn));
            }
            MachineState::Starting(_) => {
                self.emit(Effect::ReplyWake(Err(WakeError::Closing)));
                self.stop_agent(AfterExit::Close);
            }
            MachineState::Stopping(_) => self.state = MachineState::Stopping(AfterExit::Close),
            other @ (MachineState::Closing(..) | MachineState::Deleting) => self.state = other,
            MachineState::Closed => {
                self.state = MachineState::Closed;
                self.emit(Effect::ReplyClose);
            }
        }
    }

    /// With the capability, `session/close` is sent, which cancels the turn. Without it, we cancel the turn and end the
    /// process after the turn: updates that arrive until then belong to it.
    fn close_live(&mut self, live: &LiveSession, turn: Option<Turn>) {
        if live.advertised.close {
            self.emit(Effect::Call(AgentCall::Close));
        } else if turn.is_some() {
            self.emit(Effect::Call(AgentCall::Cancel));
        } else {
            return self.delete_or_stop(live.advertised);
        }
        self.emit(Effect::Arm(Deadline::Close));
        self.state = MachineState::Closing(live.advertised, turn);
    }

    /// The session has no running work any more. The protocol does not define what deleting a session in use does, so
    /// `session/delete` is sent only now.
    pub(super) fn delete_or_stop(&mut self, advertised: Advertised) {
        if self.close_kind == CloseKind::Deleted && advertised.delete {
            self.emit(Effect::Call(AgentCall::Delete));
            self.emit(Effect::Arm(Deadline::Close));
            self.state = MachineState::Deleting;
        } else {
            self.stop_agent(AfterExit::Close);
        }
    }

    pub(super) fn on_close_answer(&mut self, now: Timestamp) {
        match self.take_state() {
            MachineState::Closing(advertised, turn) => {
                self.end_cancelled(now, turn);
                self.delete_or_stop(advertised);
            }
            other => self.state = other,
        }
    }

    pub(super) fn on_delete_answer(&mut self) {
        if self.state == MachineState::Deleting {
            self.stop_agent(AfterExit::Close);
        }
    }

    /// An agent that does not answer gets no further requests, unless only `session/cancel` was sent.
    fn on_close_unanswered(&mut self, now: Timestamp) {
        if let MachineState::Closing(advertised, turn) = self.take_state() {
            self.end_cancelled(now, turn);
            if !advertised.close {
                return self.delete_or_stop(advertised);
            }
        }
        self.stop_agent(AfterExit::Close);
    }

    pub(super) fn on_start_failure(&mut self, now: Timestamp, error: &AgentError) {
        match self.state {
            MachineState::Starting(StartPhase::Process) => {
                self.state = MachineState::Parked;
                self.fail_start(now, error);
                self.start_if_needed();
            }
            MachineState::Stopping(_) => self.on_agent_stopped(now),
            _ => {}
        }
    }

    pub(super) fn on_agent_exit(&mut self, now: Timestamp, error: &AgentError) {
        self.forwards.fail_in_flight(&ForwardError::Agent(error.clone()), &mut self.out);
        match self.take_state() {
            MachineState::Starting(_) => {
                self.emit(Effect::Disarm);
                self.note_exit(error);
                self.fail_start(now, error);
                self.start_if_needed();
            }
            MachineState::Idle(_) => {
                let was_waiting = self.fail_retry(now);
                self.note_exit(error);
                if was_waiting {
                    self.emit(Effect::Disarm);
                    self.start_if_needed();
                }
            }
            MachineState::Prompting(PromptTurn { turn, held, stopping, .. }) => {
                self.emit(Effect::Disarm);
                self.publish_held(held);
                let outcome = stopping.map_or_else(|| TurnOutcome::Failed(error.into()), StopCause::outcome);
                self.end_turn(now, turn, outcome);
                self.note_exit(error);
                self.start_if_needed();
            }
            MachineState::Closing(_, turn) => {
                self.end_cancelled(now, turn);
                self.closed(now);
            }
            MachineState::Deleting => self.closed(now),
            MachineState::Stopping(then) => {
                self.state = MachineState::Stopping(then);
                self.on_agent_stopped(now);
            }
            other @ (MachineState::Parked | MachineState::Closed) => self.state = other,
        }
    }

    pub(super) fn on_agent_stopped(&mut self, now: Timestamp) {
        let MachineState::Stopping(then) = self.state else { return };
        self.state = MachineState::Parked;
        match then {
            AfterExit::Close => self.closed(now),
            AfterExit::Wake => {
                self.emit(Effect::ReplyPark(true));
                self.start_agent();
            }
            AfterExit::Park => {
                self.emit(Effect::ReplyPark(true));
                self.start_if_needed();
            }
        }
    }

    pub(super) fn on_deadline(&mut self, now: Timestamp, deadline: Deadline) {
        match (deadline, &self.state) {
            (Deadline::Setup, MachineState::Starting(phase)) => {
                let method = match phase {
                    StartPhase::Listing(_) => "session/list",
                    StartPhase::Creating(..) => "session/new",
                    StartPhase::Restoring(restore) => restore.rung.method(),
                    StartPhase::Process | StartPhase::LoadDelay(_) | StartPhase::Configuring(_) => return,
                };
                let error = AgentError::Unresponsive { agent: self.agent.clone(), method: method.to_owned() };
                self.give_up(now, &error);
            }
            (Deadline::Load(_), _) => self.on_load_time(now),
            (Deadline::Retry(_), MachineState::Idle(_)) => self.on_retry_time(now),
            (Deadline::Setting, _) => self.on_setting_unanswered(now),
            (Deadline::Cancel, MachineState::Prompting(_)) => self.on_cancel_unanswered(now),
            (Deadline::Close, MachineState::Closing(..) | MachineState::Deleting) => {
                self.on_close_unanswered(now);
            }
            (Deadline::Idle, MachineState::Idle(_))
                if !self.agent_work.in_background && self.turns.queued.is_empty() =>
            {
                self.stop_agent(AfterExit::Park);
            }
            (Deadline::Forward(id), _) => self.expire_forward(id),
            (Deadline::Turn(turn), _) => self.on_turn_deadline(now, turn),
            (Deadline::Silence, _) => self.on_silence_deadline(),
            _ => {}
        }
    }

    /// The agent did not stop after `session/cancel`: its process is ended.
    fn on_cancel_unanswered(&mut self, now: Timestamp) {
        let MachineState::Prompting(PromptTurn { turn, held, stopping, .. }) = self.take_state() else {
            return;
        };
        self.publish_held(held);
        self.end_turn(now, turn, stopping.unwrap_or(StopCause::Cancelled).outcome());
        let how = "it did not answer session/cancel and was ended";
        self.emit(Effect::Fact(Fact::AgentEnded { how: how.to_owned() }));
        self.stop_agent_for(Some(how), self.after_exit());
    }

    /// What follows when the process has exited: a start for the queued prompts and waiting requests, if there are any.
    pub(super) fn after_exit(&self) -> AfterExit {
        let is_needed = !(self.turns.queued.is_empty() && self.forwards.waiting.is_empty());
        if is_needed { AfterExit::Wake } else { AfterExit::Park }
    }

    /// The agent's process no longer has the session. It is ended, and the next start restores the session.
    pub(super) fn restart_without_session(&mut self) {
        let how = "it no longer had the session and was ended";
        self.emit(Effect::Fact(Fact::AgentEnded { how: how.to_owned() }));
        self.forwards.requeue_settings();
        self.stop_agent_for(Some(how), self.after_exit());
    }

    fn start_if_needed(&mut self) {
        if self.after_exit() == AfterExit::Wake {
            self.start_agent();
        }
    }

    pub(super) fn stop_agent(&mut self, then: AfterExit) {
        self.stop_agent_for(None, then);
    }

    fn stop_agent_for(&mut self, fault: Option<&'static str>, then: AfterExit) {
        self.forwards.fail_unanswered(&self.agent, &mut self.out);
        self.turns.end_retry_delay();
        self.emit(Effect::Disarm);
        self.emit(Effect::StopAgent(fault));
        self.state = MachineState::Stopping(then);
    }

    fn closed(&mut self, now: Timestamp) {
        if self.lineage.is_some() {
            self.lifecycle = match self.close_kind {
                CloseKind::Closed => Lifecycle::Closed { at: now },
                CloseKind::Deleted => Lifecycle::Deleted { at: now },
            };
            // Deletion erases everything that was persisted before this.
            self.emit(Effect::Fact(Fact::Closed {}));
            self.emit(Effect::SaveLifecycle(self.lifecycle));
        }
        self.state = MachineState::Closed;
        self.emit(Effect::ReplyClose);
    }

    fn note_exit(&mut self, error: &AgentError) {
        if self.lineage.is_some() {
            self.emit(Effect::Fact(Fact::AgentEnded { how: error.to_string() }));
        }
    }
}
