//! Why the server rejects a request, and the HTTP response for it.

use std::error::Error;

use acpx_core::wire::{Malformed, RpcError, RpcId, encode};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use http_body_util::LengthLimitError;
use tower_http::timeout::TimeoutError;

use super::guard::AccessError;
use super::streams::{BadMessage, NoStream};

/// Error message for a batch.
const BATCH: &str = "batches are not part of the protocol";

/// Why the server rejects a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpRefusal {
    /// The request is not admitted.
    #[error(transparent)]
    Outside(#[from] AccessError),
    /// The token file cannot be read, so no request is admitted.
    #[error("the tokens cannot be read")]
    Tokens,
    /// The path is unknown.
    #[error("the ACP endpoint is /acp")]
    Path,
    /// The method is not supported.
    #[error("only POST, GET and DELETE are supported")]
    Method,
    /// The content type is wrong.
    #[error("the Content-Type must be application/json")]
    ContentType,
    /// The client does not accept an event stream.
    #[error("only text/event-stream is available")]
    Accept,
    /// A header is repeated or not text.
    #[error("{0} is not one text")]
    Header(HeaderName),
    /// The connection id is missing.
    #[error("Acp-Connection-Id is needed")]
    NoConnection,
    /// No connection has this id.
    #[error("there is no such connection")]
    UnknownConnection,
    /// The body did not arrive in time.
    #[error("the body took too long")]
    Slow,
    /// The body is too long.
    #[error("the message is too long")]
    TooLong,
    /// The body cannot be read.
    #[error("the body is no UTF-8 text, or broke off")]
    Unreadable,
    /// The body is not a JSON-RPC message.
    #[error("{0}")]
    NotAMessage(Malformed),
    /// The message is rejected.
    #[error(transparent)]
    Message(#[from] BadMessage),
    /// The stream cannot be opened.
    #[error(transparent)]
    Stream(#[from] NoStream),
    /// The upgrade to a WebSocket failed.
    #[error("no WebSocket: {0}")]
    WebSocket(String),
    /// The limit of connected clients is reached.
    #[error("too many clients are connected")]
    Full,
    /// The server's receive budget is exhausted.
    #[error("there is no room for the message now")]
    NoRoom,
    /// No host could be reached or started.
    #[error("the host cannot be reached")]
    NoHost,
}

impl HttpRefusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Outside(outside) => outside.status(),
            Self::Path | Self::UnknownConnection | Self::Stream(NoStream::Unknown) => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Accept => StatusCode::NOT_ACCEPTABLE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Stream(NoStream::Busy) => StatusCode::CONFLICT,
            Self::Tokens | Self::Full | Self::NoRoom | Self::NoHost | Self::Message(BadMessage::TooMany) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Header(_)
            | Self::NoConnection
            | Self::Unreadable
            | Self::NotAMessage(_)
            | Self::Message(_)
            | Self::WebSocket(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// Why a body could not be read: a layer has bounded its length or its time, or the client broke off.
    pub(crate) fn of_body(error: &(dyn Error + 'static)) -> Self {
        let mut causes = std::iter::successors(Some(error), |&error| error.source());
        let refusal = causes.find_map(|cause| {
            let is_slow = cause.is::<TimeoutError>().then_some(Self::Slow);
            is_slow.or_else(|| cause.is::<LengthLimitError>().then_some(Self::TooLong))
        });
        refusal.unwrap_or(Self::Unreadable)
    }
}

impl IntoResponse for HttpRefusal {
    /// A malformed message gets a JSON-RPC error.
    fn into_response(self) -> Response {
        let mut response = match &self {
            Self::NotAMessage(malformed) => {
                let error = match malformed {
                    Malformed::Batch => RpcError::invalid_request(BATCH)
                        .with_data(&serde_json::json!({ "details": BATCH }).to_string()),
                    other => RpcError::parse_error(other.to_string()),
                };
                json(encode::error_response(&RpcId::null(), &error))
            }
            other => other.to_string().into_response(),
        };
        if matches!(self, Self::Outside(AccessError::NoToken | AccessError::BadToken)) {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        *response.status_mut() = self.status();
        response
    }
}

/// A JSON response.
pub(crate) fn json(line: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], line).into_response()
}
