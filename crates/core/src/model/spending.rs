//! What turns cost and how many tokens they use, and the limits that are set for both.
//!
//! Amounts are whole billionths of their unit, so that sums are exact. Amounts in different currencies are never added.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Cost, ErrorCode, Lineage, LineageReason, Turn};

/// The billionths of a unit.
const NANOS: u64 = 1_000_000_000;
/// The largest amount, so that every amount fits into a column of the store.
const LARGEST: u64 = i64::MAX.cast_unsigned();

/// An amount in a currency, or in another unit that an agent counts in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "MoneyObject", try_from = "MoneyObject")]
pub struct Money {
    /// Billionths of the unit.
    pub nanos: u64,
    /// The currency, or another unit.
    pub currency: Arc<str>,
}

/// An amount as it is written: a decimal number and its currency.
#[derive(Clone, Serialize, Deserialize)]
struct MoneyObject {
    amount: f64,
    currency: Arc<str>,
}

impl Money {
    /// An amount; `None` if it is negative or has no place in a store.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the amount is within the bounds, and is rounded to a billionth"
    )]
    pub fn of(amount: f64, currency: impl Into<Arc<str>>) -> Option<Self> {
        let nanos = (amount * NANOS as f64).round();
        let is_possible = (0.0..LARGEST as f64).contains(&nanos);
        is_possible.then(|| Self { nanos: nanos as u64, currency: currency.into() })
    }

    /// The amount as a decimal number.
    #[expect(clippy::cast_precision_loss, reason = "a number for people and for JSON")]
    pub fn amount(&self) -> f64 {
        self.nanos as f64 / NANOS as f64
    }

    /// Adds billionths of the unit.
    fn add(&mut self, nanos: u64) {
        self.nanos = self.nanos.saturating_add(nanos).min(LARGEST);
    }
}

impl Cost {
    /// The exact amount; `None` if the agent reports an impossible one.
    pub fn money(&self) -> Option<Money> {
        Money::of(self.amount.as_f64()?, self.currency.as_str())
    }
}

impl From<Money> for MoneyObject {
    fn from(money: Money) -> Self {
        Self { amount: money.amount(), currency: money.currency }
    }
}

impl TryFrom<MoneyObject> for Money {
    type Error = &'static str;

    fn try_from(object: MoneyObject) -> Result<Self, Self::Error> {
        Self::of(object.amount, object.currency).ok_or("expected an amount of 0 or more")
    }
}

/// At least two decimals, and as many as are needed.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = format!("{:09}", self.nanos % NANOS);
        let kept = fraction.trim_end_matches('0').len().max(2);
        write!(f, "{}.{} {}", self.nanos / NANOS, &fraction[..kept], self.currency)
    }
}

/// The tokens of one turn, as the agent reported them. An absent figure is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TurnTokens {
    /// Tokens that the model read, without those from the cache if the agent counts them separately.
    pub input: Option<u64>,
    /// Tokens that the model wrote.
    pub output: Option<u64>,
    /// Tokens that were read from the cache.
    pub cached_read: Option<u64>,
    /// Tokens that were written to the cache.
    pub cached_write: Option<u64>,
    /// Tokens of the model's thinking.
    pub thought: Option<u64>,
    /// All tokens.
    pub reported_total: Option<u64>,
}

impl TurnTokens {
    /// The members of a usage object, in the order of [`Self::of_figures`].
    pub const MEMBERS: [&str; 6] = [
        "inputTokens",
        "outputTokens",
        "cachedReadTokens",
        "cachedWriteTokens",
        "thoughtTokens",
        "totalTokens",
    ];

    /// Reads the usage that an agent reported for a turn, a JSON object.
    pub fn read(usage: &str) -> Self {
        let usage: serde_json::Value = serde_json::from_str(usage).unwrap_or_default();
        Self::of_figures(Self::MEMBERS.map(|member| usage.get(member).and_then(serde_json::Value::as_u64)))
    }

    /// The tokens from their figures.
    pub fn of_figures(figures: [Option<u64>; 6]) -> Self {
        let [input, output, cached_read, cached_write, thought, reported_total] = figures;
        Self { input, output, cached_read, cached_write, thought, reported_total }
    }

    /// All tokens: as reported, or else the sum of the reported parts.
    pub fn total(&self) -> Option<u64> {
        let parts = [self.input, self.output, self.cached_read, self.cached_write, self.thought];
        self.reported_total.or_else(|| parts.into_iter().flatten().reduce(u64::saturating_add))
    }
}

/// What the turns of a session have used so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spending {
    /// The tokens of all turns that reported them.
    pub tokens: u64,
    /// The cost of all turns whose cost is known, one amount for each currency.
    pub costs: Vec<Money>,
}

impl Spending {
    /// Adds the figures of a turn that are known.
    pub fn add(&mut self, cost: Option<&Money>, tokens: Option<u64>) {
        self.tokens = self.tokens.saturating_add(tokens.unwrap_or_default());
        let Some(cost) = cost else { return };
        match self.costs.iter_mut().find(|known| known.currency == cost.currency) {
            Some(known) => known.add(cost.nanos),
            None => self.costs.push(cost.clone()),
        }
    }

    /// The cost in a currency.
    fn in_currency(&self, currency: &Arc<str>) -> Money {
        let known = self.costs.iter().find(|known| known.currency == *currency).cloned();
        known.unwrap_or_else(|| Money { nanos: 0, currency: Arc::clone(currency) })
    }
}

/// The running total that an agent reports as the cost of its ACP session. Its increase during a turn is the cost of the
/// turn. A total that falls was reset, for instance by a restart of the agent, and counts from zero again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CostCounter {
    total: KnownTotal,
    /// Whether the agent has reported its total since it has the session. Its first report may repeat an older one.
    is_confirmed: bool,
    /// An increase outside a turn, which counts for the next one: billionths.
    unassigned: u64,
}

/// What is known of a running total.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum KnownTotal {
    /// It begins at zero: acpx created the session.
    #[default]
    Zero,
    /// It began before acpx knew the session.
    Unknown,
    At(Money),
}

impl CostCounter {
    /// The counter of a lineage's current session, with the last reported total.
    pub(crate) fn of_session(lineage: Option<&Lineage>, last: Option<Money>) -> Self {
        let begins_elsewhere = lineage.is_some_and(|lineage| match lineage.current().reason {
            LineageReason::Imported
            | LineageReason::Adopted
            | LineageReason::Forked
            | LineageReason::Returned
            | LineageReason::AgentSessionChanged => true,
            LineageReason::Created
            | LineageReason::NotMaterialised
            | LineageReason::LoadFailed
            | LineageReason::AgentLost
            | LineageReason::CannotRestore
            | LineageReason::Reset => false,
        });
        let unreported = if begins_elsewhere { KnownTotal::Unknown } else { KnownTotal::Zero };
        // A new session has no older report to repeat.
        let is_confirmed = unreported == KnownTotal::Zero && last.is_none();
        Self { total: last.map_or(unreported, KnownTotal::At), is_confirmed, unassigned: 0 }
    }

    /// The agent has been started again: its next report outside a turn may repeat an older one.
    pub(crate) fn on_restored(&mut self) {
        self.is_confirmed = false;
    }

    /// Takes a report during a turn. Returns the cost since the last one, or `None` if that is unknown.
    pub(crate) fn in_turn(&mut self, reported: &Money) -> Option<Money> {
        let nanos = match &self.total {
            KnownTotal::Zero => Some(reported.nanos),
            KnownTotal::At(last) if last.currency == reported.currency => {
                Some(reported.nanos.checked_sub(last.nanos).unwrap_or(reported.nanos))
            }
            KnownTotal::At(_) | KnownTotal::Unknown => None,
        };
        self.set(reported);
        let nanos = nanos?.saturating_add(std::mem::take(&mut self.unassigned)).min(LARGEST);
        Some(Money { nanos, currency: Arc::clone(&reported.currency) })
    }

    /// Takes a report outside a turn. An increase belongs to the next turn.
    pub(crate) fn between_turns(&mut self, reported: &Money) {
        let growth = match &self.total {
            KnownTotal::Zero => reported.nanos,
            KnownTotal::At(last) if last.currency == reported.currency => {
                reported.nanos.saturating_sub(last.nanos)
            }
            KnownTotal::At(_) | KnownTotal::Unknown => 0,
        };
        let growth = if self.is_confirmed { growth } else { 0 };
        self.set(reported);
        self.unassigned = self.unassigned.saturating_add(growth);
    }

    /// Takes a report that may repeat an older one: nothing is counted.
    pub(crate) fn in_replay(&mut self, reported: &Money) {
        self.total = KnownTotal::At(reported.clone());
    }

    fn set(&mut self, reported: &Money) {
        if matches!(&self.total, KnownTotal::At(last) if last.currency != reported.currency) {
            self.unassigned = 0;
        }
        self.total = KnownTotal::At(reported.clone());
        self.is_confirmed = true;
    }
}

impl Turn {
    /// Adds to what the turn has cost. An amount in another currency is not added.
    pub(crate) fn add_cost(&mut self, cost: Money) {
        match &mut self.cost {
            Some(known) if known.currency == cost.currency => known.add(cost.nanos),
            Some(_) => {}
            none => *none = Some(cost),
        }
    }

    /// The tokens that the agent reported for the turn.
    pub fn tokens(&self) -> TurnTokens {
        self.usage.as_deref().map(TurnTokens::read).unwrap_or_default()
    }
}

/// How much a turn and its session may use.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SpendingLimits {
    /// For the turn alone.
    #[serde(skip_serializing_if = "Budget::is_empty")]
    pub turn: Budget,
    /// For all turns of its session.
    #[serde(skip_serializing_if = "Budget::is_empty")]
    pub session: Budget,
}

/// How much may be used.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// In money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// In tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

impl Budget {
    fn is_empty(&self) -> bool {
        self.cost.is_none() && self.tokens.is_none()
    }

    /// Fills what is absent from another budget.
    fn or(self, other: &Self) -> Self {
        Self { cost: self.cost.or_else(|| other.cost.clone()), tokens: self.tokens.or(other.tokens) }
    }

    /// At most what another budget allows. Of two currencies, that of the other budget stays.
    fn within(self, other: &Self) -> Self {
        let cost = match (self.cost, &other.cost) {
            (Some(own), Some(other)) if own.currency == other.currency && own.nanos < other.nanos => {
                Some(own)
            }
            (_, Some(other)) => Some(other.clone()),
            (own, None) => own,
        };
        let tokens = [self.tokens, other.tokens].into_iter().flatten().min();
        Self { cost, tokens }
    }
}

impl SpendingLimits {
    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.turn.is_empty() && self.session.is_empty()
    }

    /// Fills absent limits from others.
    #[must_use]
    pub fn or(self, others: &Self) -> Self {
        Self { turn: self.turn.or(&others.turn), session: self.session.or(&others.session) }
    }

    /// The lower of each of these limits and others.
    #[must_use]
    pub fn within(self, others: &Self) -> Self {
        Self { turn: self.turn.within(&others.turn), session: self.session.within(&others.session) }
    }

    /// The limit of the session that its turns have reached.
    pub(crate) fn reached(&self, before: &Spending) -> Option<LimitReached> {
        let cost = self.session.cost.as_ref().and_then(|limit| {
            let spent = before.in_currency(&limit.currency);
            (spent.nanos >= limit.nanos).then(|| Used::Cost { spent, limit: limit.clone() })
        });
        let tokens = self.session.tokens.filter(|limit| before.tokens >= *limit);
        let tokens = tokens.map(|limit| Used::Tokens { spent: before.tokens, limit });
        cost.or(tokens).map(|used| LimitReached { scope: LimitScope::Session, used })
    }

    /// The limit that a running turn has passed, by its cost and by the fewest tokens that it has used.
    pub(crate) fn passed(
        &self,
        before: &Spending,
        cost: Option<&Money>,
        tokens: u64,
    ) -> Option<LimitReached> {
        let mut with_turn = before.clone();
        with_turn.add(cost, Some(tokens));
        let mut alone = Spending::default();
        alone.add(cost, Some(tokens));
        let budgets =
            [(LimitScope::Turn, &self.turn, alone), (LimitScope::Session, &self.session, with_turn)];
        budgets.into_iter().find_map(|(scope, budget, spending)| {
            let cost = budget.cost.as_ref().and_then(|limit| {
                let spent = spending.in_currency(&limit.currency);
                (spent.nanos > limit.nanos).then(|| Used::Cost { spent, limit: limit.clone() })
            });
            let tokens = budget.tokens.filter(|limit| spending.tokens > *limit);
            let tokens = tokens.map(|limit| Used::Tokens { spent: spending.tokens, limit });
            cost.or(tokens).map(|used| LimitReached { scope, used })
        })
    }

    /// The limits of cost, of the turn and of the session.
    pub(crate) fn costs(&self) -> impl Iterator<Item = &Money> {
        [&self.turn, &self.session].into_iter().filter_map(|budget| budget.cost.as_ref())
    }

    /// Whether tokens are limited.
    pub(crate) fn has_tokens(&self) -> bool {
        self.turn.tokens.is_some() || self.session.tokens.is_some()
    }
}

/// A limit that a turn or its session has reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitReached {
    scope: LimitScope,
    used: Used,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitScope {
    Turn,
    Session,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Used {
    Cost { spent: Money, limit: Money },
    Tokens { spent: u64, limit: u64 },
}

impl LimitReached {
    /// The stable code.
    pub fn code(&self) -> ErrorCode {
        match self.used {
            Used::Cost { .. } => ErrorCode::CostLimit,
            Used::Tokens { .. } => ErrorCode::TokenLimit,
        }
    }
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = match self.scope {
            LimitScope::Turn => "the turn has",
            LimitScope::Session => "the session's turns have",
        };
        match &self.used {
            Used::Cost { spent, limit } => write!(f, "{subject} cost {spent}, and the limit is {limit}"),
            Used::Tokens { spent, limit } => {
                write!(f, "{subject} used {spent} tokens, and the limit is {limit}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
