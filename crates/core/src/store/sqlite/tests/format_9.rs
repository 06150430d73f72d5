//! Migrates a file of format 9 without loss.

use super::format_11::before_12;
use super::later_columns::full;
use super::*;
use crate::model::SessionInfo;

#[tokio::test]
async fn a_store_of_format_9_opens_with_all_it_holds() {
    let (_home, path) = place();
    sql(&path, include_str!("format_9.sql"));
    assert_eq!(format(&path), 9);
    assert_eq!(SqliteStore::open(&path, Access::ReadOnly).unwrap_err().code().as_str(), "STORE_OLDER");
    let store = SqliteStore::open(&path, Access::ReadWrite).unwrap();
    assert_eq!(format(&path), formats().0);
    let (expected, ended) = full();
    let mut lineage = expected.lineage.clone();
    lineage.replace(AcpSessionId::new("s2").unwrap(), None, LineageReason::LoadFailed, at(7));
    // Failed restores are stored since format 10, the user's title and the usage since format 11.
    let record = Record {
        lineage,
        info: SessionInfo::default(),
        restore_error: None,
        last_seq: Some(Seq(2)),
        last_turn: Some(TurnId(1)),
        updated_at: at(5),
        ..expected
    };
    assert_eq!(store.record(id("r")).await.unwrap(), Some(record));
    let Change::Turn(turn) = ended else { panic!("a turn") };
    assert_eq!(turn.wake_options.fallback, crate::model::Fallback::Never);
    assert_eq!(store.turn_numbered(id("r"), TurnId(1)).await.unwrap(), Some(before_12(turn)));
    let events = store.events(id("r"), Seq(1), 10).await.unwrap();
    assert_eq!(events.iter().map(|event| &*event.body).collect::<Vec<_>>(), ["one", "two"]);
}
