//! File system queries that may block for ever, because a client's path can lead to a dead mount.
//!
//! Each query runs on its own thread and is given up after a timeout, so only that thread hangs. It ends with the
//! process, or when the disk responds after all; until then no new query starts for the same path. Concurrent queries
//! for a path that responds only wait for each other.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout};

use crate::model::AbsolutePath;
use crate::store::real_path_or_written;
use crate::sync::Lock;

/// How long a query may take, and how long a query may wait for a free slot.
const LIMIT: Duration = Duration::from_secs(5);
/// How many queries may be open at once, including those that were given up.
const OPEN: usize = 64;
/// How many of them may be for one path, so that a single dead path leaves room for the rest.
const OPEN_FOR_ONE: usize = 4;

/// Runs file system queries with a timeout.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    room: Arc<Semaphore>,
    paths: Paths,
}

/// The paths with open or waiting queries.
type Paths = Arc<Lock<HashMap<PathBuf, Weak<PathQueries>>>>;

/// Why a query failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// The disk takes too long, or an earlier query did.
    #[error("its disk does not answer")]
    Silent,
    /// Too many other queries take too long.
    #[error("too many disks do not answer")]
    Crowded,
}

impl Default for Disk {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(OPEN)), paths: Arc::default() }
    }
}

/// A path and its open queries.
#[derive(Debug)]
struct PathQueries {
    path: PathBuf,
    places: Arc<Semaphore>,
    /// When each query started.
    since: Lock<Vec<Instant>>,
    paths: Paths,
}

impl PathQueries {
    /// The entry for this path.
    fn about(path: &Path, paths: &Paths) -> Arc<Self> {
        let mut known = paths.lock();
        if let Some(queries) = known.get(path).and_then(Weak::upgrade) {
            return queries;
        }
        let queries = Arc::new(Self {
            path: path.to_owned(),
            places: Arc::new(Semaphore::new(OPEN_FOR_ONE)),
            since: Lock::default(),
            paths: Arc::clone(paths),
        });
        known.insert(path.to_owned(), Arc::downgrade(&queries));
        queries
    }

    /// Whether an open query was given up.
    fn is_silent(&self) -> bool {
        self.since.lock().iter().any(|since| since.elapsed() >= LIMIT)
    }
}

impl Drop for PathQueries {
    fn drop(&mut self) {
        let mut known = self.paths.lock();
        // A new entry may have replaced this one.
        if known.get(&self.path).is_some_and(|queries| queries.strong_count() == 0) {
            known.remove(&self.path);
        }
    }
}

/// One open query.
struct PathQuery {
    about: Arc<PathQueries>,
    since: Instant,
    _place: OwnedSemaphorePermit,
    _room: OwnedSemaphorePermit,
}

impl PathQuery {
    fn new(about: Arc<PathQueries>, place: OwnedSemaphorePermit, room: OwnedSemaphorePermit) -> Self {
        let since = Instant::now();
        about.since.lock().push(since);
        Self { about, since, _place: place, _room: room }
    }
}

impl Drop for PathQuery {
    fn drop(&mut self) {
        let mut open = self.about.since.lock();
        if let Some(index) = open.iter().position(|since| *since == self.since) {
            open.swap_remove(index);
        }
    }
}

impl Disk {
    /// A path with every link followed, or the path unchanged if it does not exist.
    pub(crate) async fn real(&self, path: &AbsolutePath) -> Result<AbsolutePath, NoAnswer> {
        let queried = path.clone();
        self.ask(path.as_path(), move || real_path_or_written(queried)).await
    }

    /// Runs work that accesses this path and no other.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        path: &Path,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let about = PathQueries::about(path, &self.paths);
        if about.is_silent() {
            return Err(NoAnswer::Silent);
        }
        let place = timeout(LIMIT, Arc::clone(&about.places).acquire_owned()).await;
        let Ok(Ok(place)) = place else { return Err(NoAnswer::Silent) };
        let room = timeout(LIMIT, Arc::clone(&self.room).acquire_owned()).await;
        let Ok(Ok(room)) = room else { return Err(NoAnswer::Crowded) };
        let question = PathQuery::new(about, place, room);
        let (reply, answer) = oneshot::channel();
        let ask = move || {
            // The caller may have given up.
            drop(reply.send(work()));
            drop(question);
        };
        // The thread is not joined: it may hang for ever.
        let begun = std::thread::Builder::new().name("acpx-disk".to_owned()).spawn(ask);
        begun.map_err(|_| NoAnswer::Crowded)?;
        timeout(LIMIT, answer).await.ok().and_then(Result::ok).ok_or(NoAnswer::Silent)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn query_of_a_dead_disk_times_out_and_blocks_no_other_path() {
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

    #[tokio::test]
    async fn concurrent_queries_of_one_path_are_all_answered() {
        let disk = Disk::default();
        let mut asked = JoinSet::new();
        for number in 0..100 {
            let disk = disk.clone();
            asked.spawn(async move { disk.ask(Path::new("/living"), move || number).await });
        }
        let mut heard = asked.join_all().await;
        heard.sort_unstable_by_key(|number| number.unwrap_or(-1));
        assert_eq!(heard, (0..100).map(Ok).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn disk_that_recovers_is_queried_again() {
        let disk = Disk::default();
        let (answer, asked) = mpsc::channel::<()>();
        let slow = move || asked.recv().is_ok();
        assert_eq!(disk.ask(Path::new("/slow"), slow).await, Err(NoAnswer::Silent));
        assert_eq!(disk.ask(Path::new("/slow"), || true).await, Err(NoAnswer::Silent));
        tokio::time::resume();
        answer.send(()).unwrap();
        while !disk.paths.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(disk.ask(Path::new("/slow"), || true).await, Ok(true));
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_dead_disks_have_their_own_error() {
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
