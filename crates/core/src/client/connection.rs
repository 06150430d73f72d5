//! A client's connection to a host.
//!
//! The client reads: every message of the host comes out of [`HostClient::next`], in order, and a response never
//! overtakes the events before it. No state is kept except the connection.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::wire::{self, InboundStream, Peer, RpcId, WireError};

use crate::home::local_socket::LocalSocket;
use crate::model::ClientName;
use crate::protocol::HostError;
use crate::protocol::host_message;
use crate::protocol::host_message::HostMessage;
use crate::protocol::limits::limits;
use crate::protocol::meta::PROTOCOL;

/// A connection to a host that has answered `initialize`.
pub struct HostClient {
    peer: Peer,
    incoming: InboundStream,
}

impl HostClient {
    /// Initializes a connection. `None` if the host disconnects before it has answered; nothing has happened then.
    pub(crate) async fn start(socket: LocalSocket) -> Result<Option<Self>, HostError> {
        let (peer, incoming) = wire::connect(socket.reader, socket.writer, limits());
        Self::initialized(peer, incoming).await
    }

    /// A client over an existing connection, such as one to a host in this process.
    pub async fn over((peer, incoming): (Peer, InboundStream)) -> Result<Self, HostError> {
        Self::initialized(peer, incoming).await?.ok_or(HostError::Lost)
    }

    async fn initialized(peer: Peer, incoming: InboundStream) -> Result<Option<Self>, HostError> {
        let mut client = Self { peer, incoming };
        let meta = json!({ "acpx": { "protocol": PROTOCOL } });
        let capabilities = json!({
            "session": { "configOptions": { "boolean": {} } },
            "elicitation": { "form": {}, "url": {} },
            "_meta": { "acpx": { "errorData": true } },
        });
        let info =
            ClientName { name: ClientName::SHELL.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let params = json!({
            "protocolVersion": 1,
            "clientInfo": info,
            "clientCapabilities": capabilities,
            "_meta": meta,
        });
        match client.call::<serde_json::Value>("initialize", &params).await {
            Ok(_) => Ok(Some(client)),
            Err(HostError::Lost) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a request. Its response arrives in order with the other messages.
    pub async fn request(&self, method: &str, params: &impl Serialize) -> Result<RpcId, HostError> {
        let params = serde_json::to_string(params).expect("what we ask has only text, numbers and lists");
        self.peer.request(method, &params).await.map_err(|error| not_sent(method, &error))
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: &impl Serialize) -> Result<(), HostError> {
        let params = serde_json::to_string(params).expect("what we say has only text, numbers and lists");
        self.peer.notify(method, &params).await.map_err(|error| not_sent(method, &error))
    }

    /// Responds to a permission request or elicitation.
    pub async fn answer(&self, id: &RpcId, result: &impl Serialize) -> Result<(), HostError> {
        let result = serde_json::to_string(result).expect("what we say has only text, numbers and lists");
        self.peer.respond(id, &result).await.map_err(|_| HostError::Lost)
    }

    /// Sends a request and waits for its response, ignoring other messages.
    pub async fn call<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<T, HostError> {
        self.call_while(method, params, |_| {}).await
    }

    /// Sends a request and waits for its response, passing other messages to `on_message`.
    pub async fn call_while<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
        mut on_message: impl FnMut(HostMessage),
    ) -> Result<T, HostError> {
        let request = self.request(method, params).await?;
        loop {
            match self.next().await.ok_or(HostError::Lost)? {
                HostMessage::Answer { id, result } if id == request => {
                    let bad = |_| HostError::BadAnswer { method: method.to_owned() };
                    return serde_json::from_str(&result?).map_err(bad);
                }
                HostMessage::Refused(refusal) => return Err(refusal.into()),
                other => on_message(other),
            }
        }
    }

    /// The next message of the host; `None` when it has disconnected.
    pub async fn next(&mut self) -> Option<HostMessage> {
        self.incoming.recv().await.map(host_message::read)
    }

    /// The next message that has already arrived, if any.
    pub fn try_next(&mut self) -> Option<HostMessage> {
        self.incoming.try_recv().map(host_message::read)
    }

    /// Closes the connection after writing what was sent.
    pub async fn close(self) {
        // Fails only if the host has disconnected.
        drop(self.peer.close().await);
    }
}

/// Only a line that is too long is our own fault; every other send error means that the host has disconnected.
fn not_sent(method: &str, error: &WireError) -> HostError {
    match *error {
        WireError::TooLong { bytes, limit } => HostError::TooLong { method: method.to_owned(), bytes, limit },
        _ => HostError::Lost,
    }
}
