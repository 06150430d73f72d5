//! Why a session's task has ended, for callers that still hold its handle: the store's error, a deleted record, or else
//! a shutdown.

use std::sync::Arc;

use crate::model::RecordId;
use crate::store::StoreError;

use crate::engine::SessionError;
use crate::sync::Lock;

/// Why a session's task ended, shared with its handles.
#[derive(Debug, Default, Clone)]
pub(crate) struct ExitReasonCell(Arc<Lock<Option<ExitReason>>>);

/// A permanent end of a session.
#[derive(Debug)]
pub(crate) enum ExitReason {
    /// The store failed to persist something.
    Failed(Arc<StoreError>),
    /// The record was deleted.
    Deleted,
}

impl ExitReasonCell {
    pub(crate) fn set(&self, reason: ExitReason) {
        *self.0.lock() = Some(reason);
    }

    /// The error for a command to the ended session of this record.
    pub(crate) fn error(&self, record: &RecordId) -> SessionError {
        match &*self.0.lock() {
            Some(ExitReason::Failed(error)) => SessionError::Store(error.clone()),
            Some(ExitReason::Deleted) => SessionError::NoRecord(record.clone()),
            None => SessionError::ShutDown(record.clone()),
        }
    }
}
