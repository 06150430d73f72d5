//! Counts the holds of each record. A hold belongs to the record, not to the task that runs its session, so it survives
//! when the session is closed and restored.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use tokio::sync::watch;

use crate::model::RecordId;
use crate::sync::Lock;

/// The number of holds of each record that has a hold or a session.
#[derive(Debug, Clone, Default)]
pub(super) struct AttachCounts(Arc<Lock<Numbers>>);

type Numbers = HashMap<RecordId, Weak<watch::Sender<usize>>>;

impl AttachCounts {
    /// The counter of this record.
    pub(super) fn of(&self, record: &RecordId) -> Arc<watch::Sender<usize>> {
        let mut numbers = self.0.lock();
        if let Some(known) = numbers.get(record).and_then(Weak::upgrade) {
            return known;
        }
        numbers.retain(|_, number| number.strong_count() > 0);
        let number = Arc::new(watch::Sender::new(0));
        numbers.insert(record.clone(), Arc::downgrade(&number));
        number
    }
}
