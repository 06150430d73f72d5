//! Reports to a client that watches a record how many clients use it and how many prompts wait.

use serde_json::json;
use tokio::task::AbortHandle;

use crate::acp::agent::ClientLink;
use crate::engine::{Engine, RestoreSession};
use crate::model::RecordId;
use crate::protocol::watched_event::ACTIVITY;

/// A running report. Dropping it ends the report.
pub(super) struct ActivityReport(AbortHandle);

impl ActivityReport {
    /// Sends the numbers now, and whenever one of them changes.
    pub(super) fn start(engine: &Engine, record: &RecordId, link: &ClientLink) -> Self {
        let (engine, record, link) = (engine.clone(), record.clone(), link.clone());
        Self(tokio::spawn(async move { report(&engine, &record, &link).await }).abort_handle())
    }
}

impl Drop for ActivityReport {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Ends with the connection or the record.
async fn report(engine: &Engine, record: &RecordId, link: &ClientLink) {
    let mut sent = None;
    loop {
        // The session itself is not kept: that would keep the engine from freeing it.
        let Ok(session) = engine.attach(record, &RestoreSession::unchanged()).await else { return };
        let (mut status, counter) = (session.watch_status(), session.holds());
        let mut holds = counter.subscribe();
        drop(session);
        loop {
            let now = (*holds.borrow_and_update(), status.borrow_and_update().queued);
            if sent != Some(now) {
                let params = json!({ "sessionId": record.as_str(), "clients": now.0, "queued": now.1 });
                if link.notify(ACTIVITY, &params.to_string()).await.is_err() {
                    return;
                }
                sent = Some(now);
            }
            tokio::select! {
                changed = status.changed() => if changed.is_err() { break },
                // Its sender is kept here.
                _ = holds.changed() => {}
            }
        }
        // The session has ended. It has no queue until a client uses the record again.
        drop(holds.wait_for(|holds| *holds > 0).await);
    }
}
