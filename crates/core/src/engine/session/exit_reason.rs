//! Why a session's task has ended, for callers that still hold its handle: the store's error, a deleted record, or else
//! a shutdown.

use std::sync::Arc;

use crate::model::RecordId;
use crate::store::StoreError;

use crate::engine::SessionError;
use crate::sync::Lock;

/// The error for a command to an ended session.
pub(crate) fn gone(exit_reason: &ExitReasonCell, record: &RecordId) -> SessionError {
    match exit_reason.known() {
        Some(ExitReason::Failed(error)) => SessionError::Store(error),
        Some(ExitReason::Deleted) => SessionError::NoRecord(record.clone()),
        None => SessionError::ShutDown(record.clone()),
    }
}

/// Why a session's task ended, shared with its handles.
#[derive(Debug, Default, Clone)]
pub(crate) struct ExitReasonCell(Arc<Lock<Option<ExitReason>>>);

/// A permanent end of a session.
#[derive(Debug, Clone)]
pub(crate) enum ExitReason {
    /// The store failed to persist something.
    Failed(Arc<StoreError>),
    /// The record was deleted.
    Deleted,
}

impl ExitReasonCell {
    pub(crate) fn set(&self, end: ExitReason) {
        *self.0.lock() = Some(end);
    }

    fn known(&self) -> Option<ExitReason> {
        self.0.lock().clone()
    }
}
