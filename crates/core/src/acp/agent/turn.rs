//! The cancellation signal of a running turn.

use tokio::sync::watch;

use super::call::CallExtras;

/// Why a turn is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelCause {
    /// The client cancelled it, or closed or deleted its session.
    Asked,
    /// The client disconnected and cannot read the reply.
    Disconnected,
}

/// The turn's end of the signal. Clones share it.
#[derive(Debug, Clone)]
pub struct Cancellation {
    cause: watch::Receiver<Option<(CancelCause, CallExtras)>>,
}

/// The dispatcher's end of the signal.
#[derive(Debug)]
pub(super) struct CancelSignal {
    cause: watch::Sender<Option<(CancelCause, CallExtras)>>,
}

impl Cancellation {
    /// Why the turn is to stop; `None` if it is not.
    pub fn cause(&self) -> Option<CancelCause> {
        self.cause.borrow().as_ref().map(|(cause, _)| *cause)
    }

    /// The `_meta` and unknown params of `session/cancel`; empty for every other cause.
    pub fn aside(&self) -> CallExtras {
        self.cause.borrow().as_ref().map(|(_, aside)| aside.clone()).unwrap_or_default()
    }

    /// Waits until the turn is to stop. A dropped dispatcher counts as a disconnect.
    pub async fn requested(&mut self) -> CancelCause {
        drop(self.cause.wait_for(Option::is_some).await);
        self.cause().unwrap_or(CancelCause::Disconnected)
    }
}

impl CancelSignal {
    pub(super) fn new() -> (Self, Cancellation) {
        let (sender, receiver) = watch::channel(None);
        (Self { cause: sender }, Cancellation { cause: receiver })
    }

    /// Sends the signal; only the first cause counts.
    pub(super) fn give(&self, cause: CancelCause) {
        self.give_with(cause, &CallExtras::default());
    }

    /// Sends the signal with the `_meta` and unknown params of the client's message.
    pub(super) fn give_with(&self, cause: CancelCause, aside: &CallExtras) {
        self.cause.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert_with(|| (cause, aside.clone()));
            first
        });
    }
}
