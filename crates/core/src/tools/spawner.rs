//! The threads that start agents.
//!
//! The parent-death signal is bound to the forking thread, not to the process: an agent forked from a worker of the
//! runtime would be killed when that worker retires. So all agents of an owner are forked from a thread that lives as
//! long as any handle, and a running agent holds one.
//!
//! A start can hang on an unresponsive disk, between fork and exec, where it cannot be interrupted. Other starts do not
//! wait for it: when the thread has been busy for too long, another one takes the next start, and both stay.

use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::leader::{ChildPipes, Leader};
use super::marks::{HOST_VARIABLE, KEEP_VARIABLE};
use super::parent_death::die_with_this_thread;
use super::tag::Tag;
use super::termination::GracePeriods;
use crate::sync::Lock;

/// How long a start waits for an idle thread before another one is created. A fork takes milliseconds.
const BUSY: Duration = Duration::from_secs(1);
/// Maximum number of threads. When all of them hang, the cause is outside acpx.
const THREADS: usize = 8;
/// Maximum length of the `ACPX_KEEP` variable. The system refuses to start a program with a variable of twice this
/// size.
const KEEP_BYTES: usize = 64 << 10;
/// How long a start waits when no more threads may be created.
const SPAWN_TIMEOUT: Duration = Duration::from_secs(20);

/// A handle to the threads that start agents. The first start creates a thread; dropping the last handle ends them, and
/// on Linux the kernel then kills the agents that they started.
#[derive(Debug, Clone)]
pub struct Spawner(Arc<SpawnerState>);

#[derive(Debug)]
struct SpawnerState {
    tag: Option<Tag>,
    /// The programs that are not ended with an agent, as the agents are marked with them (JSON).
    keep: Option<String>,
    threads: Lock<Threads>,
    /// One permit per idle thread.
    idle: Semaphore,
}

#[derive(Debug, Default)]
struct Threads {
    /// How many threads there are.
    count: usize,
    /// Senders to the idle threads. A busy thread's sender is held by its job.
    idle: Vec<SyncSender<SpawnJob>>,
}

type SpawnJob = Box<dyn FnOnce() + Send>;

/// Why a process was not started.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    /// Its working directory does not exist.
    #[error("its directory does not exist")]
    NoDirectory,
    /// All threads hang.
    #[error(
        "{THREADS} agents before it hang while they are being started, as on a disk that does not answer"
    )]
    Hanging,
    /// The thread that was to start it has ended.
    #[error("the thread that starts agents is gone")]
    NoThread,
    /// The system reported an error.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Default for Spawner {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Spawner {
    /// A spawner that gives every agent this tag, replacing any tag in the given environment.
    pub fn new(tag: Option<Tag>) -> Self {
        Self::keeping(tag, &[])
    }

    /// A spawner for a holder that does not end these programs with its agents. Each agent is marked with them, so that
    /// a later sweep keeps them too.
    pub fn keeping(tag: Option<Tag>, keep: &[String]) -> Self {
        let keep = (!keep.is_empty()).then(|| serde_json::Value::from(keep).to_string());
        let keep = keep.filter(|keep| keep.len() <= KEEP_BYTES);
        Self(Arc::new(SpawnerState { tag, keep, threads: Lock::default(), idle: Semaphore::new(0) }))
    }

    /// The tag that its agents carry.
    pub(crate) fn tag(&self) -> Option<&Tag> {
        self.0.tag.as_ref()
    }

    /// Sets the same variables on a command that is started without this spawner.
    pub fn mark(&self, command: &mut Command) {
        if let Some(tag) = &self.0.tag {
            command.env(Tag::VARIABLE, tag.to_string());
        }
        match &self.0.keep {
            Some(keep) => command.env(KEEP_VARIABLE, keep),
            None => command.env_remove(KEEP_VARIABLE),
        };
        // A program started here is never a host, even if the given environment claims so.
        command.env_remove(HOST_VARIABLE);
    }

    /// Starts a command as the leader of its own process group. Dropping the future leaves no process.
    pub(super) async fn start(
        &self,
        mut command: Command,
        grace: GracePeriods,
    ) -> Result<(Leader, ChildPipes), StartError> {
        self.mark(&mut command);
        let start = move || {
            // Even this check can hang, so it runs here. The system's own error would not name the directory as
            // missing.
            if command.get_current_dir().is_some_and(|cwd| !cwd.is_dir()) {
                return Err(StartError::NoDirectory);
            }
            die_with_this_thread(&mut command);
            Ok(Leader::start(&mut command, grace)?)
        };
        self.on_a_thread(start).await?
    }

    /// Runs a job on a thread that lives as long as this spawner. A thread that hangs is not waited for.
    async fn on_a_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, StartError> {
        let thread = self.thread().await?;
        let (done, answer) = oneshot::channel();
        let (spawner, jobs) = (Arc::downgrade(&self.0), thread.clone());
        let work: SpawnJob = Box::new(move || {
            // A job whose caller has stopped waiting is not started.
            let result = (!done.is_closed()).then(work);
            // The thread becomes idle before the result is sent, so that the caller's next start finds it.
            release(&spawner, jobs);
            if let Some(result) = result {
                // If the caller has stopped waiting, the result is dropped, which kills the process.
                drop(done.send(result));
            }
        });
        thread.send(work).map_err(|_| StartError::NoThread)?;
        drop(thread);
        answer.await.map_err(|_| StartError::NoThread)
    }

    /// The sender to an idle thread.
    async fn thread(&self) -> Result<SyncSender<SpawnJob>, StartError> {
        if self.0.threads.lock().count > 0
            && let Some(thread) = self.idle_within(BUSY).await
        {
            return Ok(thread);
        }
        match self.add_thread()? {
            Some(thread) => Ok(thread),
            None => self.idle_within(SPAWN_TIMEOUT).await.ok_or(StartError::Hanging),
        }
    }

    async fn idle_within(&self, limit: Duration) -> Option<SyncSender<SpawnJob>> {
        let permit = timeout(limit, self.0.idle.acquire()).await.ok()?.ok()?;
        permit.forget();
        self.0.threads.lock().idle.pop()
    }

    /// Creates another thread, unless there are too many.
    fn add_thread(&self) -> io::Result<Option<SyncSender<SpawnJob>>> {
        // The thread's name distinguishes its children from orphans. It may have 15 characters.
        static NUMBER: AtomicU32 = AtomicU32::new(0);

        let mut threads = self.0.threads.lock();
        if threads.count >= THREADS {
            return Ok(None);
        }
        let name = format!("agents-{:x}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let (jobs, received) = sync_channel(1);
        std::thread::Builder::new().name(name).spawn(move || serve(&received))?;
        threads.count += 1;
        Ok(Some(jobs))
    }
}

/// Makes a thread available again. If the spawner was dropped, so is the last sender, and the thread ends.
fn release(spawner: &Weak<SpawnerState>, jobs: SyncSender<SpawnJob>) {
    if let Some(inner) = spawner.upgrade() {
        inner.threads.lock().idle.push(jobs);
        inner.idle.add_permits(1);
    }
}

/// Runs jobs until the last sender is dropped.
fn serve(received: &Receiver<SpawnJob>) {
    while let Ok(work) = received.recv() {
        work();
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
