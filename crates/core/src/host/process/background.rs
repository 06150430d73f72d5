//! Background tasks owned by the host; they outlive the connection that started them.

use std::future::Future;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::sync::Lock;

/// The host's background tasks.
#[derive(Debug, Default)]
pub(crate) struct BackgroundTasks(Lock<JoinSet<()>>);

impl BackgroundTasks {
    /// Starts a task that runs to its end.
    pub(crate) fn see_through(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut works = self.0.lock();
        while works.try_join_next().is_some() {}
        works.spawn(work);
    }

    /// Waits until all tasks are done, and aborts those that take longer than `limit`.
    pub(crate) async fn done_within(&self, limit: Duration) {
        let mut works = std::mem::take(&mut *self.0.lock());
        let done = async { while works.join_next().await.is_some() {} };
        drop(timeout(limit, done).await);
        works.shutdown().await;
    }
}
