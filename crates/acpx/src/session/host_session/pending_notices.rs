//! Shows the ids of pending requests while a session is followed, so that a person can answer them from there.
//!
//! The stream has the agent's request before the host lists it as pending, and most requests never are: after each
//! request of the agent the host is asked a few times.

use std::collections::HashSet;
use std::time::Duration;

use acpx_core::protocol::{HostErrorResponse, PendingMeta};
use acpx_core::wire::RpcId;
use tokio::time::Instant;

use crate::output::{Console, pending_notice};

/// The pauses before the host is asked, after a request of the agent.
const PAUSES: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(50), Duration::from_millis(500), Duration::from_secs(2)];

/// Which pending requests were shown, and when the host is asked again.
#[derive(Debug, Default)]
pub(super) struct PendingNotices {
    shown: HashSet<String>,
    /// Our request that is not answered yet.
    asked: Option<RpcId>,
    /// The pauses that are left.
    pauses: &'static [Duration],
    due: Option<Instant>,
}

impl PendingNotices {
    /// A request of the agent may become pending.
    pub(super) fn expect(&mut self) {
        self.pauses = &PAUSES;
        self.schedule();
    }

    /// When the host is to be asked.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The host was asked with this request.
    pub(super) fn sent(&mut self, request: RpcId) {
        (self.asked, self.due) = (Some(request), None);
    }

    /// Whether an answer is to our request.
    pub(super) fn is_of(&self, request: &RpcId) -> bool {
        self.asked.as_ref() == Some(request)
    }

    /// Shows the requests that were not shown yet.
    pub(super) fn show(&mut self, answer: Result<Box<str>, HostErrorResponse>, console: &mut Console<'_>) {
        self.asked = None;
        let pending = answer.ok().and_then(|answer| serde_json::from_str::<PendingMeta>(&answer).ok());
        let pending = pending.unwrap_or_default().questions;
        for request in &pending {
            if self.shown.insert(request.question_id.clone()) {
                console.banner(&pending_notice(request, &pending));
            }
        }
        self.schedule();
    }

    fn schedule(&mut self) {
        self.due = None;
        if let Some((pause, rest)) = self.pauses.split_first()
            && self.asked.is_none()
        {
            self.pauses = rest;
            self.due = Some(Instant::now() + *pause);
        }
    }
}
