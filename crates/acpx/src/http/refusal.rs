//! Why a request is not done, and how HTTP says it.

use acpx_core::wire::{Malformed, RpcError, RpcId, encode};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use super::events::ResponseBody;
use super::guard::AccessError;
use super::streams::{BadMessage, NoStream};

/// Why an array is refused.
const BATCH: &str = "batches are not part of the protocol";

/// Why a request is not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpRefusal {
    /// Whoever asks stays outside.
    #[error(transparent)]
    Outside(#[from] AccessError),
    /// The tokens cannot be read, so nobody comes in.
    #[error("the tokens cannot be read")]
    Tokens,
    /// Nothing is there.
    #[error("ACP is spoken at /acp")]
    Path,
    /// It is no way to ask.
    #[error("POST, GET and DELETE are understood")]
    Method,
    /// It says not what it sends.
    #[error("the Content-Type must be application/json")]
    ContentType,
    /// It does not want what there is.
    #[error("only text/event-stream can be had")]
    Accept,
    /// A header is there twice, or no text.
    #[error("{0} is not one text")]
    Header(HeaderName),
    /// It belongs to no connection.
    #[error("Acp-Connection-Id is needed")]
    NoConnection,
    /// It belongs to none that there is.
    #[error("there is no such connection")]
    UnknownConnection,
    /// Its body does not come.
    #[error("the body took too long")]
    Slow,
    /// Its body is too long.
    #[error("the message is longer than any may be")]
    TooLong,
    /// Its body cannot be read.
    #[error("the body is no UTF-8 text, or broke off")]
    Unreadable,
    /// Its body is no message.
    #[error("{0}")]
    NotAMessage(Malformed),
    /// The message cannot be taken.
    #[error(transparent)]
    Message(#[from] BadMessage),
    /// The stream cannot be had.
    #[error(transparent)]
    Stream(#[from] NoStream),
    /// It cannot become a WebSocket.
    #[error("no WebSocket: {0}")]
    WebSocket(String),
    /// The server has as many clients as it may.
    #[error("there are as many clients as there may be")]
    Full,
    /// The server has as much in its hands as it may.
    #[error("there is no room for the message now")]
    NoRoom,
    /// There is no host, and cannot be.
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

    /// The response that says it. What is no message is told in the protocol's own form.
    pub(crate) fn response(&self) -> Response<ResponseBody> {
        let mut response = match self {
            Self::NotAMessage(malformed) => {
                let error = match malformed {
                    Malformed::Batch => RpcError::invalid_request(BATCH)
                        .with_data(&serde_json::json!({ "details": BATCH }).to_string()),
                    other => RpcError::parse_error(other.to_string()),
                };
                json(encode::error_response(&RpcId::null(), &error))
            }
            other => Response::new(ResponseBody::text(other.to_string())),
        };
        if matches!(self, Self::Outside(AccessError::NoToken | AccessError::BadToken)) {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        *response.status_mut() = self.status();
        response
    }
}

/// A response with a message.
pub(crate) fn json(line: String) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::text(line));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A response with nothing in it.
pub(crate) fn empty(status: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::text(""));
    *response.status_mut() = status;
    response
}
