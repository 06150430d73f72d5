//! Meters what a session's turns use; `turn.rs` stops a turn that passes a limit.
//!
//! The cost of a turn is known while it runs, from the total that the agent reports. Its tokens are known at its end;
//! until then, the size of the context is the fewest tokens it can have used.

use crate::model::{CostCounter, Fact, LimitReached, Money, SessionUsage, Spending, Turn, TurnLimits};

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

    /// What the ended turns of the record have used, as it is stored.
    pub(super) fn set_spent(&mut self, spent: Spending) {
        self.spent = spent;
    }

    /// Takes note of a report of the session's usage.
    pub(super) fn note_context(&mut self, usage: &SessionUsage) {
        self.has_context |= usage.used > 0;
    }

    /// The limit that a running turn has passed.
    pub(super) fn passed_by(&self, turn: &Turn, used: u64) -> Option<LimitReached> {
        turn.limits.spending.passed(&self.spent, turn.cost.as_ref(), used)
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
    pub(super) fn unenforced(&mut self, turn: &Turn) -> Vec<Fact> {
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
