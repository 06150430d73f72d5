//! An agent over HTTP: what is said is posted, and what is heard comes on streams of events, one for the connection
//! and one for each session.
//!
//! The stream of a session is opened before anything is said in it, so that nothing of a replay is missed.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use acpx_core::acp::session_of;
use acpx_core::wire::{Body as Said, Peer, RpcId, RpcMessage};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming as Body;
use hyper::header::HeaderValue;
use hyper::{Method, Response, StatusCode};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::super::{CONNECTION, SESSION, as_line, longest_line};
use super::line::{RelayRequest, RelayResponse, RequestConnection};
use super::sse::Events;
use super::{FAREWELL, LocalEndpoint, Relay, RelayError};

/// How much of the words of a refusal is shown.
const WORDS: usize = 1024;
/// How long a stream may say nothing. A server says every few seconds that it is there.
const SILENCE: Duration = Duration::from_mins(1);
/// How many sessions may wait for their streams.
const BEGUN: usize = 64;

/// A connection that the other side has begun.
struct RelayConnection<'a> {
    relay: Arc<Relay>,
    peer: &'a Peer,
    connection: HeaderValue,
    /// The sessions whose streams were opened.
    open: HashSet<String>,
    /// The sessions that were to end.
    over: HashSet<String>,
    /// The streams being read. Each ends with why, or with the session whose stream it was.
    streams: JoinSet<Result<String, RelayError>>,
    begins: SessionStartRequests,
    tell_begun: mpsc::Sender<String>,
}

/// Requests whose answers name new sessions.
#[derive(Clone, Default)]
struct SessionStartRequests(Arc<Mutex<HashSet<RpcId>>>);

impl Relay {
    pub(super) async fn over_http(self: &Arc<Self>, near: &mut LocalEndpoint) -> Result<(), RelayError> {
        let Some(first) = near.incoming.recv().await else { return Ok(()) };
        let (connection, answer) = self.greet(first.message()).await?;
        drop(near.peer.send(answer).await);
        // Without a connection the first request was refused, and there is nothing more to say.
        let Some(connection) = connection else { return Ok(()) };
        let (tell_begun, mut begun) = mpsc::channel(BEGUN);
        let mut far = RelayConnection {
            relay: Arc::clone(self),
            peer: &near.peer,
            connection,
            open: HashSet::new(),
            over: HashSet::new(),
            streams: JoinSet::new(),
            begins: SessionStartRequests::default(),
            tell_begun,
        };
        let done = async {
            far.listen(None).await?;
            loop {
                tokio::select! {
                    biased;
                    Some(session) = begun.recv() => far.listen(Some(session)).await?,
                    Some(ended) = far.streams.join_next() => match ended {
                        Ok(ended) => far.ended(&ended?)?,
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
    async fn greet(&self, first: &RpcMessage) -> Result<(Option<HeaderValue>, String), RelayError> {
        let response = self
            .ask(RelayRequest { method: Method::POST, headers: &[], body: first.line().to_string() })
            .await?;
        let response = response.response;
        if response.status() != StatusCode::OK {
            return Err(self.refused(response).await);
        }
        let connection = response.headers().get(&CONNECTION).cloned();
        let body = self.in_time(Limited::new(response.into_body(), longest_line()).collect()).await?;
        let body = body.map_err(|error| self.foreign(&error))?.to_bytes();
        let answer = std::str::from_utf8(&body).map_err(|error| self.foreign(&error))?;
        Ok((connection, as_line(answer)))
    }

    async fn refused(&self, response: Response<Body>) -> RelayError {
        let status = response.status();
        let words = timeout(FAREWELL, Limited::new(response.into_body(), WORDS).collect()).await;
        let words = words.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes);
        self.refused_with(
            status,
            &words.map(|words| String::from_utf8_lossy(&words).into_owned()).unwrap_or_default(),
        )
    }
}

impl RelayConnection<'_> {
    /// Says there what was said here.
    async fn say(&mut self, message: &RpcMessage) -> Result<(), RelayError> {
        let is_about_all = message.method().is_none_or(|method| method.starts_with("$/"));
        let session = message.params().filter(|_| !is_about_all).and_then(session_of);
        if let Some(session) = &session
            && !self.open.contains(session)
        {
            self.listen(Some(session.clone())).await?;
        }
        if let Said::Request { id, method, .. } = message.body() {
            match (method.as_ref(), &session) {
                ("session/new" | "session/fork", _) => {
                    self.begins.ids().insert(id.clone());
                }
                ("session/close" | "session/delete", Some(session)) => {
                    self.over.insert(session.clone());
                }
                // A session that goes on after all may not lose its stream.
                (_, Some(session)) => {
                    self.over.remove(session);
                }
                (_, None) => {}
            }
        }
        let headers = self.headers(session.as_deref())?;
        let asked =
            RelayRequest { method: Method::POST, headers: &headers, body: message.line().to_string() };
        let RelayResponse { response, .. } = self.relay.ask(asked).await?;
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
        let asked = RelayRequest { method: Method::GET, headers: &headers, body: String::new() };
        let RelayResponse { response, line } = self.relay.ask(asked).await?;
        if response.status() != StatusCode::OK {
            return Err(self.relay.refused(response).await);
        }
        let stream = RelayStreamReader {
            relay: Arc::clone(&self.relay),
            peer: self.peer.clone(),
            begins: self.begins.clone(),
            tell_begun: self.tell_begun.clone(),
            _line: line,
        };
        self.streams.spawn(stream.hear(response.into_body(), session));
        Ok(())
    }

    /// The stream of a session has ended. That is a loss, unless the session was to end.
    fn ended(&mut self, session: &str) -> Result<(), RelayError> {
        self.open.remove(session);
        if self.over.remove(session) {
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

    /// Ends the connection. Nobody may be left to hear it.
    async fn end(mut self) {
        self.streams.shutdown().await;
        let headers = [(CONNECTION, self.connection.clone())];
        let asked = RelayRequest { method: Method::DELETE, headers: &headers, body: String::new() };
        drop(timeout(FAREWELL, self.relay.ask(asked)).await);
    }
}

/// The reading of one stream.
struct RelayStreamReader {
    relay: Arc<Relay>,
    peer: Peer,
    begins: SessionStartRequests,
    tell_begun: mpsc::Sender<String>,
    /// The line that the stream comes on, if it has one of its own.
    _line: Option<RequestConnection>,
}

impl RelayStreamReader {
    /// Says here what comes. That of a session may end when the session does; that of the connection may not.
    async fn hear<B>(self, body: B, session: Option<String>) -> Result<String, RelayError>
    where
        B: hyper::body::Body<Data = bytes::Bytes>,
        B::Error: std::fmt::Display,
    {
        let mut body = std::pin::pin!(body);
        let mut events = Events::default();
        let silent = |_| self.relay.lost(&"nothing was heard for too long");
        while let Some(frame) = timeout(SILENCE, body.frame()).await.map_err(silent)? {
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
        session.ok_or_else(|| self.relay.lost(&""))
    }
}

impl SessionStartRequests {
    /// The session that an answer names, if it is the answer to a request for one.
    fn begun(&self, line: &str) -> Option<String> {
        let message = RpcMessage::parse(line).ok().filter(|message| message.method().is_none())?;
        let is_asked = self.ids().remove(message.id()?);
        message.result().filter(|_| is_asked).and_then(session_of)
    }

    fn ids(&self) -> std::sync::MutexGuard<'_, HashSet<RpcId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use acpx_core::wire::{InboundStream, WireLimits, memory};
    use bytes::Bytes;
    use futures_util::stream;
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use tokio::time::{Instant, sleep};

    use super::super::super::address::Address;
    use super::*;

    /// The reading of a stream, and who hears what it says.
    fn listening() -> (RelayStreamReader, InboundStream) {
        let relay = Relay::new(Address::parse("http://127.0.0.1:7", false).unwrap(), None);
        let ((peer, _), (_, heard)) = memory(WireLimits::default());
        let (tell_begun, _) = mpsc::channel(BEGUN);
        (
            RelayStreamReader {
                relay,
                peer,
                begins: SessionStartRequests::default(),
                tell_begun,
                _line: None,
            },
            heard,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_says_nothing_for_long_is_lost_and_one_that_says_it_is_there_is_not() {
        let (listening, _heard) = listening();
        // It says that it is there ten times, and then the other machine vanishes.
        let comments = stream::unfold(0, async |said| {
            if said == 10 {
                std::future::pending::<()>().await;
            }
            sleep(SILENCE / 4).await;
            Some((Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(b":\n\n"))), said + 1))
        });
        let began = Instant::now();
        let lost = listening.hear(StreamBody::new(comments), Some("s".to_owned())).await.unwrap_err();
        assert_eq!(
            lost.to_string(),
            "the connection to http://127.0.0.1:7/acp was lost: nothing was heard for too long"
        );
        assert_eq!(began.elapsed(), SILENCE / 4 * 10 + SILENCE);
    }

    #[tokio::test]
    async fn the_end_of_a_stream_names_its_session_and_that_of_the_connection_is_a_loss() {
        let end = || StreamBody::new(stream::empty::<Result<Frame<Bytes>, std::io::Error>>());
        assert_eq!(listening().0.hear(end(), Some("s".to_owned())).await.unwrap(), "s");
        assert!(listening().0.hear(end(), None).await.is_err());
    }
}
