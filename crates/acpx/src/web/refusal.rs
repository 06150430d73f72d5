//! Why the page's server rejects a request, and the response for it.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::http::refusal::{HttpRefusal, json};

/// Why the page's server rejects a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WebRefusal {
    /// The `Host` is neither this machine nor the configured name.
    Host,
    /// The `Origin` is foreign, or missing where it is required.
    Origin,
    /// Another site sent the request.
    Site,
    /// A process of another user of this machine sent the request.
    User,
    /// There is no such file.
    Path,
    Method,
    /// The device is not signed in, or was signed out.
    SignedOut,
    /// The code is wrong, used or expired.
    Code,
    /// Too many codes were wrong, so this one is not looked at.
    TooManyAttempts,
    /// The body is not what the method expects.
    Body,
    /// The path needs an upgrade to a WebSocket.
    NoUpgrade,
    /// A file of the home cannot be read or written.
    Unavailable,
    /// The WebSocket cannot be opened.
    Http(HttpRefusal),
}

impl WebRefusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Host | Self::Origin | Self::Site | Self::User => StatusCode::FORBIDDEN,
            Self::Path => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::SignedOut | Self::Code => StatusCode::UNAUTHORIZED,
            Self::TooManyAttempts => StatusCode::TOO_MANY_REQUESTS,
            Self::Body => StatusCode::BAD_REQUEST,
            Self::NoUpgrade => StatusCode::UPGRADE_REQUIRED,
            Self::Unavailable | Self::Http(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Origin => "origin",
            Self::Site => "site",
            Self::User => "user",
            Self::Path => "path",
            Self::Method => "method",
            Self::SignedOut => "signed_out",
            Self::Code => "code",
            Self::TooManyAttempts => "too_many_attempts",
            Self::Body => "body",
            Self::NoUpgrade => "upgrade",
            Self::Unavailable | Self::Http(_) => "unavailable",
        }
    }
}

impl From<HttpRefusal> for WebRefusal {
    fn from(refusal: HttpRefusal) -> Self {
        Self::Http(refusal)
    }
}

impl IntoResponse for WebRefusal {
    fn into_response(self) -> Response {
        match self {
            Self::Http(refusal) => refusal.into_response(),
            own => (own.status(), json(format!("{{\"error\":\"{}\"}}", own.word()))).into_response(),
        }
    }
}
