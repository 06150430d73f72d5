//! Who has a record in use. A hold is of the record and not of the task that runs its session: one that is closed
//! and restored is held by whoever held it before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::watch;

use crate::model::RecordId;

/// How many hold each record that somebody holds or that has a session.
#[derive(Debug, Clone, Default)]
pub(super) struct AttachCounts(Arc<Mutex<Numbers>>);

type Numbers = HashMap<RecordId, Weak<watch::Sender<usize>>>;

impl AttachCounts {
    /// How many hold this record.
    pub(super) fn of(&self, record: &RecordId) -> Arc<watch::Sender<usize>> {
        let mut numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = numbers.get(record).and_then(Weak::upgrade) {
            return known;
        }
        numbers.retain(|_, number| number.strong_count() > 0);
        let number = Arc::new(watch::Sender::new(0));
        numbers.insert(record.clone(), Arc::downgrade(&number));
        number
    }
}
