//! The thread that starts agents.
//!
//! The parent-death signal goes by thread and not by process: an agent forked from a worker of the runtime would be
//! killed when that worker retires. So all agents of an owner are forked from a thread that lives as long as anyone
//! holds a handle, and a running agent holds one.
//!
//! A start can hang for as long as a disk does not answer, between fork and exec, where nobody can end it. Others do
//! not wait for it: when the thread has been busy for too long, another one takes the next start, and both stay.

use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::ending::GracePeriods;
use super::leader::{ChildPipes, Leader};
use super::marks::{HOST_VARIABLE, KEEP_VARIABLE};
use super::parent_death::die_with_this_thread;
use super::tag::Tag;

/// How long a start waits for a thread before another thread is taken on. A fork takes milliseconds.
const BUSY: Duration = Duration::from_secs(1);
/// How many threads are taken on at most. Then as many starts hang, and something is wrong that is not ours.
const THREADS: usize = 8;
/// How long a list of programs may be that agents are marked with. A variable of more than twice this keeps the system
/// from starting them.
const KEEP_BYTES: usize = 64 << 10;
/// How long a start waits when there can be no more threads.
const PATIENCE: Duration = Duration::from_secs(20);

/// A handle to the thread that starts agents. The thread begins with the first start and ends when the last handle
/// is dropped; on Linux the kernel then kills what is left of the agents it had started.
#[derive(Debug, Clone)]
pub struct Spawner(Arc<SpawnerState>);

#[derive(Debug)]
struct SpawnerState {
    tag: Option<Tag>,
    /// The programs that whoever holds its agents does not end, as they are marked with them.
    keep: Option<String>,
    threads: Mutex<Threads>,
    /// One permit for each thread that has nothing to do.
    idle: Semaphore,
}

#[derive(Debug, Default)]
struct Threads {
    /// How many there are.
    count: usize,
    /// The ways to those that have nothing to do. The way to one that is busy is with its work.
    idle: Vec<SyncSender<SpawnJob>>,
}

type SpawnJob = Box<dyn FnOnce() + Send>;

/// Why a process was not started.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    /// The directory it was to work in is not there.
    #[error("its directory does not exist")]
    NoDirectory,
    /// Nobody is free to start it.
    #[error(
        "{THREADS} agents before it hang while they are being started, as on a disk that does not answer"
    )]
    Hanging,
    /// The thread that was to start it is gone.
    #[error("the thread that starts agents is gone")]
    NoThread,
    /// The system refused.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Default for Spawner {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Spawner {
    /// A spawner that gives every agent this tag, in place of any tag in the environment it is given.
    pub fn new(tag: Option<Tag>) -> Self {
        Self::keeping(tag, &[])
    }

    /// Such a spawner for a holder that does not end these programs with its agents. Each agent is marked with them, so
    /// that whoever looks after what is left of it does not either.
    pub fn keeping(tag: Option<Tag>, keep: &[String]) -> Self {
        let keep = (!keep.is_empty()).then(|| serde_json::Value::from(keep).to_string());
        let keep = keep.filter(|keep| keep.len() <= KEEP_BYTES);
        Self(Arc::new(SpawnerState { tag, keep, threads: Mutex::default(), idle: Semaphore::new(0) }))
    }

    /// The tag that its agents carry.
    pub fn tag(&self) -> Option<&Tag> {
        self.0.tag.as_ref()
    }

    /// Marks a command as all that this spawner starts is marked, for one that is started in another way.
    pub fn mark(&self, command: &mut Command) {
        if let Some(tag) = &self.0.tag {
            command.env(Tag::VARIABLE, tag.to_string());
        }
        match &self.0.keep {
            Some(keep) => command.env(KEEP_VARIABLE, keep),
            None => command.env_remove(KEEP_VARIABLE),
        };
        // What is started here is no host, whatever the environment says that somebody gave it.
        command.env_remove(HOST_VARIABLE);
    }

    /// Starts a command as the leader of a group of its own. Whoever stops waiting for it leaves no process.
    pub(super) async fn start(
        &self,
        mut command: Command,
        grace: GracePeriods,
    ) -> Result<(Leader, ChildPipes), StartError> {
        self.mark(&mut command);
        let start = move || {
            // Even to look for a directory can hang. The system's own error would not say what is missing.
            if command.get_current_dir().is_some_and(|cwd| !cwd.is_dir()) {
                return Err(StartError::NoDirectory);
            }
            die_with_this_thread(&mut command);
            Ok(Leader::start(&mut command, grace)?)
        };
        self.on_a_thread(start).await?
    }

    /// Does something on a thread that lives as long as this spawner. Nobody waits for one that is busy for long.
    async fn on_a_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, StartError> {
        let thread = self.thread().await?;
        let (done, answer) = oneshot::channel();
        let (spawner, way) = (Arc::downgrade(&self.0), thread.clone());
        let work: SpawnJob = Box::new(move || {
            // What nobody waits for any more is not begun.
            let result = (!done.is_closed()).then(work);
            // The thread is free before anyone hears of it, so that the next one finds it.
            give_back(&spawner, way);
            if let Some(result) = result {
                // If nobody waits for it any more, it is dropped, and a process is thereby killed.
                drop(done.send(result));
            }
        });
        thread.send(work).map_err(|_| StartError::NoThread)?;
        drop(thread);
        answer.await.map_err(|_| StartError::NoThread)
    }

    /// The way to a thread that has nothing to do.
    async fn thread(&self) -> Result<SyncSender<SpawnJob>, StartError> {
        if self.threads().count > 0
            && let Some(thread) = self.idle_within(BUSY).await
        {
            return Ok(thread);
        }
        match self.take_on()? {
            Some(thread) => Ok(thread),
            None => self.idle_within(PATIENCE).await.ok_or(StartError::Hanging),
        }
    }

    async fn idle_within(&self, limit: Duration) -> Option<SyncSender<SpawnJob>> {
        let permit = timeout(limit, self.0.idle.acquire()).await.ok()?.ok()?;
        permit.forget();
        self.threads().idle.pop()
    }

    /// Takes another thread on, unless there are too many.
    fn take_on(&self) -> io::Result<Option<SyncSender<SpawnJob>>> {
        // Children are told from orphans by the name of the thread they come from. It may have 15 characters.
        static NUMBER: AtomicU32 = AtomicU32::new(0);

        let mut threads = self.threads();
        if threads.count >= THREADS {
            return Ok(None);
        }
        let name = format!("agents-{:x}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let (way, works) = sync_channel(1);
        std::thread::Builder::new().name(name).spawn(move || serve(&works))?;
        threads.count += 1;
        Ok(Some(way))
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.0.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a thread free for others. If the spawner is gone, so is the only way to it, and the thread ends.
fn give_back(spawner: &Weak<SpawnerState>, way: SyncSender<SpawnJob>) {
    if let Some(inner) = spawner.upgrade() {
        inner.threads.lock().unwrap_or_else(PoisonError::into_inner).idle.push(way);
        inner.idle.add_permits(1);
    }
}

/// Does what it is given until nobody can give it anything any more.
fn serve(works: &Receiver<SpawnJob>) {
    while let Ok(work) = works.recv() {
        work();
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
