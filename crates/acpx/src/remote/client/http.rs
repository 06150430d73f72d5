//! An agent over HTTP: what is said is posted, and what is heard comes on streams of events, one for the connection
//! and one for each session.
//!
//! The stream of a session is opened before anything is said in it, so that nothing of a replay is missed.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use acpx_core::wire::{Body as Said, Message, Peer, RpcId};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming as Body;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::super::filter::session_of;
use super::super::{CONNECTION, SESSION, as_line, longest_line};
use super::sse::Events;
use super::{FAREWELL, Near, Relay, RelayError};

/// How much of the words of a refusal is shown.
const WORDS: usize = 1024;
/// How many sessions may wait for their streams.
const BEGUN: usize = 64;

/// A connection that the other side has begun.
struct Far<'a> {
    relay: Arc<Relay>,
    peer: &'a Peer,
    connection: HeaderValue,
    /// The sessions whose streams were opened.
    open: HashSet<String>,
    /// The streams being read. Each ends with why.
    streams: JoinSet<Result<(), RelayError>>,
    begins: Begins,
    tell_begun: mpsc::Sender<String>,
}

/// Requests whose answers name new sessions.
#[derive(Clone, Default)]
struct Begins(Arc<Mutex<HashSet<RpcId>>>);

impl Relay {
    pub(super) async fn over_http(self: &Arc<Self>, near: &mut Near) -> Result<(), RelayError> {
        let Some(first) = near.incoming.recv().await else { return Ok(()) };
        let (connection, answer) = self.greet(first.message()).await?;
        drop(near.peer.send(answer).await);
        // Without a connection the first request was refused, and there is nothing more to say.
        let Some(connection) = connection else { return Ok(()) };
        let (tell_begun, mut begun) = mpsc::channel(BEGUN);
        let mut far = Far {
            relay: Arc::clone(self),
            peer: &near.peer,
            connection,
            open: HashSet::new(),
            streams: JoinSet::new(),
            begins: Begins::default(),
            tell_begun,
        };
        let done = async {
            far.listen(None).await?;
            loop {
                tokio::select! {
                    biased;
                    Some(session) = begun.recv() => far.listen(Some(session)).await?,
                    Some(ended) = far.streams.join_next() => match ended {
                        Ok(ended) => ended?,
                        Err(error) => return Err(self.lost(&error)),
                    },
                    inbound = near.incoming.recv() => match inbound {
                        Some(inbound) => far.say(inbound.message()).await?,
                        None => return Ok(()),
                    },
                }
            }
        };
        let done = done.await;
        far.end().await;
        done
    }

    /// Posts the first request; the connection it has begun, and its answer.
    async fn greet(&self, first: &Message) -> Result<(Option<HeaderValue>, String), RelayError> {
        let response = self.ask(Method::POST, &[], first.line().to_string()).await?;
        if response.status() != StatusCode::OK {
            return Err(self.refused(response).await);
        }
        let connection = response.headers().get(&CONNECTION).cloned();
        let body = self.in_time(Limited::new(response.into_body(), longest_line()).collect()).await?;
        let body = body.map_err(|error| self.foreign(&error))?.to_bytes();
        let answer = std::str::from_utf8(&body).map_err(|error| self.foreign(&error))?;
        Ok((connection, as_line(answer)))
    }

    /// Asks something, on a connection of its own.
    async fn ask(
        &self,
        method: Method,
        headers: &[(hyper::header::HeaderName, HeaderValue)],
        body: String,
    ) -> Result<Response<Body>, RelayError> {
        let stream = TokioIo::new(self.connect().await?);
        let shaken = self.in_time(hyper::client::conn::http1::handshake(stream)).await?;
        let (mut sender, connection) = shaken.map_err(|error| self.foreign(&error))?;
        // It ends with the response.
        tokio::spawn(connection);
        let accept = if method == Method::GET { "text/event-stream" } else { "application/json" };
        let mut request = Request::new(Full::new(Bytes::from(body)));
        let path = self.address.path().parse().map_err(|error| self.foreign(&error))?;
        *request.uri_mut() = path;
        let said = request.headers_mut();
        said.insert(HOST, HeaderValue::from_str(self.address.authority()).map_err(|e| self.foreign(&e))?);
        said.insert(ACCEPT, HeaderValue::from_static(accept));
        if method == Method::POST {
            said.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(token) = &self.token {
            said.insert(AUTHORIZATION, self.bearer(token)?);
        }
        said.extend(headers.iter().cloned());
        *request.method_mut() = method;
        self.in_time(sender.send_request(request)).await?.map_err(|error| self.lost(&error))
    }

    async fn refused(&self, response: Response<Body>) -> RelayError {
        let status = response.status();
        let words = timeout(FAREWELL, Limited::new(response.into_body(), WORDS).collect()).await;
        let words = words.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes);
        let words = words.map(|words| String::from_utf8_lossy(&words).into_owned()).unwrap_or_default();
        RelayError::Refused { address: self.place(), status, words }
    }
}

impl Far<'_> {
    /// Says there what was said here.
    async fn say(&mut self, message: &Message) -> Result<(), RelayError> {
        let is_about_all = message.method().is_none_or(|method| method.starts_with("$/"));
        let session = message.params().filter(|_| !is_about_all).and_then(session_of);
        if let Some(session) = &session
            && !self.open.contains(session)
        {
            self.listen(Some(session.clone())).await?;
        }
        if let Said::Request { id, .. } = message.body()
            && matches!(message.method(), Some("session/new" | "session/fork"))
        {
            self.begins.ids().insert(id.clone());
        }
        let headers = self.headers(session.as_deref())?;
        let response = self.relay.ask(Method::POST, &headers, message.line().to_string()).await?;
        match response.status() {
            StatusCode::ACCEPTED | StatusCode::OK => Ok(()),
            _ => Err(self.relay.refused(response).await),
        }
    }

    /// Opens a stream, and reads it from now on.
    async fn listen(&mut self, session: Option<String>) -> Result<(), RelayError> {
        if let Some(session) = &session
            && !self.open.insert(session.clone())
        {
            return Ok(());
        }
        let headers = self.headers(session.as_deref())?;
        let response = self.relay.ask(Method::GET, &headers, String::new()).await?;
        if response.status() != StatusCode::OK {
            return Err(self.relay.refused(response).await);
        }
        let stream = Listening {
            relay: Arc::clone(&self.relay),
            peer: self.peer.clone(),
            begins: self.begins.clone(),
            tell_begun: self.tell_begun.clone(),
        };
        self.streams.spawn(stream.hear(response.into_body(), session.is_some()));
        Ok(())
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

    /// Ends the connection. Nobody may be left to hear it.
    async fn end(mut self) {
        self.streams.shutdown().await;
        let headers = [(CONNECTION, self.connection.clone())];
        drop(timeout(FAREWELL, self.relay.ask(Method::DELETE, &headers, String::new())).await);
    }
}

/// The reading of one stream.
struct Listening {
    relay: Arc<Relay>,
    peer: Peer,
    begins: Begins,
    tell_begun: mpsc::Sender<String>,
}

impl Listening {
    /// Says here what comes. That of a session may end when the session does; that of the connection may not.
    async fn hear(self, mut body: Body, is_session: bool) -> Result<(), RelayError> {
        let mut events = Events::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.relay.lost(&error))?;
            let Some(bytes) = frame.data_ref() else { continue };
            for event in events.take(bytes).map_err(|error| self.relay.foreign(&error))? {
                let line = as_line(&event);
                if let Some(session) = self.begins.begun(&line) {
                    drop(self.tell_begun.send(session).await);
                }
                // If nobody listens here any more, nobody speaks here either.
                drop(self.peer.send(line).await);
            }
        }
        if is_session { Ok(()) } else { Err(self.relay.lost(&"")) }
    }
}

impl Begins {
    /// The session that an answer names, if it is the answer to a request for one.
    fn begun(&self, line: &str) -> Option<String> {
        let message = Message::parse(line).ok().filter(|message| message.method().is_none())?;
        let is_asked = self.ids().remove(message.id()?);
        message.result().filter(|_| is_asked).and_then(session_of)
    }

    fn ids(&self) -> std::sync::MutexGuard<'_, HashSet<RpcId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
