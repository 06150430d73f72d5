//! A connection: the sending ends ([`Peer`]), the one receiving end ([`InboundStream`]), and the two tasks that move
//! bytes.
//!
//! The tasks belong to the ends. Dropping the last [`Peer`] closes the connection as [`Peer::close`] does; dropping
//! [`InboundStream`] stops reading; when both are dropped, nothing runs any more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::outbox::Outbox;
use super::reader::{Inbox, WireReader};
use super::{
    GarbageReport, RpcError, RpcId, RpcMessage, UnreadableLine, WireError, WireLimits, encode, writer,
};

/// The capacity of the in-memory pipe of [`memory`] in each direction.
const MEMORY_BYTES: usize = 64 * 1024;

/// Speaks JSON-RPC over a pair of byte streams. Must be called inside a tokio runtime.
pub fn connect<R, W>(source: R, target: W, limits: WireLimits) -> (Peer, InboundStream)
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let outbox = Arc::new(Outbox::new(limits));
    let inbox = Arc::new(Inbox::new(limits));
    let (queue, received) = mpsc::channel(limits.message_permits() as usize);
    let (done, writing_done) = watch::channel(false);
    let reader = WireReader::new(source, Arc::clone(&inbox), Arc::clone(&outbox), queue);
    let tasks = Arc::new(Tasks {
        reader: tokio::spawn(reader.run()),
        writer: tokio::spawn(writer::run(target, Arc::clone(&outbox), done, limits.write_timeout)),
    });
    let peer = Peer(Arc::new(SendHalf {
        outbox,
        inbox: Arc::clone(&inbox),
        next_id: AtomicU64::new(0),
        writing_done,
        tasks: Arc::clone(&tasks),
    }));
    (peer, InboundStream { queue: received, inbox, tasks })
}

/// Two connected ends in this process.
pub fn memory(limits: WireLimits) -> ((Peer, InboundStream), (Peer, InboundStream)) {
    let (left, right) = tokio::io::duplex(MEMORY_BYTES);
    let (left_source, left_target) = tokio::io::split(left);
    let (right_source, right_target) = tokio::io::split(right);
    (connect(left_source, left_target, limits), connect(right_source, right_target, limits))
}

/// The sending end of a connection. Clones send on the same connection.
///
/// Sending waits while the queue is full, until the peer reads. A receiver must therefore not wait for its own sending,
/// or two such peers can deadlock.
#[derive(Debug, Clone)]
pub struct Peer(Arc<SendHalf>);

/// A weak handle to a peer, which does not keep the connection open.
#[derive(Debug, Clone)]
pub(crate) struct WeakPeer(Weak<SendHalf>);

impl WeakPeer {
    /// The peer's garbage lines; empty once the connection is dropped.
    pub(crate) fn garbage(&self) -> GarbageReport {
        self.0.upgrade().map(|sending| Peer(sending).garbage()).unwrap_or_default()
    }
}

#[derive(Debug)]
struct SendHalf {
    outbox: Arc<Outbox>,
    inbox: Arc<Inbox>,
    next_id: AtomicU64,
    writing_done: watch::Receiver<bool>,
    tasks: Arc<Tasks>,
}

impl Peer {
    /// A weak handle to this peer.
    pub(crate) fn downgrade(&self) -> WeakPeer {
        WeakPeer(Arc::downgrade(&self.0))
    }

    /// Why the peer's stream ended; `None` while reading continues.
    pub fn end(&self) -> Option<DisconnectReason> {
        self.0.inbox.end()
    }

    /// Waits until the peer's stream has ended.
    pub(crate) async fn reading_ended(&self) {
        self.0.inbox.reading_ended().await;
    }

    /// How many lines of the peer were dropped because they exceeded the limit, although they began like a message.
    pub(crate) fn dropped_lines(&self) -> u64 {
        self.0.inbox.dropped_lines()
    }

    /// How many other lines of the peer were garbage: not UTF-8, not JSON, or not JSON-RPC.
    pub(crate) fn garbage_lines(&self) -> u64 {
        self.0.inbox.garbage_lines()
    }

    /// A fresh id: 0, 1, 2 and so on for each connection.
    pub(crate) fn mint_id(&self) -> RpcId {
        RpcId::from_number(self.0.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Sends a request line. The id counts as outstanding before the line is queued, so no response can be too early.
    /// Dropping the future while it waits sends nothing.
    pub(crate) async fn send_request(&self, id: RpcId, method: &str, line: String) -> Result<(), WireError> {
        self.0.outbox.send_request(id, method, line).await
    }

    /// Sends a notification or a response line. Dropping the future while it waits sends nothing.
    pub async fn send(&self, line: String) -> Result<(), WireError> {
        self.0.outbox.send(line).await
    }

    /// Sends a request with a fresh id. A caller that needs the id before the response can arrive uses
    /// `mint_id` and `send_request`.
    pub async fn request(&self, method: &str, params: &str) -> Result<RpcId, WireError> {
        let id = self.mint_id();
        self.send_request(id.clone(), method, encode::request(&id, method, params)).await?;
        Ok(id)
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: &str) -> Result<(), WireError> {
        self.send(encode::notification(method, params)).await
    }

    /// Responds to a request with a result.
    pub async fn respond(&self, id: &RpcId, result: &str) -> Result<(), WireError> {
        self.send(encode::response(id, result)).await
    }

    /// Responds to a request with an error.
    pub async fn respond_error(&self, id: &RpcId, error: &RpcError) -> Result<(), WireError> {
        self.send(encode::error_response(id, error)).await
    }

    /// Waits until everything sent so far has been written to the system. Fails if it never will be. Other senders wait
    /// until then.
    pub(crate) async fn delivered(&self) -> Result<(), WireError> {
        self.0.outbox.delivered().await
    }

    /// Cancels a request of ours with `$/cancel_request`, after the request's line and even when the queue is full.
    /// Never waits, is never lost, and is sent once; does nothing for an id that is not outstanding.
    pub(crate) fn cancel(&self, id: &RpcId) {
        self.0.outbox.cancel(id);
    }

    /// Writes what is queued and ends our half of the stream; senders that wait for room fail. Reading continues until
    /// the peer's end. Waits for the peer to read everything: use a timeout, and `abort` afterwards.
    /// Fails if not everything queued was written.
    pub async fn close(&self) -> Result<(), WireError> {
        self.0.outbox.close();
        let mut done = self.0.writing_done.clone();
        // An error means that the task has ended, which is what is waited for.
        drop(done.wait_for(|done| *done).await);
        match self.0.outbox.write_error() {
            Some(error) => Err(error),
            None if self.0.inbox.is_aborted() => Err(WireError::Closed),
            None => Ok(()),
        }
    }

    /// Waits until the peer has read nothing for longer than [`WireLimits::write_timeout`]. Otherwise never completes.
    pub(crate) async fn stalled(&self) {
        let mut done = self.0.writing_done.clone();
        drop(done.wait_for(|done| *done).await);
        if !self.0.outbox.is_stalled() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until writing to the peer has failed. Otherwise never completes.
    pub(crate) async fn write_failed(&self) {
        let mut done = self.0.writing_done.clone();
        drop(done.wait_for(|done| *done).await);
        if !self.has_write_failed() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether writing to the peer has failed.
    pub(crate) fn has_write_failed(&self) -> bool {
        self.0.outbox.write_error().is_some()
    }

    /// Waits until the peer has had data to read for this long, up to twice as long, and has read nothing.
    pub(crate) async fn stalled_for(&self, time: Duration) {
        loop {
            let before = self.0.outbox.taken();
            sleep(time).await;
            if before.is_some() && self.0.outbox.taken() == before {
                return;
            }
        }
    }

    /// Ends both directions now and drops both queues.
    pub(crate) fn abort(&self) {
        self.0.inbox.abort();
        self.0.outbox.discard();
        self.0.tasks.abort();
    }

    /// The peer's garbage lines.
    pub fn garbage(&self) -> GarbageReport {
        self.0.inbox.garbage()
    }
}

impl Drop for SendHalf {
    fn drop(&mut self) {
        self.outbox.close();
    }
}

/// The receiving end of a connection: everything the peer sends, in the order it was sent.
#[derive(Debug)]
pub struct InboundStream {
    queue: mpsc::Receiver<Result<InboundMessage, UnreadableLine>>,
    inbox: Arc<Inbox>,
    tasks: Arc<Tasks>,
}

/// One message of the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InboundMessage {
    /// A request.
    Request {
        /// Its id, to be repeated in the response.
        id: RpcId,
        /// The whole message.
        message: RpcMessage,
    },
    /// A notification.
    Notification(RpcMessage),
    /// A response to a request of ours. Each request is answered at most once.
    Response {
        /// The request's id.
        id: RpcId,
        /// The request's method.
        method: Box<str>,
        /// The whole message.
        message: RpcMessage,
    },
    /// A response to nothing outstanding: unknown id, answered twice, or id `null`.
    Stray(RpcMessage),
}

impl InboundMessage {
    /// The whole message.
    pub fn message(&self) -> &RpcMessage {
        match self {
            Self::Request { message, .. }
            | Self::Notification(message)
            | Self::Response { message, .. }
            | Self::Stray(message) => message,
        }
    }
}

/// Why the peer's stream ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DisconnectReason {
    /// The peer ended its stream.
    #[error("the peer has ended the connection")]
    Eof,
    /// Reading failed, with the system's error message.
    #[error("cannot read from the peer: {0}")]
    ReadFailed(String),
    /// The peer sent only garbage.
    #[error("the peer sends nothing but garbage")]
    Flooded,
    /// We aborted the connection.
    #[error("the connection was aborted")]
    Aborted,
}

impl InboundStream {
    /// The next message; `None` at the end of the stream. Nothing is lost when the future is dropped.
    pub async fn recv(&mut self) -> Option<InboundMessage> {
        loop {
            if let Ok(inbound) = self.recv_each().await? {
                return Some(inbound);
            }
        }
    }

    /// The next message, or an error for an unreadable line that must be answered. Otherwise as [`Self::recv`].
    pub(crate) async fn recv_each(&mut self) -> Option<Result<InboundMessage, UnreadableLine>> {
        let received = self.queue.recv().await?;
        self.take(received)
    }

    /// The next message that has already arrived, if any.
    pub fn try_recv(&mut self) -> Option<InboundMessage> {
        loop {
            let received = self.queue.try_recv().ok()?;
            if let Ok(inbound) = self.take(received)? {
                return Some(inbound);
            }
        }
    }

    /// Why the stream ended; `None` while reading continues. Set before [`Self::recv`] returns `None`.
    pub fn end(&self) -> Option<DisconnectReason> {
        self.inbox.end()
    }

    fn take(
        &mut self,
        received: Result<InboundMessage, UnreadableLine>,
    ) -> Option<Result<InboundMessage, UnreadableLine>> {
        if self.inbox.is_aborted() {
            self.queue.close();
            while self.queue.try_recv().is_ok() {}
            return None;
        }
        if let Ok(inbound) = &received {
            self.inbox.received(inbound.message());
        }
        Some(received)
    }
}

impl Drop for InboundStream {
    fn drop(&mut self) {
        self.tasks.reader.abort();
    }
}

/// The two tasks; they do not outlive the ends they belong to.
#[derive(Debug)]
struct Tasks {
    reader: JoinHandle<()>,
    writer: JoinHandle<()>,
}

impl Tasks {
    fn abort(&self) {
        self.reader.abort();
        self.writer.abort();
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.abort();
    }
}

#[cfg(test)]
mod tests;
