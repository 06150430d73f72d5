//! Migrates a file of format 11 without loss, and writes what format 12 adds.

use super::later_columns::full;
use super::*;
use crate::model::{Content, ExchangeFold, SessionInfo, Turn};

#[tokio::test]
async fn a_store_of_format_11_opens_with_all_it_holds() {
    let (_home, path) = place();
    sql(&path, include_str!("format_11.sql"));
    assert_eq!(format(&path), 11);
    assert_eq!(SqliteStore::open(&path, Access::ReadOnly).unwrap_err().code().as_str(), "STORE_OLDER");
    let store = SqliteStore::open(&path, Access::ReadWrite).unwrap();
    assert_eq!(format(&path), formats().0);
    let (expected, ended) = full();
    let mut lineage = expected.lineage.clone();
    lineage.replace(AcpSessionId::new("s2").unwrap(), None, LineageReason::LoadFailed, at(7));
    let info = SessionInfo { title: Some("the agent's title".to_owned()), ..expected.info };
    let record = Record {
        lineage,
        info,
        last_seq: Some(Seq(2)),
        last_turn: Some(TurnId(1)),
        updated_at: at(7),
        ..expected
    };
    assert_eq!(store.record(id("r")).await.unwrap(), Some(record));
    let Change::Turn(turn) = ended else { panic!("a turn") };
    assert_eq!(store.turn_numbered(id("r"), TurnId(1)).await.unwrap(), Some(before_12(turn)));
    let events = store.events(id("r"), Seq(1), 10).await.unwrap();
    assert_eq!(events.iter().map(|event| &*event.body).collect::<Vec<_>>(), ["one", "two"]);
    let open = store.open_turns(id("plain")).await.unwrap();
    assert_eq!(open.iter().map(|turn| turn.id).collect::<Vec<_>>(), [TurnId(1)]);
    assert_eq!(store.exchanges(id("r")).await.unwrap(), None);
    let mut fold = ExchangeFold::new();
    for event in &events {
        fold.apply(event, &Content::Prompt { text: "do it".to_owned(), blocks: Vec::new() });
    }
    let checkpoint = fold.take_checkpoint().unwrap();
    let lease = store.lease(id("r"), host()).await.unwrap();
    let added = vec![Change::Exchanges(Box::new(checkpoint.clone()))];
    store.append(lease.clone(), added, Durability::Process).await.unwrap();
    assert_eq!(store.exchanges(id("r")).await.unwrap(), Some(checkpoint));
    let deleted = vec![Change::Lifecycle(Lifecycle::Deleted { at: at(9) })];
    store.append(lease, deleted, Durability::Process).await.unwrap();
    assert_eq!(store.exchanges(id("r")).await.unwrap(), None);
    drop(store);
    let file = Connection::open(&path).unwrap();
    let left: i64 = file.query_row("SELECT count(*) FROM exchanges", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

/// A turn as formats before 12 stored it, without its cost and its limits of usage.
pub(super) fn before_12(turn: Turn) -> Turn {
    let TurnLimits { whole, silence, .. } = turn.limits;
    Turn { cost: None, limits: TurnLimits { whole, silence, ..TurnLimits::default() }, ..turn }
}

#[tokio::test]
async fn damage_in_stored_exchanges_is_detected() {
    let changes = [
        ("UPDATE exchanges SET prompt = 'x'", false, "is not what was written"),
        ("UPDATE exchange_folds SET through = 0", false, "is not what was written"),
        ("DELETE FROM exchanges", false, "exchanges of a record are missing"),
        (
            "UPDATE exchanges SET answered = 2",
            true,
            "exchanges.answered holds what no version of ours writes",
        ),
        (
            "UPDATE exchange_folds SET state = '{}'",
            true,
            "exchange_folds.state holds what no version of ours writes",
        ),
        ("UPDATE exchange_folds SET through = 9", true, "the exchanges of a record go beyond its last event"),
    ];
    for (change, checksums_agree, expected) in changes {
        let (_home, path) = place();
        let store = open(&path, Access::ReadWrite, Migrations::OURS).unwrap();
        let Change::Event(first) = event(1, "one") else { unreachable!() };
        let mut fold = ExchangeFold::new();
        fold.apply(&first, &Content::Prompt { text: "do it".to_owned(), blocks: Vec::new() });
        let exchanges = Change::Exchanges(Box::new(fold.take_checkpoint().unwrap()));
        store.create(record("r"), vec![Change::Event(first), exchanges], host()).await.unwrap();
        drop(store);
        let file = Connection::open(&path).unwrap();
        file.execute_batch(change).unwrap();
        if checksums_agree {
            agree(&file, &rows::EXCHANGE);
            agree(&file, &rows::EXCHANGE_FOLD);
        }
        drop(file);
        let store = open(&path, Access::ReadOnly, Migrations::OURS).unwrap();
        match store.exchanges(id("r")).await.unwrap_err() {
            StoreError::Corrupt { problem, .. } => {
                assert!(problem.ends_with(expected), "{change}: {problem}");
            }
            other => panic!("{change}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn verification_reports_exchanges_and_blobs_without_a_record() {
    let (_home, path) = place();
    let store = open(&path, Access::ReadWrite, Migrations::OURS).unwrap();
    let Change::Event(first) = event(1, "one") else { unreachable!() };
    let mut fold = ExchangeFold::new();
    fold.apply(&first, &Content::Prompt { text: "do it".to_owned(), blocks: Vec::new() });
    let exchanges = Change::Exchanges(Box::new(fold.take_checkpoint().unwrap()));
    store.create(record("r"), vec![Change::Event(first), exchanges], host()).await.unwrap();
    drop(store);
    let file = Connection::open(&path).unwrap();
    let edits = "PRAGMA foreign_keys = OFF; UPDATE exchange_folds SET record = 99; \
                 INSERT INTO blobs (hash, bytes) VALUES (zeroblob(32), x'78')";
    file.execute_batch(edits).unwrap();
    agree(&file, &rows::EXCHANGE_FOLD);
    drop(file);
    let store = open(&path, Access::ReadOnly, Migrations::OURS).unwrap();
    let problems = store.verify(std::sync::Arc::default()).await.unwrap().problems;
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let lost = ["exchange_folds", "exchanges", "blobs"]
        .map(|table| format!("1 rows of {table} belong to no session"));
    assert_eq!(problems, lost);
}
