//! Meters what a session's turns use, and stops a turn that passes a limit.
//!
//! The cost of a turn is known while it runs, from the total that the agent reports. Its tokens are known at its end;
//! until then, the size of the context is the fewest tokens it can have used.

use crate::model::{
    Cost, CostCounter, Fact, LimitReached, Money, SessionUsage, Spending, StopReason, Turn, TurnError,
    TurnLimits, TurnOutcome, TurnState,
};

use super::state::{MachineState, StopCause};
use super::{Effect, SessionMachine};

/// What the session has used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SpendingMeter {
    pub(super) counter: CostCounter,
    /// The sum of the ended turns.
    spent: Spending,
    /// Whether the agent has reported the size of its context.
    has_context: bool,
    /// Limits that cannot be enforced with this agent are reported once.
    noted: UnenforcedLimits,
}

/// The limits that were reported as not enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct UnenforcedLimits {
    cost: bool,
    tokens: bool,
}

impl SpendingMeter {
    pub(super) fn new(counter: CostCounter) -> Self {
        Self { counter, ..Self::default() }
    }

    /// The limit that the session has reached before a turn.
    pub(super) fn reached_by(&self, limits: &TurnLimits) -> Option<LimitReached> {
        limits.spending.reached(&self.spent)
    }

    /// Adds a turn that has ended.
    pub(super) fn add_ended(&mut self, turn: &Turn) {
        self.spent.add(turn.cost.as_ref(), turn.tokens().total());
    }

    /// The limits of an answered turn that cannot be enforced and were not reported yet.
    fn unenforced(&mut self, turn: &Turn) -> Vec<Fact> {
        let limits = &turn.limits.spending;
        let other = limits
            .costs()
            .find(|limit| turn.cost.as_ref().is_none_or(|cost: &Money| cost.currency != limit.currency));
        let cost = other.filter(|_| !self.noted.cost).map(|limit| match &turn.cost {
            None => "the agent reports no cost".to_owned(),
            Some(cost) => {
                format!(
                    "the agent reports its cost in {}, and the limit is in {}",
                    cost.currency, limit.currency
                )
            }
        });
        let is_unknown = limits.has_tokens() && !self.has_context && turn.tokens().total().is_none();
        let tokens = (is_unknown && !self.noted.tokens).then(|| "the agent reports no tokens".to_owned());
        self.noted.cost |= cost.is_some();
        self.noted.tokens |= tokens.is_some();
        let fact =
            |limit: &str, reason| Fact::LimitNotEnforced { turn: turn.id.0, limit: limit.to_owned(), reason };
        cost.map(|reason| fact("cost", reason))
            .into_iter()
            .chain(tokens.map(|reason| fact("tokens", reason)))
            .collect()
    }
}

impl SessionMachine {
    /// What the ended turns of the record have used, as it is stored.
    pub(crate) fn set_spent(&mut self, spent: Spending) {
        self.meter.spent = spent;
    }

    /// Takes a report of the session's usage.
    pub(super) fn meter_usage(&mut self, usage: &SessionUsage, cost_stands: bool) {
        self.meter.has_context |= usage.used > 0;
        let Some(reported) = usage.cost.as_ref().filter(|_| !cost_stands).and_then(Cost::money) else {
            return;
        };
        let counter = &mut self.meter.counter;
        let turn = match &mut self.state {
            MachineState::Prompting(prompting) if prompting.live.late_replay.is_none() => &mut prompting.turn,
            MachineState::Closing(_, Some(turn)) => turn,
            MachineState::Idle(live) if live.late_replay.is_none() => {
                return counter.between_turns(&reported);
            }
            _ => return counter.in_replay(&reported),
        };
        if let Some(cost) = counter.in_turn(&reported) {
            turn.add_cost(cost);
            let turn = turn.clone();
            self.emit(Effect::SaveCost(turn));
        }
    }

    /// Cancels the running turn if it has passed one of its limits.
    pub(super) fn enforce_limits(&mut self, usage: &SessionUsage) {
        let Some(turn) = self.unstopped_turn() else { return };
        let passed = turn.limits.spending.passed(&self.meter.spent, turn.cost.as_ref(), usage.used);
        if let Some(reached) = passed {
            self.stop_turn(StopCause::Failing(Box::new(TurnError::over_limit(&reached, true))));
        }
    }

    /// Reports limits that had no effect on an answered turn.
    pub(super) fn note_unenforced(&mut self, turn: &Turn) {
        let TurnState::Ended { outcome: TurnOutcome::Stopped(reason), .. } = &turn.state else { return };
        if *reason != StopReason::cancelled() {
            let facts = self.meter.unenforced(turn);
            self.out.extend(facts.into_iter().map(Effect::Fact));
        }
    }
}
