//! A client's end of a connection to a host.
//!
//! The client is the one who reads: whatever the host sends comes out of [`HostClient::next`], in order, and an
//! answer never overtakes the events before it. Nothing is kept here but the connection.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::wire::{self, InboundStream, Peer, RpcId, WireError};

use crate::home::local_socket::LocalSocket;
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
    /// Begins a conversation with whoever listens at the other end. `None` if it goes away before it has
    /// answered: then nothing has happened.
    pub(crate) async fn start(socket: LocalSocket) -> Result<Option<Self>, HostError> {
        let (peer, incoming) = wire::connect(socket.reader, socket.writer, limits());
        Self::initialized(peer, incoming).await
    }

    /// A client over a connection that exists already: that of a host in this process.
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
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities, "_meta": meta });
        match client.call::<serde_json::Value>("initialize", &params).await {
            Ok(_) => Ok(Some(client)),
            Err(HostError::Lost) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks the host for something. The answer comes in its turn.
    pub async fn ask(&self, method: &str, params: &impl Serialize) -> Result<RpcId, HostError> {
        let params = serde_json::to_string(params).expect("what we ask has only text, numbers and lists");
        self.peer.request(method, &params).await.map_err(|error| not_sent(method, &error))
    }

    /// Tells the host something.
    pub async fn tell(&self, method: &str, params: &impl Serialize) -> Result<(), HostError> {
        let params = serde_json::to_string(params).expect("what we say has only text, numbers and lists");
        self.peer.notify(method, &params).await.map_err(|error| not_sent(method, &error))
    }

    /// Answers a question.
    pub async fn answer(&self, id: &RpcId, result: &impl Serialize) -> Result<(), HostError> {
        let result = serde_json::to_string(result).expect("what we say has only text, numbers and lists");
        self.peer.respond(id, &result).await.map_err(|_| HostError::Lost)
    }

    /// Asks the host for something and waits for the answer, whatever else it says meanwhile.
    pub async fn call<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<T, HostError> {
        self.call_while(method, params, |_| {}).await
    }

    /// Asks the host for something and waits for the answer; what it says meanwhile goes to `meanwhile`.
    pub async fn call_while<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
        mut meanwhile: impl FnMut(HostMessage),
    ) -> Result<T, HostError> {
        let asked = self.ask(method, params).await?;
        loop {
            match self.next().await.ok_or(HostError::Lost)? {
                HostMessage::Answer { id, result } if id == asked => {
                    let bad = |_| HostError::BadAnswer { method: method.to_owned() };
                    return serde_json::from_str(&result?).map_err(bad);
                }
                HostMessage::Refused(refusal) => return Err(refusal.into()),
                other => meanwhile(other),
            }
        }
    }

    /// What the host says next; `None` when it is gone.
    pub async fn next(&mut self) -> Option<HostMessage> {
        self.incoming.recv().await.map(host_message::read)
    }

    /// What the host has said already and nobody has taken yet.
    pub fn try_next(&mut self) -> Option<HostMessage> {
        self.incoming.try_recv().map(host_message::read)
    }

    /// Ends the connection; what was said is still written.
    pub async fn close(self) {
        // A host that is gone has nothing to hear.
        drop(self.peer.close().await);
    }
}

/// Only what is too long is our own fault: whatever else keeps a line from being sent is that nobody reads it.
fn not_sent(method: &str, error: &WireError) -> HostError {
    match *error {
        WireError::TooLong { bytes, limit } => HostError::TooLong { method: method.to_owned(), bytes, limit },
        _ => HostError::Lost,
    }
}
