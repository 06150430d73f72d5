//! The records that confined clients created: the only sessions that such clients may end.

use std::collections::HashSet;

use crate::model::RecordId;
use crate::sync::Lock;

/// The records that programs of agents created since the host started.
#[derive(Debug, Default)]
pub(crate) struct ConfinedRecords(Lock<HashSet<RecordId>>);

impl ConfinedRecords {
    pub(crate) fn insert(&self, record: &RecordId) {
        self.0.lock().insert(record.clone());
    }

    pub(crate) fn remove(&self, record: &RecordId) {
        self.0.lock().remove(record);
    }

    pub(crate) fn contains(&self, record: &RecordId) -> bool {
        self.0.lock().contains(record)
    }
}
