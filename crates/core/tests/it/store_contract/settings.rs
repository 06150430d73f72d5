//! What a store promises of a record's settings, and of a time that is said.

use acpx_core::model::{Lifecycle, Record, RecordSettings};
use acpx_core::store::{Change, Durability};

use super::samples::{at, events, host, record, settings_of};
use super::{AnyStore, create, kept};

pub(super) async fn settings_are_stored_whole_and_change_no_time(store: AnyStore) {
    let lease = create(&store, record("r", 5)).await;
    for settings in [settings_of("plan"), RecordSettings::default()] {
        let changes = vec![Change::Settings(settings.clone())];
        store.append(lease.clone(), changes, Durability::Process).await.unwrap();
        assert_eq!(kept(&store, "r").await, Record { settings, ..record("r", 5) });
    }
    // A record may begin with some, and its first changes may bring others.
    let begun = Record { settings: settings_of("a"), ..record("begun", 5) };
    create(&store, begun.clone()).await;
    assert_eq!(kept(&store, "begun").await, begun);
    let changes = vec![Change::Settings(settings_of("b"))];
    store.create(record("born", 5), changes, host("h1")).await.unwrap();
    assert_eq!(kept(&store, "born").await, Record { settings: settings_of("b"), ..record("born", 5) });
}

pub(super) async fn explicit_record_time_overrides_earlier_writes_only(store: AnyStore) {
    let spoken = || Change::LastActivity(at(2));
    let changes = events(1, 2).into_iter().chain([spoken()]).collect();
    let lease = store.create(record("r", 5), changes, host("h")).await.unwrap();
    assert_eq!(kept(&store, "r").await.updated_at, at(2));
    let closed = Change::Lifecycle(Lifecycle::Closed { at: at(60) });
    let changes = events(3, 3).into_iter().chain([closed, spoken()]).collect();
    store.append(lease.clone(), changes, Durability::Process).await.unwrap();
    assert_eq!(kept(&store, "r").await.updated_at, at(2));
    let next = events(4, 4);
    let Some(Change::Event(event)) = next.last().cloned() else { panic!("an event") };
    store.append(lease, next, Durability::Process).await.unwrap();
    assert_eq!(kept(&store, "r").await.updated_at, event.at);
}
