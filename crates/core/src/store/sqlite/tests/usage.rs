//! Sums of what turns used come from an index alone, and leave out what a fork copied.

use super::super::usage::{FIGURES, FIGURES_OF_RECORD};
use super::*;
use crate::model::{Money, Spending, StopReason, TurnOutcome, TurnTokens};
use crate::store::{UsageGroup, UsageKey, UsageQuery, UsageSum};

const TOKENS: &str = r#"{"inputTokens":3,"outputTokens":4,"totalTokens":9}"#;
const PARTS: &str = r#"{"inputTokens":3,"outputTokens":4}"#;

/// A turn that ended at a time.
fn ended(number: u64, millis: i64, usage: Option<&str>, cost: Option<Money>) -> Change {
    let outcome = TurnOutcome::Stopped(StopReason::new("end_turn"));
    let Change::Turn(turn) = turn(number, TurnState::Ended { at: at(millis), outcome }) else {
        panic!("a turn")
    };
    Change::Turn(Turn { usage: usage.map(Into::into), cost, ..turn })
}

fn day(at: Timestamp) -> (Timestamp, Timestamp) {
    let start = at.as_millis() / 100 * 100;
    (Timestamp::from_millis(start).unwrap(), Timestamp::from_millis(start + 100).unwrap())
}

fn query(by: UsageGroup) -> UsageQuery {
    UsageQuery { agent: None, since: None, until: None, by }
}

fn sum(turns: &[(&str, Option<Money>)]) -> UsageSum {
    let mut sum = UsageSum::default();
    for (usage, cost) in turns {
        sum.add_turn(TurnTokens::read(usage), cost.clone());
    }
    sum
}

async fn store(path: &Path) -> SqliteStore {
    let store = open(path, Access::ReadWrite, Migrations::OURS).unwrap();
    let (usd, eur) = (Money::of(0.25, "USD"), Money::of(1.0, "EUR"));
    let turns = vec![
        ended(1, 110, Some(TOKENS), usd.clone()),
        ended(2, 190, Some(PARTS), eur),
        ended(3, 200, Some(r#"{"totalTokens":99999999999999999999,"inputTokens":"3"}"#), None),
        turn(4, TurnState::Queued),
    ];
    store.create(record("r"), turns, host()).await.unwrap();
    // A fork: its first turn ended before it was created.
    let forked = Record { created_at: at(205), agent: AgentSpec::new("other", [""; 0]), ..record("fork") };
    let turns = vec![ended(1, 110, Some(TOKENS), usd.clone()), ended(2, 210, Some(TOKENS), usd)];
    store.create(forked, turns, host()).await.unwrap();
    store
}

#[tokio::test]
async fn usage_is_summed_by_day_agent_directory_and_session() {
    let (_home, path) = place();
    let store = store(&path).await;
    let (usd, eur) = (Money::of(0.25, "USD"), Money::of(1.0, "EUR"));
    let first = [(TOKENS, usd.clone()), (PARTS, eur)];
    let own = [&first[..], &[("{}", None)]].concat();
    let fork = [(TOKENS, usd)];
    let days = store.usage(query(UsageGroup::Day(day))).await.unwrap();
    let second = sum(&[("{}", None), fork[0].clone()]);
    let expected = [(UsageKey::Day(at(100)), sum(&first)), (UsageKey::Day(at(200)), second.clone())];
    assert_eq!(days, expected.into());
    let since = UsageQuery { since: Some(at(200)), until: Some(at(211)), ..query(UsageGroup::Day(day)) };
    assert_eq!(store.usage(since).await.unwrap(), [(UsageKey::Day(at(200)), second)].into());
    let agent = |name: &str| UsageKey::Agent(name.to_owned());
    let agents = [(agent("agent --quiet"), sum(&own)), (agent("other"), sum(&fork))];
    assert_eq!(store.usage(query(UsageGroup::Agent)).await.unwrap(), agents.into());
    let all = sum(&[&own[..], &fork].concat());
    let directory = UsageKey::Directory("/work".to_owned());
    assert_eq!(store.usage(query(UsageGroup::Directory)).await.unwrap(), [(directory, all)].into());
    let session = UsageKey::Session { record: id("fork"), agent: "other".to_owned(), name: None };
    let other = AgentSpec::new("other", [""; 0]).key();
    let of_agent = UsageQuery { agent: Some(other), ..query(UsageGroup::Session) };
    assert_eq!(store.usage(of_agent).await.unwrap(), [(session, sum(&fork))].into());
}

#[tokio::test]
async fn spending_of_a_record_leaves_out_what_a_fork_copied() {
    let (_home, path) = place();
    let store = store(&path).await;
    let costs = vec![Money::of(0.25, "USD").unwrap(), Money::of(1.0, "EUR").unwrap()];
    assert_eq!(store.spent(id("r")).await.unwrap(), Spending { tokens: 16, costs: costs.clone() });
    let of_fork = Spending { tokens: 9, costs: vec![costs[0].clone()] };
    assert_eq!(store.spent(id("fork")).await.unwrap(), of_fork);
    assert!(matches!(store.spent(id("none")).await, Err(StoreError::NoRecord(_))));
}

#[tokio::test]
async fn usage_is_read_from_its_index_alone() {
    let (_home, path) = place();
    drop(store(&path).await);
    let file = Connection::open(&path).unwrap();
    for statement in [FIGURES, FIGURES_OF_RECORD] {
        let mut plan = file.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
        let count = plan.parameter_count();
        let rows = plan
            .query_map(rusqlite::params_from_iter(vec!["1"; count]), |row| row.get::<_, String>(3))
            .unwrap()
            .collect::<Result<Vec<_>, _>>()
            .unwrap();
        let turns: Vec<&String> = rows.iter().filter(|row| row.contains(" turns")).collect();
        assert!(matches!(&turns[..], [one] if one.contains("COVERING INDEX turns_usage")), "{rows:?}");
        assert!(!rows.iter().any(|row| row.contains("TEMP B-TREE")), "{rows:?}");
    }
}
