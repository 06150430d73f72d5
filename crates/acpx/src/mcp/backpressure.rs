//! Bounds the number of concurrent requests from an MCP server or client.
//!
//! A peer may send requests and never read the replies. Each would block a task forever, so reading from the peer pauses
//! while the maximum number of requests is open.

use std::sync::Arc;

use rmcp::model::JsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, ServiceRole, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Semaphore;

/// Maximum number of open requests per peer.
const MAX_REQUESTS: usize = 64;

/// A transport that stops reading while too many of its peer's requests are open.
pub(super) struct Backpressure<T, R: ServiceRole> {
    inner: T,
    free: Arc<Semaphore>,
    /// A received request that waits for a permit, kept here because `receive` may be cancelled.
    waiting: Option<RxJsonRpcMessage<R>>,
}

impl<T: Transport<R>, R: ServiceRole> Backpressure<T, R> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, free: Arc::new(Semaphore::new(MAX_REQUESTS)), waiting: None }
    }
}

impl<T: Transport<R>, R: ServiceRole> Transport<R> for Backpressure<T, R> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<R>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let is_answer = matches!(item, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let (sent, free) = (self.inner.send(item), Arc::clone(&self.free));
        async move {
            let done = sent.await;
            if is_answer && free.available_permits() < MAX_REQUESTS {
                free.add_permits(1);
            }
            done
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<R>> {
        if self.waiting.is_none() {
            let received = self.inner.receive().await?;
            if !matches!(received, JsonRpcMessage::Request(_)) {
                return Some(received);
            }
            self.waiting = Some(received);
        }
        self.free.acquire().await.ok()?.forget();
        self.waiting.take()
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rmcp::transport::async_rw::AsyncRwTransport;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_reads_no_answers_is_read_no_further() {
        let (mut server, client) = duplex(1 << 20);
        let (read, write) = tokio::io::split(client);
        let mut transport = Backpressure::new(AsyncRwTransport::new_client(read, write));
        for id in 0..=MAX_REQUESTS {
            let ping = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n");
            server.write_all(ping.as_bytes()).await.unwrap();
        }
        for _ in 0..MAX_REQUESTS {
            assert!(matches!(transport.receive().await, Some(JsonRpcMessage::Request(_))));
        }
        let none = timeout(Duration::from_secs(1), transport.receive()).await;
        assert!(none.is_err(), "the request beyond the bound waits");
        // Each sent reply makes room for one request, and the waiting request was not lost.
        let answer = r#"{"jsonrpc":"2.0","id":0,"result":{}}"#;
        let sent = transport.send(serde_json::from_str(answer).unwrap());
        sent.await.unwrap();
        let Some(JsonRpcMessage::Request(request)) = transport.receive().await else { panic!("no request") };
        assert_eq!(request.id.to_string(), MAX_REQUESTS.to_string());
        assert!(server.read_u8().await.is_ok());
    }
}
