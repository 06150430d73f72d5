//! An agent on another machine, as a program on this one: what comes on stdin is said there, and what is said there
//! comes on stdout.
//!
//! To whoever started it, it is an agent like any other. Where acpx is on the other side, a connection that is lost is
//! made anew, and what was missed is told. Otherwise the agent has died with it, and a session is restored with the next
//! one.

mod cookies;
mod http;
mod line;
mod pieces;
mod sse;
mod websocket;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use acpx_core::client::{FarLine, bridge_far};
use acpx_core::protocol::HostError;
use acpx_core::wire::{self, InboundStream, Peer};
use hyper::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, OnceCell};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::ServerName;

use super::address::{Address, Transport};
use super::{limits, tls};
use cookies::Cookies;
use line::RequestConnection;

/// How long it may take to reach the other machine, and each step of that; and how long nothing may go out of what is
/// said there.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the last words may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// Why an agent on another machine cannot be talked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RelayError {
    /// Nobody is there.
    #[error("cannot reach {address}")]
    Unreachable {
        /// Where.
        address: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Whoever is there does not prove to be who is meant.
    #[error("{address} cannot be trusted")]
    Untrusted {
        /// Where.
        address: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The token for it cannot be had.
    #[error("cannot read the token for the agent in {}", file.display())]
    TokenFile {
        /// The file that was named.
        file: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It takes too long.
    #[error("{address} does not answer")]
    Silent {
        /// Where.
        address: String,
    },
    /// TLS cannot be used here.
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    /// It answered something else than it should.
    #[error("{address} answered {status}{}", said(.words))]
    Refused {
        /// Where.
        address: String,
        /// How HTTP says it.
        status: StatusCode,
        /// What it said about it.
        words: String,
        /// Whether it was shown a token.
        with_token: bool,
    },
    /// What it speaks is not understood.
    #[error("{address} does not speak as it should: {problem}")]
    Foreign {
        /// Where.
        address: String,
        /// What is wrong.
        problem: String,
    },
    /// It is gone.
    #[error("the connection to {address} was lost{}", said(.reason))]
    Lost {
        /// Where.
        address: String,
        /// What it said at the end.
        reason: String,
    },
    /// It was there, and is not any more.
    #[error(
        "the conversation with {address} could not be taken up again{}; whether the last prompt arrived there is not known",
        if .why.is_final() { "" } else { " in a minute" }
    )]
    GivenUp {
        /// Where.
        address: String,
        /// What became of the last try.
        #[source]
        why: Box<RelayError>,
    },
}

impl RelayError {
    /// What a person can do next.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Refused { status: StatusCode::UNAUTHORIZED, with_token: true, .. } => {
                Some("the token is of another machine, or was revoked: acpx token list says so there")
            }
            Self::Refused { status: StatusCode::UNAUTHORIZED, .. } => {
                Some("set ACPX_REMOTE_TOKEN to a token of that machine: acpx token new makes one there")
            }
            Self::Unreachable { .. } | Self::Silent { .. } => {
                Some("see that acpx serve runs there, and that the way is open")
            }
            Self::Untrusted { .. } => Some(
                "set SSL_CERT_FILE to a file with the certificate of whoever has signed that of the machine",
            ),
            Self::TokenFile { .. } => {
                Some("put the token of that machine into the file, and name it from the root")
            }
            Self::GivenUp { why, .. } => why.hint(),
            Self::Tls(_) | Self::Refused { .. } | Self::Foreign { .. } | Self::Lost { .. } => None,
        }
    }
}

impl RelayError {
    /// Whether there is no use in going there again: whoever is there does not let us in, or would refuse it again.
    fn is_final(&self) -> bool {
        match self {
            Self::Untrusted { .. } | Self::TokenFile { .. } | Self::Tls(_) | Self::GivenUp { .. } => true,
            Self::Refused { status, .. } => status.is_client_error() && !is_mended_anew(*status),
            Self::Unreachable { .. } | Self::Silent { .. } | Self::Foreign { .. } | Self::Lost { .. } => {
                false
            }
        }
    }
}

/// Whether another connection may do. A server that has begun anew does not know the one before, or still has its stream.
fn is_mended_anew(status: StatusCode) -> bool {
    let statuses = [
        StatusCode::NOT_FOUND,
        StatusCode::CONFLICT,
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    statuses.contains(&status)
}

fn said(words: &str) -> String {
    let words = words.trim();
    if words.is_empty() { String::new() } else { format!(": {words}") }
}

/// A byte stream to the other machine, secured or not.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

/// The way to an agent on another machine.
pub(crate) struct Relay {
    address: Address,
    token: Option<String>,
    /// What secured connections are made with, once one is.
    connector: OnceCell<TlsConnector>,
    line: Mutex<Option<RequestConnection>>,
    cookies: std::sync::Mutex<Cookies>,
}

/// What is said and heard on this side.
struct LocalEndpoint {
    peer: Peer,
    incoming: InboundStream,
}

/// The lines to the other machine, one after another.
struct RelayConnector {
    relay: Arc<Relay>,
    /// The last one, which ends with why.
    last: std::sync::Mutex<Option<JoinHandle<()>>>,
    /// Why the last one that ended did so, unless it was done with.
    why: Arc<std::sync::Mutex<Option<RelayError>>>,
}

impl FarLine for RelayConnector {
    fn line(&self) -> Option<(Peer, InboundStream)> {
        if locked(&self.why).as_ref().is_some_and(RelayError::is_final) {
            return None;
        }
        let (ours, (peer, incoming)) = wire::memory(limits());
        let (relay, why) = (Arc::clone(&self.relay), Arc::clone(&self.why));
        let speaking = tokio::spawn(async move {
            let mut near = LocalEndpoint { peer, incoming };
            let done = relay.speak(&mut near).await;
            *locked(&why) = done.err();
            // What was heard is still told.
            drop(timeout(FAREWELL, near.peer.close()).await);
        });
        // The one before is lost, or nobody listens to it.
        if let Some(earlier) = locked(&self.last).replace(speaking) {
            earlier.abort();
        }
        Some(ours)
    }
}

impl RelayConnector {
    /// Waits until the last line is over; why it is, unless it was done with. Where the line does not say, whoever
    /// listened to it does.
    async fn over(self, done: Result<(), HostError>) -> Result<(), RelayError> {
        let last = locked(&self.last).take();
        if let Some(mut last) = last
            && timeout(FAREWELL * 2, &mut last).await.is_err()
        {
            last.abort();
        }
        let why = locked(&self.why).take();
        let address = self.relay.place();
        let given_up = |why| RelayError::GivenUp { address: address.clone(), why: Box::new(why) };
        match (why, done) {
            (None, Ok(())) => Ok(()),
            (Some(why), Ok(())) => Err(why),
            (Some(why), Err(_)) => Err(given_up(why)),
            (None, Err(HostError::Lost)) => Err(given_up(RelayError::Silent { address: address.clone() })),
            (None, Err(error)) => Err(given_up(self.relay.lost(&error))),
        }
    }
}

/// Nothing panics while it holds one of these locks, and every step leaves what it guards whole.
fn locked<T>(lock: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Relay {
    /// The way to an address, with what lets us in there.
    pub(crate) fn new(address: Address, token: Option<String>) -> Arc<Self> {
        let (connector, line, cookies) = (OnceCell::new(), Mutex::default(), std::sync::Mutex::default());
        Arc::new(Self { address, token, connector, line, cookies })
    }

    /// Passes lines until whoever speaks here is done.
    pub(crate) async fn run(
        self: Arc<Self>,
        source: impl AsyncRead + Unpin + Send + 'static,
        target: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Result<(), RelayError> {
        let lines = RelayConnector { relay: self, last: std::sync::Mutex::default(), why: Arc::default() };
        let done = bridge_far(&lines, source, target, limits()).await;
        lines.over(done).await
    }

    /// Passes lines on one connection.
    async fn speak(self: &Arc<Self>, near: &mut LocalEndpoint) -> Result<(), RelayError> {
        match self.address.transport {
            Transport::WebSocket => self.over_websocket(near).await,
            Transport::Http => self.over_http(near).await,
        }
    }

    /// A connection, and whether HTTP/2 is spoken on it.
    async fn connect(&self) -> Result<(Box<dyn ByteStream>, bool), RelayError> {
        let (host, port) = (self.address.host(), self.address.port());
        let unreachable = |source| RelayError::Unreachable { address: self.place(), source };
        let stream = self.in_time(TcpStream::connect((host, port))).await?.map_err(unreachable)?;
        // A message is a few bytes that somebody waits for.
        drop(stream.set_nodelay(true));
        if !self.address.is_secure {
            return Ok((Box::new(stream), false));
        }
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| unreachable(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
        let is_http = self.address.transport == Transport::Http;
        let connector = self.connector.get_or_try_init(|| async { tls::connector(is_http) }).await?;
        let secured = self.in_time(connector.connect(name, stream)).await?;
        let secured = secured.map_err(|source| {
            let reason = source.get_ref().and_then(|reason| reason.downcast_ref::<rustls::Error>());
            match reason {
                Some(rustls::Error::InvalidCertificate(_)) => {
                    RelayError::Untrusted { address: self.place(), source }
                }
                _ => unreachable(source),
            }
        })?;
        let is_http2 = secured.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok((Box::new(secured), is_http2))
    }

    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, RelayError> {
        timeout(PATIENCE, work).await.map_err(|_| RelayError::Silent { address: self.place() })
    }

    fn foreign(&self, problem: &dyn fmt::Display) -> RelayError {
        RelayError::Foreign { address: self.place(), problem: self.hide(&problem.to_string()) }
    }

    fn lost(&self, reason: &dyn fmt::Display) -> RelayError {
        RelayError::Lost { address: self.place(), reason: self.hide(&reason.to_string()) }
    }

    fn refused_with(&self, status: StatusCode, words: &str) -> RelayError {
        let with_token = self.token.is_some();
        RelayError::Refused { address: self.place(), status, words: self.hide(words), with_token }
    }

    /// What the other side says, without the token, should it say that.
    fn hide(&self, words: &str) -> String {
        match &self.token {
            Some(token) => words.replace(token.as_str(), "[token]"),
            None => words.to_owned(),
        }
    }

    fn cookies(&self) -> std::sync::MutexGuard<'_, Cookies> {
        locked(&self.cookies)
    }

    fn place(&self) -> String {
        self.address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[tokio::test]
    async fn a_conversation_that_is_given_up_says_so_and_one_that_was_done_with_or_never_began_does_not() {
        let relay = Relay::new(Address::parse("http://127.0.0.1:7", false).unwrap(), None);
        let over = async |why: Option<RelayError>, done| {
            let (last, why) = (std::sync::Mutex::default(), Arc::new(std::sync::Mutex::new(why)));
            let over = RelayConnector { relay: Arc::clone(&relay), last, why }.over(done).await;
            over.map_err(|error| (error.to_string(), error.source().map(ToString::to_string)))
        };
        let lost = || Err(HostError::Lost);
        assert_eq!(over(None, Ok(())).await, Ok(()));
        let given_up = |time: &str, why: &str| {
            let words = format!(
                "the conversation with http://127.0.0.1:7/acp could not be taken up again{time}; \
                 whether the last prompt arrived there is not known"
            );
            Err((words, Some(format!("http://127.0.0.1:7/acp {why}"))))
        };
        assert_eq!(over(None, lost()).await, given_up(" in a minute", "does not answer"));
        // One that does not let us in is not tried for long; one that was never there was told nothing.
        let refused = || Some(relay.refused_with(StatusCode::UNAUTHORIZED, "no"));
        assert_eq!(over(refused(), lost()).await, given_up("", "answered 401 Unauthorized: no"));
        let never = ("http://127.0.0.1:7/acp answered 401 Unauthorized: no".to_owned(), None);
        assert_eq!(over(refused(), Ok(())).await, Err(never));
    }

    #[test]
    fn what_is_refused_for_itself_is_not_said_again_and_what_another_connection_mends_is() {
        let relay = Relay::new(Address::parse("http://127.0.0.1:7", false).unwrap(), None);
        let is_final = |status: u16| relay.refused_with(StatusCode::from_u16(status).unwrap(), "").is_final();
        assert_eq!([400, 401, 403, 413].map(is_final), [true; 4]);
        assert_eq!([404, 408, 409, 429, 500, 502, 503].map(is_final), [false; 7]);
    }
}
