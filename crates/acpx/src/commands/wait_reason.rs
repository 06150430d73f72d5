//! Asks the host what a session waits for, but only if the store leaves a doubt: most sessions wait for nothing, and
//! looking at one should not depend on a host.

use std::time::Duration;

use acpx_core::model::{Direction, Event, EventKind, Record, Timestamp, Turn};
use acpx_core::protocol::meta::{WaitReasonAnswer, WaitReasonMeta};
use serde_json::json;
use tokio::time::timeout;

use crate::output::HOST;
use crate::session::host_locator::HostLocator;

/// Whether a live agent may not be ready, judged by the store: after a failed turn it may be ending, and with an open
/// request it may not respond.
pub(super) fn is_in_doubt(last_turn: Option<&Turn>, recent: &[Event]) -> bool {
    last_turn.is_some_and(|turn| !turn.is_answered()) || has_open_request(recent)
}

/// Whether the last request to the agent has no reply in the store.
fn has_open_request(recent: &[Event]) -> bool {
    let last_request = recent.iter().rfind(|event| match event.direction {
        Direction::ToAgent => event.kind == EventKind::Request,
        Direction::FromAgent => event.kind == EventKind::Response,
        Direction::Ours => false,
    });
    last_request.is_some_and(|event| event.direction == Direction::ToAgent)
}

/// Asks the host what a session waits for. If the host does not answer in time, the session waits for the host.
pub(super) async fn request(
    locator: &HostLocator,
    record: &Record,
    now: Timestamp,
    limit: Duration,
) -> Option<WaitReasonMeta> {
    let reply = async {
        let mut client = locator.running().await.ok()??;
        let params = json!({ "sessionId": record.id });
        client.call::<WaitReasonAnswer>("_acpx/waiting", &params).await.ok()?.waiting_for
    };
    match timeout(limit, reply).await {
        Ok(reason) => reason,
        Err(_) => Some(waiting_for(HOST, now)),
    }
}

/// The wait reason `what`.
pub(super) fn waiting_for(what: &str, since: Timestamp) -> WaitReasonMeta {
    let (what, since) = (what.to_owned(), since.to_string());
    WaitReasonMeta { what, method: None, questions: Vec::new(), since, last_line_at: None }
}
