//! Migrates a file of format 12 without loss, and writes what format 13 adds.

use super::later_columns::full;
use super::*;
use crate::model::{
    DeliveryOutcome, Notification, NotificationEvent, QueuedNotification, SessionInfo, SinkStatus, TurnId,
};

fn lost() -> Change {
    let sinks = vec!["phone".to_owned()];
    let event = NotificationEvent::HostLost { turn: 1 };
    Change::Notification(Notification { at: at(9), event, sinks, due_at: at(9) })
}

#[tokio::test]
async fn a_store_of_format_12_opens_with_all_it_holds() {
    let (_home, path) = place();
    sql(&path, include_str!("format_12.sql"));
    assert_eq!(format(&path), 12);
    assert_eq!(SqliteStore::open(&path, Access::ReadOnly).unwrap_err().code().as_str(), "STORE_OLDER");
    let store = SqliteStore::open(&path, Access::ReadWrite).unwrap();
    assert_eq!(format(&path), formats().0);
    let (expected, ended) = full();
    let mut lineage = expected.lineage.clone();
    lineage.replace(AcpSessionId::new("s2").unwrap(), None, LineageReason::LoadFailed, at(7));
    let info = SessionInfo { title: Some("the agent's title".to_owned()), ..expected.info };
    let record = Record { lineage, info, last_seq: Some(Seq(2)), last_turn: Some(TurnId(1)), ..expected };
    assert_eq!(store.record(id("r")).await.unwrap(), Some(record));
    let Change::Turn(turn) = ended else { panic!("a turn") };
    assert_eq!(store.turn_numbered(id("r"), TurnId(1)).await.unwrap(), Some(turn));
    let events = store.events(id("r"), Seq(1), 10).await.unwrap();
    assert_eq!(events.iter().map(|event| &*event.body).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(store.exchanges(id("r")).await.unwrap().map(|found| found.through), Some(Seq(1)));
    assert_eq!(store.open_turns(id("plain")).await.unwrap().len(), 1);
    assert_eq!(store.notification_sinks().await.unwrap(), []);
    let lease = store.lease(id("r"), host()).await.unwrap();
    store.append(lease, vec![lost()], Durability::Process).await.unwrap();
    let event = NotificationEvent::HostLost { turn: 1 };
    let queued = QueuedNotification {
        id: event.id(&id("r")),
        sink: "phone".to_owned(),
        record: id("r"),
        at: at(9),
        event,
        attempts: 0,
        next_attempt_at: at(9),
    };
    assert_eq!(store.notifications("phone".to_owned(), 9).await.unwrap(), [queued]);
    assert_eq!(store.verify(Arc::default()).await.unwrap().problems, []);
}

#[tokio::test]
async fn damage_in_queued_notifications_is_detected() {
    let changes = [
        ("UPDATE notifications SET attempts = 7", false, "is not what was written"),
        (
            "UPDATE notifications SET event = '{}'",
            true,
            "notifications.event holds what no version of ours writes",
        ),
        (
            "UPDATE notifications SET record = 99",
            true,
            "notifications.record holds what no version of ours writes",
        ),
    ];
    for (change, checksums_agree, expected) in changes {
        let (_home, path) = place();
        let store = open(&path, Access::ReadWrite, Migrations::OURS).unwrap();
        store.create(record("r"), vec![lost()], host()).await.unwrap();
        drop(store);
        let file = Connection::open(&path).unwrap();
        file.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        file.execute_batch(change).unwrap();
        if checksums_agree {
            agree(&file, &notifications::NOTIFICATION);
        }
        drop(file);
        let store = open(&path, Access::ReadOnly, Migrations::OURS).unwrap();
        match store.notifications("phone".to_owned(), 9).await.unwrap_err() {
            StoreError::Corrupt { problem, .. } => {
                assert!(problem.ends_with(expected), "{change}: {problem}");
            }
            other => panic!("{change}: {other:?}"),
        }
        assert!(!store.verify(Arc::default()).await.unwrap().problems.is_empty(), "{change}");
    }
}

#[tokio::test]
async fn damage_in_the_status_of_a_sink_is_detected() {
    let (_home, path) = place();
    let store = open(&path, Access::ReadWrite, Migrations::OURS).unwrap();
    store.create(record("r"), vec![lost()], host()).await.unwrap();
    let event = NotificationEvent::HostLost { turn: 1 }.id(&id("r"));
    let outcome = DeliveryOutcome::Delivered { at: at(10) };
    store.settle_notification(event, "phone".to_owned(), outcome).await.unwrap();
    let status = SinkStatus {
        sink: "phone".to_owned(),
        delivered: 1,
        delivered_at: Some(at(10)),
        ..SinkStatus::default()
    };
    assert_eq!(store.notification_sinks().await.unwrap(), [status]);
    drop(store);
    sql(&path, "UPDATE notification_sinks SET delivered = 2");
    let store = open(&path, Access::ReadOnly, Migrations::OURS).unwrap();
    assert_eq!(store.notification_sinks().await.unwrap_err().code().as_str(), "STORE_CORRUPT");
    let problems = store.verify(Arc::default()).await.unwrap().problems;
    assert!(problems[0].problem.contains("a row of notification_sinks"), "{problems:?}");
}
