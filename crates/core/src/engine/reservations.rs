//! Records that somebody writes to without a session: whoever wants a session of one waits for that, and nobody else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::model::RecordId;

/// The records that no session begins of at the moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Reservations(Arc<Mutex<ReservationReleases>>);

/// When each is free again: when the other end is gone.
type ReservationReleases = HashMap<RecordId, watch::Receiver<bool>>;

/// A record that no session begins of as long as the value lives.
#[derive(Debug)]
pub struct Reservation {
    record: RecordId,
    reservations: Reservations,
    /// Dropped with the rest, which is how others learn of its end.
    _end: watch::Sender<bool>,
}

impl Reservations {
    /// Reserves a record; `None` if somebody else has.
    pub(super) fn take(&self, record: &RecordId) -> Option<Reservation> {
        let mut ends = self.ends();
        if ends.contains_key(record) {
            return None;
        }
        let (end, ended) = watch::channel(false);
        ends.insert(record.clone(), ended);
        Some(Reservation { record: record.clone(), reservations: self.clone(), _end: end })
    }

    /// When a record is free again, if it is reserved.
    pub(super) fn end_of(&self, record: &RecordId) -> Option<watch::Receiver<bool>> {
        self.ends().get(record).cloned()
    }

    fn ends(&self) -> MutexGuard<'_, ReservationReleases> {
        // Nothing panics while it holds the lock, and every step leaves the map whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.reservations.ends().remove(&self.record);
    }
}
