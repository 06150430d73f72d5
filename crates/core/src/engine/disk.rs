//! Questions to a disk that may never be answered: a path of a client can lead to a dead mount.
//!
//! Each is asked on a thread of its own, because whoever asks such a disk hangs; and it is given up after a while, so
//! that nobody else does. A thread that hangs ends with the process, or when its disk answers after all.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// How long a disk may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How many questions may be open at once, those that are given up included.
const OPEN: usize = 64;
/// How many of them may be about one path, so that a single dead one leaves room for the rest.
const OPEN_FOR_ONE: usize = 4;

/// Where disks are asked.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    room: Arc<Semaphore>,
    open: Arc<Mutex<HashMap<PathBuf, usize>>>,
}

/// Why a disk was not heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// It takes too long, or did so when it was asked before.
    #[error("its disk does not answer")]
    Silent,
    /// Others take too long, and nobody else can be asked.
    #[error("too many disks do not answer")]
    Crowded,
}

impl Default for Disk {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(OPEN)), open: Arc::default() }
    }
}

/// One question about a path, counted as long as it is open.
struct Open {
    path: PathBuf,
    open: Arc<Mutex<HashMap<PathBuf, usize>>>,
}

impl Open {
    /// Counts one more, if there is room for it.
    fn one(path: &Path, open: &Arc<Mutex<HashMap<PathBuf, usize>>>) -> Option<Self> {
        let mut counts = lock(open);
        let count = counts.entry(path.to_owned()).or_default();
        if *count >= OPEN_FOR_ONE {
            return None;
        }
        *count += 1;
        Some(Self { path: path.to_owned(), open: Arc::clone(open) })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut counts = lock(&self.open);
        if let Some(count) = counts.get_mut(&self.path) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.path);
            }
        }
    }
}

fn lock(open: &Mutex<HashMap<PathBuf, usize>>) -> MutexGuard<'_, HashMap<PathBuf, usize>> {
    // Nothing panics while it holds the lock, and every step leaves the map whole.
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk {
    /// What the work, which is about this path, comes to.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        path: &Path,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let open = Open::one(path, &self.open).ok_or(NoAnswer::Silent)?;
        let room = timeout(LIMIT, Arc::clone(&self.room).acquire_owned()).await;
        let Ok(Ok(room)) = room else { return Err(NoAnswer::Crowded) };
        let (reply, answer) = oneshot::channel();
        let ask = move || {
            // Whoever asked may have given up.
            drop(reply.send(work()));
            drop((room, open));
        };
        // Nobody waits for the thread: it may be stuck for good.
        let begun = std::thread::Builder::new().name("acpx-disk".to_owned()).spawn(ask);
        begun.map_err(|_| NoAnswer::Crowded)?;
        timeout(LIMIT, answer).await.ok().and_then(Result::ok).ok_or(NoAnswer::Silent)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_a_disk_never_answers_is_given_up_and_stops_nobody_else() {
        let disk = Disk::default();
        let mut stuck = Vec::new();
        for asker in 0..2 * OPEN {
            let (answer, asked) = mpsc::channel::<()>();
            let heard = disk.ask(Path::new("/dead"), move || asked.recv().is_ok()).await;
            assert_eq!(heard, Err(NoAnswer::Silent), "asker {asker}");
            stuck.push(answer);
        }
        tokio::time::resume();
        assert_eq!(disk.ask(Path::new("/living"), || 7).await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn where_all_disks_are_dead_it_is_said_that_there_are_too_many() {
        let disk = Disk::default();
        let mut stuck = Vec::new();
        for number in 0..OPEN {
            let (answer, asked) = mpsc::channel::<()>();
            let path = PathBuf::from(format!("/dead/{number}"));
            let heard = disk.ask(&path, move || asked.recv().is_ok()).await;
            assert_eq!(heard, Err(NoAnswer::Silent));
            stuck.push(answer);
        }
        assert_eq!(disk.ask(Path::new("/living"), || 7).await, Err(NoAnswer::Crowded));
        drop(stuck);
    }
}
