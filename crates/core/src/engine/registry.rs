//! What an engine counts and reserves: holds of records, sessions with an agent, and records that are written to without
//! a session.
//!
//! A hold belongs to the record, not to the task that runs its session, so it survives when the session is closed and
//! restored. A session of a reserved record waits until the reservation ends.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use tokio::sync::watch;

use crate::model::RecordId;
use crate::sync::Lock;

/// RAII guard: increments a shared counter, decrements it on drop.
#[derive(Debug)]
pub(crate) struct CountGuard(Arc<watch::Sender<usize>>);

impl CountGuard {
    /// Increments the counter.
    pub(crate) fn one(number: &Arc<watch::Sender<usize>>) -> Self {
        number.send_modify(|number| *number += 1);
        Self(Arc::clone(number))
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.send_modify(|number| *number -= 1);
    }
}

/// The number of holds of each record that has a hold or a session.
#[derive(Debug, Clone, Default)]
pub(super) struct AttachCounts(Arc<Lock<HashMap<RecordId, Weak<watch::Sender<usize>>>>>);

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

/// The reserved records, each with a receiver that closes when the reservation ends.
#[derive(Debug, Clone, Default)]
pub(super) struct Reservations(Arc<Lock<HashMap<RecordId, watch::Receiver<bool>>>>);

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
