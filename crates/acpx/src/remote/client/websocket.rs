//! An agent at the other end of a WebSocket.

use std::time::Duration;

use acpx_core::wire::{Incoming, Peer};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use hyper::header::{AUTHORIZATION, HeaderValue};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::super::{as_line, websocket::config};
use super::{FAREWELL, Near, Relay, RelayError, Stream};

/// How often the other side is asked whether it is there.
const PING: Duration = Duration::from_secs(20);
/// How long nothing may come from it, its answers to that included.
const SILENCE: Duration = Duration::from_mins(1);

type Socket = WebSocketStream<Box<dyn Stream>>;

impl Relay {
    pub(super) async fn over_websocket(&self, near: &mut Near) -> Result<(), RelayError> {
        let (mut sink, source) = self.upgraded().await?.split();
        tokio::select! {
            said = self.say(&mut sink, &mut near.incoming) => said?,
            lost = self.hear(source, &near.peer) => return Err(lost),
        }
        // Whoever spoke here is done, and says so. Nobody may be left to hear it.
        drop(timeout(FAREWELL, sink.close()).await);
        Ok(())
    }

    async fn upgraded(&self) -> Result<Socket, RelayError> {
        let stream = self.connect().await?;
        // The stream is secured already, so a request for a plain one is what goes through it.
        let url = format!("ws://{}{}", self.address.authority(), self.address.path());
        let mut request = url.into_client_request().map_err(|error| self.foreign(&error))?;
        if let Some(token) = &self.token {
            request.headers_mut().insert(AUTHORIZATION, self.bearer(token)?);
        }
        let shaken = self.in_time(client_async_with_config(request, stream, Some(config()))).await?;
        match shaken {
            Ok((socket, _)) => Ok(socket),
            Err(Error::Http(response)) => Err(RelayError::Refused {
                address: self.place(),
                status: response.status(),
                words: response
                    .body()
                    .as_ref()
                    .map(|body| String::from_utf8_lossy(body).into_owned())
                    .unwrap_or_default(),
            }),
            Err(error) => Err(self.foreign(&error)),
        }
    }

    /// A token as a header has it. What cannot be one is not shown.
    pub(super) fn bearer(&self, token: &str) -> Result<HeaderValue, RelayError> {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| self.foreign(&"the token for it has characters that no token has"))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Says there what is said here, to its end.
    async fn say(
        &self,
        sink: &mut SplitSink<Socket, Message>,
        incoming: &mut Incoming,
    ) -> Result<(), RelayError> {
        let mut pings = interval_at(Instant::now() + PING, PING);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let frame = tokio::select! {
                inbound = incoming.recv() => match inbound {
                    Some(inbound) => Message::text(inbound.message().line().as_ref()),
                    None => return Ok(()),
                },
                _ = pings.tick() => Message::Ping(bytes::Bytes::new()),
            };
            sink.send(frame).await.map_err(|error| self.lost(&error))?;
        }
    }

    /// Says here what is said there, until nothing more comes.
    async fn hear(&self, mut source: SplitStream<Socket>, peer: &Peer) -> RelayError {
        loop {
            let frame = match timeout(SILENCE, source.next()).await {
                Err(_) => return self.lost(&"nothing was heard for too long"),
                Ok(None) => return self.lost(&""),
                Ok(Some(Err(error))) => return self.lost(&error),
                Ok(Some(Ok(frame))) => frame,
            };
            match frame {
                Message::Text(text) => {
                    // If nobody listens here any more, nobody speaks here either.
                    drop(peer.send(as_line(&text)).await);
                }
                Message::Close(close) => {
                    let reason = close.map(|close| close.reason.to_string());
                    return self.lost(&reason.unwrap_or_default());
                }
                _ => {}
            }
        }
    }
}
