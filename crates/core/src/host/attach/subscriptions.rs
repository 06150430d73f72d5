//! What a client subscribed to beyond single records: the list of sessions, and the pending requests.

use tokio::task::AbortHandle;

use crate::sync::Lock;

/// The subscriptions of one client. They end with its connection.
#[derive(Default)]
pub(crate) struct Subscriptions {
    pub(crate) sessions: SubscriptionSlot,
    pub(crate) pending: SubscriptionSlot,
}

/// The place of one subscription. A second one replaces the first.
#[derive(Default)]
pub(crate) struct SubscriptionSlot(Lock<Option<AbortHandle>>);

impl SubscriptionSlot {
    /// Starts to report.
    pub(crate) fn start(&self, report: impl Future<Output = ()> + Send + 'static) {
        if let Some(earlier) = self.0.lock().replace(tokio::spawn(report).abort_handle()) {
            earlier.abort();
        }
    }
}

impl Drop for SubscriptionSlot {
    fn drop(&mut self) {
        if let Some(running) = self.0.lock().take() {
            running.abort();
        }
    }
}
