//! How a running turn learns that it shall stop.

use tokio::sync::watch;

use super::call::CallExtras;

/// Why a turn shall stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelCause {
    /// The client cancelled it, or closed or deleted its session.
    Asked,
    /// The client is gone. Nobody will read the answer.
    Disconnected,
}

/// The turn's end of the signal. Clones wait for the same one.
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
    /// Why the turn shall stop, if it shall.
    pub fn cause(&self) -> Option<CancelCause> {
        self.cause.borrow().as_ref().map(|(cause, _)| *cause)
    }

    /// What the client said with `session/cancel` beside that; nothing, if that is not what it said.
    pub fn aside(&self) -> CallExtras {
        self.cause.borrow().as_ref().map(|(_, aside)| aside.clone()).unwrap_or_default()
    }

    /// Waits until the turn shall stop. A dispatcher that is gone takes the client with it.
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

    /// Gives the signal; only the first cause counts.
    pub(super) fn give(&self, cause: CancelCause) {
        self.give_with(cause, &CallExtras::default());
    }

    /// Gives the signal with what the client says beside it.
    pub(super) fn give_with(&self, cause: CancelCause, aside: &CallExtras) {
        self.cause.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert_with(|| (cause, aside.clone()));
            first
        });
    }
}
