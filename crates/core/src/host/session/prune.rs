//! Deletes many records at once, and returns their space to the disk. A record with work stays, and no agent is started
//! to delete its own session.

use super::search_index;
use crate::acp::agent::{CallError, with_causes};
use crate::engine::{PruneConditions, SessionError};
use crate::host::connection::Connection;
use crate::host::connection::access::UserAction;
use crate::model::{Lifecycle, RecordId};
use crate::protocol::acpx_meta::problem;
use crate::protocol::prune::{PruneMeta, PruneParams, PruneSkip, PruneSkipMeta};
use crate::protocol::rpc_error;

/// `_acpx/prune`: deletes records that have no work. A record that cannot be deleted stays, and the others still go.
pub(crate) async fn prune(client: &Connection, params: PruneParams) -> Result<String, CallError> {
    client.access.check(UserAction::PruneSessions)?;
    client.agent_page.forget();
    let PruneParams { session_ids, include_open, unchanged_since } = params;
    let conditions = PruneConditions { include_open, unchanged_since };
    let records: Result<Vec<RecordId>, _> =
        session_ids.iter().map(|session_id| RecordId::new(session_id.as_str())).collect();
    let records = records.map_err(|error| problem("sessionIds", error.to_string()))?;
    let (mut answer, mut indexed) = (PruneMeta::default(), Vec::new());
    for (record, session_id) in records.iter().zip(session_ids) {
        let (reason, error) = match prune_record(client, record, conditions).await {
            Ok(Ok(ids)) => {
                indexed.extend(ids);
                answer.pruned.push(session_id);
                continue;
            }
            Ok(Err(reason)) => (reason, None),
            Err(error) => (PruneSkip::Failed, Some(with_causes(&error))),
        };
        answer.skipped.push(PruneSkipMeta { session_id, reason, error });
    }
    search_index::forget(&client.host, indexed).await;
    Ok(serde_json::to_string(&answer).expect("ids are text"))
}

/// Deletes a record and returns its ids in the search index, or why it stays. The session's own task checks the
/// conditions, so no prompt is accepted between the check and the deletion.
async fn prune_record(
    client: &Connection,
    record: &RecordId,
    conditions: PruneConditions,
) -> Result<Result<Vec<String>, PruneSkip>, SessionError> {
    if !client.host.responders.pending().ids_of(record).is_empty() {
        return Ok(Err(PruneSkip::Busy));
    }
    let is_pruned = client.host.engine.prune(record, conditions).await?;
    let stored = client.host.store.record(record.clone()).await;
    if is_pruned {
        client.host.confined_records.remove(record);
        // The deletion is done, also if its sessions in the index cannot be read any more.
        return Ok(Ok(stored.ok().flatten().map(|stored| search_index::ids_of(&stored)).unwrap_or_default()));
    }
    Ok(Err(match stored? {
        Some(stored) if stored.lifecycle == Lifecycle::Open && !conditions.include_open => PruneSkip::Open,
        Some(stored) if conditions.unchanged_since.is_some_and(|since| stored.updated_at > since) => {
            PruneSkip::Changed
        }
        _ => PruneSkip::Busy,
    }))
}

/// `_acpx/host/shrink`: returns the space of deleted records to the disk.
pub(crate) async fn shrink(client: &Connection) -> Result<String, CallError> {
    client.access.check(UserAction::PruneSessions)?;
    client.host.store.shrink().await.map_err(rpc_error::not_kept)?;
    Ok("{}".to_owned())
}
