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
    Nothing,
    /// A stream starts after a pending reply.
    Coming,
    /// The last delivered event.
    Told(Seq),
}

/// A stream's handle for reporting its progress. Dropping it reports that the stream has ended.
#[derive(Debug)]
pub(crate) struct Reporting {
    progress: DeliveryProgress,
    stream: u64,
}

impl DeliveryProgress {
    /// Announces a stream; waits block until it has started and passed the event.
    pub(crate) fn expect(&self) {
        self.change(DeliveryPosition::Nothing, DeliveryPosition::Coming);
    }

    /// Withdraws the announcement.
    pub(crate) fn expect_nothing(&self) {
        self.change(DeliveryPosition::Coming, DeliveryPosition::Nothing);
    }

    /// Registers a stream that starts after this event, and replaces any earlier one.
    pub(crate) fn begin(&self, last: Seq) -> Reporting {
        let mut stream = 0;
        self.0.send_modify(|state| {
            state.streams += 1;
            state.reached = DeliveryPosition::Told(last);
            stream = state.streams;
        });
        Reporting { progress: self.clone(), stream }
    }

    /// Waits until this event was delivered, or until there is no stream.
    pub(crate) async fn passed(&self, event: Option<Seq>) {
        let has_passed = |state: &DeliveryState| match state.reached {
            DeliveryPosition::Nothing => true,
            DeliveryPosition::Coming => false,
            DeliveryPosition::Told(last) => Some(last) >= event,
        };
        // `self` owns the sender, so the channel stays open.
        drop(self.0.subscribe().wait_for(has_passed).await);
    }

    fn change(&self, from: DeliveryPosition, to: DeliveryPosition) {
        self.0.send_if_modified(|state| {
            let is_so = state.reached == from;
            if is_so {
                state.reached = to;
            }
            is_so
        });
    }
}

impl Reporting {
    /// Whether a task is waiting for progress.
    pub(crate) fn is_awaited(&self) -> bool {
        self.progress.0.receiver_count() > 0
    }

    /// Reports that this event was delivered.
    pub(crate) fn told(&self, event: Seq) {
        self.reach(DeliveryPosition::Told(event));
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

impl Drop for Reporting {
    fn drop(&mut self) {
        self.reach(DeliveryPosition::Nothing);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_passed(progress: &DeliveryProgress, event: u64) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(progress.passed(Some(Seq(event)))).poll(&mut context) == Poll::Ready(())
    }

    #[test]
    fn an_event_is_waited_for_through_whichever_streams_tell_it_and_not_where_nothing_is_told() {
        let progress = DeliveryProgress::default();
        assert!(is_passed(&progress, 7));
        progress.expect();
        assert!(!is_passed(&progress, 7));
        let first = progress.begin(Seq(3));
        first.told(Seq(5));
        assert_eq!([5, 7].map(|event| is_passed(&progress, event)), [true, false]);
        let second = progress.begin(Seq(6));
        // Reports of the replaced stream are ignored.
        first.told(Seq(9));
        drop(first);
        assert!(!is_passed(&progress, 7));
        second.told(Seq(7));
        assert_eq!([7, 8].map(|event| is_passed(&progress, event)), [true, false]);
        drop(second);
        assert!(is_passed(&progress, 8));
        progress.expect();
        progress.expect_nothing();
        assert!(is_passed(&progress, 8));
    }
}
