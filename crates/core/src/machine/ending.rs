//! How a session stops: parked, closed, deleted, or because its agent exited.

use crate::model::{Advertised, AgentError, Fact, Lifecycle, StopReason, Timestamp, Turn, TurnOutcome};

use super::state::{AfterExit, CloseKind, LiveSession, MachineState, PromptTurn, StopCause};
use super::{AgentCall, Deadline, Effect, SessionMachine, WakeError};

impl SessionMachine {
    pub(super) fn park(&mut self) {
        match &self.state {
            MachineState::Parked => self.do_(Effect::ReplyPark(true)),
            MachineState::Idle(_) if !self.is_asked() && !self.background => {
                self.end_process(AfterExit::Park);
            }
            // The reply follows when the agent has exited.
            MachineState::Ending(AfterExit::Park | AfterExit::Wake) => {}
            _ => self.do_(Effect::ReplyPark(false)),
        }
    }

    pub(super) fn leave(&mut self, now: Timestamp) {
        let turn = match self.take_state() {
            MachineState::Prompting(PromptTurn { turn, held, .. }) => {
                self.release(held);
                Some(turn)
            }
            MachineState::Closing(_, turn) => turn,
            _ => None,
        };
        // A prompt that waits to be sent once more counts as sent.
        let resent = self.queue.pop_front_if(|turn| turn.is_sent());
        for mut turn in turn.into_iter().chain(resent) {
            self.interrupt(now, &mut turn, "its host was stopped while this turn ran; it is not sent again");
            self.do_(Effect::TurnEnded(turn));
        }
        self.state = MachineState::Closed;
    }

    pub(super) fn close(&mut self, now: Timestamp) {
        self.cancel_all_queued(now);
        self.passes_closed();
        match self.take_state() {
            MachineState::Parked => self.closed(now),
            MachineState::Idle(live) => self.close_live(&live, None),
            MachineState::Prompting(PromptTurn { live, turn, held, asked, .. }) => {
                self.release(held);
                self.take_back(asked);
                self.close_live(&live, Some(turn));
            }
            MachineState::Starting
            | MachineState::Looking(_)
            | MachineState::Waiting(_)
            | MachineState::Creating(..)
            | MachineState::Restoring(_)
            | MachineState::Settling(_) => {
                self.do_(Effect::ReplyWake(Err(WakeError::Closing)));
                self.end_process(AfterExit::Close);
            }
            MachineState::Ending(_) => self.state = MachineState::Ending(AfterExit::Close),
            other @ (MachineState::Closing(..) | MachineState::Deleting) => self.state = other,
            MachineState::Closed => {
                self.state = MachineState::Closed;
                self.do_(Effect::ReplyClose);
            }
        }
    }

    /// With the capability, `session/close` is sent, which cancels the turn. Without it, we cancel the turn and end the
    /// process after the turn: updates that arrive until then belong to it.
    fn close_live(&mut self, live: &LiveSession, turn: Option<Turn>) {
        if live.advertised.close {
            self.do_(Effect::Call(AgentCall::Close));
        } else if turn.is_some() {
            self.do_(Effect::Call(AgentCall::Cancel));
        } else {
            return self.let_go(live.advertised);
        }
        self.do_(Effect::Arm(Deadline::Close));
        self.state = MachineState::Closing(live.advertised, turn);
    }

    /// The session has no running work any more. The protocol does not define what deleting a session in use does, so
    /// `session/delete` is sent only now.
    pub(super) fn let_go(&mut self, advertised: Advertised) {
        if self.ends == CloseKind::Deleted && advertised.delete {
            self.do_(Effect::Call(AgentCall::Delete));
            self.do_(Effect::Arm(Deadline::Close));
            self.state = MachineState::Deleting;
        } else {
            self.end_process(AfterExit::Close);
        }
    }

    pub(super) fn close_answered(&mut self, now: Timestamp) {
        match self.take_state() {
            MachineState::Closing(advertised, turn) => {
                self.cancelled(now, turn);
                self.let_go(advertised);
            }
            other => self.state = other,
        }
    }

    pub(super) fn delete_answered(&mut self) {
        if self.state == MachineState::Deleting {
            self.end_process(AfterExit::Close);
        }
    }

    /// An agent that does not answer gets no further requests, unless only `session/cancel` was sent.
    fn close_unanswered(&mut self, now: Timestamp) {
        if let MachineState::Closing(advertised, turn) = self.take_state() {
            self.cancelled(now, turn);
            if !advertised.close {
                return self.let_go(advertised);
            }
        }
        self.end_process(AfterExit::Close);
    }

    pub(super) fn start_failed(&mut self, now: Timestamp, error: &AgentError) {
        match self.state {
            MachineState::Starting => {
                self.state = MachineState::Parked;
                self.note_failed_restore(now, error);
                self.fail_waiters(now, error);
                self.start_if_needed();
            }
            MachineState::Ending(_) => self.agent_ended(now),
            _ => {}
        }
    }

    pub(super) fn agent_gone(&mut self, now: Timestamp, error: &AgentError) {
        self.passes_lost(error);
        match self.take_state() {
            MachineState::Starting
            | MachineState::Looking(_)
            | MachineState::Waiting(_)
            | MachineState::Creating(..)
            | MachineState::Restoring(_)
            | MachineState::Settling(_) => {
                self.do_(Effect::Disarm);
                self.note_end(error);
                self.note_failed_restore(now, error);
                self.fail_waiters(now, error);
                self.start_if_needed();
            }
            MachineState::Idle(_) => self.note_end(error),
            MachineState::Prompting(PromptTurn { turn, held, stopping, .. }) => {
                self.do_(Effect::Disarm);
                self.release(held);
                let outcome = stopping.map_or_else(|| TurnOutcome::Failed(error.into()), StopCause::outcome);
                self.end_turn(now, turn, outcome);
                self.note_end(error);
                self.start_if_needed();
            }
            MachineState::Closing(_, turn) => {
                self.cancelled(now, turn);
                self.closed(now);
            }
            MachineState::Deleting => self.closed(now),
            MachineState::Ending(then) => {
                self.state = MachineState::Ending(then);
                self.agent_ended(now);
            }
            other @ (MachineState::Parked | MachineState::Closed) => self.state = other,
        }
    }

    pub(super) fn agent_ended(&mut self, now: Timestamp) {
        let MachineState::Ending(then) = self.state else { return };
        self.state = MachineState::Parked;
        match then {
            AfterExit::Close => self.closed(now),
            AfterExit::Wake => {
                self.do_(Effect::ReplyPark(true));
                self.start_for_queue();
            }
            AfterExit::Park => {
                self.do_(Effect::ReplyPark(true));
                self.start_if_needed();
            }
        }
    }

    pub(super) fn deadline(&mut self, now: Timestamp, deadline: Deadline) {
        match (deadline, &self.state) {
            (Deadline::Setup, MachineState::Looking(_)) => self.unresponsive(now, "session/list"),
            (Deadline::Load(_), MachineState::Waiting(_)) => self.waited(now),
            (Deadline::Setup, MachineState::Creating(..)) => self.unresponsive(now, "session/new"),
            (Deadline::Setup, MachineState::Restoring(restore)) => {
                let method = restore.rung.method();
                self.unresponsive(now, method);
            }
            (Deadline::Setting, MachineState::Settling(_)) => self.settings_unanswered(now),
            (Deadline::Cancel, MachineState::Prompting(_)) => self.cancel_unanswered(now),
            (Deadline::Close, MachineState::Closing(..) | MachineState::Deleting) => {
                self.close_unanswered(now);
            }
            (Deadline::Idle, MachineState::Idle(_)) if !self.background => self.end_process(AfterExit::Park),
            (Deadline::Forward(pass), _) => self.pass_is_overdue(pass),
            (Deadline::Turn(turn), _) => self.turn_is_overdue(now, turn),
            (Deadline::Silence, _) => self.agent_is_silent(),
            _ => {}
        }
    }

    fn unresponsive(&mut self, now: Timestamp, method: &str) {
        let error = AgentError::Unresponsive { agent: self.agent.clone(), method: method.to_owned() };
        self.give_up(now, &error);
    }

    /// The agent did not stop after `session/cancel`: its process is ended.
    fn cancel_unanswered(&mut self, now: Timestamp) {
        let MachineState::Prompting(PromptTurn { turn, held, stopping, .. }) = self.take_state() else {
            return;
        };
        self.release(held);
        self.end_turn(now, turn, stopping.unwrap_or(StopCause::Asked).outcome());
        let how = "it did not answer session/cancel and was ended";
        self.do_(Effect::Fact(Fact::AgentEnded { how: how.to_owned() }));
        self.end_process_for(
            Some(how),
            if self.queue.is_empty() { AfterExit::Park } else { AfterExit::Wake },
        );
    }

    /// The agent needs a login, which happens at start. The next prompt starts it with the credentials of that time.
    pub(super) fn end_without_login(&mut self) {
        self.end_process(if self.queue.is_empty() { AfterExit::Park } else { AfterExit::Wake });
    }

    /// The agent's process no longer has the session. It is ended, and the next start restores the session.
    pub(super) fn restart_without_session(&mut self) {
        let how = "it no longer had the session and was ended";
        self.do_(Effect::Fact(Fact::AgentEnded { how: how.to_owned() }));
        self.requeue_settings();
        let is_needed = !(self.queue.is_empty() && self.waiting.is_empty());
        self.end_process_for(Some(how), if is_needed { AfterExit::Wake } else { AfterExit::Park });
    }

    fn start_if_needed(&mut self) {
        if !(self.queue.is_empty() && self.waiting.is_empty()) {
            self.start_for_queue();
        }
    }

    pub(super) fn end_process(&mut self, then: AfterExit) {
        self.end_process_for(None, then);
    }

    fn end_process_for(&mut self, fault: Option<&'static str>, then: AfterExit) {
        self.passes_unanswered();
        self.do_(Effect::Disarm);
        self.do_(Effect::StopAgent(fault));
        self.state = MachineState::Ending(then);
    }

    fn cancelled(&mut self, now: Timestamp, turn: Option<Turn>) {
        if let Some(turn) = turn {
            self.end_turn(now, turn, TurnOutcome::Stopped(StopReason::cancelled()));
        }
    }

    fn cancel_all_queued(&mut self, now: Timestamp) {
        for turn in std::mem::take(&mut self.queue) {
            self.end_turn(now, turn, TurnOutcome::Stopped(StopReason::cancelled()));
        }
    }

    fn closed(&mut self, now: Timestamp) {
        if self.lineage.is_some() {
            self.lifecycle = match self.ends {
                CloseKind::Closed => Lifecycle::Closed { at: now },
                CloseKind::Deleted => Lifecycle::Deleted { at: now },
            };
            // Deletion erases everything that was persisted before this.
            self.do_(Effect::Fact(Fact::Closed {}));
            self.do_(Effect::SaveLifecycle(self.lifecycle));
        }
        self.state = MachineState::Closed;
        self.do_(Effect::ReplyClose);
    }

    fn note_end(&mut self, error: &AgentError) {
        if self.lineage.is_some() {
            self.do_(Effect::Fact(Fact::AgentEnded { how: error.to_string() }));
        }
    }
}
