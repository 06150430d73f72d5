//! Which records change, for subscribers that show many of them.
//!
//! A subscriber gets no events: it collects the ids of changed records until it takes them, so a record that changes
//! often costs no more than one that changes once. Without subscribers a change costs one atomic load.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use crate::model::RecordId;
use crate::sync::Lock;

/// Publishes that records changed: their events, their state or what they are.
#[derive(Clone, Default)]
pub(crate) struct RecordChanges(Arc<ChangeSubscribers>);

#[derive(Default)]
struct ChangeSubscribers {
    count: AtomicUsize,
    each: Lock<Vec<Weak<ChangedSet>>>,
}

#[derive(Default)]
struct ChangedSet {
    records: Lock<HashSet<RecordId>>,
    changed: Notify,
}

/// A subscriber's changed records. Dropping it ends the subscription.
pub(crate) struct ChangedRecords {
    own: Arc<ChangedSet>,
    subscribers: Arc<ChangeSubscribers>,
}

impl RecordChanges {
    /// Marks a record as changed. What changed must be in the store or published already.
    pub(crate) fn mark(&self, record: &RecordId) {
        if self.0.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        for set in self.0.each.lock().iter().filter_map(Weak::upgrade) {
            let mut records = set.records.lock();
            if !records.contains(record) {
                records.insert(record.clone());
                drop(records);
                set.changed.notify_one();
            }
        }
    }

    /// Collects the records that change from now on.
    pub(crate) fn subscribe(&self) -> ChangedRecords {
        let own = Arc::<ChangedSet>::default();
        self.0.each.lock().push(Arc::downgrade(&own));
        self.0.count.fetch_add(1, Ordering::Relaxed);
        ChangedRecords { own, subscribers: Arc::clone(&self.0) }
    }
}

impl ChangedRecords {
    /// Waits until a record has changed.
    pub(crate) async fn changed(&self) {
        while self.own.records.lock().is_empty() {
            self.own.changed.notified().await;
        }
    }

    /// Takes up to `most` changed records.
    pub(crate) fn take(&self, most: usize) -> Vec<RecordId> {
        let mut records = self.own.records.lock();
        if records.len() <= most {
            return records.drain().collect();
        }
        let some: Vec<RecordId> = records.iter().take(most).cloned().collect();
        for record in &some {
            records.remove(record);
        }
        some
    }
}

impl Drop for ChangedRecords {
    fn drop(&mut self) {
        self.subscribers.count.fetch_sub(1, Ordering::Relaxed);
        self.subscribers.each.lock().retain(|known| !std::ptr::eq(known.as_ptr(), Arc::as_ptr(&self.own)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn subscriber_gets_each_changed_record_once_until_it_takes_it() {
        let published = RecordChanges::default();
        let record = |id: &str| RecordId::new(id).unwrap();
        published.mark(&record("before"));
        let changed = published.subscribe();
        for _ in 0..3 {
            published.mark(&record("a"));
        }
        changed.changed().await;
        assert_eq!(changed.take(10), [record("a")]);
        published.mark(&record("a"));
        published.mark(&record("b"));
        assert_eq!((changed.take(1).len(), changed.take(10).len(), changed.take(10).len()), (1, 1, 0));
        drop(changed);
        published.mark(&record("a"));
        assert!(published.0.each.lock().is_empty());
    }
}
