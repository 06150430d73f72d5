//! Posts one message to a configured URL, each on its own connection.
//!
//! No redirect is followed, so what is sent reaches only the configured server. The response's body is not read, and
//! neither it nor the path of the URL, which may be a secret, is in an error.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;

use super::super::guard::is_this_machine;
use super::dial::{DialError, DialTarget, Dialer};

/// How long connecting, sending and the response's head may take together.
const TIMEOUT: Duration = Duration::from_secs(15);

/// A validated URL.
#[derive(Clone)]
pub(crate) struct PostTarget {
    uri: Uri,
    dialer: Dialer,
}

impl PartialEq for PostTarget {
    fn eq(&self, other: &Self) -> bool {
        self.uri == other.uri
    }
}

impl Eq for PostTarget {}

/// Why a message was not accepted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PostError {
    #[error("cannot reach {origin}: {reason}")]
    Unreachable { origin: String, reason: String },
    #[error("{origin} does not answer")]
    Silent { origin: String },
    #[error("{origin} answered {status}, and no redirect is followed")]
    Redirect { origin: String, status: StatusCode },
    #[error("{origin} answered {status}")]
    Refused { origin: String, status: StatusCode },
}

impl PostTarget {
    /// Parses a URL. Without TLS it must name this machine, unless that is allowed. An error says what is expected.
    pub(crate) fn parse(url: &str, is_insecure: bool) -> Result<Self, &'static str> {
        let (uri, target) = DialTarget::of_url(url)
            .map_err(|_| "an http:// or https:// URL with a host and without a user's name")?;
        if target.is_secure || is_insecure || is_this_machine(uri.host().unwrap_or_default()) {
            Ok(Self { uri, dialer: Dialer::new(target) })
        } else {
            Err("an https:// URL, or one of this machine, unless insecure is true")
        }
    }

    /// Scheme, host and port.
    pub(crate) fn origin(&self) -> String {
        let scheme = self.uri.scheme_str().unwrap_or_default();
        format!("{scheme}://{}", self.uri.authority().map(ToString::to_string).unwrap_or_default())
    }

    /// Posts a message, and returns once it is accepted.
    pub(crate) async fn post(
        &self,
        headers: Vec<(HeaderName, HeaderValue)>,
        body: impl Into<Bytes>,
    ) -> Result<(), PostError> {
        let origin = self.origin();
        let unreachable = |reason: String| PostError::Unreachable { origin: origin.clone(), reason };
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build::<_, Full<Bytes>>(self.dialer.clone());
        let mut request = Request::post(self.uri.clone())
            .body(Full::new(body.into()))
            .map_err(|error| unreachable(error.to_string()))?;
        request.headers_mut().extend(headers);
        let response = match timeout(TIMEOUT, client.request(request)).await {
            Err(_) => return Err(PostError::Silent { origin }),
            Ok(Err(error)) => {
                let reason = DialError::of(error).map_or_else(|reason| reason, |error| error.to_string());
                return Err(unreachable(reason));
            }
            Ok(Ok(response)) => response,
        };
        match response.status() {
            status if status.is_success() => Ok(()),
            status if status.is_redirection() => Err(PostError::Redirect { origin, status }),
            status => Err(PostError::Refused { origin, status }),
        }
    }
}

impl fmt::Debug for PostTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostTarget({}/…)", self.origin())
    }
}
