//! What a session waits for, asked of the host that holds it: only where what is kept leaves a doubt, since most
//! sessions wait for nothing and whoever looks at one is not to wait for a host.

use std::time::Duration;

use acpx_core::model::{Direction, Event, EventKind, Record, Timestamp, Turn};
use acpx_core::protocol::meta::{WaitReasonAnswer, WaitReasonMeta};
use serde_json::json;
use tokio::time::timeout;

use crate::output::HOST;
use crate::session::host_locator::HostLocator;

/// Whether an agent whose process is there may be something else than ready, by what is kept: one whose last turn came
/// to no good end may be on its way out, and one that was asked for something last may not answer.
pub(super) fn is_in_doubt(last_turn: Option<&Turn>, recent: &[Event]) -> bool {
    last_turn.is_some_and(|turn| !turn.is_answered()) || is_asked(recent)
}

/// Whether the last that was asked of an agent has no answer behind it, by what is kept.
fn is_asked(recent: &[Event]) -> bool {
    let asked = recent.iter().rfind(|event| match event.direction {
        Direction::ToAgent => event.kind == EventKind::Request,
        Direction::FromAgent => event.kind == EventKind::Response,
        Direction::Ours => false,
    });
    asked.is_some_and(|event| event.direction == Direction::ToAgent)
}

/// Asks the host what a session waits for; a host that does not answer in time is what it waits for.
pub(super) async fn ask(
    reach: &HostLocator,
    record: &Record,
    now: Timestamp,
    patience: Duration,
) -> Option<WaitReasonMeta> {
    let ask = async {
        let mut client = reach.running().await.ok()??;
        let params = json!({ "sessionId": record.id });
        client.call::<WaitReasonAnswer>("_acpx/waiting", &params).await.ok()?.waiting_for
    };
    match timeout(patience, ask).await {
        Ok(told) => told,
        Err(_) => Some(waiting_for(HOST, now)),
    }
}

/// That a session waits for this.
pub(super) fn waiting_for(what: &str, since: Timestamp) -> WaitReasonMeta {
    let (what, since) = (what.to_owned(), since.to_string());
    WaitReasonMeta { what, method: None, questions: Vec::new(), since, last_line_at: None }
}
