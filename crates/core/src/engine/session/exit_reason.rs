//! Why a session's task has ended, for those who still ask it: they are told the store's own error, or that the record is
//! deleted, and otherwise that the session was shut down.

use std::sync::{Arc, Mutex, PoisonError};

use crate::model::RecordId;
use crate::store::StoreError;

use crate::engine::SessionError;

/// Why a session no longer answers.
pub(crate) fn gone(fate: &ExitReasonCell, record: &RecordId) -> SessionError {
    match fate.known() {
        Some(ExitReason::Failed(error)) => SessionError::Store(error),
        Some(ExitReason::Deleted) => SessionError::NoRecord(record.clone()),
        None => SessionError::ShutDown(record.clone()),
    }
}

/// Why a session's task ended, for those who still ask it.
#[derive(Debug, Default, Clone)]
pub(crate) struct ExitReasonCell(Arc<Mutex<Option<ExitReason>>>);

/// An end that a session does not come back from.
#[derive(Debug, Clone)]
pub(crate) enum ExitReason {
    /// The store did not keep what had to be kept.
    Failed(Arc<StoreError>),
    /// The record was deleted.
    Deleted,
}

impl ExitReasonCell {
    pub(crate) fn seal(&self, end: ExitReason) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    }

    fn known(&self) -> Option<ExitReason> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
