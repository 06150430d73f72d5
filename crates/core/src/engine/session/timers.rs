//! Deadlines of a session's turns and of its clients' requests, on a monotonic clock.
//!
//! A turn's time begins with its acceptance, perhaps in another process, so the time left is computed once from the
//! wall clock. A client may also report that it began earlier. After that, changes of the wall clock have no effect.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::machine::{Deadline, SessionMachine};
use crate::model::{ForwardId, RequestId, Timestamp, TurnId};

/// The deadlines of turns and requests, and the time of the last message to or from the agent.
pub(crate) struct SessionTimers {
    turns: HashMap<TurnId, Instant>,
    passes: HashMap<ForwardId, Instant>,
    spoken: Instant,
}

impl SessionTimers {
    pub(crate) fn new() -> Self {
        Self { turns: HashMap::new(), passes: HashMap::new(), spoken: Instant::now() }
    }

    /// A message was sent to or received from the agent.
    pub(crate) fn spoken(&mut self) {
        self.spoken = Instant::now();
    }

    /// A client's request was forwarded; the agent may take this long to reply.
    pub(crate) fn passed(&mut self, pass: ForwardId, start_limit: Duration) {
        // A time beyond the clock's range is no limit.
        self.passes.extend(Instant::now().checked_add(start_limit).map(|at| (pass, at)));
    }

    /// This much of a turn's time had passed when its prompt arrived.
    pub(crate) fn began_before(&mut self, machine: &SessionMachine, request: &RequestId, spent: Duration) {
        let limited = machine.limited_turns().find(|turn| turn.request == *request);
        if let Some((turn, limit)) = limited.and_then(|turn| Some((turn.id, turn.limits.whole?))) {
            let at = Instant::now().checked_add(limit.saturating_sub(spent));
            self.turns.extend(at.map(|at| (turn, at)));
        }
    }

    /// Adds new turns, and removes turns and requests that cannot reach a limit any more.
    pub(crate) fn note(&mut self, now: Timestamp, machine: &SessionMachine) {
        let mut noted = HashMap::new();
        for turn in machine.limited_turns() {
            let left = turn.limits.whole.map(|limit| limit.saturating_sub(now.since(turn.queued_at)));
            let at = self.turns.get(&turn.id).copied();
            // A time beyond the clock's range is no limit.
            let at = at.or_else(|| Instant::now().checked_add(left?));
            noted.extend(at.map(|at| (turn.id, at)));
        }
        self.turns = noted;
        self.passes.retain(|pass, _| machine.passed_method(*pass).is_some());
    }

    /// The first deadline. An agent that waits for us is not silent.
    pub(crate) fn next(&self, machine: &SessionMachine, is_listening: bool) -> Option<(Deadline, Instant)> {
        let turn =
            self.turns.iter().min_by_key(|(_, at)| **at).map(|(turn, at)| (Deadline::Turn(*turn), *at));
        let limit = machine.unstopped().filter(|_| is_listening).and_then(|turn| turn.limits.silence);
        let silence = limit.and_then(|limit| Some((Deadline::Silence, self.spoken.checked_add(limit)?)));
        let pass = self.passes.iter().min_by_key(|(_, at)| **at);
        let pass = pass.map(|(pass, at)| (Deadline::Forward(*pass), *at));
        turn.into_iter().chain(silence).chain(pass).min_by_key(|(_, at)| *at)
    }
}
