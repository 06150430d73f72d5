//! Write queue with a fast path: a small, non-synced append commits on the caller's thread when nothing is queued.
//!
//! Such an append only writes to the system's page cache, which is faster than waking the writer's thread and waiting
//! for it. Every write that may block, on the disk or on another process, goes to the thread, and no write overtakes
//! a queued one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use super::threads::{QUEUE, WriteConnection, WriteResult};
use super::write::WriteOperation;
use crate::store::StoreError;
use crate::sync::Lock;

/// A request to the writer's thread.
pub(super) enum WriteRequest {
    /// Write, and send the result here.
    Write(WriteOperation, WriteWaiter),
    /// Check whether to checkpoint the log: another thread has written to it.
    CheckLog,
    /// Remove some free pages from the file, and send whether there are more.
    Shrink(oneshot::Sender<Result<bool, StoreError>>),
}

/// The caller that waits for the writer's thread. It counts as waiting until this is dropped.
pub(super) struct WriteWaiter {
    reply: Option<oneshot::Sender<WriteResult>>,
    queue: Arc<WriteQueue>,
}

impl WriteWaiter {
    /// Sends the answer, after the caller no longer counts as waiting.
    fn send(mut self, answer: WriteResult) {
        let reply = self.reply.take();
        drop(self);
        // The caller may have dropped its receiver.
        drop(reply.map(|reply| reply.send(answer)));
    }
}

impl Drop for WriteWaiter {
    fn drop(&mut self) {
        self.queue.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The connection that writes, shared by the writer's thread and the fast path.
pub(super) struct WriteQueue {
    /// Usable after a panic: unwinding rolled its transaction back, or the next one begins with an error.
    writer: Lock<WriteConnection>,
    /// How many callers wait for the thread. No write overtakes them.
    waiting: AtomicUsize,
    /// The number of commits.
    commits: AtomicU64,
    /// The log is checkpointed after this long without a commit.
    idle: Duration,
    /// Whether the thread is idle until the next request.
    rests: AtomicBool,
}

impl WriteQueue {
    /// A queue with nothing waiting.
    pub(super) fn new(writer: WriteConnection, idle: Duration) -> Self {
        let (waiting, commits, rests) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
        Self { writer: Lock::new(writer), waiting, commits, idle, rests }
    }

    /// A request for the thread, and the receiver of its answer.
    pub(super) fn request(
        self: &Arc<Self>,
        write: WriteOperation,
    ) -> (WriteRequest, oneshot::Receiver<WriteResult>) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let (reply, answer) = oneshot::channel();
        (WriteRequest::Write(write, WriteWaiter { reply: Some(reply), queue: Arc::clone(self) }), answer)
    }

    /// Writes on this thread. Returns the result and whether the writer's thread must check the log, or the operation
    /// itself if it might block.
    pub(super) fn try_now(&self, write: WriteOperation) -> Result<(WriteResult, bool), WriteOperation> {
        if !write.is_quick() || self.waiting.load(Ordering::SeqCst) > 0 {
            return Err(write);
        }
        let Some(mut writer) = self.writer.try_lock() else { return Err(write) };
        let Some(answer) = writer.commit_now(&write) else { return Err(write) };
        let has_log = writer.has_log();
        drop(writer);
        self.commits.fetch_add(1, Ordering::SeqCst);
        Ok((answer, self.rests.swap(false, Ordering::SeqCst) || has_log))
    }

    /// Serves requests until every sender is dropped.
    pub(super) fn run(&self, mut queue: mpsc::Receiver<WriteRequest>, timer: &Runtime) {
        while let Some(first) = self.next(&mut queue, timer) {
            let (mut writes, mut replies) = (Vec::new(), Vec::new());
            let mut next = Some(first);
            while let Some(request) = next {
                match request {
                    WriteRequest::Write(write, waiting) => {
                        writes.push(write);
                        replies.push(waiting);
                    }
                    WriteRequest::CheckLog => {}
                    // The caller may have dropped its receiver.
                    WriteRequest::Shrink(reply) => drop(reply.send(self.shrink_step())),
                }
                next = if writes.len() < QUEUE { queue.try_recv().ok() } else { None };
            }
            self.serve(&writes, replies);
        }
    }

    fn serve(&self, writes: &[WriteOperation], replies: Vec<WriteWaiter>) {
        let mut connection = self.writer.lock();
        let (answers, is_long) = if writes.is_empty() {
            (Vec::new(), connection.has_log())
        } else {
            (connection.commit(writes), connection.has_long_log())
        };
        drop(connection);
        self.commits.fetch_add(1, Ordering::SeqCst);
        for (waiting, answer) in replies.into_iter().zip(answers) {
            waiting.send(answer);
        }
        if is_long {
            self.writer.lock().empty_log();
        }
    }

    /// Removes free pages on request, and the log after the last of them; returns whether there are more.
    fn shrink_step(&self) -> Result<bool, StoreError> {
        let mut writer = self.writer.lock();
        let has_more = writer.free_pages()?;
        if !has_more {
            writer.cut_log();
        } else if writer.has_long_log() {
            writer.empty_log();
        }
        Ok(has_more)
    }

    /// Returns free pages of deleted sessions to the disk, a step at a time, until a write is waiting.
    fn shrink_file(&self) {
        while self.waiting.load(Ordering::SeqCst) == 0 {
            let mut writer = self.writer.lock();
            if !writer.free_pages_while_idle() {
                return;
            }
            if writer.has_long_log() {
                writer.empty_log();
            }
        }
    }

    /// The next request. While there is none, the log is checkpointed.
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
                self.writer.lock().empty_log();
                return queue.blocking_recv();
            }
        }
    }
}
