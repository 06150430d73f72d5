//! Deadlines of a session, on a monotonic clock, and since when it has been waiting.
//!
//! A turn's time begins with its acceptance, perhaps in another process, so the time left is computed once from the
//! wall clock. A client may also report that it began earlier. After that, changes of the wall clock have no effect.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::machine::{Deadline, SessionMachine, WaitCondition};
use crate::model::{ForwardId, MissedDeadline, RequestId, Timestamp, TurnId};

use super::wait_reason::WaitClock;

/// The timers of a session.
pub(crate) struct Timers {
    /// The deadline that the machine has armed.
    armed: Option<(Deadline, Instant)>,
    turns: HashMap<TurnId, Instant>,
    forwards: HashMap<ForwardId, Instant>,
    /// When the last message was sent to or received from the agent.
    last_exchange: Instant,
    /// How long an idle agent stays while the session has no hold, and whether a client set that time.
    idle: Option<Duration>,
    idle_is_set: bool,
    /// Since when the session has been waiting.
    pub(crate) wait: WaitClock,
}

impl Timers {
    pub(crate) fn new(idle: Option<Duration>) -> Self {
        Self {
            armed: None,
            turns: HashMap::new(),
            forwards: HashMap::new(),
            last_exchange: Instant::now(),
            idle,
            idle_is_set: false,
            wait: WaitClock::default(),
        }
    }

    /// Arms the machine's deadline; without a limit there is none.
    pub(crate) fn arm(&mut self, deadline: Deadline, limit: Option<Duration>) {
        // A time beyond the clock's range is no limit.
        let at = limit.and_then(|limit| Instant::now().checked_add(limit));
        self.armed = at.map(|at| (deadline, at));
    }

    pub(crate) fn disarm(&mut self) {
        self.armed = None;
    }

    /// A deadline was reached, and is no longer armed.
    pub(crate) fn on_reached(&mut self, deadline: Deadline) {
        self.armed.take_if(|(armed, _)| *armed == deadline);
    }

    pub(crate) fn set_idle(&mut self, limit: Option<Duration>) {
        (self.idle, self.idle_is_set) = (limit, true);
    }

    /// How long the agent may be idle. The default never ends an agent that has the only copy of its session.
    pub(crate) fn idle_limit(&self, has_only_copy: bool) -> Option<Duration> {
        self.idle.filter(|_| self.idle_is_set || !has_only_copy)
    }

    /// A message was sent to or received from the agent.
    pub(crate) fn on_exchange(&mut self) {
        self.last_exchange = Instant::now();
    }

    /// A client's request was forwarded; the agent may take this long to reply.
    pub(crate) fn on_forwarded(&mut self, id: ForwardId, limit: Duration) {
        // A time beyond the clock's range is no limit.
        self.forwards.extend(Instant::now().checked_add(limit).map(|at| (id, at)));
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
    pub(crate) fn update(&mut self, now: Timestamp, machine: &SessionMachine) {
        let mut noted = HashMap::new();
        for turn in machine.limited_turns() {
            let left = turn.limits.whole.map(|limit| limit.saturating_sub(now.since(turn.queued_at)));
            let at = self.turns.get(&turn.id).copied();
            // A time beyond the clock's range is no limit.
            let at = at.or_else(|| Instant::now().checked_add(left?));
            noted.extend(at.map(|at| (turn.id, at)));
        }
        self.turns = noted;
        self.forwards.retain(|id, _| machine.forwarded_method(*id).is_some());
    }

    /// The first deadline. An agent that waits for us is not silent.
    pub(crate) fn next(&self, machine: &SessionMachine, agent_waits: bool) -> Option<(Deadline, Instant)> {
        let turns = self.turns.iter().map(|(turn, at)| (Deadline::Turn(*turn), *at));
        let limit = machine.unstopped_turn().filter(|_| !agent_waits).and_then(|turn| turn.limits.silence);
        let silence =
            limit.and_then(|limit| Some((Deadline::Silence, self.last_exchange.checked_add(limit)?)));
        let forwards = self.forwards.iter().map(|(id, at)| (Deadline::Forward(*id), *at));
        self.armed.into_iter().chain(turns).chain(silence).chain(forwards).min_by_key(|(_, at)| *at)
    }

    /// The step that an agent has not finished while the session waits for this.
    pub(crate) fn missed(&self, awaited: Option<WaitCondition>) -> MissedDeadline {
        match (awaited, self.armed) {
            (Some(WaitCondition::AgentStart), _) => MissedDeadline::Initialize,
            (Some(WaitCondition::Answer(method)), _) => MissedDeadline::Answer(method),
            (Some(WaitCondition::LoadTime), Some((Deadline::Load(at), _))) => MissedDeadline::LoadTime(at),
            (Some(WaitCondition::AgentExit), _) => MissedDeadline::End,
            (
                Some(
                    WaitCondition::LoadTime | WaitCondition::TurnEnd | WaitCondition::PendingRequests { .. },
                )
                | None,
                _,
            ) => MissedDeadline::Ready,
        }
    }
}
