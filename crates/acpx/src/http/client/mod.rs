//! Relays stdin and stdout to an agent on another machine, so that the remote agent looks like a local one.
//!
//! If the other side is acpx, a lost connection is re-established and missed events are replayed. Otherwise a lost
//! connection ends the agent, and the session is restored with a new one.

mod chunked_body;
pub(crate) mod dial;
pub(crate) mod event_stream;
mod http;
pub(crate) mod post;
mod requests;
mod websocket;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use acpx_core::client::{RemoteLine, bridge_remote};
use acpx_core::protocol::HostError;
use acpx_core::sync::Lock;
use acpx_core::wire::{self, InboundStream, Peer};
use hyper::StatusCode;
use hyper_util::client::legacy::Client;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::chunked_body::ChunkedBody;
use self::dial::{DialError, DialTarget, Dialer};
use super::address::{Address, Transport};
use super::{limits, tls};
use http::Cookies;

/// Timeout of each step of connecting, and of sending without progress.
const PEER_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of closing a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a remote agent cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RelayError {
    /// The connection could not be made.
    #[error("cannot reach {address}")]
    Unreachable {
        /// The address.
        address: String,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// The certificate of the remote machine is not trusted.
    #[error("{address} cannot be trusted")]
    Untrusted {
        /// The address.
        address: String,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// The token file cannot be read.
    #[error("cannot read the token for the agent in {}", file.display())]
    TokenFile {
        /// The file that was named.
        file: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// It did not reply in time.
    #[error("{address} does not answer")]
    Silent {
        /// The address.
        address: String,
    },
    /// TLS is not available on this machine.
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    /// It replied with an unexpected status.
    #[error("{address} answered {status}{}", with_detail(.words))]
    Refused {
        /// The address.
        address: String,
        /// The HTTP status.
        status: StatusCode,
        /// The body of its reply.
        words: String,
        /// Whether the request carried a token.
        with_token: bool,
    },
    /// Its reply violates the protocol.
    #[error("{address} violates the protocol: {problem}")]
    Foreign {
        /// The address.
        address: String,
        /// The violation.
        problem: String,
    },
    /// The connection was lost.
    #[error("the connection to {address} was lost{}", with_detail(.reason))]
    Lost {
        /// The address.
        address: String,
        /// The reason it gave, or the I/O error.
        reason: String,
    },
    /// A lost connection could not be re-established.
    #[error(
        "the conversation with {address} could not be restored{}; it is unknown whether the last prompt arrived there",
        if .why.is_final() { "" } else { " in a minute" }
    )]
    GivenUp {
        /// The address.
        address: String,
        /// The error of the last attempt.
        #[source]
        why: Box<RelayError>,
    },
}

impl RelayError {
    /// What the user can do next.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Refused { status: StatusCode::UNAUTHORIZED, with_token: true, .. } => {
                Some("the token is of another machine, or was revoked: acpx token list says so there")
            }
            Self::Refused { status: StatusCode::UNAUTHORIZED, .. } => {
                Some("set ACPX_REMOTE_TOKEN to a token of that machine: acpx token new makes one there")
            }
            Self::Unreachable { .. } | Self::Silent { .. } => {
                Some("check that acpx serve is running there and that the port is reachable")
            }
            Self::Untrusted { .. } => Some(
                "set SSL_CERT_FILE to a file with the certificate of the authority that signed the machine's certificate",
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
    /// Whether another attempt is pointless because the remote machine would refuse again.
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

/// Whether a new connection may succeed: a restarted server does not know the old one, or has not closed its stream
/// yet.
fn is_mended_anew(status: StatusCode) -> bool {
    let statuses = [
        StatusCode::NOT_FOUND,
        StatusCode::CONFLICT,
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    statuses.contains(&status)
}

fn with_detail(words: &str) -> String {
    let words = words.trim();
    if words.is_empty() { String::new() } else { format!(": {words}") }
}

/// Connects to an agent on another machine.
pub(crate) struct Relay {
    address: Address,
    token: Option<String>,
    dialer: Dialer,
    client: Client<Dialer, ChunkedBody>,
    cookies: Lock<Cookies>,
}

/// The local side of the relay.
struct LocalEndpoint {
    peer: Peer,
    incoming: InboundStream,
}

/// Opens connections to the remote machine, one after another.
struct RelayConnector {
    relay: Arc<Relay>,
    /// The task of the current connection.
    last: Lock<Option<JoinHandle<()>>>,
    /// Why the last connection ended, unless it ended normally.
    why: Arc<Lock<Option<RelayError>>>,
}

impl RemoteLine for RelayConnector {
    fn line(&self) -> Option<(Peer, InboundStream)> {
        if self.why.lock().as_ref().is_some_and(RelayError::is_final) {
            return None;
        }
        let (ours, (peer, incoming)) = wire::memory(limits());
        let (relay, why) = (Arc::clone(&self.relay), Arc::clone(&self.why));
        let task = tokio::spawn(async move {
            let mut near = LocalEndpoint { peer, incoming };
            let done = relay.relay_once(&mut near).await;
            *why.lock() = done.err();
            // Flush what was received before closing.
            drop(timeout(CLOSE_TIMEOUT, near.peer.close()).await);
        });
        // The previous connection is lost, or has no reader any more.
        if let Some(earlier) = self.last.lock().replace(task) {
            earlier.abort();
        }
        Some(ours)
    }
}

impl RelayConnector {
    /// Waits for the last connection to end and returns its error. If it has none, the bridge's own result decides.
    async fn over(self, done: Result<(), HostError>) -> Result<(), RelayError> {
        let last = self.last.lock().take();
        if let Some(mut last) = last
            && timeout(CLOSE_TIMEOUT * 2, &mut last).await.is_err()
        {
            last.abort();
        }
        let why = self.why.lock().take();
        let address = self.relay.address();
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

impl Relay {
    /// Creates a relay to an address; `token` authenticates it there.
    pub(crate) fn new(address: Address, token: Option<String>) -> Arc<Self> {
        let dialer = Dialer::new(DialTarget {
            host: address.host().to_owned(),
            port: address.port(),
            is_secure: address.is_secure,
            // A WebSocket needs HTTP/1.
            offers_http2: address.transport == Transport::Http,
        });
        let client = requests::client(dialer.clone());
        Arc::new(Self { address, token, dialer, client, cookies: Lock::default() })
    }

    /// Relays lines until the local side closes.
    pub(crate) async fn run(
        self: Arc<Self>,
        source: impl AsyncRead + Unpin + Send + 'static,
        target: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Result<(), RelayError> {
        let lines = RelayConnector { relay: self, last: Lock::default(), why: Arc::default() };
        let done = bridge_remote(&lines, source, target, limits()).await;
        lines.over(done).await
    }

    /// Relays lines over one connection.
    async fn relay_once(self: &Arc<Self>, near: &mut LocalEndpoint) -> Result<(), RelayError> {
        match self.address.transport {
            Transport::WebSocket => self.over_websocket(near).await,
            Transport::Http => self.over_http(near).await,
        }
    }

    fn undialed(&self, error: DialError) -> RelayError {
        let address = self.address();
        match error {
            DialError::Unreachable(source) => RelayError::Unreachable { address, source },
            DialError::Untrusted(source) => RelayError::Untrusted { address, source },
            DialError::Tls(error) => RelayError::Tls(error),
        }
    }

    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, RelayError> {
        timeout(PEER_TIMEOUT, work).await.map_err(|_| RelayError::Silent { address: self.address() })
    }

    fn foreign(&self, problem: &dyn fmt::Display) -> RelayError {
        RelayError::Foreign { address: self.address(), problem: self.hide(&problem.to_string()) }
    }

    fn lost(&self, reason: &dyn fmt::Display) -> RelayError {
        RelayError::Lost { address: self.address(), reason: self.hide(&reason.to_string()) }
    }

    fn refused_with(&self, status: StatusCode, words: &str) -> RelayError {
        let with_token = self.token.is_some();
        RelayError::Refused { address: self.address(), status, words: self.hide(words), with_token }
    }

    /// The remote machine's message, with the token masked in case it echoes that.
    fn hide(&self, words: &str) -> String {
        match &self.token {
            Some(token) => words.replace(token.as_str(), "[token]"),
            None => words.to_owned(),
        }
    }

    fn address(&self) -> String {
        self.address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[tokio::test]
    async fn lost_relay_reports_that_it_gave_up_reconnecting() {
        let relay = Relay::new(Address::parse("http://127.0.0.1:7", false).unwrap(), None);
        let over = async |why: Option<RelayError>, done| {
            let (last, why) = (Lock::default(), Arc::new(Lock::new(why)));
            let over = RelayConnector { relay: Arc::clone(&relay), last, why }.over(done).await;
            over.map_err(|error| (error.to_string(), error.source().map(ToString::to_string)))
        };
        let lost = || Err(HostError::Lost);
        assert_eq!(over(None, Ok(())).await, Ok(()));
        let given_up = |time: &str, why: &str| {
            let words = format!(
                "the conversation with http://127.0.0.1:7/acp could not be restored{time}; \
                 it is unknown whether the last prompt arrived there"
            );
            Err((words, Some(format!("http://127.0.0.1:7/acp {why}"))))
        };
        assert_eq!(over(None, lost()).await, given_up(" in a minute", "does not answer"));
        // An authentication failure is final; a connection that never opened has delivered no prompt.
        let refused = || Some(relay.refused_with(StatusCode::UNAUTHORIZED, "no"));
        assert_eq!(over(refused(), lost()).await, given_up("", "answered 401 Unauthorized: no"));
        let never = ("http://127.0.0.1:7/acp answered 401 Unauthorized: no".to_owned(), None);
        assert_eq!(over(refused(), Ok(())).await, Err(never));
    }

    #[test]
    fn client_errors_are_final_unless_a_reconnect_may_help() {
        let relay = Relay::new(Address::parse("http://127.0.0.1:7", false).unwrap(), None);
        let is_final = |status: u16| relay.refused_with(StatusCode::from_u16(status).unwrap(), "").is_final();
        assert_eq!([400, 401, 403, 413].map(is_final), [true; 4]);
        assert_eq!([404, 408, 409, 429, 500, 502, 503].map(is_final), [false; 7]);
    }
}
