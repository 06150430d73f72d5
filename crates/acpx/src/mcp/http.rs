//! HTTP client for the streamable HTTP transport, on the HTTP and TLS libraries that the program uses anyway.
//!
//! Each request has its own connection, redirects are not followed, and bodies are bounded. Headers with secrets
//! therefore reach only the configured server.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::http::request;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage};
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

use super::MAX_MESSAGE;
use super::failure::{CUT, McpFailure};
use crate::http::client::dial::{DialError, DialTarget, Dialer, UrlProblem};
use crate::http::client::event_stream::events;

/// Maximum length of an error response's body that is read.
const MAX_REFUSAL: usize = 2048;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    #[error("{0}")]
    Unreachable(String),
    #[error("HTTP {status}: {words}")]
    Refused { status: u16, words: String },
}

type HttpAnswer<T> = Result<T, StreamableHttpError<HttpError>>;

/// An HTTP client for one server.
#[derive(Clone)]
pub(super) struct HttpClient(Arc<McpEndpoint>);

struct McpEndpoint {
    uri: Uri,
    /// Host and port, for errors.
    place: String,
    client: Client<Dialer, Full<Bytes>>,
}

impl HttpClient {
    pub(super) fn new(url: &str) -> Result<Self, McpFailure> {
        let (uri, target) = DialTarget::of_url(url).map_err(|problem| {
            McpFailure::Url(match problem {
                UrlProblem::Unreadable => "its URL cannot be read",
                UrlProblem::Scheme => "its URL does not begin with http:// or https://",
                UrlProblem::NoHost => "its URL has no host",
                UrlProblem::UserName => "its URL has a user's name in it: use an Authorization header",
            })
        })?;
        let place = format!("{}:{}", target.host, target.port);
        let dialer = Dialer::new(target);
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(dialer);
        Ok(Self(Arc::new(McpEndpoint { uri, place, client })))
    }

    fn request(
        &self,
        method: Method,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> request::Builder {
        let mut request = Request::builder().method(method).uri(self.0.uri.clone());
        if let Some(own) = request.headers_mut() {
            own.extend(headers);
            // The client sets `Host` from the URL, unless a configured one is there.
            own.remove(HOST);
        }
        match session {
            Some(session) => request.header(HEADER_SESSION_ID, session),
            None => request,
        }
    }

    async fn send(&self, request: request::Builder, body: String) -> HttpAnswer<Response<Incoming>> {
        let unreachable = |problem: &dyn std::fmt::Display| {
            let problem = format!("cannot reach {}: {problem}", self.0.place);
            StreamableHttpError::Client(HttpError::Unreachable(problem))
        };
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| unreachable(&error))?;
        let response = self.0.client.request(request).await;
        response.map_err(|error| match DialError::of(error) {
            Ok(error) => unreachable(&error),
            Err(reason) => unreachable(&reason),
        })
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = HttpError;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> HttpAnswer<StreamableHttpPostResponse> {
        let mut request = self.request(Method::POST, session.as_deref(), headers);
        if let Some(own) = request.headers_mut() {
            own.insert(CONTENT_TYPE, HeaderValue::from_static(JSON_MIME_TYPE));
            own.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        }
        let response = self.send(request, serde_json::to_string(&message)?).await?;
        posted(response, &message, session.is_some()).await
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> HttpAnswer<()> {
        let response =
            self.send(self.request(Method::DELETE, Some(&session), headers), String::new()).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportDeleteSession),
            status if status.is_success() => Ok(()),
            _ => Err(refused(response).await),
        }
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> HttpAnswer<BoxStream<'static, Result<Sse, SseError>>> {
        let mut request = self.request(Method::GET, session.as_deref(), headers);
        if let Some(own) = request.headers_mut() {
            own.insert(ACCEPT, HeaderValue::from_static(EVENT_STREAM_MIME_TYPE));
        }
        if let Some(last_event) = last_event {
            request = request.header(HEADER_LAST_EVENT_ID, last_event);
        }
        let response = self.send(request, String::new()).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            StatusCode::NOT_FOUND if session.is_some() => Err(StreamableHttpError::SessionExpired),
            status if !status.is_success() => Err(refused(response).await),
            _ if is_of(&response, EVENT_STREAM_MIME_TYPE) => {
                Ok(events(response.into_body(), MAX_MESSAGE).boxed())
            }
            _ => Err(StreamableHttpError::UnexpectedContentType(content_type(&response))),
        }
    }
}

/// Reads the response to a POST.
async fn posted(
    response: Response<Incoming>,
    message: &ClientJsonRpcMessage,
    has_session: bool,
) -> HttpAnswer<StreamableHttpPostResponse> {
    let status = response.status();
    let is_request = matches!(message, JsonRpcMessage::Request(_));
    if status == StatusCode::NOT_FOUND && has_session {
        return Err(StreamableHttpError::SessionExpired);
    }
    if !status.is_success() {
        return Err(refused(response).await);
    }
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    let session =
        response.headers().get(HEADER_SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
    if is_of(&response, EVENT_STREAM_MIME_TYPE) {
        return Ok(StreamableHttpPostResponse::Sse(
            events(response.into_body(), MAX_MESSAGE).boxed(),
            session,
        ));
    }
    if !is_request {
        // Servers reply to notifications in many ways; accept any success.
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    if !is_of(&response, JSON_MIME_TYPE) {
        return Err(StreamableHttpError::UnexpectedContentType(content_type(&response)));
    }
    let body = Limited::new(response.into_body(), MAX_MESSAGE).collect().await;
    let body = body.map_err(|error| {
        StreamableHttpError::UnexpectedServerResponse(format!("the answer cannot be read: {error}").into())
    })?;
    Ok(StreamableHttpPostResponse::Json(serde_json::from_slice(&body.to_bytes())?, session))
}

/// The error of a response, with the beginning of its body.
async fn refused(response: Response<Incoming>) -> StreamableHttpError<HttpError> {
    let status = response.status().as_u16();
    let (mut body, mut read) = (response.into_body(), Vec::new());
    let is_cut = loop {
        match body.frame().await {
            None => break false,
            Some(Ok(frame)) => read.extend(frame.into_data().unwrap_or_default()),
            Some(Err(_)) => break true,
        }
        if read.len() > MAX_REFUSAL {
            break true;
        }
    };
    read.truncate(MAX_REFUSAL);
    let mut words = String::from_utf8_lossy(&read).trim().to_owned();
    words.extend(is_cut.then_some(CUT));
    StreamableHttpError::Client(HttpError::Refused { status, words })
}

fn content_type(response: &Response<Incoming>) -> Option<String> {
    let kind = response.headers().get(CONTENT_TYPE)?;
    Some(String::from_utf8_lossy(kind.as_bytes()).into_owned())
}

fn is_of(response: &Response<Incoming>, kind: &str) -> bool {
    content_type(response).is_some_and(|found| found.starts_with(kind))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    use super::*;

    /// Requests the event stream of a server that sends these bytes and then waits; gives the server's socket, too.
    async fn event_stream(
        response: &str,
    ) -> (HttpAnswer<BoxStream<'static, Result<Sse, SseError>>>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = HttpClient::new(&format!("http://{}/mcp", listener.local_addr().unwrap())).unwrap();
        let serve = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            // The head of a request is small and arrives in one piece.
            assert_ne!(socket.read(&mut [0; 4096]).await.unwrap(), 0);
            socket.write_all(response.as_bytes()).await.unwrap();
            socket
        };
        let requested = client.get_stream("".into(), None, None, None, HashMap::new());
        timeout(Duration::from_secs(30), async { tokio::join!(requested, serve) }).await.unwrap()
    }

    #[tokio::test]
    async fn dropping_an_idle_event_stream_closes_its_http_connection() {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        let (events, mut socket) = event_stream(head).await;
        let mut events = events.unwrap();
        assert!(events.next().now_or_never().is_none());
        drop(events);
        let closed = timeout(Duration::from_secs(30), socket.read_u8()).await.unwrap();
        assert_eq!(closed.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn a_long_http_refusal_is_quoted_up_to_a_limit() {
        let body = "x".repeat(MAX_REFUSAL + 1);
        let head = format!("HTTP/1.1 403 Forbidden\r\ncontent-length: {}\r\n\r\n", body.len() + 1);
        let (refused, _socket) = event_stream(&(head + &body)).await;
        let Err(StreamableHttpError::Client(HttpError::Refused { status, words })) = refused else {
            panic!("not refused");
        };
        assert_eq!((status, words), (403, format!("{}{CUT}", &body[..MAX_REFUSAL])));
    }

    #[test]
    fn a_url_is_http_has_a_host_and_carries_no_credentials() {
        let place = |url: &str| HttpClient::new(url).map(|client| client.0.place.clone());
        assert_eq!(place("http://127.0.0.1:7/mcp"), Ok("127.0.0.1:7".to_owned()));
        assert_eq!(place("https://a.example/mcp?key=k"), Ok("a.example:443".to_owned()));
        assert_eq!(place("http://[::1]/"), Ok("::1:80".to_owned()));
        for url in ["", "mcp", "/mcp", "ftp://a/", "http://me:word@a/"] {
            let failure = place(url).unwrap_err();
            assert!(matches!(failure, McpFailure::Url(_)) && !failure.to_string().contains("word"), "{url}");
        }
    }
}
