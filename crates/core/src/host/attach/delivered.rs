//! Tracks how far events of a record were delivered to a client, for messages that must not overtake them: the reply to
//! a prompt follows every event of its turn, and a permission request follows its tool call.
//!
//! Progress outlives a stream: a replacement stream continues it, and waiters do not notice. Without a stream, waits
//! return at once.

use std::sync::Arc;

use tokio::sync::watch;

use crate::model::Seq;

/// Delivery progress of one client. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeliveryProgress(Arc<watch::Sender<DeliveryState>>);

#[derive(Debug, Clone, Copy, Default)]
struct DeliveryState {
    /// Counts the streams so far. Only the newest may change `reached`.
    streams: u64,
    reached: DeliveryPosition,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum DeliveryPosition {
    /// No stream delivers events.
    #[default]
    NoStream,
    /// A stream starts after a pending reply.
    Expected,
    /// The last delivered event.
    Delivered(Seq),
}

/// A stream's handle for reporting its progress. Dropping it reports that the stream has ended.
#[derive(Debug)]
pub(crate) struct DeliveryReporter {
    progress: DeliveryProgress,
    stream: u64,
}

impl DeliveryProgress {
    /// Announces a stream; waits block until it has started and delivered the event.
    pub(crate) fn expect_stream(&self) {
        self.change(DeliveryPosition::NoStream, DeliveryPosition::Expected);
    }

    /// Withdraws the announcement.
    pub(crate) fn cancel_expected(&self) {
        self.change(DeliveryPosition::Expected, DeliveryPosition::NoStream);
    }

    /// Registers a stream that starts after this event, and replaces any earlier one.
    pub(crate) fn start_stream(&self, last: Seq) -> DeliveryReporter {
        let mut stream = 0;
        self.0.send_modify(|state| {
            state.streams += 1;
            state.reached = DeliveryPosition::Delivered(last);
            stream = state.streams;
        });
        DeliveryReporter { progress: self.clone(), stream }
    }

    /// Waits until this event was delivered, or until there is no stream.
    pub(crate) async fn delivered(&self, event: Option<Seq>) {
        let is_delivered = |state: &DeliveryState| match state.reached {
            DeliveryPosition::NoStream => true,
            DeliveryPosition::Expected => false,
            DeliveryPosition::Delivered(last) => Some(last) >= event,
        };
        // `self` owns the sender, so the channel stays open.
        drop(self.0.subscribe().wait_for(is_delivered).await);
    }

    fn change(&self, from: DeliveryPosition, to: DeliveryPosition) {
        self.0.send_if_modified(|state| {
            let is_from = state.reached == from;
            if is_from {
                state.reached = to;
            }
            is_from
        });
    }
}

impl DeliveryReporter {
    /// Whether a task is waiting for progress.
    pub(crate) fn is_awaited(&self) -> bool {
        self.progress.0.receiver_count() > 0
    }

    /// Reports that this event was delivered.
    pub(crate) fn on_delivered(&self, event: Seq) {
        self.reach(DeliveryPosition::Delivered(event));
    }

    fn reach(&self, reached: DeliveryPosition) {
        self.progress.0.send_if_modified(|state| {
            let is_last = state.streams == self.stream;
            if is_last {
                state.reached = reached;
            }
            is_last
        });
    }
}

impl Drop for DeliveryReporter {
    fn drop(&mut self) {
        self.reach(DeliveryPosition::NoStream);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn has_delivered(progress: &DeliveryProgress, event: u64) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(progress.delivered(Some(Seq(event)))).poll(&mut context) == Poll::Ready(())
    }

    #[test]
    fn delivery_is_awaited_across_replaced_streams_and_not_without_a_stream() {
        let progress = DeliveryProgress::default();
        assert!(has_delivered(&progress, 7));
        progress.expect_stream();
        assert!(!has_delivered(&progress, 7));
        let first = progress.start_stream(Seq(3));
        first.on_delivered(Seq(5));
        assert_eq!([5, 7].map(|event| has_delivered(&progress, event)), [true, false]);
        let second = progress.start_stream(Seq(6));
        // Reports of the replaced stream are ignored.
        first.on_delivered(Seq(9));
        drop(first);
        assert!(!has_delivered(&progress, 7));
        second.on_delivered(Seq(7));
        assert_eq!([7, 8].map(|event| has_delivered(&progress, event)), [true, false]);
        drop(second);
        assert!(has_delivered(&progress, 8));
        progress.expect_stream();
        progress.cancel_expected();
        assert!(has_delivered(&progress, 8));
    }
}
