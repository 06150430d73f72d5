//! Requests of the relay. hyper-util's client reuses connections, because a handshake costs more than a request, and
//! repeats a request that did not leave because its connection was closed while idle. Over HTTP/2 the event streams
//! share the connection; over HTTP/1 each stream has its own.

use hyper::body::Incoming as Body;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderName, HeaderValue, SET_COOKIE};
use hyper::{Method, Request, Response};
use hyper_util::client::legacy::connect::Connect;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::chunked_body::{ChunkedBody, WAITING};
use super::dial::DialError;
use super::{PEER_TIMEOUT, Relay, RelayError};

/// A client on this connector. A bounded write buffer makes the consumed part of a body about the part that was sent.
pub(super) fn client<C: Connect + Clone>(connector: C) -> Client<C, ChunkedBody> {
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http1_max_buf_size(WAITING)
        .http2_max_send_buf_size(WAITING)
        .http2_keep_alive_interval(PEER_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .build(connector)
}

/// Sends a request; `None` if the body makes no progress for too long.
async fn send<C: Connect + Clone + Send + Sync + 'static>(
    client: &Client<C, ChunkedBody>,
    request: Request<ChunkedBody>,
) -> Option<Result<Response<Body>, legacy::Error>> {
    let taken = request.body().taken();
    taken.while_moving(PEER_TIMEOUT, client.request(request)).await
}

/// A request to the server.
pub(super) struct RelayRequest<'a> {
    pub(super) method: Method,
    pub(super) headers: &'a [(HeaderName, HeaderValue)],
    pub(super) body: String,
}

impl Relay {
    /// Sends a request and remembers the cookies of its response.
    pub(super) async fn ask(&self, relay_request: RelayRequest<'_>) -> Result<Response<Body>, RelayError> {
        let request = self.request(relay_request)?;
        let sent = send(&self.client, request).await;
        let sent = sent.ok_or_else(|| RelayError::Silent { address: self.address() })?;
        let response = sent.map_err(|error| match DialError::of(error) {
            Ok(error) => self.undialed(error),
            Err(reason) => self.lost(&reason),
        })?;
        for cookie in response.headers().get_all(SET_COOKIE) {
            self.cookies.lock().take(cookie);
        }
        Ok(response)
    }

    fn request(&self, relay_request: RelayRequest<'_>) -> Result<Request<ChunkedBody>, RelayError> {
        let RelayRequest { method, headers: own, body } = relay_request;
        let mut request = Request::new(ChunkedBody::new(body));
        *request.uri_mut() = self.address().parse().map_err(|error| self.foreign(&error))?;
        let headers = request.headers_mut();
        let accept = if method == Method::GET { "text/event-stream" } else { "application/json" };
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        if method == Method::POST {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, self.bearer(token)?);
        }
        if let Some(cookies) = self.cookies.lock().header() {
            headers.insert(COOKIE, cookies);
        }
        headers.extend(own.iter().cloned());
        *request.method_mut() = method;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use acpx_core::sync::Lock;
    use hyper::Uri;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
    use tower_service::Service;

    use super::super::super::observed_stream::ObservedStream;
    use super::super::dial::{DialedStream, NegotiatedVersion};
    use super::*;

    /// Connects to the other end of one stream, once.
    #[derive(Clone)]
    struct OnlyStream(Arc<Lock<Option<DuplexStream>>>);

    impl Service<Uri> for OnlyStream {
        type Response = TokioIo<DialedStream>;
        type Error = io::Error;
        type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Uri) -> Self::Future {
            let stream = self.0.lock().take();
            Box::pin(async move {
                let stream = stream.ok_or(io::ErrorKind::ConnectionRefused)?;
                let version = NegotiatedVersion { is_http2: false };
                Ok(TokioIo::new(ObservedStream::new(Box::new(stream) as Box<_>, version)))
            })
        }
    }

    /// Posts a body over this stream; the status, or `None` if it makes no progress.
    async fn post(stream: DuplexStream, body: String) -> Option<u16> {
        let client = client(OnlyStream(Arc::new(Lock::new(Some(stream)))));
        let mut request = Request::post("http://127.0.0.1:7/acp").body(ChunkedBody::new(body)).unwrap();
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        send(&client, request).await.map(|response| response.unwrap().status().as_u16())
    }

    #[tokio::test(start_paused = true)]
    async fn slow_request_is_sent_and_a_stalled_one_times_out() {
        let (near, far) = duplex(1024);
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
        let (status, _far) = tokio::join!(post(near, body), reading);
        assert_eq!(status, Some(202));
        assert!(began.elapsed() > PEER_TIMEOUT * 2, "{:?}", began.elapsed());

        let (near, _unread) = duplex(1024);
        assert_eq!(post(near, "x".repeat(1024 * 1024)).await, None);
    }
}
