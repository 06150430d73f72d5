//! Migrates a file of format 10 without loss, and writes what format 11 adds.

use super::format_11::before_12;
use super::later_columns::full;
use super::*;
use crate::model::SessionInfo;

#[tokio::test]
async fn a_store_of_format_10_opens_with_all_it_holds() {
    let (_home, path) = place();
    sql(&path, include_str!("format_10.sql"));
    assert_eq!(format(&path), 10);
    assert_eq!(SqliteStore::open(&path, Access::ReadOnly).unwrap_err().code().as_str(), "STORE_OLDER");
    let store = SqliteStore::open(&path, Access::ReadWrite).unwrap();
    assert_eq!(format(&path), formats().0);
    let (expected, ended) = full();
    let mut lineage = expected.lineage.clone();
    lineage.replace(AcpSessionId::new("s2").unwrap(), None, LineageReason::LoadFailed, at(7));
    let info = SessionInfo { title: Some("the agent's title".to_owned()), ..SessionInfo::default() };
    let record = Record {
        lineage,
        info,
        last_seq: Some(Seq(2)),
        last_turn: Some(TurnId(1)),
        updated_at: at(7),
        ..expected.clone()
    };
    assert_eq!(store.record(id("r")).await.unwrap(), Some(record.clone()));
    let Change::Turn(turn) = ended else { panic!("a turn") };
    assert_eq!(store.turn_numbered(id("r"), TurnId(1)).await.unwrap(), Some(before_12(turn)));
    let events = store.events(id("r"), Seq(1), 10).await.unwrap();
    assert_eq!(events.iter().map(|event| &*event.body).collect::<Vec<_>>(), ["one", "two"]);
    let open = store.open_turns(id("plain")).await.unwrap();
    assert_eq!(open.iter().map(|turn| turn.id).collect::<Vec<_>>(), [TurnId(1)]);
    let lease = store.lease(id("r"), host()).await.unwrap();
    let SessionInfo { user_title, usage, .. } = expected.info;
    let added = vec![Change::UserTitle(user_title.clone()), Change::Usage(usage.clone())];
    store.append(lease, added, Durability::Process).await.unwrap();
    let info = SessionInfo { user_title, usage, ..record.info };
    assert_eq!(store.record(id("r")).await.unwrap(), Some(Record { info, ..record }));
}
