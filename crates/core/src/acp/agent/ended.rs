//! The news that something is over. It is given by dropping, so whatever ends it gives it: an answer, a panic or
//! the end of the connection.

use tokio::sync::watch;

/// Dropped when it is over.
#[derive(Debug)]
pub(super) struct EndGuard {
    _sender: watch::Sender<()>,
}

/// Tells when it is over. Clones wait for the same end.
#[derive(Debug, Clone)]
pub(super) struct EndSignal(Option<watch::Receiver<()>>);

impl EndSignal {
    /// An end that is still to come.
    pub(super) fn later() -> (EndGuard, Self) {
        let (sender, receiver) = watch::channel(());
        (EndGuard { _sender: sender }, Self(Some(receiver)))
    }

    /// The end of what never began.
    pub(super) fn already() -> Self {
        Self(None)
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.as_ref().is_none_or(|end| end.has_changed().is_err())
    }

    pub(super) async fn wait(self) {
        let Some(mut end) = self.0 else { return };
        // Nothing is ever sent: the only news is that the sender is gone.
        while end.changed().await.is_ok() {}
    }
}
