//! Client side of ACP over HTTP: posts outgoing messages and reads incoming ones from event streams, one for the
//! connection and one per session.
//!
//! A session's stream is opened before the first message to the session is sent, so that no part of a replay is missed.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use acpx_core::acp::session_of;
use acpx_core::sync::Lock;
use acpx_core::wire::{Body as RpcBody, Peer, RpcId, RpcMessage};
use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming as Body;
use hyper::header::HeaderValue;
use hyper::{Method, Response, StatusCode};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tower_http::BoxError;
use tower_http::timeout::{TimeoutBody, TimeoutError};

use super::super::{CONNECTION, ENVELOPE, SESSION, as_line, longest_line};
use super::event_stream::{EventError, EventTooLong, body_error, events};
use super::requests::RelayRequest;
use super::{CLOSE_TIMEOUT, LocalEndpoint, Relay, RelayError};

/// Maximum length of a refusal's body that is shown.
const MAX_REFUSAL_BYTES: usize = 1024;
/// How long a stream may be silent. Servers send a keep-alive every few seconds.
const SILENCE: Duration = Duration::from_mins(1);
/// Capacity of the queue of new sessions whose streams are to be opened.
const NEW_SESSION_QUEUE: usize = 64;

/// A connection that the server has accepted.
struct RelayConnection<'a> {
    relay: Arc<Relay>,
    peer: &'a Peer,
    connection: HeaderValue,
    /// Sessions whose streams are open.
    open: HashSet<String>,
    /// Sessions that a sent request closes or deletes.
    closing: HashSet<String>,
    /// Reader tasks of the streams. Each returns the session whose stream ended, or an error.
    streams: JoinSet<Result<String, RelayError>>,
    begins: SessionStartRequests,
    new_sessions: mpsc::Sender<String>,
}

/// Ids of pending requests whose replies name a new session.
#[derive(Clone, Default)]
struct SessionStartRequests(Arc<Lock<HashSet<RpcId>>>);

impl Relay {
    pub(super) async fn over_http(self: &Arc<Self>, near: &mut LocalEndpoint) -> Result<(), RelayError> {
        let Some(first) = near.incoming.recv().await else { return Ok(()) };
        let (connection, answer) = self.initialize(first.message()).await?;
        drop(near.peer.send(answer).await);
        // Without a connection id the server refused `initialize`, and the relay is done.
        let Some(connection) = connection else { return Ok(()) };
        let (new_sessions, mut begun) = mpsc::channel(NEW_SESSION_QUEUE);
        let mut far = RelayConnection {
            relay: Arc::clone(self),
            peer: &near.peer,
            connection,
            open: HashSet::new(),
            closing: HashSet::new(),
            streams: JoinSet::new(),
            begins: SessionStartRequests::default(),
            new_sessions,
        };
        let done = async {
            far.open_stream(None).await?;
            loop {
                tokio::select! {
                    biased;
                    Some(session) = begun.recv() => far.open_stream(Some(session)).await?,
                    Some(ended) = far.streams.join_next() => match ended {
                        Ok(ended) => far.ended(&ended?)?,
                        Err(error) => return Err(self.lost(&error)),
                    },
                    inbound = near.incoming.recv() => match inbound {
                        Some(inbound) => far.post(inbound.message()).await?,
                        None => return Ok(()),
                    },
                }
            }
        };
        let done = done.await;
        far.end().await;
        done
    }

    /// Posts `initialize`; returns the connection id, if there is one, and the reply.
    async fn initialize(&self, first: &RpcMessage) -> Result<(Option<HeaderValue>, String), RelayError> {
        let response = self
            .ask(RelayRequest { method: Method::POST, headers: &[], body: first.line().to_string() })
            .await?;
        if response.status() != StatusCode::OK {
            return Err(self.refused(response).await);
        }
        let connection = response.headers().get(&CONNECTION).cloned();
        let body = self.in_time(Limited::new(response.into_body(), longest_line()).collect()).await?;
        let body = body.map_err(|error| self.foreign(&error))?.to_bytes();
        let answer = std::str::from_utf8(&body).map_err(|error| self.foreign(&error))?;
        Ok((connection, as_line(answer)))
    }

    fn broken_stream(&self, error: &EventError) -> RelayError {
        match body_error(error) {
            Some(error) if error.is::<TimeoutError>() => self.lost(&"nothing was received for too long"),
            Some(error) if !error.is::<EventTooLong>() => self.lost(&error),
            _ => self.foreign(error),
        }
    }

    async fn refused(&self, response: Response<Body>) -> RelayError {
        let status = response.status();
        let words =
            timeout(CLOSE_TIMEOUT, Limited::new(response.into_body(), MAX_REFUSAL_BYTES).collect()).await;
        let words = words.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes);
        self.refused_with(
            status,
            &words.map(|words| String::from_utf8_lossy(&words).into_owned()).unwrap_or_default(),
        )
    }
}

impl RelayConnection<'_> {
    /// Posts one message of the local side.
    async fn post(&mut self, message: &RpcMessage) -> Result<(), RelayError> {
        let is_about_all = message.method().is_none_or(|method| method.starts_with("$/"));
        let session = message.params().filter(|_| !is_about_all).and_then(session_of);
        if let Some(session) = &session
            && !self.open.contains(session)
        {
            self.open_stream(Some(session.clone())).await?;
        }
        if let RpcBody::Request { id, method, .. } = message.body() {
            match (method.as_ref(), &session) {
                ("session/new" | "session/fork", _) => {
                    self.begins.0.lock().insert(id.clone());
                }
                ("session/close" | "session/delete", Some(session)) => {
                    self.closing.insert(session.clone());
                }
                // A session that is used again keeps its stream.
                (_, Some(session)) => {
                    self.closing.remove(session);
                }
                (_, None) => {}
            }
        }
        let headers = self.headers(session.as_deref())?;
        let request =
            RelayRequest { method: Method::POST, headers: &headers, body: message.line().to_string() };
        let response = self.relay.ask(request).await?;
        match response.status() {
            StatusCode::ACCEPTED | StatusCode::OK => Ok(()),
            _ => Err(self.relay.refused(response).await),
        }
    }

    /// Opens a stream and spawns its reader.
    async fn open_stream(&mut self, session: Option<String>) -> Result<(), RelayError> {
        if let Some(session) = &session
            && !self.open.insert(session.clone())
        {
            return Ok(());
        }
        let headers = self.headers(session.as_deref())?;
        let request = RelayRequest { method: Method::GET, headers: &headers, body: String::new() };
        let response = self.relay.ask(request).await?;
        if response.status() != StatusCode::OK {
            return Err(self.relay.refused(response).await);
        }
        let stream = RelayStreamReader {
            relay: Arc::clone(&self.relay),
            peer: self.peer.clone(),
            begins: self.begins.clone(),
            new_sessions: self.new_sessions.clone(),
        };
        self.streams.spawn(stream.forward(response.into_body(), session));
        Ok(())
    }

    /// Handles the end of a session's stream, which is an error unless the session was being closed.
    fn ended(&mut self, session: &str) -> Result<(), RelayError> {
        self.open.remove(session);
        if self.closing.remove(session) {
            Ok(())
        } else {
            Err(self.relay.lost(&"the stream of a session has ended"))
        }
    }

    fn headers(
        &self,
        session: Option<&str>,
    ) -> Result<Vec<(hyper::header::HeaderName, HeaderValue)>, RelayError> {
        let mut headers = vec![(CONNECTION, self.connection.clone())];
        if let Some(session) = session {
            let value = HeaderValue::from_str(session).map_err(|error| self.relay.foreign(&error))?;
            headers.push((SESSION, value));
        }
        Ok(headers)
    }

    /// Ends the connection. The server may be unreachable by then.
    async fn end(mut self) {
        self.streams.shutdown().await;
        let headers = [(CONNECTION, self.connection.clone())];
        let request = RelayRequest { method: Method::DELETE, headers: &headers, body: String::new() };
        drop(timeout(CLOSE_TIMEOUT, self.relay.ask(request)).await);
    }
}

/// Reads one event stream.
struct RelayStreamReader {
    relay: Arc<Relay>,
    peer: Peer,
    begins: SessionStartRequests,
    new_sessions: mpsc::Sender<String>,
}

impl RelayStreamReader {
    /// Forwards events to the local side. A session's stream may end with its session; the connection's stream may not.
    async fn forward<B>(self, body: B, session: Option<String>) -> Result<String, RelayError>
    where
        B: hyper::body::Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let body = TimeoutBody::new(SILENCE, body);
        let mut events = std::pin::pin!(events(body, longest_line() + ENVELOPE));
        while let Some(event) = events.next().await {
            let Some(data) = event.map_err(|error| self.relay.broken_stream(&error))?.data else { continue };
            let line = as_line(&data);
            if let Some(session) = self.begins.begun(&line) {
                drop(self.new_sessions.send(session).await);
            }
            // A closed local side also ends the loop that reads from it.
            drop(self.peer.send(line).await);
        }
        session.ok_or_else(|| self.relay.lost(&""))
    }
}

impl SessionStartRequests {
    /// The new session that a reply names, if it replies to a request for one.
    fn begun(&self, line: &str) -> Option<String> {
        let message = RpcMessage::parse(line).ok().filter(|message| message.method().is_none())?;
        let is_start = self.0.lock().remove(message.id()?);
        message.result().filter(|_| is_start).and_then(session_of)
    }
}

/// Maximum number of cookies, and maximum length of each.
const MOST: usize = 32;
const LONGEST: usize = 4096;

/// The cookies by name.
#[derive(Debug, Default)]
pub(super) struct Cookies(Vec<(String, String)>);

impl Cookies {
    /// Stores the cookie of a `Set-Cookie` header. Malformed and excess cookies are ignored.
    pub(super) fn take(&mut self, header: &HeaderValue) {
        let Some(text) = header.to_str().ok().filter(|text| text.len() <= LONGEST) else { return };
        let mut parts = text.split(';');
        let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else { return };
        let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
        let is_over = parts.filter_map(|part| part.split_once('=')).any(|(attribute, value)| {
            attribute.trim().eq_ignore_ascii_case("max-age")
                && value.trim().parse::<i64>().is_ok_and(|seconds| seconds <= 0)
        });
        self.0.retain(|(known, _)| *known != name);
        if !is_over && !name.is_empty() && self.0.len() < MOST {
            self.0.push((name, value));
        }
    }

    /// The `Cookie` header with all of them.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        let pairs: Vec<_> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut header = HeaderValue::from_str(&pairs.join("; ")).ok().filter(|_| !pairs.is_empty())?;
        header.set_sensitive(true);
        Some(header)
    }
}

#[cfg(test)]
mod cookies_tests {
    use super::*;

    #[test]
    fn cookies_are_sent_until_the_server_deletes_them() {
        let mut cookies = Cookies::default();
        assert_eq!(cookies.header(), None);
        for given in ["way=a; Path=/; HttpOnly", "x = 1 ;Max-Age=60", "no cookie", "way=b", "=nameless"] {
            cookies.take(&HeaderValue::from_static(given));
        }
        assert_eq!(cookies.header(), Some(HeaderValue::from_static("x=1; way=b")));
        cookies.take(&HeaderValue::from_static("x=; max-age=0"));
        assert_eq!(cookies.header(), Some(HeaderValue::from_static("way=b")));
        for number in 0..MOST * 2 {
            cookies.take(&HeaderValue::from_str(&format!("n{number}=1")).unwrap());
        }
        assert_eq!(cookies.0.len(), MOST);
    }
}

#[cfg(test)]
mod tests {
    use acpx_core::wire::{InboundStream, WireLimits, memory};
    use futures_util::stream;
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use tokio::time::{Instant, sleep};

    use super::super::super::address::Address;
    use super::*;

    /// A stream reader, and the receiving end of what it forwards.
    fn listening() -> (RelayStreamReader, InboundStream) {
        let relay = Relay::new(Address::parse("http://127.0.0.1:7", false).unwrap(), None);
        let ((peer, _), (_, heard)) = memory(WireLimits::default());
        let (new_sessions, _) = mpsc::channel(NEW_SESSION_QUEUE);
        (RelayStreamReader { relay, peer, begins: SessionStartRequests::default(), new_sessions }, heard)
    }

    #[tokio::test(start_paused = true)]
    async fn silent_event_stream_is_lost_and_keep_alives_prevent_it() {
        let (listening, _heard) = listening();
        // Ten keep-alives, and then silence.
        let comments = stream::unfold(0, async |said| {
            if said == 10 {
                std::future::pending::<()>().await;
            }
            sleep(SILENCE / 4).await;
            Some((Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(b":\n\n"))), said + 1))
        });
        let began = Instant::now();
        let lost = listening.forward(StreamBody::new(comments), Some("s".to_owned())).await.unwrap_err();
        assert_eq!(
            lost.to_string(),
            "the connection to http://127.0.0.1:7/acp was lost: nothing was received for too long"
        );
        assert_eq!(began.elapsed(), SILENCE / 4 * 10 + SILENCE);
    }

    #[tokio::test]
    async fn ended_session_stream_names_its_session_connection_stream_is_lost() {
        let end = || StreamBody::new(stream::empty::<Result<Frame<Bytes>, std::io::Error>>());
        assert_eq!(listening().0.forward(end(), Some("s".to_owned())).await.unwrap(), "s");
        assert!(listening().0.forward(end(), None).await.is_err());
    }
}
