//! Sums over turns, read from an index that has all figures. A turn that a fork copied is left out: it ended before the
//! record was created.
//!
//! The checksums of the rows are not verified for a sum: reading them would mean to read all prompts.

use std::collections::BTreeMap;

use rusqlite::{CachedStatement, Connection, Row, params};

use super::fault::SqliteFault;
use super::read;
use crate::model::{AgentKey, AgentSpec, Money, RecordId, Spending, Timestamp, TurnTokens};
use crate::store::usage::{UsageGroup, UsageKey, UsageQuery, UsageSum};

/// The statement for the figures of turns, with the expressions of the index. The last condition is the index's own.
macro_rules! figures {
    ($conditions:literal) => {
        concat!(
            "SELECT record, ended_at, cost, currency, \
             CASE WHEN json_valid(usage) THEN usage ->> '$.inputTokens' END, \
             CASE WHEN json_valid(usage) THEN usage ->> '$.outputTokens' END, \
             CASE WHEN json_valid(usage) THEN usage ->> '$.cachedReadTokens' END, \
             CASE WHEN json_valid(usage) THEN usage ->> '$.cachedWriteTokens' END, \
             CASE WHEN json_valid(usage) THEN usage ->> '$.thoughtTokens' END, \
             CASE WHEN json_valid(usage) THEN usage ->> '$.totalTokens' END \
             FROM turns INDEXED BY turns_usage WHERE ",
            $conditions,
            " AND ended_at IS NOT NULL ORDER BY record"
        )
    };
}

/// The figures of the turns that ended in a time, by record.
pub(super) const FIGURES: &str = figures!("ended_at >= ?1 AND ended_at < ?2");
/// The figures of the turns of a record.
pub(super) const FIGURES_OF_RECORD: &str = figures!(
    "record = (SELECT key FROM records WHERE id = ?1) \
     AND ended_at >= (SELECT created_at FROM records WHERE id = ?1)"
);

/// The sums of the rows, by key.
pub(super) fn usage(
    connection: &Connection,
    query: &UsageQuery,
) -> Result<BTreeMap<UsageKey, UsageSum>, SqliteFault> {
    let mut records = connection.prepare_cached(
        "SELECT id, agent_name, program, args, real_cwd, created_at, scope_name FROM records WHERE key = ?1",
    )?;
    let mut figures = connection.prepare_cached(FIGURES)?;
    let millis = |time: Option<Timestamp>, none| time.map_or(none, Timestamp::as_millis);
    let mut turns = figures.query(params![millis(query.since, 0), millis(query.until, i64::MAX)])?;
    let mut sums: BTreeMap<UsageKey, UsageSum> = BTreeMap::new();
    // Turns come by record, and the turns of a record by time: most turns belong to the same row as the one before.
    let mut current: Option<TurnRecord> = None;
    let mut open = OpenRow::default();
    while let Some(row) = turns.next()? {
        let key: i64 = row.get(0)?;
        if current.as_ref().is_none_or(|current| current.key != key) {
            open.finish(&mut sums);
            current = Some(TurnRecord::read(&mut records, key, query)?);
        }
        let Some(TurnRecord { is_meant: true, created_at, group, .. }) = &current else { continue };
        let ended_at: i64 = row.get(1)?;
        if ended_at < *created_at {
            continue;
        }
        let at = Timestamp::from_millis(ended_at).map_err(|_| damaged("a turn ended at no time"))?;
        if !open.contains(at) {
            open.finish(&mut sums);
            open = OpenRow::new(query.by, at, group.as_ref());
        }
        open.sum.add_turn(tokens(row)?, cost(row)?);
    }
    open.finish(&mut sums);
    Ok(sums)
}

/// What the turns of a record have used.
pub(super) fn spent(connection: &Connection, id: &RecordId) -> Result<Spending, SqliteFault> {
    read::existing(connection, id)?;
    let mut figures = connection.prepare_cached(FIGURES_OF_RECORD)?;
    let mut turns = figures.query([id.as_str()])?;
    let mut spending = Spending::default();
    while let Some(row) = turns.next()? {
        spending.add(cost(row)?.as_ref(), tokens(row)?.total());
    }
    Ok(spending)
}

/// The record whose turns are being summed.
struct TurnRecord {
    key: i64,
    /// Whether the query is about it.
    is_meant: bool,
    created_at: i64,
    /// The row that its turns belong to, unless rows are days.
    group: Option<UsageKey>,
}

impl TurnRecord {
    fn read(records: &mut CachedStatement<'_>, key: i64, query: &UsageQuery) -> Result<Self, SqliteFault> {
        let mut found = records.query([key])?;
        let row = found.next()?.ok_or_else(|| damaged("a turn belongs to no record"))?;
        let created_at = row.get(5)?;
        if query.agent.is_none() && matches!(query.by, UsageGroup::Day(_)) {
            return Ok(Self { key, is_meant: true, created_at, group: None });
        }
        let args: String = row.get(3)?;
        let args: Vec<String> =
            serde_json::from_str(&args).map_err(|_| damaged("an agent has no arguments"))?;
        let agent = AgentSpec { name: row.get(1)?, ..AgentSpec::new(row.get::<_, String>(2)?, args) };
        let is_meant = query.agent.as_ref().is_none_or(|meant: &AgentKey| agent.key() == *meant);
        let group = match query.by {
            UsageGroup::Day(_) => None,
            UsageGroup::Agent => Some(UsageKey::Agent(agent.label().into_owned())),
            UsageGroup::Directory => Some(UsageKey::Directory(row.get(4)?)),
            UsageGroup::Session => {
                let record = RecordId::new(row.get::<_, String>(0)?);
                let record = record.map_err(|_| damaged("a record has no id"))?;
                let name = row.get::<_, Option<String>>(6)?.filter(|name| !name.is_empty());
                Some(UsageKey::Session { record, agent: agent.label().into_owned(), name })
            }
        };
        Ok(Self { key, is_meant, created_at, group })
    }
}

/// The row that turns are being added to.
#[derive(Default)]
struct OpenRow {
    key: Option<UsageKey>,
    /// The time of its turns.
    from: Option<Timestamp>,
    until: Option<Timestamp>,
    sum: UsageSum,
}

impl OpenRow {
    fn new(by: UsageGroup, at: Timestamp, group: Option<&UsageKey>) -> Self {
        let sum = UsageSum::default();
        match by {
            UsageGroup::Day(day) => {
                let (from, until) = day(at);
                Self { key: Some(UsageKey::Day(from)), from: Some(from), until: Some(until), sum }
            }
            UsageGroup::Agent | UsageGroup::Directory | UsageGroup::Session => {
                Self { key: group.cloned(), from: None, until: None, sum }
            }
        }
    }

    fn contains(&self, at: Timestamp) -> bool {
        self.key.is_some()
            && self.from.is_none_or(|from| at >= from)
            && self.until.is_none_or(|until| at < until)
    }

    /// Adds the row to the others, and begins none.
    fn finish(&mut self, sums: &mut BTreeMap<UsageKey, UsageSum>) {
        let Self { key, sum, .. } = std::mem::take(self);
        if let Some(key) = key {
            sums.entry(key).or_default().add(sum);
        }
    }
}

/// The reported tokens of a turn; a number that is none of a count is unknown.
fn tokens(row: &Row<'_>) -> Result<TurnTokens, SqliteFault> {
    let mut figures = [None; 6];
    for (column, figure) in (4..).zip(&mut figures) {
        *figure = row.get_ref(column)?.as_i64().ok().and_then(|count| u64::try_from(count).ok());
    }
    Ok(TurnTokens::of_figures(figures))
}

fn cost(row: &Row<'_>) -> Result<Option<Money>, SqliteFault> {
    let nanos: Option<i64> = row.get(2)?;
    let Some(nanos) = nanos else { return Ok(None) };
    let nanos = u64::try_from(nanos).map_err(|_| damaged("a turn has a negative cost"))?;
    Ok(Some(Money { nanos, currency: row.get(3)? }))
}

fn damaged(problem: &str) -> SqliteFault {
    SqliteFault::Damaged(problem.to_owned())
}
