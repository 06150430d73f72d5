//! Sums of what turns used, for a report. A figure that an agent did not report is counted as unknown, never as zero.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{AgentKey, Money, RecordId, Timestamp, TurnTokens};

/// Which ended turns to sum, and how to group them.
#[derive(Debug, Clone)]
pub struct UsageQuery {
    /// Only turns of this agent.
    pub agent: Option<AgentKey>,
    /// Only turns that ended at this time or later.
    pub since: Option<Timestamp>,
    /// Only turns that ended before this time.
    pub until: Option<Timestamp>,
    /// One row for each of these.
    pub by: UsageGroup,
}

/// What one row of a report stands for.
#[derive(Debug, Clone, Copy)]
pub enum UsageGroup {
    /// A day: the function returns the first moment of the day of a time, and the first moment of the next day.
    Day(fn(Timestamp) -> (Timestamp, Timestamp)),
    /// An agent.
    Agent,
    /// A directory.
    Directory,
    /// A session.
    Session,
}

/// The key of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum UsageKey {
    /// The day that begins at this time.
    Day(Timestamp),
    /// The agent of this name, or of this command line.
    Agent(String),
    /// The directory, with all links resolved.
    Directory(String),
    /// The session of this record.
    Session {
        /// The record.
        record: RecordId,
        /// Its agent.
        agent: String,
        /// Its name.
        name: Option<String>,
    },
}

/// What the turns of one row used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageSum {
    /// How many turns ended.
    pub turns: u64,
    /// How many of them have a number of tokens.
    pub turns_with_tokens: u64,
    /// Whether a total is the sum of the parts that an agent reported, because it reported no total.
    pub has_derived_total: bool,
    /// All tokens.
    pub total: u64,
    /// The sums of the figures that at least one turn has.
    pub tokens: TurnTokens,
    /// How many turns have a cost, and their cost, by currency.
    pub costs: BTreeMap<Arc<str>, (u64, Money)>,
}

impl UsageSum {
    /// Adds a turn.
    pub fn add_turn(&mut self, tokens: TurnTokens, cost: Option<Money>) {
        let total = tokens.total();
        let turn = Self {
            turns: 1,
            turns_with_tokens: total.is_some().into(),
            has_derived_total: total.is_some() && tokens.reported_total.is_none(),
            total: total.unwrap_or_default(),
            tokens,
            costs: cost.map(|cost| (Arc::clone(&cost.currency), (1, cost))).into_iter().collect(),
        };
        self.add(turn);
    }

    /// Adds the turns of another row.
    pub fn add(&mut self, other: Self) {
        let sum = |one: Option<u64>, other: Option<u64>| {
            [one, other].into_iter().flatten().reduce(u64::saturating_add)
        };
        self.turns += other.turns;
        self.turns_with_tokens += other.turns_with_tokens;
        self.has_derived_total |= other.has_derived_total;
        self.total = self.total.saturating_add(other.total);
        let (own, others) = (self.tokens, other.tokens);
        self.tokens = TurnTokens {
            input: sum(own.input, others.input),
            output: sum(own.output, others.output),
            cached_read: sum(own.cached_read, others.cached_read),
            cached_write: sum(own.cached_write, others.cached_write),
            thought: sum(own.thought, others.thought),
            reported_total: sum(own.reported_total, others.reported_total),
        };
        for (currency, (turns, cost)) in other.costs {
            let (known_turns, known) =
                self.costs.entry(Arc::clone(&currency)).or_insert_with(|| (0, Money { nanos: 0, currency }));
            *known_turns += turns;
            known.nanos = known.nanos.saturating_add(cost.nanos);
        }
    }

    /// How many turns have a cost. A turn has it in one currency.
    pub fn turns_with_cost(&self) -> u64 {
        self.costs.values().map(|(turns, _)| turns).sum()
    }
}
