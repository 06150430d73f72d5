//! How far a client has been told what happens to a record, for whatever must not overtake it: the answer to a prompt
//! comes after everything its turn said, and a question after the tool call it is about.
//!
//! It outlives the streams it tells of: one that takes another's place goes on where that has come to, and whoever waits
//! does not notice. Where nothing is told, nobody waits.

use std::sync::Arc;

use tokio::sync::watch;

use crate::model::Seq;

/// How far a client has been told. Clones speak of the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeliveryProgress(Arc<watch::Sender<DeliveryState>>);

#[derive(Debug, Clone, Copy, Default)]
struct DeliveryState {
    /// How many streams there have been; the last one's word counts.
    streams: u64,
    reached: DeliveryPosition,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum DeliveryPosition {
    /// Nothing is told.
    #[default]
    Nothing,
    /// What is told begins with an answer that is on its way.
    Coming,
    /// The last event that was told.
    Told(Seq),
}

/// A stream's share in it: what the stream says of itself. Dropped, the stream tells nothing more.
#[derive(Debug)]
pub(crate) struct Reporting {
    progress: DeliveryProgress,
    stream: u64,
}

impl DeliveryProgress {
    /// A stream will begin; whoever must come after it waits.
    pub(crate) fn expect(&self) {
        self.change(DeliveryPosition::Nothing, DeliveryPosition::Coming);
    }

    /// The stream that was to begin will not.
    pub(crate) fn expect_nothing(&self) {
        self.change(DeliveryPosition::Coming, DeliveryPosition::Nothing);
    }

    /// A stream begins after this event, in the place of any before it.
    pub(crate) fn begin(&self, last: Seq) -> Reporting {
        let mut stream = 0;
        self.0.send_modify(|state| {
            state.streams += 1;
            state.reached = DeliveryPosition::Told(last);
            stream = state.streams;
        });
        Reporting { progress: self.clone(), stream }
    }

    /// Waits until this event has been told, or nothing is.
    pub(crate) async fn passed(&self, event: Option<Seq>) {
        let has_passed = |state: &DeliveryState| match state.reached {
            DeliveryPosition::Nothing => true,
            DeliveryPosition::Coming => false,
            DeliveryPosition::Told(last) => Some(last) >= event,
        };
        // Whoever waits holds it, so it does not end.
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
    /// Whether anybody waits.
    pub(crate) fn is_awaited(&self) -> bool {
        self.progress.0.receiver_count() > 0
    }

    /// This event has been told.
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
        // The first has nothing more to say.
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
