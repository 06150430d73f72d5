//! Where requests to write are handed in: a queue for the writer's thread, and a shorter way past it.
//!
//! A short append that need not reach the disk is a few writes to memory of the system, and takes less time than to wake
//! a thread and be woken by it. While nothing waits for the writer it is committed where it is asked for. Whatever may
//! wait, for the disk or for another process, is left to the thread, and nobody overtakes what waits there.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use super::threads::{QUEUE, WriteConnection, WriteResult};
use super::write::WriteOperation;

/// What the writer's thread is asked to do.
pub(super) enum WriteRequest {
    /// To write, and where the answer goes.
    Write(WriteOperation, WriteWaiter),
    /// To see whether the log is to be copied into the file: someone else has written to it.
    LookAtLog,
}

/// Whoever waits for the writer's thread, counted as such until it is dropped.
pub(super) struct WriteWaiter {
    reply: Option<oneshot::Sender<WriteResult>>,
    desk: Arc<WriteQueue>,
}

impl WriteWaiter {
    /// Answers, once nobody waits here any more.
    fn tell(mut self, answer: WriteResult) {
        let reply = self.reply.take();
        drop(self);
        // A requester that has gone needs no answer.
        drop(reply.map(|reply| reply.send(answer)));
    }
}

impl Drop for WriteWaiter {
    fn drop(&mut self) {
        self.desk.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The connection that writes, for the thread that serves the queue and for whoever need not go there.
pub(super) struct WriteQueue {
    writer: Mutex<WriteConnection>,
    /// How many wait for the thread. Nobody overtakes them.
    waiting: AtomicUsize,
    /// How many commits there were.
    commits: AtomicU64,
    /// After this long without one the log is copied into the file.
    idle: Duration,
    /// Whether the thread has nothing left to do until it is asked.
    rests: AtomicBool,
}

impl WriteQueue {
    /// With nothing queued.
    pub(super) fn new(writer: WriteConnection, idle: Duration) -> Self {
        let (waiting, commits, rests) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
        Self { writer: Mutex::new(writer), waiting, commits, idle, rests }
    }

    /// A request for the thread, and where its answer will be.
    pub(super) fn request(
        self: &Arc<Self>,
        write: WriteOperation,
    ) -> (WriteRequest, oneshot::Receiver<WriteResult>) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let (reply, answer) = oneshot::channel();
        (WriteRequest::Write(write, WriteWaiter { reply: Some(reply), desk: Arc::clone(self) }), answer)
    }

    /// Writes on this thread and says whether the writer's is to look at the log; a request that might wait comes back.
    pub(super) fn try_now(&self, write: WriteOperation) -> Result<(WriteResult, bool), WriteOperation> {
        if !write.is_quick() || self.waiting.load(Ordering::SeqCst) > 0 {
            return Err(write);
        }
        let Ok(mut writer) = self.writer.try_lock() else { return Err(write) };
        let Some(answer) = writer.commit_now(&write) else { return Err(write) };
        let has_log = writer.has_log();
        drop(writer);
        self.commits.fetch_add(1, Ordering::SeqCst);
        Ok((answer, self.rests.swap(false, Ordering::SeqCst) || has_log))
    }

    fn writer(&self) -> MutexGuard<'_, WriteConnection> {
        // A write that panicked was rolled back on the way out, or the next one begins with an error.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves requests until nobody is left to make one.
    pub(super) fn run(&self, mut queue: mpsc::Receiver<WriteRequest>, timer: &Runtime) {
        while let Some(first) = self.next(&mut queue, timer) {
            let (mut writes, mut replies) = (Vec::new(), Vec::new());
            let mut next = Some(first);
            while let Some(request) = next {
                if let WriteRequest::Write(write, waiting) = request {
                    writes.push(write);
                    replies.push(waiting);
                }
                next = if writes.len() < QUEUE { queue.try_recv().ok() } else { None };
            }
            self.serve(&writes, replies);
        }
    }

    fn serve(&self, writes: &[WriteOperation], replies: Vec<WriteWaiter>) {
        let mut held = self.writer();
        let (answers, is_long) = if writes.is_empty() {
            (Vec::new(), held.has_log())
        } else {
            (held.commit(writes), held.has_long_log())
        };
        drop(held);
        self.commits.fetch_add(1, Ordering::SeqCst);
        for (waiting, answer) in replies.into_iter().zip(answers) {
            waiting.tell(answer);
        }
        if is_long {
            self.writer().empty_log();
        }
    }

    /// Gives pages that deleted sessions left back to the disk, a step at a time, until somebody wants to write.
    fn shrink_file(&self) {
        while self.waiting.load(Ordering::SeqCst) == 0 {
            let mut writer = self.writer();
            if !writer.free_pages() {
                return;
            }
            if writer.has_long_log() {
                writer.empty_log();
            }
        }
    }

    /// The next request. While there is none, the time is used to empty the log.
    fn next(&self, queue: &mut mpsc::Receiver<WriteRequest>, timer: &Runtime) -> Option<WriteRequest> {
        if let Ok(request) = queue.try_recv() {
            return Some(request);
        }
        loop {
            let before = self.commits.load(Ordering::SeqCst);
            let soon = timer.block_on(async { tokio::time::timeout(self.idle, queue.recv()).await });
            if let Ok(request) = soon {
                return request;
            }
            if self.commits.load(Ordering::SeqCst) == before {
                self.shrink_file();
                self.rests.store(true, Ordering::SeqCst);
                self.writer().empty_log();
                return queue.blocking_recv();
            }
        }
    }
}
