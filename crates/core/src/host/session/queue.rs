//! Lists the queued prompts of all sessions, and drops some of them. Queued prompts are in the store, so a command can
//! list them without a host.

use crate::acp::agent::CallError;
use crate::host::connection::Connection;
use crate::host::connection::access::UserAction;
use crate::model::{Lifecycle, Record, RecordId, RequestId, Turn};
use crate::protocol::acpx_meta::problem;
use crate::protocol::queue::{QueueDropMeta, QueueDropParams, QueueMeta, QueueParams, QueuedPromptMeta};
use crate::protocol::rpc_error;
use crate::store::{Store, StoreError};

/// The running and queued turns of every open record that has any, most recently used record first.
pub async fn open_prompts(store: &dyn Store) -> Result<Vec<(Record, Vec<Turn>)>, StoreError> {
    let mut found = Vec::new();
    for (id, _) in store.records_with_open_turns().await? {
        let record = store.record(id.clone()).await?;
        if let Some(record) = record.filter(|record| record.lifecycle == Lifecycle::Open) {
            found.push((record, store.open_turns(id).await?));
        }
    }
    found.sort_by_key(|(record, _)| std::cmp::Reverse(record.updated_at));
    Ok(found)
}

/// `_acpx/queue`: lists the queued prompts.
pub(crate) async fn list(client: &Connection, params: QueueParams) -> Result<String, CallError> {
    client.access.check(UserAction::SeeQueue)?;
    let open = open_prompts(&*client.host.store).await.map_err(rpc_error::not_kept)?;
    let is_meant = |record: &Record| {
        client.can_see(record) && params.session_id.as_deref().is_none_or(|id| id == record.id.as_str())
    };
    let prompts = open.iter().filter(|(record, _)| is_meant(record));
    let listed = |(record, open): &(Record, Vec<Turn>)| {
        let mut prompts = QueuedPromptMeta::of_record(record, open);
        for prompt in prompts.iter_mut().filter(|_| params.full) {
            if let Some(turn) = open.iter().find(|turn| turn.request.as_str() == prompt.request_id) {
                prompt.add_content(turn);
            }
        }
        prompts
    };
    let prompts = prompts.flat_map(listed).collect();
    Ok(serde_json::to_string(&QueueMeta { prompts }).expect("prompts are text and lists"))
}

/// `_acpx/queue/drop`: cancels queued prompts, of any client. A prompt that was sent to the agent stays.
pub(crate) async fn drop_queued(client: &Connection, params: QueueDropParams) -> Result<String, CallError> {
    client.access.check(UserAction::ChangeQueue)?;
    let record = RecordId::new(params.session_id.as_str());
    let record = record.map_err(|error| problem("sessionId", error.to_string()))?;
    let session = client.session(&record).await?;
    // No prompt has an id that is not valid.
    let requests = params.request_ids.iter().filter_map(|id| RequestId::new(id.as_str()).ok()).collect();
    let dropped = session.drop_queued(requests).await.map_err(|error| client.refused(&error))?;
    let dropped = dropped.iter().map(ToString::to_string).collect();
    Ok(serde_json::to_string(&QueueDropMeta { dropped }).expect("ids are text"))
}
