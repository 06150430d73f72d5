//! The reading task: bytes to lines, lines to messages, messages to the one ordered queue.
//!
//! It reads only while the queue has room, so a slow consumer blocks the peer instead of growing our memory.

use std::str;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{Semaphore, mpsc, watch};

use super::connection::{DisconnectReason, InboundMessage};
use super::lines::{DroppedLine, Garbage, LineBuffer, RawLine, request_id};
use super::message::Body;
use super::outbox::Outbox;
use super::{GarbageReport, Malformed, RpcId, RpcMessage, UnreadableLine, WireLimits};
use crate::sync::Lock;

/// The incoming half of a connection, shared by its reader, its peers and its consumer.
#[derive(Debug)]
pub(super) struct Inbox {
    limits: WireLimits,
    /// Room for bytes; the queue itself bounds the count.
    bytes: Semaphore,
    /// The consumer gets nothing more.
    aborted: AtomicBool,
    state: Lock<InboxState>,
    /// Whether reading has ended.
    is_over: watch::Sender<bool>,
}

#[derive(Debug)]
struct InboxState {
    garbage: Garbage,
    /// Lines over the limit that began like messages.
    dropped: u64,
    end: Option<DisconnectReason>,
}

impl Inbox {
    pub(super) fn new(limits: WireLimits) -> Self {
        Self {
            limits,
            bytes: Semaphore::new(limits.byte_permits() as usize),
            aborted: AtomicBool::new(false),
            state: Lock::new(InboxState { garbage: Garbage::new(&limits), dropped: 0, end: None }),
            is_over: watch::Sender::new(false),
        }
    }

    /// The consumer has received a message: releases its room.
    pub(super) fn received(&self, message: &RpcMessage) {
        self.bytes.add_permits(self.limits.cost(message.line()) as usize);
    }

    /// Stores why reading ended; the first reason stays.
    pub(super) fn ended(&self, end: DisconnectReason) {
        self.with(|state| _ = state.end.get_or_insert(end));
        self.is_over.send_replace(true);
    }

    pub(super) async fn reading_ended(&self) {
        // Every waiter holds a reference to this, so the channel stays open.
        drop(self.is_over.subscribe().wait_for(|is_over| *is_over).await);
    }

    pub(super) fn dropped_lines(&self) -> u64 {
        self.with(|state| state.dropped)
    }

    /// Lines that were not messages, without those that were dropped.
    pub(super) fn garbage_lines(&self) -> u64 {
        self.with(|state| state.garbage.lines().saturating_sub(state.dropped))
    }

    /// The consumer gets nothing more, not even what is queued.
    pub(super) fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
        self.ended(DisconnectReason::Aborted);
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire)
    }

    pub(super) fn end(&self) -> Option<DisconnectReason> {
        self.with(|state| state.end.clone())
    }

    pub(super) fn garbage(&self) -> GarbageReport {
        self.with(|state| state.garbage.report())
    }

    fn with<T>(&self, look: impl FnOnce(&mut InboxState) -> T) -> T {
        look(&mut self.state.lock())
    }
}

/// The reading task of one connection.
pub(super) struct WireReader<R> {
    /// The first field, so that it is dropped before the queue: when the consumer sees the end of the queue, the reason
    /// is set and requests are refused.
    ending: ReaderGuard,
    source: R,
    lines: LineBuffer,
    sink: LineSink,
}

impl<R: AsyncRead + Unpin> WireReader<R> {
    pub(super) fn new(
        source: R,
        inbox: Arc<Inbox>,
        outbox: Arc<Outbox>,
        queue: mpsc::Sender<Result<InboundMessage, UnreadableLine>>,
    ) -> Self {
        let limits = inbox.limits;
        Self {
            ending: ReaderGuard { inbox: Arc::clone(&inbox), outbox: Arc::clone(&outbox) },
            source,
            lines: LineBuffer::new(limits.line_bytes, limits.garbage_line_bytes),
            sink: LineSink { inbox, outbox, queue, since_message: 0 },
        }
    }

    /// Reads until the end of the stream, or until the connection is dropped or flooded.
    pub(super) async fn run(mut self) {
        let end = self.read().await;
        // A peer that sends only garbage gets nothing more either.
        if end == DisconnectReason::Flooded {
            self.ending.outbox.close();
        }
        self.ending.inbox.ended(end);
    }

    async fn read(&mut self) -> DisconnectReason {
        let end = loop {
            while let Some(line) = self.lines.next() {
                if let Err(end) = self.sink.take(line).await {
                    return end;
                }
            }
            if let Err(end) = self.sink.check_flood(self.lines.dropped_so_far()) {
                break end;
            }
            match self.source.read_buf(self.lines.room()).await {
                Ok(0) => break DisconnectReason::Eof,
                Ok(_) => {}
                Err(error) => break DisconnectReason::ReadFailed(error.to_string()),
            }
        };
        match self.lines.rest() {
            Some(line) => self.sink.take(line).await.err().unwrap_or(end),
            None => end,
        }
    }
}

/// Processes lines.
struct LineSink {
    inbox: Arc<Inbox>,
    outbox: Arc<Outbox>,
    queue: mpsc::Sender<Result<InboundMessage, UnreadableLine>>,
    /// Bytes of lines since the last message.
    since_message: u64,
}

impl LineSink {
    async fn take(&mut self, line: RawLine<'_>) -> Result<(), DisconnectReason> {
        let bytes = match line {
            RawLine::Whole(bytes) => bytes,
            RawLine::TooLong(dropped) => return self.too_long(&dropped).await,
        };
        match parse(bytes) {
            Ok(message) => {
                self.since_message = 0;
                self.deliver(message).await
            }
            // Blank lines are not reported, but endless ones count as a flood too.
            Err(_) if bytes.trim_ascii().is_empty() => {
                self.since_message += bytes.len() as u64 + 1;
                self.check_flood(0)
            }
            Err(problem) => {
                self.garbage(bytes, bytes.len() as u64)?;
                if problem.wants_an_answer() {
                    self.inbox.with(|state| state.garbage.wants_an_answer());
                    self.queue
                        .send(Err(UnreadableLine::new(problem, bytes)))
                        .await
                        .map_err(|_| DisconnectReason::Aborted)?;
                }
                Ok(())
            }
        }
    }

    /// A line that begins like a message may have been a request, so its sender must learn that it was dropped.
    async fn too_long(&mut self, dropped: &DroppedLine) -> Result<(), DisconnectReason> {
        self.garbage(&dropped.head, dropped.bytes)?;
        if dropped.head.trim_ascii_start().starts_with(b"{") {
            self.inbox.with(|state| {
                state.dropped += 1;
                state.garbage.wants_an_answer();
            });
            let problem = Malformed::TooLong { limit: self.inbox.limits.line_bytes };
            let id = request_id(&dropped.head).unwrap_or_else(RpcId::null);
            self.queue
                .send(Err(UnreadableLine { problem, id }))
                .await
                .map_err(|_| DisconnectReason::Aborted)?;
        }
        Ok(())
    }

    async fn deliver(&self, message: RpcMessage) -> Result<(), DisconnectReason> {
        let cost = self.inbox.limits.cost(message.line());
        let Ok(room) = self.inbox.bytes.acquire_many(cost).await else {
            return Err(DisconnectReason::Aborted);
        };
        room.forget();
        self.queue.send(Ok(self.sort(message))).await.map_err(|_| DisconnectReason::Aborted)
    }

    fn sort(&self, message: RpcMessage) -> InboundMessage {
        match message.body() {
            Body::Request { id, .. } => InboundMessage::Request { id: id.clone(), message },
            Body::Notification { .. } => InboundMessage::Notification(message),
            Body::Response { id, .. } => match self.outbox.answered(id) {
                Some(method) => InboundMessage::Response { id: id.clone(), method, message },
                None => InboundMessage::Stray(message),
            },
        }
    }

    fn garbage(&mut self, head: &[u8], bytes: u64) -> Result<(), DisconnectReason> {
        self.inbox.with(|state| state.garbage.count(head, bytes));
        self.since_message += bytes + 1;
        self.check_flood(0)
    }

    fn check_flood(&self, more: u64) -> Result<(), DisconnectReason> {
        let flooded = self.since_message + more > self.inbox.limits.flood_bytes;
        if flooded { Err(DisconnectReason::Flooded) } else { Ok(()) }
    }
}

fn parse(line: &[u8]) -> Result<RpcMessage, Malformed> {
    RpcMessage::parse(str::from_utf8(line).map_err(|_| Malformed::NotUtf8)?)
}

/// RAII guard: when the task ends for any reason, no request waits for a response any more.
struct ReaderGuard {
    inbox: Arc<Inbox>,
    outbox: Arc<Outbox>,
}

impl Drop for ReaderGuard {
    fn drop(&mut self) {
        self.inbox.ended(DisconnectReason::Aborted);
        self.outbox.reading_ended();
    }
}
