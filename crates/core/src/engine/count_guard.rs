//! RAII guard: increments a shared counter, decrements it on drop.

use std::sync::Arc;

use tokio::sync::watch;

/// One counted unit.
#[derive(Debug)]
pub(crate) struct CountGuard(Arc<watch::Sender<usize>>);

impl CountGuard {
    /// Increments the counter.
    pub(crate) fn one(number: &Arc<watch::Sender<usize>>) -> Self {
        number.send_modify(|number| *number += 1);
        Self(Arc::clone(number))
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.send_modify(|number| *number -= 1);
    }
}
