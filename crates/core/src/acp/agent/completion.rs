//! A completion signal, sent by dropping a guard. A reply, a panic and the end of the connection all send it.

use tokio::sync::watch;

/// Signals completion when dropped.
#[derive(Debug)]
pub(super) struct EndGuard {
    _sender: watch::Sender<()>,
}

/// Waits for the guard's drop. Clones wait for the same one.
#[derive(Debug, Clone)]
pub(super) struct EndSignal(Option<watch::Receiver<()>>);

impl EndSignal {
    /// A signal for a later end.
    pub(super) fn later() -> (EndGuard, Self) {
        let (sender, receiver) = watch::channel(());
        (EndGuard { _sender: sender }, Self(Some(receiver)))
    }

    /// A signal that has already been given.
    pub(super) fn already() -> Self {
        Self(None)
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.as_ref().is_none_or(|end| end.has_changed().is_err())
    }

    pub(super) async fn wait(self) {
        let Some(mut end) = self.0 else { return };
        // No value is ever sent; only the drop of the sender matters.
        while end.changed().await.is_ok() {}
    }
}
