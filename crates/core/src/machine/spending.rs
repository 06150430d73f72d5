//! Meters what a session's turns use; `turn.rs` stops a turn that passes a limit.
//!
//! The cost of a turn is known while it runs, from the total that the agent reports. Its tokens are known at its end;
//! until then, the size of the context is the fewest tokens it can have used.

use std::sync::Arc;

use crate::model::{CostCounter, Fact, LimitReached, Money, SessionUsage, Spending, Turn, TurnLimits};

/// What the session has used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SpendingMeter {
    pub(super) counter: CostCounter,
    /// The sum of the ended turns.
    spent: Spending,
    /// Whether the agent has reported the size of its context.
    has_context: bool,
    /// The limits that were reported as not enforced, each once.
    noted: Vec<LimitKind>,
}

/// What a limit is set for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LimitKind {
    /// The cost in this currency.
    Cost(Arc<str>),
    Tokens,
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
        let costs = limits.costs().filter_map(|limit| {
            let kind = || LimitKind::Cost(Arc::clone(&limit.currency));
            match &turn.cost {
                None => Some((kind(), "the agent reports no cost".to_owned())),
                Some(cost) if cost.currency == limit.currency => None,
                Some(Money { currency, .. }) => {
                    let limit = &limit.currency;
                    let reason =
                        format!("the agent reports its cost in {currency}, and the limit is in {limit}");
                    Some((kind(), reason))
                }
            }
        });
        let is_unknown = limits.has_tokens() && !self.has_context && turn.tokens().total().is_none();
        let tokens = is_unknown.then(|| (LimitKind::Tokens, "the agent reports no tokens".to_owned()));
        let mut facts = Vec::new();
        for (kind, reason) in costs.chain(tokens) {
            if self.noted.contains(&kind) {
                continue;
            }
            let limit = if kind == LimitKind::Tokens { "tokens" } else { "cost" }.to_owned();
            facts.push(Fact::LimitNotEnforced { turn: turn.id.0, limit, reason });
            self.noted.push(kind);
        }
        facts
    }
}
