//! What a store promises of a record's settings.

use acpx_core::model::{Record, RecordSettings};
use acpx_core::store::{Change, Durability};

use super::samples::{host, record, settings_of};
use super::{AnyStore, create, kept};

pub(super) async fn settings_are_kept_whole_and_move_no_time(store: AnyStore) {
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
