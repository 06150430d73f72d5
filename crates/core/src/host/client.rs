//! A client's end of a connection to a host.
//!
//! The client is the one who reads: whatever the host sends comes out of [`HostClient::next`], in order, and an
//! answer never overtakes the events before it. Nothing is kept here but the connection.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::model::{Seq, TurnId};
use crate::wire::splice::{Step, locate};
use crate::wire::{self, Inbound, Incoming, Message, Peer, RpcId, WireError};

use super::connection::Connection;
use super::fault::Refusal;
use super::local_socket::LocalSocket;
use super::meta::PROTOCOL;
use super::serve::{limits, serve_connection};
use super::watched::{self, WatchedEvent};
use super::{Host, HostError, turns};

/// A connection to a host that has answered `initialize`.
pub struct HostClient {
    peer: Peer,
    incoming: Incoming,
}

/// What a host says.
#[derive(Debug)]
pub enum FromHost {
    /// Something happened in a session that is watched.
    Event(WatchedEvent),
    /// No more happens to a record that was watched: it is deleted, or cannot be read.
    WatchEnded {
        /// The number that its next event would have had.
        from: Seq,
        /// Why it cannot be read, if that is it.
        error: Option<Refusal>,
    },
    /// A prompt of ours is on the disk.
    Accepted {
        /// Its turn.
        turn: TurnId,
        /// Our name for it.
        request: String,
    },
    /// A request was answered.
    Answer {
        /// Which.
        id: RpcId,
        /// The result as raw JSON, or why not.
        result: Result<Box<str>, Refusal>,
    },
    /// The agent asks, and we are the one to answer.
    Question {
        /// Its id.
        id: RpcId,
        /// The params of a `session/request_permission`.
        params: Box<str>,
    },
    /// The agent asks the user something that is no permission, and we are the one to answer.
    Elicitation {
        /// Its id.
        id: RpcId,
        /// The params of an `elicitation/create`.
        params: Box<str>,
    },
    /// A question of the agent has been taken back: it was answered elsewhere, or nobody wants the answer any more.
    Withdrawn {
        /// Its id.
        id: RpcId,
    },
    /// The host serves this client no more, or not at all.
    Refused(Refusal),
    /// Anything else.
    Other,
}

impl HostClient {
    /// Begins a conversation with whoever listens at the other end. `None` if it goes away before it has
    /// answered: then nothing has happened.
    pub(super) async fn start(socket: LocalSocket) -> Result<Option<Self>, HostError> {
        let (peer, incoming) = wire::connect(socket.reader, socket.writer, limits());
        Self::initialized(peer, incoming).await
    }

    /// A client of a host in this very process.
    pub async fn in_process(host: &Arc<Host>) -> Result<Self, HostError> {
        let ((near, near_incoming), (far, far_incoming)) = wire::memory(limits());
        let connection = Arc::new(Connection::new(Arc::clone(host), false));
        host.works.see_through(serve_connection(far, far_incoming, connection));
        Self::initialized(near, near_incoming).await?.ok_or(HostError::Lost)
    }

    async fn initialized(peer: Peer, incoming: Incoming) -> Result<Option<Self>, HostError> {
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
        mut meanwhile: impl FnMut(FromHost),
    ) -> Result<T, HostError> {
        let asked = self.ask(method, params).await?;
        loop {
            match self.next().await.ok_or(HostError::Lost)? {
                FromHost::Answer { id, result } if id == asked => {
                    let bad = |_| HostError::BadAnswer { method: method.to_owned() };
                    return serde_json::from_str(&result?).map_err(bad);
                }
                FromHost::Refused(refusal) => return Err(refusal.into()),
                other => meanwhile(other),
            }
        }
    }

    /// What the host says next; `None` when it is gone.
    pub async fn next(&mut self) -> Option<FromHost> {
        self.incoming.recv().await.map(read)
    }

    /// What the host has said already and nobody has taken yet.
    pub fn try_next(&mut self) -> Option<FromHost> {
        self.incoming.try_recv().map(read)
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

fn read(inbound: Inbound) -> FromHost {
    match inbound {
        Inbound::Notification(message) => notification(&message),
        Inbound::Response { id, message, .. } => {
            let result = match message.result() {
                Some(result) => Ok(result.into()),
                None => Err(Refusal::read(message.error().unwrap_or("null"))),
            };
            FromHost::Answer { id, result }
        }
        Inbound::Request { id, message } if message.method() == Some("session/request_permission") => {
            FromHost::Question { id, params: message.params().unwrap_or("null").into() }
        }
        Inbound::Request { id, message } if message.method() == Some("elicitation/create") => {
            FromHost::Elicitation { id, params: message.params().unwrap_or("null").into() }
        }
        Inbound::Stray(message) if message.id() == Some(&RpcId::null()) => {
            message.error().map_or(FromHost::Other, |error| FromHost::Refused(Refusal::read(error)))
        }
        Inbound::Request { .. } | Inbound::Stray(_) => FromHost::Other,
    }
}

fn notification(message: &Message) -> FromHost {
    let params = message.params().unwrap_or("null");
    let read = match message.method() {
        Some(watched::EVENT) => WatchedEvent::read(params).map(FromHost::Event),
        Some(watched::ENDED) => watched::read_ended(params),
        Some(turns::ACCEPTED) => turns::read_accepted(params),
        Some("$/cancel_request") => locate(params, &[Step::Key("requestId")])
            .and_then(|id| RpcId::from_raw(&params[id]))
            .map(|id| FromHost::Withdrawn { id }),
        _ => None,
    };
    read.unwrap_or(FromHost::Other)
}
