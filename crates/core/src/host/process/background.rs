//! Background tasks owned by the host; they outlive the connection that started them.

use std::future::Future;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::Instrument;

use crate::sync::Lock;

/// The host's background tasks.
#[derive(Debug, Default)]
pub(crate) struct BackgroundTasks(Lock<JoinSet<()>>);

impl BackgroundTasks {
    /// Starts a task that runs to its end.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task.in_current_span());
    }

    /// Waits until all tasks are done, and aborts those that take longer than `limit`.
    pub(crate) async fn finish_within(&self, limit: Duration) {
        let mut tasks = std::mem::take(&mut *self.0.lock());
        let done = async { while tasks.join_next().await.is_some() {} };
        drop(timeout(limit, done).await);
        tasks.shutdown().await;
    }
}
