//! Limits what a program that an agent started may end: its own turns, and sessions that such programs created. The
//! user's sessions are not among them.

use std::collections::HashSet;

use crate::acp::agent::CallError;
use crate::model::RecordId;

use super::Connection;
use crate::host::Host;
use crate::protocol::rpc_error;
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
}

impl Host {
    /// Returns an error if a confined client tries this on a record of its user.
    pub(crate) fn may_end(&self, record: &RecordId, is_confined: bool, what: &str) -> Result<(), CallError> {
        let is_refused = is_confined && !self.confined_records.0.lock().contains(record);
        if is_refused { Err(rpc_error::not_allowed(what)) } else { Ok(()) }
    }
}

impl Connection {
    /// Returns an error if this client is confined and the record is its user's.
    pub(crate) fn may_end(&self, record: &RecordId, what: &str) -> Result<(), CallError> {
        self.host.may_end(record, self.is_confined(), what)
    }
}
