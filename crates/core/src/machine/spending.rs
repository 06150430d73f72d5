//! Meters what a session's turns use; `turn.rs` stops a turn that passes a limit.
//!
//! The cost of a turn is known while it runs, from the total that the agent reports. Its tokens are known at its end;
//! until then, the size of the context is the fewest tokens it can have used.

use crate::model::{
    CostCounter, Fact, LimitReached, Money, SessionUsage, Spending, Turn, TurnId, TurnLimits,
};

/// What the session has used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SpendingMeter {
    pub(super) counter: CostCounter,
    /// The sum of the ended turns.
    spent: Spending,
    /// Whether the agent has reported the size of its context.
    has_context: bool,
    /// The turn that passed a limit, and the fewest tokens that it has used. They count if its agent reports none.
    stopped: Option<(TurnId, u64)>,
    /// The turn whose cost is unknown, because its report was only the start of the count.
    baseline: Option<TurnId>,
}

/// Why the cost of the first turn of a session that began elsewhere is unknown.
const FIRST_TOTAL: &str =
    "the agent's first report has the cost of the whole session, and not that of the turn";

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

    /// Takes note of a report that gives no cost of a turn: the session's total was unknown before it.
    pub(super) fn note_baseline(&mut self, turn: TurnId) {
        self.baseline = Some(turn);
    }

    /// The limit that a running turn has passed.
    pub(super) fn passed_by(&self, turn: &Turn, used: u64) -> Option<LimitReached> {
        turn.limits.spending.passed(&self.spent, turn.cost.as_ref(), used)
    }

    /// Takes note of a turn that is stopped because it has passed a limit.
    pub(super) fn note_stopped(&mut self, turn: TurnId, used: u64) {
        self.stopped = Some((turn, used));
    }

    /// The limit that the session has reached before a turn.
    pub(super) fn reached_by(&self, limits: &TurnLimits) -> Option<LimitReached> {
        limits.spending.reached(&self.spent)
    }

    /// Adds a turn that has ended.
    pub(super) fn add_ended(&mut self, turn: &Turn) {
        let stopped = self.stopped.take_if(|(id, _)| *id == turn.id);
        let tokens = turn.tokens().total().or(stopped.map(|(_, used)| used));
        self.spent.add(turn.cost.as_ref(), tokens);
    }

    /// The limits of an answered turn that were not enforced.
    pub(super) fn unenforced(&self, turn: &Turn) -> Vec<Fact> {
        let limits = &turn.limits.spending;
        let costs = limits.costs().filter_map(|limit| {
            let reason = match &turn.cost {
                None if self.baseline == Some(turn.id) => FIRST_TOTAL.to_owned(),
                None => "the agent reports no cost for this turn".to_owned(),
                Some(cost) if cost.currency == limit.currency => return None,
                Some(Money { currency, .. }) => {
                    let limit = &limit.currency;
                    format!("the agent reports its cost in {currency}, and the limit is in {limit}")
                }
            };
            Some(("cost", reason))
        });
        let used = turn.tokens().total();
        let is_unknown = limits.has_tokens() && !self.has_context && used.is_none();
        let tokens = is_unknown.then(|| ("tokens", "the agent reports no tokens".to_owned()));
        let late = limits.turn.tokens.zip(used).filter(|(limit, used)| used > limit).map(|(limit, used)| {
            let reason =
                format!("the turn used {used} tokens, reported only at its end, and the limit is {limit}");
            ("tokens", reason)
        });
        let mut unenforced: Vec<(&str, String)> = costs.chain(tokens).chain(late).collect();
        // The limits of the turn and of the session have one reason.
        unenforced.dedup();
        let fact = |(limit, reason): (&str, String)| Fact::LimitNotEnforced {
            turn: turn.id.0,
            limit: limit.to_owned(),
            reason,
        };
        unenforced.into_iter().map(fact).collect()
    }
}
