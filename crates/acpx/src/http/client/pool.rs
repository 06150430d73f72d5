//! HTTP connections for requests, reused because a handshake costs more than a request. Over HTTP/2 the event streams
//! share the connection; over HTTP/1 each stream has its own.

use hyper::body::Incoming as Body;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, HeaderName, HeaderValue, SET_COOKIE};
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::task::JoinHandle;

use super::chunked_body::{ChunkedBody, WAITING};
use super::{ByteStream, PEER_TIMEOUT, Relay, RelayError};

/// A task that is aborted on drop.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A connection that accepts requests.
pub(super) struct RequestConnection {
    sender: Sender,
    _task: Task,
}

enum Sender {
    /// One request at a time.
    Http1(http1::SendRequest<ChunkedBody>),
    /// Many concurrent requests.
    Http2(http2::SendRequest<ChunkedBody>),
}

impl RequestConnection {
    fn takes_many(&self) -> bool {
        matches!(self.sender, Sender::Http2(_))
    }

    fn is_open(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => !sender.is_closed(),
            Sender::Http2(sender) => !sender.is_closed(),
        }
    }

    async fn send(
        &mut self,
        request: Request<ChunkedBody>,
    ) -> Result<Response<Body>, TrySendError<Request<ChunkedBody>>> {
        match &mut self.sender {
            Sender::Http1(sender) => {
                // A connection that closes here fails in the send below.
                drop(sender.ready().await);
                sender.try_send_request(request).await
            }
            Sender::Http2(sender) => sender.try_send_request(request).await,
        }
    }
}

/// A request to the server.
pub(super) struct RelayRequest<'a> {
    pub(super) method: Method,
    pub(super) headers: &'a [(HeaderName, HeaderValue)],
    pub(super) body: String,
}

/// A response, and its connection if no other request shares it.
pub(super) struct RelayResponse {
    pub(super) response: Response<Body>,
    pub(super) line: Option<RequestConnection>,
}

impl Relay {
    /// Sends a request. If the reused connection was closed while idle and the request did not leave, retries once on a
    /// new one.
    pub(super) async fn ask(&self, relay_request: RelayRequest<'_>) -> Result<RelayResponse, RelayError> {
        let mut reused = self.line.lock().await;
        let is_stream = relay_request.method == Method::GET;
        let known = reused.take().filter(RequestConnection::is_open);
        let is_known = known.is_some();
        let mut line = match known {
            Some(line) => line,
            None => self.dial().await?,
        };
        if is_stream && !line.takes_many() {
            *reused = Some(line);
            drop(reused);
            let mut own = self.dial().await?;
            let request = self.request(&relay_request, &own)?;
            let sent = self.sent(&mut own, request).await?;
            let response = sent.map_err(|error| self.lost(&error.into_error()))?;
            return Ok(self.answered(response, Some(own)));
        }
        let request = self.request(&relay_request, &line)?;
        let mut sent = self.sent(&mut line, request).await?;
        let has_left = |error: &mut TrySendError<Request<ChunkedBody>>| error.take_message().is_none();
        if is_known && sent.as_mut().is_err_and(|error| !has_left(error)) {
            line = self.dial().await?;
            let request = self.request(&relay_request, &line)?;
            sent = self.sent(&mut line, request).await?;
        }
        let response = sent.map_err(|error| self.lost(&error.into_error()))?;
        *reused = Some(line);
        Ok(self.answered(response, None))
    }

    /// Sends a request; fails only if the body makes no progress for too long.
    async fn sent(
        &self,
        line: &mut RequestConnection,
        request: Request<ChunkedBody>,
    ) -> Result<Result<Response<Body>, TrySendError<Request<ChunkedBody>>>, RelayError> {
        let taken = request.body().taken();
        let sent = taken.while_moving(PEER_TIMEOUT, line.send(request)).await;
        sent.ok_or_else(|| RelayError::Silent { address: self.address() })
    }

    fn answered(&self, response: Response<Body>, line: Option<RequestConnection>) -> RelayResponse {
        for cookie in response.headers().get_all(SET_COOKIE) {
            self.cookies.lock().take(cookie);
        }
        RelayResponse { response, line }
    }

    async fn dial(&self) -> Result<RequestConnection, RelayError> {
        let (stream, is_http2) = self.connect().await?;
        self.line_over(stream, is_http2).await
    }

    /// Performs the HTTP handshake. A bounded write buffer makes the consumed part of a body about the part that was
    /// sent.
    async fn line_over(
        &self,
        stream: Box<dyn ByteStream>,
        is_http2: bool,
    ) -> Result<RequestConnection, RelayError> {
        let io = TokioIo::new(stream);
        if is_http2 {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.timer(TokioTimer::new()).keep_alive_interval(PEER_TIMEOUT).keep_alive_while_idle(true);
            builder.max_send_buf_size(WAITING);
            let shaken = self.in_time(builder.handshake(io)).await?;
            let (sender, connection) = shaken.map_err(|error| self.foreign(&error))?;
            let task = tokio::spawn(async move { drop(connection.await) });
            return Ok(RequestConnection { sender: Sender::Http2(sender), _task: Task(task) });
        }
        let shaken = self.in_time(http1::Builder::new().max_buf_size(WAITING).handshake(io)).await?;
        let (sender, connection) = shaken.map_err(|error| self.foreign(&error))?;
        // The request that uses the connection reports its errors.
        let task = tokio::spawn(async move { drop(connection.await) });
        Ok(RequestConnection { sender: Sender::Http1(sender), _task: Task(task) })
    }

    fn request(
        &self,
        relay_request: &RelayRequest<'_>,
        line: &RequestConnection,
    ) -> Result<Request<ChunkedBody>, RelayError> {
        let mut request = Request::new(ChunkedBody::new(relay_request.body.clone()));
        let address = &self.address;
        let headers = request.headers_mut();
        let uri = if line.takes_many() {
            address.to_string()
        } else {
            let host = HeaderValue::from_str(address.authority()).map_err(|error| self.foreign(&error))?;
            headers.insert(HOST, host);
            address.path().to_owned()
        };
        let accept =
            if relay_request.method == Method::GET { "text/event-stream" } else { "application/json" };
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        if relay_request.method == Method::POST {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, self.bearer(token)?);
        }
        if let Some(cookies) = self.cookies.lock().header() {
            headers.insert(COOKIE, cookies);
        }
        headers.extend(relay_request.headers.iter().cloned());
        *request.uri_mut() = uri.parse().map_err(|error| self.foreign(&error))?;
        *request.method_mut() = relay_request.method.clone();
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, duplex};

    use super::super::super::address::Address;
    use super::*;

    /// A relay whose reused connection is this stream.
    async fn relay(stream: impl ByteStream + 'static) -> std::sync::Arc<Relay> {
        let relay = Relay::new(Address::parse("http://127.0.0.1:7", false).unwrap(), None);
        let line = relay.line_over(Box::new(stream), false).await.unwrap();
        *relay.line.lock().await = Some(line);
        relay
    }

    #[tokio::test(start_paused = true)]
    async fn slow_request_is_sent_and_a_stalled_one_times_out() {
        let (near, far) = duplex(1024);
        let slow = relay(near).await;
        let body = "x".repeat(512 * 1024);
        let mut left = body.len();
        let reading = async move {
            let mut far = BufReader::new(far);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                far.read_line(&mut head).await.unwrap();
            }
            while left > 0 {
                tokio::time::sleep(Duration::from_millis(250)).await;
                left -= far.read(&mut [0; 1024]).await.unwrap();
            }
            far.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            far
        };
        let began = tokio::time::Instant::now();
        let relay_request = RelayRequest { method: Method::POST, headers: &[], body };
        let (answer, _far) = tokio::join!(slow.ask(relay_request), reading);
        assert_eq!(answer.unwrap().response.status(), 202);
        assert!(began.elapsed() > PEER_TIMEOUT * 2, "{:?}", began.elapsed());

        let (near, _unread) = duplex(1024);
        let stuck = relay(near).await;
        let relay_request =
            RelayRequest { method: Method::POST, headers: &[], body: "x".repeat(1024 * 1024) };
        let error = stuck.ask(relay_request).await.map(|answer| answer.response.status()).unwrap_err();
        assert_eq!(error.to_string(), "http://127.0.0.1:7/acp does not answer");
    }
}
