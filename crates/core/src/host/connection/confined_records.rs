//! What a program that an agent started may end: the turns that it asked for, and sessions that such programs made. The
//! sessions of its user are not among them.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::acp::agent::CallError;
use crate::model::RecordId;

use super::Connection;
use crate::host::Host;
use crate::protocol::rpc_error;

/// The records that programs of agents have made since the host began.
#[derive(Debug, Default)]
pub(crate) struct ConfinedRecords(Mutex<HashSet<RecordId>>);

impl ConfinedRecords {
    pub(crate) fn insert(&self, record: &RecordId) {
        self.lock().insert(record.clone());
    }

    pub(crate) fn remove(&self, record: &RecordId) {
        self.lock().remove(record);
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<RecordId>> {
        // Nothing panics while it holds the lock, and every step leaves the set whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host {
    /// An error if a client may not do this to a record, because the client is confined and the record is its user's.
    pub(crate) fn may_end(&self, record: &RecordId, is_confined: bool, what: &str) -> Result<(), CallError> {
        let is_refused = is_confined && !self.confined_records.lock().contains(record);
        if is_refused { Err(rpc_error::not_allowed(what)) } else { Ok(()) }
    }
}

impl Connection {
    /// An error if this client may not do this to a record, because an agent started it and the record is its user's.
    pub(crate) fn may_end(&self, record: &RecordId, what: &str) -> Result<(), CallError> {
        self.host.may_end(record, self.is_confined(), what)
    }
}
