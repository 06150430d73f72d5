//! Records that are written to without a session. A session of a reserved record waits until the reservation ends.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;

use crate::model::RecordId;
use crate::sync::Lock;

/// The reserved records.
#[derive(Debug, Clone, Default)]
pub(super) struct Reservations(Arc<Lock<ReservationReleases>>);

/// Each record's receiver; it closes when the reservation ends.
type ReservationReleases = HashMap<RecordId, watch::Receiver<bool>>;

/// RAII guard: no session of the record begins until it is dropped.
#[derive(Debug)]
pub struct Reservation {
    record: RecordId,
    reservations: Reservations,
    /// Dropped with the guard, which wakes those that wait.
    _end: watch::Sender<bool>,
}

impl Reservations {
    /// Reserves a record; `None` if it is already reserved.
    pub(super) fn take(&self, record: &RecordId) -> Option<Reservation> {
        let mut ends = self.0.lock();
        if ends.contains_key(record) {
            return None;
        }
        let (end, ended) = watch::channel(false);
        ends.insert(record.clone(), ended);
        Some(Reservation { record: record.clone(), reservations: self.clone(), _end: end })
    }

    /// Resolves when the record is free again, if it is reserved.
    pub(super) fn end_of(&self, record: &RecordId) -> Option<watch::Receiver<bool>> {
        self.0.lock().get(record).cloned()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.reservations.0.lock().remove(&self.record);
    }
}
