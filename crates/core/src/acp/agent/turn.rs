//! How a running turn learns that it shall stop.

use tokio::sync::watch;

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
    cause: watch::Receiver<Option<CancelCause>>,
}

/// The dispatcher's end of the signal.
#[derive(Debug)]
pub(super) struct CancelSignal {
    cause: watch::Sender<Option<CancelCause>>,
}

impl Cancellation {
    /// Why the turn shall stop, if it shall.
    pub fn cause(&self) -> Option<CancelCause> {
        *self.cause.borrow()
    }

    /// Waits until the turn shall stop. A dispatcher that is gone takes the client with it.
    pub async fn requested(&mut self) -> CancelCause {
        match self.cause.wait_for(Option::is_some).await.map(|cause| *cause) {
            Ok(Some(cause)) => cause,
            _ => CancelCause::Disconnected,
        }
    }
}

impl CancelSignal {
    pub(super) fn new() -> (Self, Cancellation) {
        let (sender, receiver) = watch::channel(None);
        (Self { cause: sender }, Cancellation { cause: receiver })
    }

    /// Gives the signal; only the first cause counts.
    pub(super) fn give(&self, cause: CancelCause) {
        self.cause.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert(cause);
            first
        });
    }
}
