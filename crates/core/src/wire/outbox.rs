//! What we have to say and what we are waiting for: the lines to be written, the requests outstanding, and
//! the cancellations, under one lock.
//!
//! One lock, because the three depend on each other: a cancellation goes out after its request's own line
//! and not at all once the answer is here. Its lane needs no bound of its own: a request enters it once, and
//! only while it is outstanding.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore};

use super::{RpcId, WireError, WireLimits, encode};

/// About as much as is taken out of the queue for one write.
const BATCH_BYTES: usize = 64 * 1024;

/// The outgoing half of a connection, shared by its peers, its reader and its writer.
#[derive(Debug)]
pub(super) struct Outbox {
    limits: WireLimits,
    /// Room for messages; a permit is held by every line from before it is queued until it is written.
    messages: Semaphore,
    /// Room for bytes, likewise.
    bytes: Semaphore,
    /// How many bytes the peer has taken.
    taken: AtomicU64,
    /// Wakes the writer.
    wake: Notify,
    state: Mutex<OutboxState>,
}

#[derive(Debug, Default)]
struct OutboxState {
    lines: VecDeque<QueuedLine>,
    outstanding: HashMap<RpcId, OutstandingRequest>,
    /// Requests written whose cancellation is not.
    cancellations: VecDeque<RpcId>,
    /// Nothing more is taken; what is queued is still written.
    closing: bool,
    /// The peer answers no more, so nothing more can be asked.
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
    /// Whether the writer has its line. Until then no answer can be genuine.
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

/// What the writer should do next.
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
            state: Mutex::default(),
        }
    }

    /// Queues a line as soon as there is room. Dropping the future takes the line back.
    pub(super) async fn send(&self, line: String) -> Result<(), WireError> {
        self.queue(line, None).await
    }

    /// Registers the id, then queues its line. On an error, or when the future is dropped before the line
    /// is queued, the id is free again.
    pub(super) async fn send_request(&self, id: RpcId, method: &str, line: String) -> Result<(), WireError> {
        self.register(&id, method)?;
        let registration = Registration { outbox: self, id: &id };
        self.queue(line, Some(id.clone())).await?;
        std::mem::forget(registration);
        Ok(())
    }

    /// Asks for a cancellation; see [`super::Peer::cancel`].
    pub(super) fn cancel(&self, id: &RpcId) {
        let mut state = self.state();
        let Some(request) = state.outstanding.get_mut(id) else { return };
        if request.cancel != Cancel::No {
            return;
        }
        request.cancel = Cancel::Asked;
        // A request still in the queue takes its cancellation along when the writer comes for it.
        if request.taken {
            state.cancellations.push_back(id.clone());
            self.wake.notify_one();
        }
    }

    /// The method of the request this is the answer to; `None` if there is none outstanding.
    pub(super) fn answered(&self, id: &RpcId) -> Option<Box<str>> {
        let mut state = self.state();
        state.outstanding.get(id).filter(|request| request.taken)?;
        state.outstanding.remove(id).map(|request| request.method)
    }

    /// No answer will come any more.
    pub(super) fn reading_ended(&self) {
        let mut state = self.state();
        state.deaf = true;
        state.outstanding.clear();
        state.cancellations.clear();
    }

    /// Takes nothing more; what is queued is still written.
    pub(super) fn close(&self) {
        self.state().closing = true;
        self.stop_taking();
    }

    /// Takes nothing more and forgets what is queued.
    pub(super) fn discard(&self) {
        let mut state = self.state();
        state.closing = true;
        state.lines.clear();
        state.cancellations.clear();
        drop(state);
        self.stop_taking();
    }

    /// The peer takes no more.
    pub(super) fn write_failed(&self, error: io::Error) {
        self.state().write_error.get_or_insert_with(|| Arc::new(error));
        self.discard();
    }

    /// Whether the peer took nothing for too long.
    pub(super) fn is_stalled(&self) -> bool {
        self.state().write_error.as_ref().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
    }

    /// Whether writing failed, as the error that says so.
    pub(super) fn write_error(&self) -> Option<WireError> {
        self.state().write_error.clone().map(|source| WireError::WriteFailed { source })
    }

    /// What the writer should do now. The room of a batch is given back by [`Self::written`].
    pub(super) fn work(&self) -> WriteStep {
        let mut state = self.state();
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

    /// A batch is with the peer: others may use its room.
    pub(super) fn written(&self, batch: &Batch) {
        self.messages.add_permits(batch.messages);
        self.bytes.add_permits(batch.bytes);
    }

    /// The peer has taken so many bytes.
    pub(super) fn took(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// How many bytes the peer has taken; `None` if there is nothing to take.
    pub(super) fn taken(&self) -> Option<u64> {
        let has_lines = self.messages.available_permits() < self.limits.message_permits() as usize;
        has_lines.then(|| self.taken.load(Ordering::Relaxed))
    }

    /// Waits until everything that is queued by now has been written. An error means that it never will be.
    pub(super) async fn delivered(&self) -> Result<(), WireError> {
        // Every line that is not written yet holds a part of the room.
        let all = self.messages.acquire_many(self.limits.message_permits()).await;
        all.map(drop).map_err(|_| self.refusal())
    }

    /// Waits until there may be work.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    async fn queue(&self, line: String, request: Option<RpcId>) -> Result<(), WireError> {
        let line = encode::one_line(line);
        if line.len() > self.limits.line_bytes {
            return Err(WireError::TooLong { bytes: line.len(), limit: self.limits.line_bytes });
        }
        let (Ok(message), Ok(bytes)) =
            (self.messages.acquire().await, self.bytes.acquire_many(self.limits.cost(&line)).await)
        else {
            return Err(self.refusal());
        };
        let mut state = self.state();
        if state.closing {
            drop(state);
            return Err(self.refusal());
        }
        message.forget();
        bytes.forget();
        state.lines.push_back(QueuedLine { line, request });
        // The writer looks again before it sleeps, so only the first line has to wake it.
        if state.lines.len() == 1 {
            self.wake.notify_one();
        }
        Ok(())
    }

    fn register(&self, id: &RpcId, method: &str) -> Result<(), WireError> {
        let mut state = self.state();
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

    fn state(&self) -> MutexGuard<'_, OutboxState> {
        // Nothing panics while it holds the lock, and every step leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutboxState {
    fn take_cancellations(&mut self, batch: &mut Batch) {
        while let Some(id) = self.cancellations.pop_front() {
            // The answer may have come in the meantime.
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
        self.outbox.state().outstanding.remove(self.id);
    }
}
