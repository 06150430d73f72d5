//! Deletes many records at once, and returns their space to the disk. A record with work stays, and no agent is started
//! to delete its own session.

use crate::acp::agent::CallError;
use crate::host::connection::Connection;
use crate::host::connection::access::UserAction;
use crate::model::{Lifecycle, RecordId};
use crate::protocol::acpx_meta::problem;
use crate::protocol::prune::{PruneMeta, PruneParams, PruneSkip, PruneSkipMeta};
use crate::protocol::rpc_error;

/// `_acpx/prune`: deletes records that have no work.
pub(crate) async fn prune(client: &Connection, params: PruneParams) -> Result<String, CallError> {
    client.access.check(UserAction::PruneSessions)?;
    client.agent_page.forget();
    let mut answer = PruneMeta::default();
    for session_id in params.session_ids {
        let record = RecordId::new(session_id.as_str());
        let record = record.map_err(|error| problem("sessionIds", error.to_string()))?;
        match prune_record(client, &record, params.include_open).await? {
            None => answer.pruned.push(session_id),
            Some(reason) => answer.skipped.push(PruneSkipMeta { session_id, reason }),
        }
    }
    Ok(serde_json::to_string(&answer).expect("ids are text"))
}

/// Deletes a record, or returns why it stays. The session's own task decides whether it has open turns, so no prompt is
/// accepted in between.
async fn prune_record(
    client: &Connection,
    record: &RecordId,
    include_open: bool,
) -> Result<Option<PruneSkip>, CallError> {
    let stored = client.host.store.record(record.clone()).await.map_err(rpc_error::not_kept)?;
    let is_open = stored.is_some_and(|stored| stored.lifecycle == Lifecycle::Open);
    if is_open && !include_open {
        return Ok(Some(PruneSkip::Open));
    }
    let is_asking = !client.host.responders.pending().ids_of(record).is_empty();
    let deleted =
        !is_asking && client.host.engine.delete_idle(record).await.map_err(|error| client.refused(&error))?;
    if !deleted {
        return Ok(Some(PruneSkip::Busy));
    }
    client.host.confined_records.remove(record);
    Ok(None)
}

/// `_acpx/host/shrink`: returns the space of deleted records to the disk.
pub(crate) async fn shrink(client: &Connection) -> Result<String, CallError> {
    client.access.check(UserAction::PruneSessions)?;
    client.host.store.shrink().await.map_err(rpc_error::not_kept)?;
    Ok("{}".to_owned())
}
