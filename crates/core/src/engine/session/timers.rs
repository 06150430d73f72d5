//! When the turns of a session and the requests of its clients come to their limits, on a clock that only goes forward.
//!
//! A turn's time began with its acceptance, perhaps in another process, so how much of it is left is asked once of the
//! clock that all processes share; or it began before that, and its client has said how long before. From then on it is
//! counted here, whatever becomes of that clock.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::machine::{Deadline, PassId, SessionMachine};
use crate::model::{RequestId, Timestamp, TurnId};

/// The moments at which turns and requests are to be over, and the last word between us and the agent.
pub(crate) struct SessionTimers {
    turns: HashMap<TurnId, Instant>,
    passes: HashMap<PassId, Instant>,
    spoken: Instant,
}

impl SessionTimers {
    pub(crate) fn new() -> Self {
        Self { turns: HashMap::new(), passes: HashMap::new(), spoken: Instant::now() }
    }

    /// The agent has said something, or was told something.
    pub(crate) fn spoken(&mut self) {
        self.spoken = Instant::now();
    }

    /// The agent is asked for what a client wants, and may take so long to answer.
    pub(crate) fn passed(&mut self, pass: PassId, patience: Duration) {
        // A time beyond what the clock can say is no limit.
        self.passes.extend(Instant::now().checked_add(patience).map(|at| (pass, at)));
    }

    /// So much of the time of a turn was over when its prompt came.
    pub(crate) fn began_before(&mut self, machine: &SessionMachine, request: &RequestId, spent: Duration) {
        let limited = machine.limited_turns().find(|turn| turn.request == *request);
        if let Some((turn, limit)) = limited.and_then(|turn| Some((turn.id, turn.limits.whole?))) {
            let at = Instant::now().checked_add(limit.saturating_sub(spent));
            self.turns.extend(at.map(|at| (turn, at)));
        }
    }

    /// Takes note of turns that are new, and forgets those that can come to a limit no more.
    pub(crate) fn note(&mut self, now: Timestamp, machine: &SessionMachine) {
        let mut noted = HashMap::new();
        for turn in machine.limited_turns() {
            let left = turn.limits.whole.map(|limit| limit.saturating_sub(now.since(turn.queued_at)));
            let at = self.turns.get(&turn.id).copied();
            // A time beyond what the clock can say is no limit.
            let at = at.or_else(|| Instant::now().checked_add(left?));
            noted.extend(at.map(|at| (turn.id, at)));
        }
        self.turns = noted;
        self.passes.retain(|pass, _| machine.passed_method(*pass).is_some());
    }

    /// The limit that comes first. An agent that waits for us is not silent.
    pub(crate) fn next(&self, machine: &SessionMachine, is_listening: bool) -> Option<(Deadline, Instant)> {
        let turn =
            self.turns.iter().min_by_key(|(_, at)| **at).map(|(turn, at)| (Deadline::Turn(*turn), *at));
        let limit = machine.unstopped().filter(|_| is_listening).and_then(|turn| turn.limits.silence);
        let silence = limit.and_then(|limit| Some((Deadline::Silence, self.spoken.checked_add(limit)?)));
        let pass = self.passes.iter().min_by_key(|(_, at)| **at);
        let pass = pass.map(|(pass, at)| (Deadline::Pass(*pass), *at));
        turn.into_iter().chain(silence).chain(pass).min_by_key(|(_, at)| *at)
    }
}
