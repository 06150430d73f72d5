//! How a session stops: parked, closed, deleted, or left by its agent.

use crate::model::{AgentError, Fact, Lifecycle, StopReason, Timestamp, Turn, TurnOutcome};

use super::state::{Ends, Live, Prompting, State, Stopping, Then};
use super::{Advertised, Asleep, Call, Deadline, Effect, SessionMachine};

impl SessionMachine {
    pub(super) fn park(&mut self) {
        match &self.state {
            State::Parked => self.do_(Effect::Parked(true)),
            State::Idle(_) if !self.is_asked() && !self.background => self.end_process(Then::Park),
            // It is told when the agent has gone.
            State::Ending(Then::Park | Then::Wake) => {}
            _ => self.do_(Effect::Parked(false)),
        }
    }

    pub(super) fn leave(&mut self, now: Timestamp) {
        let turn = match self.take_state() {
            State::Prompting(Prompting { turn, held, .. }) => {
                self.release(held);
                Some(turn)
            }
            State::Closing(_, turn) => turn,
            _ => None,
        };
        // A prompt that is to be sent once more was sent too.
        let resent = self.queue.pop_front_if(|turn| turn.is_sent());
        for mut turn in turn.into_iter().chain(resent) {
            self.interrupt(now, &mut turn, "its host was stopped while this turn ran; it is not sent again");
            self.do_(Effect::TurnOver(turn));
        }
        self.state = State::Closed;
    }

    pub(super) fn close(&mut self, now: Timestamp) {
        self.cancel_all_queued(now);
        self.passes_closed();
        match self.take_state() {
            State::Parked => self.closed(now),
            State::Idle(live) => self.close_live(&live, None),
            State::Prompting(Prompting { live, turn, held, asked, .. }) => {
                self.release(held);
                self.take_back(asked);
                self.close_live(&live, Some(turn));
            }
            State::Starting
            | State::Looking(_)
            | State::Waiting(_)
            | State::Creating(..)
            | State::Restoring(_)
            | State::Settling(_) => {
                self.do_(Effect::Awake(Err(Asleep::Closing)));
                self.end_process(Then::Close);
            }
            State::Ending(_) => self.state = State::Ending(Then::Close),
            other @ (State::Closing(..) | State::Deleting) => self.state = other,
            State::Closed => {
                self.state = State::Closed;
                self.do_(Effect::Closed);
            }
        }
    }

    /// With the capability the agent is asked to close, which cancels its turn; without it the turn is cancelled by us,
    /// and the process is ended when that has ended: what the agent still says belongs to the turn.
    fn close_live(&mut self, live: &Live, turn: Option<Turn>) {
        if live.advertised.close {
            self.do_(Effect::Ask(Call::Close));
        } else if turn.is_some() {
            self.do_(Effect::Ask(Call::Cancel));
        } else {
            return self.let_go(live.advertised);
        }
        self.do_(Effect::Arm(Deadline::Close));
        self.state = State::Closing(live.advertised, turn);
    }

    /// Nothing goes on in the session any more. What agents do with one that is deleted while it is in use, the
    /// protocol leaves to them; so an agent is told to delete it only now.
    pub(super) fn let_go(&mut self, advertised: Advertised) {
        if self.ends == Ends::Deleted && advertised.delete {
            self.do_(Effect::Ask(Call::Delete));
            self.do_(Effect::Arm(Deadline::Close));
            self.state = State::Deleting;
        } else {
            self.end_process(Then::Close);
        }
    }

    pub(super) fn close_answered(&mut self, now: Timestamp) {
        match self.take_state() {
            State::Closing(advertised, turn) => {
                self.cancelled(now, turn);
                self.let_go(advertised);
            }
            other => self.state = other,
        }
    }

    pub(super) fn delete_answered(&mut self) {
        if self.state == State::Deleting {
            self.end_process(Then::Close);
        }
    }

    /// An agent that does not answer is asked for nothing more. One that was only told to stop was not asked yet.
    fn close_unanswered(&mut self, now: Timestamp) {
        if let State::Closing(advertised, turn) = self.take_state() {
            self.cancelled(now, turn);
            if !advertised.close {
                return self.let_go(advertised);
            }
        }
        self.end_process(Then::Close);
    }

    pub(super) fn start_failed(&mut self, now: Timestamp, error: &AgentError) {
        match self.state {
            State::Starting => {
                self.state = State::Parked;
                self.note_failed_restore(now, error);
                self.fail_waiters(now, error);
                self.start_if_needed();
            }
            State::Ending(_) => self.agent_ended(now),
            _ => {}
        }
    }

    pub(super) fn agent_gone(&mut self, now: Timestamp, error: &AgentError) {
        self.passes_lost(error);
        match self.take_state() {
            State::Starting
            | State::Looking(_)
            | State::Waiting(_)
            | State::Creating(..)
            | State::Restoring(_)
            | State::Settling(_) => {
                self.do_(Effect::Disarm);
                self.note_end(error);
                self.note_failed_restore(now, error);
                self.fail_waiters(now, error);
                self.start_if_needed();
            }
            State::Idle(_) => self.note_end(error),
            State::Prompting(Prompting { turn, held, stopping, .. }) => {
                self.do_(Effect::Disarm);
                self.release(held);
                let outcome = stopping.map_or_else(|| TurnOutcome::Failed(error.into()), Stopping::outcome);
                self.end_turn(now, turn, outcome);
                self.note_end(error);
                self.start_if_needed();
            }
            State::Closing(_, turn) => {
                self.cancelled(now, turn);
                self.closed(now);
            }
            State::Deleting => self.closed(now),
            State::Ending(then) => {
                self.state = State::Ending(then);
                self.agent_ended(now);
            }
            other @ (State::Parked | State::Closed) => self.state = other,
        }
    }

    pub(super) fn agent_ended(&mut self, now: Timestamp) {
        let State::Ending(then) = self.state else { return };
        self.state = State::Parked;
        match then {
            Then::Close => self.closed(now),
            Then::Wake => {
                self.do_(Effect::Parked(true));
                self.start_for_queue();
            }
            Then::Park => {
                self.do_(Effect::Parked(true));
                self.start_if_needed();
            }
        }
    }

    pub(super) fn deadline(&mut self, now: Timestamp, deadline: Deadline) {
        match (deadline, &self.state) {
            (Deadline::Setup, State::Looking(_)) => self.unresponsive(now, "session/list"),
            (Deadline::Load(_), State::Waiting(_)) => self.waited(now),
            (Deadline::Setup, State::Creating(..)) => self.unresponsive(now, "session/new"),
            (Deadline::Setup, State::Restoring(restore)) => {
                let method = restore.rung.method();
                self.unresponsive(now, method);
            }
            (Deadline::Setting, State::Settling(_)) => self.settings_unanswered(now),
            (Deadline::Cancel, State::Prompting(_)) => self.cancel_unanswered(now),
            (Deadline::Close, State::Closing(..) | State::Deleting) => self.close_unanswered(now),
            (Deadline::Idle, State::Idle(_)) if !self.background => self.end_process(Then::Park),
            (Deadline::Pass(pass), _) => self.pass_is_overdue(pass),
            (Deadline::Turn(turn), _) => self.turn_is_overdue(now, turn),
            (Deadline::Silence, _) => self.agent_is_silent(),
            _ => {}
        }
    }

    fn unresponsive(&mut self, now: Timestamp, method: &str) {
        let error = AgentError::Unresponsive { agent: self.agent.clone(), method: method.to_owned() };
        self.give_up(now, &error);
    }

    /// The agent did not stop when it was told to: its process is stopped instead.
    fn cancel_unanswered(&mut self, now: Timestamp) {
        let State::Prompting(Prompting { turn, held, stopping, .. }) = self.take_state() else { return };
        self.release(held);
        self.end_turn(now, turn, stopping.unwrap_or(Stopping::Asked).outcome());
        let how = "it did not answer session/cancel and was ended";
        self.do_(Effect::Fact(Fact::AgentEnded { how: how.to_owned() }));
        self.end_process_for(Some(how), if self.queue.is_empty() { Then::Park } else { Then::Wake });
    }

    /// The agent lacks a login, and is logged in where it is started: the next prompt starts it with the credentials
    /// there are by then.
    pub(super) fn end_without_login(&mut self) {
        self.end_process(if self.queue.is_empty() { Then::Park } else { Then::Wake });
    }

    /// The agent's process no longer has the session. It is ended, and the next start restores the session.
    pub(super) fn restart_without_session(&mut self) {
        let how = "it no longer had the session and was ended";
        self.do_(Effect::Fact(Fact::AgentEnded { how: how.to_owned() }));
        self.requeue_settings();
        let is_needed = !(self.queue.is_empty() && self.waiting.is_empty());
        self.end_process_for(Some(how), if is_needed { Then::Wake } else { Then::Park });
    }

    fn start_if_needed(&mut self) {
        if !(self.queue.is_empty() && self.waiting.is_empty()) {
            self.start_for_queue();
        }
    }

    pub(super) fn end_process(&mut self, then: Then) {
        self.end_process_for(None, then);
    }

    fn end_process_for(&mut self, fault: Option<&'static str>, then: Then) {
        self.passes_unanswered();
        self.do_(Effect::Disarm);
        self.do_(Effect::EndAgent(fault));
        self.state = State::Ending(then);
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
                Ends::Closed => Lifecycle::Closed { at: now },
                Ends::Deleted => Lifecycle::Deleted { at: now },
            };
            // What is deleted takes everything with it that was kept before.
            self.do_(Effect::Fact(Fact::Closed {}));
            self.do_(Effect::SaveLifecycle(self.lifecycle));
        }
        self.state = State::Closed;
        self.do_(Effect::Closed);
    }

    fn note_end(&mut self, error: &AgentError) {
        if self.lineage.is_some() {
            self.do_(Effect::Fact(Fact::AgentEnded { how: error.to_string() }));
        }
    }
}
