//! A copy of a store that another thread writes to: it has every event that was acknowledged before it began.
#![cfg(test)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use acpx_core::store::{Access, Change, Durability, SqliteStore, Store, StoreProgress};

use crate::store_contract::samples::{all_events, event, host, id, record};

#[tokio::test(flavor = "multi_thread")]
async fn copy_of_a_store_in_use_has_every_event_acknowledged_before() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("acpx.db");
    let store = Arc::new(SqliteStore::open(&path, Access::ReadWrite).unwrap());
    let lease = store.create(record("r", 1), Vec::new(), host("h")).await.unwrap();
    let (acknowledged, stops) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let writing = tokio::spawn({
        let (store, acknowledged, stops) =
            (Arc::clone(&store), Arc::clone(&acknowledged), Arc::clone(&stops));
        async move {
            let mut seq = 0;
            while !stops.load(Ordering::SeqCst) {
                seq += 1;
                let body = format!("{seq} {}", "x".repeat(3000));
                let changes = vec![Change::Event(event(seq, body))];
                store.append(lease.clone(), changes, Durability::Process).await.unwrap();
                acknowledged.store(seq, Ordering::SeqCst);
            }
            seq
        }
    });
    for round in 1..=5 {
        while acknowledged.load(Ordering::SeqCst) < round * 400 {
            tokio::task::yield_now().await;
        }
        let copy = home.path().join(format!("copy-{round}.db"));
        std::fs::write(&copy, "").unwrap();
        // Another process would open it like this.
        let reader = SqliteStore::open(&path, Access::ReadOnly).unwrap();
        let before = acknowledged.load(Ordering::SeqCst);
        reader.copy_to(copy.clone(), Arc::default()).await.unwrap();
        let after = acknowledged.load(Ordering::SeqCst);
        let copied = SqliteStore::open_copy(&copy).unwrap();
        let verified = copied.verify(Arc::<StoreProgress>::default()).await.unwrap();
        assert_eq!(verified.problems, []);
        let events = all_events(&copied, &id("r"), 1000).await.unwrap();
        let numbers: Vec<u64> = events.iter().map(|event| event.seq.0).collect();
        assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
        // One append may have been committed and not yet acknowledged.
        assert!((before..=after + 1).contains(&verified.events), "{before} {verified:?} {after}");
    }
    stops.store(true, Ordering::SeqCst);
    let last = writing.await.unwrap();
    assert_eq!(store.verify(Arc::default()).await.unwrap().events, last);
    // A copy leaves no companion files.
    let names = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let companions: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("copy-")).collect();
    assert_eq!(companions.len(), 5, "{companions:?}");
}

#[tokio::test]
async fn copy_to_a_full_disk_fails_and_names_the_copy() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("acpx.db");
    let store = SqliteStore::open(&path, Access::ReadWrite).unwrap();
    store.create(record("r", 1), Vec::new(), host("h")).await.unwrap();
    let failed = store.copy_to("/dev/full".into(), Arc::default()).await.unwrap_err();
    assert!(failed.to_string().contains("/dev/full"), "{failed}");
}

#[tokio::test]
async fn verification_of_a_copy_reports_every_damaged_page() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("acpx.db");
    let store = SqliteStore::open(&path, Access::ReadWrite).unwrap();
    let lease = store.create(record("r", 1), Vec::new(), host("h")).await.unwrap();
    let events = (1..=200).map(|seq| Change::Event(event(seq, "x".repeat(500)))).collect();
    store.append(lease, events, Durability::Process).await.unwrap();
    let copy = home.path().join("copy.db");
    std::fs::write(&copy, "").unwrap();
    store.copy_to(copy.clone(), Arc::default()).await.unwrap();
    let whole = std::fs::read(&copy).unwrap();
    let page_size = usize::from(u16::from_be_bytes([whole[16], whole[17]]));
    let (mut verified, pages) = (0, whole.len() / page_size);
    for page in 1..pages {
        let mut bytes = whole.clone();
        bytes[page * page_size..][..8].fill(0xff);
        std::fs::write(&copy, bytes).unwrap();
        // Without its schema, a file is no store.
        let Ok(copied) = SqliteStore::open_copy(&copy) else { continue };
        let found = copied.verify(Arc::default()).await.unwrap();
        assert!(!found.problems.is_empty(), "page {page} of {pages}");
        verified += 1;
    }
    assert!(verified > pages / 2, "{verified} of {pages}");
}
