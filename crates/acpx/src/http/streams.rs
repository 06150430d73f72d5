//! Routes the lines of one HTTP connection to its own stream or to the stream of the session they concern.
//!
//! A session's stream exists once the host has named the session. A client may open it slightly earlier, so that it
//! misses no part of a replay. Every stream has one reader at a time and a bounded queue; a client that falls behind is
//! disconnected and catches up from its cursor.
//!
//! A client that loads or resumes a session before it opens the session's stream reads the replay and the reply on the
//! connection's stream, because it may wait for the session's id in the reply before it opens the session's stream.
//! A client that opened the session's stream first reads both on that stream, where the reply cannot overtake the
//! replay.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use acpx_core::acp::session_of;
use acpx_core::sync::Lock;
use acpx_core::wire::{Body, RpcId, RpcMessage, encode, json};
use futures_util::Stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Maximum number of queued lines per stream.
const LINES: usize = 1024;
/// Maximum number of queued bytes per stream. A longer line passes alone.
const BYTES: u32 = 4 << 20;
/// Maximum number of open streams for sessions that the host has not named.
const UNKNOWN: usize = 16;
/// Maximum number of session streams per connection. Lines of further sessions go to the connection's stream.
const SESSIONS: usize = 256;
/// Maximum number of pending requests per connection.
const WAITING: usize = 4096;

/// Methods that require a session id.
const ABOUT_A_SESSION: [&str; 10] = [
    "session/prompt",
    "session/cancel",
    "session/close",
    "session/delete",
    "session/fork",
    "session/load",
    "session/resume",
    "session/set_config_option",
    "session/set_mode",
    "session/set_model",
];

/// Why a message is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadMessage {
    /// It lacks the required session id.
    #[error("Acp-Session-Id or params.sessionId is needed")]
    NoSession,
    /// Header and params name different sessions.
    #[error("Acp-Session-Id and params.sessionId name two sessions")]
    TwoSessions,
    /// The session id is in the header, but the params are not an object.
    #[error("Acp-Session-Id needs params that are an object")]
    BadParams,
    /// Too many requests are pending.
    #[error("too many requests wait for an answer")]
    TooMany,
}

/// Why a stream cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoStream {
    /// It already has a reader.
    #[error("the stream has a reader already")]
    Busy,
    /// The session is not known on this connection.
    #[error("the session is not known on this connection")]
    Unknown,
}

/// The streams of one connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionStreams {
    connection: Mailbox,
    sessions: HashMap<String, SessionStream>,
    waiting: HashMap<RpcId, StreamRequest>,
    /// Sessions that are being loaded or resumed without a reader of their stream, each with the request's id.
    loads_without_reader: HashMap<String, RpcId>,
}

#[derive(Debug)]
struct SessionStream {
    mailbox: Mailbox,
    standing: StreamSessionState,
}

/// Whether the host knows a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamSessionState {
    /// The host has not named it yet.
    Unknown,
    /// The host has named it.
    Known,
    /// It was closed or deleted. Its stream stays open for the current reader.
    Over,
}

/// A pending request of the client.
#[derive(Debug)]
struct StreamRequest {
    session: Option<String>,
    does: AnswerEffect,
}

/// What a successful reply changes about the known sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerEffect {
    Nothing,
    Begins,
    Ends,
}

impl ConnectionStreams {
    /// Registers a client's message and returns the line to forward. A session id that is only in the header is copied
    /// into the params.
    pub(crate) fn register(
        &mut self,
        message: &RpcMessage,
        header: Option<&str>,
    ) -> Result<String, BadMessage> {
        let line = || message.line().to_string();
        let Some(method) = message.method().filter(|method| !method.starts_with("$/")) else {
            return Ok(line());
        };
        let named = message.params().and_then(session_of);
        let line = match (header, &named) {
            (Some(header), Some(named)) if header != named => return Err(BadMessage::TwoSessions),
            (None, None) if ABOUT_A_SESSION.contains(&method) => return Err(BadMessage::NoSession),
            (Some(header), None) => with_session(message, method, header).ok_or(BadMessage::BadParams)?,
            _ => line(),
        };
        if let Body::Request { id, .. } = message.body() {
            if self.waiting.len() >= WAITING {
                return Err(BadMessage::TooMany);
            }
            let does = match method {
                "session/new" | "session/fork" => AnswerEffect::Begins,
                "session/close" | "session/delete" => AnswerEffect::Ends,
                _ => AnswerEffect::Nothing,
            };
            let session = named.or_else(|| header.map(str::to_owned));
            if let ("session/load" | "session/resume", Some(session)) = (method, &session)
                && !self.sessions.get(session).is_some_and(|stream| stream.mailbox.has_reader())
            {
                self.loads_without_reader.insert(session.clone(), id.clone());
            }
            self.waiting.insert(id.clone(), StreamRequest { session, does });
        }
        Ok(line)
    }

    /// The stream for a line of the host, and the line to write there.
    pub(crate) fn route(&mut self, message: &RpcMessage) -> (Mailbox, Arc<str>) {
        let session = match message.method() {
            Some(method) if method.starts_with("$/") => None,
            Some(_) => message.params().and_then(session_of),
            None => return self.route_answer(message),
        };
        let mailbox = match session {
            Some(session) if self.loads_without_reader.contains_key(&session) => self.connection.clone(),
            Some(session) => self.named(session),
            None => self.connection.clone(),
        };
        (mailbox, message.line().clone())
    }

    fn route_answer(&mut self, message: &RpcMessage) -> (Mailbox, Arc<str>) {
        let waiting = message.id().and_then(|id| self.waiting.remove(id));
        if let (Some(id), Some(StreamRequest { session: Some(session), .. })) = (message.id(), &waiting)
            && self.loads_without_reader.get(session) == Some(id)
        {
            self.loads_without_reader.remove(session);
            return (self.connection.clone(), self.loaded(message, session));
        }
        (self.mailbox_of_answer(message, waiting), message.line().clone())
    }

    /// Adds the session's id to the reply to a load or resume, so that the client can open the session's stream.
    fn loaded(&mut self, answer: &RpcMessage, session: &str) -> Arc<str> {
        if answer.result().is_none() {
            return answer.line().clone();
        }
        self.named(session.to_owned());
        let id = encode::json_string(session);
        json::set(answer.line(), &["result", "sessionId"], &id)
            .map_or_else(|| answer.line().clone(), Arc::from)
    }

    fn mailbox_of_answer(&mut self, message: &RpcMessage, waiting: Option<StreamRequest>) -> Mailbox {
        let Some(StreamRequest { session, does }) = waiting else { return self.connection.clone() };
        let result = message.result();
        if does == AnswerEffect::Begins
            && let Some(session) = result.and_then(session_of)
        {
            self.named(session);
        }
        let Some(session) = session else { return self.connection.clone() };
        // A failed request does not make an unknown session known.
        if result.is_none() && !self.sessions.contains_key(&session) {
            return self.connection.clone();
        }
        let stream = self.named(session.clone());
        if does != AnswerEffect::Ends || result.is_none() {
            return stream;
        }
        if stream.has_reader() {
            self.sessions.entry(session).and_modify(|stream| stream.standing = StreamSessionState::Over);
            return stream;
        }
        // A stream without a reader is dropped with its session, so the reply goes to the connection's stream.
        self.sessions.remove(&session);
        self.connection.clone()
    }

    /// The stream of a session that the host has named, created if necessary.
    fn named(&mut self, session: String) -> Mailbox {
        if !self.sessions.contains_key(&session) && self.sessions.len() >= SESSIONS {
            return self.connection.clone();
        }
        let stream = self.sessions.entry(session).or_insert_with(SessionStream::unknown);
        stream.standing = StreamSessionState::Known;
        stream.mailbox.clone()
    }

    /// Opens a session's stream, or the connection's own, for reading.
    pub(crate) fn open(&mut self, session: Option<&str>) -> Result<SessionStreamReader, NoStream> {
        let Some(session) = session else { return self.connection.read().ok_or(NoStream::Busy) };
        if let Some(stream) = self.sessions.get(session) {
            return stream.mailbox.read().ok_or(NoStream::Busy);
        }
        // Drop streams without a reader whose session never became known or is over.
        self.sessions
            .retain(|_, stream| stream.standing == StreamSessionState::Known || stream.mailbox.has_reader());
        let unknown =
            self.sessions.values().filter(|stream| stream.standing == StreamSessionState::Unknown).count();
        if unknown >= UNKNOWN || self.sessions.len() >= SESSIONS {
            return Err(NoStream::Unknown);
        }
        let stream = SessionStream::unknown();
        let reader = stream.mailbox.read().ok_or(NoStream::Busy);
        self.sessions.insert(session.to_owned(), stream);
        reader
    }

    /// Whether any stream has a reader.
    pub(crate) fn has_reader(&self) -> bool {
        self.connection.has_reader() || self.sessions.values().any(|stream| stream.mailbox.has_reader())
    }
}

impl SessionStream {
    fn unknown() -> Self {
        Self { mailbox: Mailbox::default(), standing: StreamSessionState::Unknown }
    }
}

/// Re-encodes a message with the session id in its params.
fn with_session(message: &RpcMessage, method: &str, session: &str) -> Option<String> {
    let session = encode::json_string(session);
    let params = json::set(message.params().unwrap_or("{}"), &["sessionId"], &session)?;
    Some(match message.id() {
        Some(id) => encode::request(id, method, &params),
        None => encode::notification(method, &params),
    })
}

/// The queue of one stream.
#[derive(Debug, Clone)]
pub(crate) struct Mailbox {
    sender: mpsc::Sender<MailboxLine>,
    room: Arc<Semaphore>,
    /// The receiving end, while there is no reader.
    idle: Arc<Lock<Option<mpsc::Receiver<MailboxLine>>>>,
}

/// A queued line, and the bytes it reserves.
#[derive(Debug)]
struct MailboxLine {
    line: Arc<str>,
    _room: OwnedSemaphorePermit,
}

impl Default for Mailbox {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(LINES);
        let room = Arc::new(Semaphore::new(BYTES as usize));
        Self { sender, room, idle: Arc::new(Lock::new(Some(receiver))) }
    }
}

impl Mailbox {
    /// Queues a line, waiting for room.
    pub(crate) async fn put(&self, line: Arc<str>) {
        let bytes = u32::try_from(line.len()).unwrap_or(BYTES).min(BYTES);
        let Ok(room) = Arc::clone(&self.room).acquire_many_owned(bytes).await else { return };
        // Sending fails only when the connection is over.
        drop(self.sender.send(MailboxLine { line, _room: room }).await);
    }

    fn read(&self) -> Option<SessionStreamReader> {
        let receiver = self.idle.lock().take()?;
        Some(SessionStreamReader { receiver: Some(receiver), idle: Arc::clone(&self.idle) })
    }

    fn has_reader(&self) -> bool {
        self.idle.lock().is_none()
    }
}

/// The reader of one stream; dropping it lets another reader open the stream.
#[derive(Debug)]
pub(crate) struct SessionStreamReader {
    receiver: Option<mpsc::Receiver<MailboxLine>>,
    idle: Arc<Lock<Option<mpsc::Receiver<MailboxLine>>>>,
}

impl Stream for SessionStreamReader {
    type Item = Arc<str>;

    /// The next line; `None` when the connection is over.
    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Arc<str>>> {
        match &mut self.receiver {
            Some(receiver) => receiver.poll_recv(context).map(|letter| letter.map(|letter| letter.line)),
            None => Poll::Ready(None),
        }
    }
}

impl Drop for SessionStreamReader {
    fn drop(&mut self) {
        *self.idle.lock() = self.receiver.take();
    }
}

#[cfg(test)]
mod tests;
