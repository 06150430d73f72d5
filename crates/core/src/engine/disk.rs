//! Questions to a disk that may never be answered: a path of a client can lead to a dead mount.
//!
//! Each is asked on a thread of its own, because whoever asks such a disk hangs; and it is given up after a while, so
//! that nobody else does. A thread that hangs ends with the process, or when its disk answers after all.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// How long a disk may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How many questions may be open at once, those that are given up included.
const OPEN: usize = 64;

/// Where disks are asked.
#[derive(Debug, Clone)]
pub(crate) struct Disk(Arc<Semaphore>);

impl Default for Disk {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(OPEN)))
    }
}

impl Disk {
    /// What the work comes to; `None` if that takes too long.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let asked = async {
            let room = Arc::clone(&self.0).acquire_owned().await.ok()?;
            let (reply, answer) = oneshot::channel();
            let ask = move || {
                // Whoever asked may have given up.
                drop(reply.send(work()));
                drop(room);
            };
            // Nobody waits for the thread: it may be stuck for good.
            std::thread::Builder::new().name("acpx-disk".to_owned()).spawn(ask).ok()?;
            answer.await.ok()
        };
        timeout(LIMIT, asked).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_a_disk_never_answers_is_given_up_and_stops_nobody_else() {
        let disk = Disk::default();
        let (answer, asked) = mpsc::channel::<()>();
        assert_eq!(disk.ask(move || asked.recv().is_ok()).await, None);
        tokio::time::resume();
        assert_eq!(disk.ask(|| 7).await, Some(7));
        drop(answer);
    }
}
