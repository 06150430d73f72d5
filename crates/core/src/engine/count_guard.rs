//! Counting by holding: whoever has the value is counted, and nobody can forget to be taken off again.

use std::sync::Arc;

use tokio::sync::watch;

/// One of those a number counts.
#[derive(Debug)]
pub(crate) struct CountGuard(Arc<watch::Sender<usize>>);

impl CountGuard {
    /// Counts one more.
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
