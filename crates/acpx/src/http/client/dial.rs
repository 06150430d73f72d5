//! Opens byte streams to one server: TCP, and TLS where its URL says so. hyper-util's client gets its connections here,
//! and so does the WebSocket.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::Uri;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsConnector, rustls};
use tower_service::Service;

use super::super::observed_stream::{ObservedStream, StreamObserver};
use super::super::tls;

/// A byte stream to the other machine, secured or not.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

/// A stream to the server, which knows the HTTP version that TLS negotiated.
pub(crate) type DialedStream = ObservedStream<Box<dyn ByteStream>, NegotiatedVersion>;

/// Whether both sides agreed on HTTP/2.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NegotiatedVersion {
    pub(super) is_http2: bool,
}

impl StreamObserver for NegotiatedVersion {}

impl Connection for DialedStream {
    fn connected(&self) -> Connected {
        let connected = Connected::new();
        if self.observer().is_http2 { connected.negotiated_h2() } else { connected }
    }
}

/// Where a server is, and what it is offered.
#[derive(Debug)]
pub(crate) struct DialTarget {
    /// Name or address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) is_secure: bool,
    pub(crate) offers_http2: bool,
}

/// What is wrong with a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UrlProblem {
    Unreadable,
    /// It begins with neither `http://` nor `https://`.
    Scheme,
    NoHost,
    UserName,
}

impl DialTarget {
    /// The server of an `http://` or `https://` URL, over HTTP/1.
    pub(crate) fn of_url(url: &str) -> Result<(Uri, Self), UrlProblem> {
        let uri: Uri = url.parse().map_err(|_| UrlProblem::Unreadable)?;
        let is_secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(UrlProblem::Scheme),
        };
        let authority = uri.authority().ok_or(UrlProblem::NoHost)?;
        if authority.as_str().contains('@') {
            return Err(UrlProblem::UserName);
        }
        let host = authority.host();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).to_owned();
        let port = authority.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let target = Self { host, port, is_secure, offers_http2: false };
        Ok((uri, target))
    }
}

/// Why a server cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("{0}")]
    Unreachable(io::Error),
    /// Its certificate is not trusted.
    #[error("{0}")]
    Untrusted(io::Error),
    /// TLS is not available on this machine.
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
}

impl DialError {
    /// The error of the dialer behind one of hyper-util's client; otherwise the reason that the client gives.
    pub(crate) fn of(error: legacy::Error) -> Result<Self, String> {
        let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        let dialed = error.source().and_then(|source| source.downcast_ref::<Arc<Self>>()).cloned();
        drop(error);
        dialed.and_then(Arc::into_inner).ok_or(reason)
    }
}

/// Opens streams to one server.
#[derive(Clone)]
pub(crate) struct Dialer {
    target: Arc<DialTarget>,
    /// TLS configuration, loaded on first use.
    connector: Arc<OnceCell<TlsConnector>>,
}

impl Dialer {
    pub(crate) fn new(target: DialTarget) -> Self {
        Self { target: Arc::new(target), connector: Arc::default() }
    }

    /// Opens a stream.
    pub(crate) async fn dial(&self) -> Result<DialedStream, DialError> {
        let DialTarget { host, port, is_secure, offers_http2 } = &*self.target;
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(DialError::Unreachable)?;
        // Messages are small and latency-sensitive, so do not batch them.
        drop(stream.set_nodelay(true));
        if !is_secure {
            return Ok(ObservedStream::new(Box::new(stream), NegotiatedVersion { is_http2: false }));
        }
        let name = ServerName::try_from(host.clone())
            .map_err(|error| DialError::Unreachable(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
        let connector = self.connector.get_or_try_init(async || tls::connector(*offers_http2)).await?;
        let secured = connector.connect(name, stream).await.map_err(|error| {
            let reason = error.get_ref().and_then(|reason| reason.downcast_ref::<rustls::Error>());
            match reason {
                Some(rustls::Error::InvalidCertificate(_)) => DialError::Untrusted(error),
                _ => DialError::Unreachable(error),
            }
        })?;
        let is_http2 = secured.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(ObservedStream::new(Box::new(secured), NegotiatedVersion { is_http2 }))
    }
}

/// The dialer leads to one server, whatever URI it is asked for. The error is shared because hyper-util's client lends
/// its errors and does not return them.
impl Service<Uri> for Dialer {
    type Response = TokioIo<DialedStream>;
    type Error = Arc<DialError>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let dialer = self.clone();
        Box::pin(async move { dialer.dial().await.map(TokioIo::new).map_err(Arc::new) })
    }
}
