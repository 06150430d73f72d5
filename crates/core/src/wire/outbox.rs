//! The outgoing half of a connection: queued lines, outstanding requests and cancellations, under one lock.
//!
//! They share a lock because they depend on each other: a cancellation is sent after its request's line, and not at all
//! once the response has arrived. Its lane needs no bound of its own: a request enters it once, and only while it is
//! outstanding.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, Semaphore};

use super::{RpcId, WireError, WireLimits, encode};
use crate::sync::Lock;

/// Approximate size of the batch for one write.
const BATCH_BYTES: usize = 64 * 1024;

/// The outgoing half of a connection, shared by its peers, its reader and its writer.
#[derive(Debug)]
pub(super) struct Outbox {
    limits: WireLimits,
    /// Room for messages; every line holds a permit from before it is queued until it is written.
    messages: Semaphore,
    /// Room for bytes; held in the same way.
    bytes: Semaphore,
    /// How many bytes were written to the stream.
    taken: AtomicU64,
    /// Wakes the writer.
    wake: Notify,
    state: Lock<OutboxState>,
}

#[derive(Debug, Default)]
struct OutboxState {
    lines: VecDeque<QueuedLine>,
    outstanding: HashMap<RpcId, OutstandingRequest>,
    /// Written requests with an unsent cancellation.
    cancellations: VecDeque<RpcId>,
    /// Accepts nothing more; what is queued is still written.
    closing: bool,
    /// The peer's stream has ended, so no request can be answered.
    deaf: bool,
    write_error: Option<Arc<io::Error>>,
}

#[derive(Debug)]
struct QueuedLine {
    line: String,
    /// The id, if the line is a request.
    request: Option<RpcId>,
}

#[derive(Debug)]
struct OutstandingRequest {
    method: Box<str>,
    /// Whether the writer has taken its line. Until then no response can be genuine.
    taken: bool,
    cancel: Cancel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cancel {
    No,
    Asked,
    Sent,
}

/// Lines that the writer has taken, and the room they still hold.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) lines: Vec<String>,
    messages: usize,
    bytes: usize,
}

/// The writer's next step.
#[derive(Debug)]
pub(super) enum WriteStep {
    /// Write these.
    Write(Batch),
    /// Nothing is queued.
    Idle,
    /// Nothing is queued and nothing more will be.
    Done,
}

impl Outbox {
    pub(super) fn new(limits: WireLimits) -> Self {
        Self {
            limits,
            messages: Semaphore::new(limits.message_permits() as usize),
            bytes: Semaphore::new(limits.byte_permits() as usize),
            taken: AtomicU64::new(0),
            wake: Notify::new(),
            state: Lock::default(),
        }
    }

    /// Queues a line as soon as there is room. Dropping the future removes the line.
    pub(super) async fn send(&self, line: String) -> Result<(), WireError> {
        self.queue(line, None).await
    }

    /// Registers the id, then queues its line. On an error, or when the future is dropped before the line is queued,
    /// the id is free again.
    pub(super) async fn send_request(&self, id: RpcId, method: &str, line: String) -> Result<(), WireError> {
        self.register(&id, method)?;
        let registration = Registration { outbox: self, id: &id };
        self.queue(line, Some(id.clone())).await?;
        std::mem::forget(registration);
        Ok(())
    }

    /// Queues a cancellation; see [`super::Peer::cancel`].
    pub(super) fn cancel(&self, id: &RpcId) {
        let mut state = self.state.lock();
        let Some(request) = state.outstanding.get_mut(id) else { return };
        if request.cancel != Cancel::No {
            return;
        }
        request.cancel = Cancel::Asked;
        // The cancellation of a request that is still queued is sent with it.
        if request.taken {
            state.cancellations.push_back(id.clone());
            self.wake.notify_one();
        }
    }

    /// The method of the request that this id answers; `None` if it is not outstanding.
    pub(super) fn answered(&self, id: &RpcId) -> Option<Box<str>> {
        let mut state = self.state.lock();
        state.outstanding.get(id).filter(|request| request.taken)?;
        state.outstanding.remove(id).map(|request| request.method)
    }

    /// The peer's stream has ended: no more responses will arrive.
    pub(super) fn reading_ended(&self) {
        let mut state = self.state.lock();
        state.deaf = true;
        state.outstanding.clear();
        state.cancellations.clear();
    }

    /// Accepts nothing more; what is queued is still written.
    pub(super) fn close(&self) {
        self.state.lock().closing = true;
        self.stop_taking();
    }

    /// Accepts nothing more and drops what is queued.
    pub(super) fn discard(&self) {
        let mut state = self.state.lock();
        state.closing = true;
        state.lines.clear();
        state.cancellations.clear();
        drop(state);
        self.stop_taking();
    }

    /// Writing to the peer has failed.
    pub(super) fn write_failed(&self, error: io::Error) {
        self.state.lock().write_error.get_or_insert_with(|| Arc::new(error));
        self.discard();
    }

    /// Whether the peer has read nothing for too long.
    pub(super) fn is_stalled(&self) -> bool {
        self.state.lock().write_error.as_ref().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
    }

    /// The error, if writing has failed.
    pub(super) fn write_error(&self) -> Option<WireError> {
        self.state.lock().write_error.clone().map(|source| WireError::WriteFailed { source })
    }

    /// The writer's next step. [`Self::written`] releases the room of a batch.
    pub(super) fn work(&self) -> WriteStep {
        let mut state = self.state.lock();
        let mut batch = Batch::default();
        state.take_cancellations(&mut batch);
        let mut taken = 0;
        while taken < BATCH_BYTES {
            let Some(queued) = state.lines.pop_front() else { break };
            taken += queued.line.len();
            batch.messages += 1;
            batch.bytes += self.limits.cost(&queued.line) as usize;
            batch.lines.push(queued.line);
            if let Some(id) = queued.request {
                state.request_taken(&id, &mut batch);
            }
        }
        match (batch.lines.is_empty(), state.closing) {
            (false, _) => WriteStep::Write(batch),
            (true, false) => WriteStep::Idle,
            (true, true) => WriteStep::Done,
        }
    }

    /// A batch was written: releases its room.
    pub(super) fn written(&self, batch: &Batch) {
        self.messages.add_permits(batch.messages);
        self.bytes.add_permits(batch.bytes);
    }

    /// Counts bytes written to the stream.
    pub(super) fn took(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// How many bytes were written to the stream; `None` if nothing is queued.
    pub(super) fn taken(&self) -> Option<u64> {
        let has_lines = self.messages.available_permits() < self.limits.message_permits() as usize;
        has_lines.then(|| self.taken.load(Ordering::Relaxed))
    }

    /// Waits until everything queued so far has been written. Fails if it never will be.
    pub(super) async fn delivered(&self) -> Result<(), WireError> {
        // Every unwritten line holds part of the room.
        let all = self.messages.acquire_many(self.limits.message_permits()).await;
        all.map(drop).map_err(|_| self.refusal())
    }

    /// Waits until there may be work.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    async fn queue(&self, line: String, request: Option<RpcId>) -> Result<(), WireError> {
        let line = encode::one_line(line);
        let limit = self.limits.longest_sent();
        if line.len() > limit {
            return Err(WireError::TooLong { bytes: line.len(), limit });
        }
        let (Ok(message), Ok(bytes)) =
            (self.messages.acquire().await, self.bytes.acquire_many(self.limits.cost(&line)).await)
        else {
            return Err(self.refusal());
        };
        let mut state = self.state.lock();
        if state.closing {
            drop(state);
            return Err(self.refusal());
        }
        message.forget();
        bytes.forget();
        state.lines.push_back(QueuedLine { line, request });
        // The writer checks again before it sleeps, so only the first line has to wake it.
        if state.lines.len() == 1 {
            self.wake.notify_one();
        }
        Ok(())
    }

    fn register(&self, id: &RpcId, method: &str) -> Result<(), WireError> {
        let mut state = self.state.lock();
        if state.closing || state.deaf {
            drop(state);
            return Err(self.refusal());
        }
        if state.outstanding.len() >= self.limits.outstanding {
            return Err(WireError::TooManyOutstanding { limit: self.limits.outstanding });
        }
        match state.outstanding.entry(id.clone()) {
            Entry::Occupied(_) => Err(WireError::DuplicateId { id: id.clone() }),
            Entry::Vacant(free) => {
                free.insert(OutstandingRequest { method: method.into(), taken: false, cancel: Cancel::No });
                Ok(())
            }
        }
    }

    fn refusal(&self) -> WireError {
        self.write_error().unwrap_or(WireError::Closed)
    }

    fn stop_taking(&self) {
        self.messages.close();
        self.bytes.close();
        self.wake.notify_one();
    }
}

impl OutboxState {
    fn take_cancellations(&mut self, batch: &mut Batch) {
        while let Some(id) = self.cancellations.pop_front() {
            // The response may have arrived in between.
            let Some(request) = self.outstanding.get_mut(&id) else { continue };
            if request.taken && request.cancel == Cancel::Asked {
                request.cancel = Cancel::Sent;
                batch.lines.push(encode::cancel_request(&id));
            }
        }
    }

    fn request_taken(&mut self, id: &RpcId, batch: &mut Batch) {
        let Some(request) = self.outstanding.get_mut(id) else { return };
        request.taken = true;
        if request.cancel == Cancel::Asked {
            request.cancel = Cancel::Sent;
            batch.lines.push(encode::cancel_request(id));
        }
    }
}

/// Frees the id of a request that was never queued.
struct Registration<'a> {
    outbox: &'a Outbox,
    id: &'a RpcId,
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.outbox.state.lock().outstanding.remove(self.id);
    }
}
