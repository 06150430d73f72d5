//! Client side of ACP over a WebSocket.

use std::sync::Arc;

use acpx_core::wire::Peer;
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use hyper::header::{AUTHORIZATION, HeaderValue};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::super::frames::{self, FROM_SERVER, FrameEvent, FrameSendError, Socket, config};
use super::dial::DialedStream;
use super::{CLOSE_TIMEOUT, LocalEndpoint, Relay, RelayError};
use crate::http::limits::ReceiveBudget;
use crate::http::observed_stream::ObservedStream;

impl Relay {
    pub(super) async fn over_websocket(&self, near: &mut LocalEndpoint) -> Result<(), RelayError> {
        // The only connection of this process; frame limits bound it already.
        let load = ReceiveBudget::new(Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)));
        let (mut sink, source) = self.upgraded(&load).await?.split();
        tokio::select! {
            send_error = frames::send_all(&mut sink, &mut near.incoming, &load) => match send_error {
                FrameSendError::Over => {}
                FrameSendError::Slow => return Err(self.lost(&"the server does not read")),
                FrameSendError::Gone(error) => return Err(self.lost(&error)),
            },
            lost = self.forward(source, &load, &near.peer) => {
                // tungstenite has queued the reply to the close frame; flush it.
                drop(timeout(CLOSE_TIMEOUT, futures_util::SinkExt::flush(&mut sink)).await);
                return Err(lost);
            }
        }
        // The local side is done. The remote machine may be unreachable by then.
        drop(timeout(CLOSE_TIMEOUT, futures_util::SinkExt::close(&mut sink)).await);
        Ok(())
    }

    async fn upgraded(&self, load: &Arc<ReceiveBudget>) -> Result<Socket<DialedStream>, RelayError> {
        let stream = self.in_time(self.dialer.dial()).await?.map_err(|error| self.undialed(error))?;
        let stream = ObservedStream::new(stream, Arc::clone(load));
        // The stream is already encrypted, so the request inside it is a plain `ws:` one.
        let url = format!("ws://{}{}", self.address.authority(), self.address.path());
        let mut request = url.into_client_request().map_err(|error| self.foreign(&error))?;
        if let Some(token) = &self.token {
            request.headers_mut().insert(AUTHORIZATION, self.bearer(token)?);
        }
        let shaken = self.in_time(client_async_with_config(request, stream, Some(config()))).await?;
        match shaken {
            Ok((socket, _)) => Ok(socket),
            Err(Error::Http(response)) => {
                let words = response.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default();
                Err(self.refused_with(response.status(), &words))
            }
            Err(error) => Err(self.foreign(&error)),
        }
    }

    /// The `Authorization` header for a token. The error does not contain the token.
    pub(super) fn bearer(&self, token: &str) -> Result<HeaderValue, RelayError> {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| self.foreign(&"the token for it has characters that no token has"))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Forwards received messages to the local side until the connection ends.
    async fn forward(
        &self,
        mut source: SplitStream<Socket<DialedStream>>,
        load: &ReceiveBudget,
        peer: &Peer,
    ) -> RelayError {
        loop {
            match frames::receive(&mut source, load, FROM_SERVER).await {
                FrameEvent::Line(line) => {
                    load.clear();
                    // A closed local side also ends the loop that reads from it.
                    drop(peer.send(line).await);
                }
                // ACP uses no binary frames; ignore them.
                FrameEvent::Binary => load.clear(),
                FrameEvent::Closed(close) => {
                    return self.lost(&close.map(|close| close.reason.to_string()).unwrap_or_default());
                }
                FrameEvent::Silence => return self.lost(&"nothing was received for too long"),
                FrameEvent::Broken(Some(error)) => return self.lost(&error),
                FrameEvent::Broken(None) => return self.lost(&""),
            }
        }
    }
}
