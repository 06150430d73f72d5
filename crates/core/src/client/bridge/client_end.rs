//! The bridge's connection to its client. Buffers the client's messages while there is no host. Answers unreadable
//! lines that look like requests, such as an array.

use std::collections::VecDeque;

use crate::acp::client_error::for_client;
use crate::wire::{
    InboundMessage, InboundStream, Peer, RpcError, RpcMessage, UnreadableLine, WireError, encode,
};

/// How many messages are buffered while the bridge looks for a host. Then reading stops.
const WAITING_MESSAGES: usize = 1024;
const WAITING_BYTES: usize = 4 << 20;

/// The client has disconnected.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientDisconnected;

/// The connection to the client.
pub(super) struct ClientEnd {
    pub(super) peer: Peer,
    incoming: InboundStream,
    waiting: VecDeque<RpcMessage>,
    waiting_bytes: usize,
}

impl ClientEnd {
    pub(super) fn new((peer, incoming): (Peer, InboundStream)) -> Self {
        Self { peer, incoming, waiting: VecDeque::new(), waiting_bytes: 0 }
    }

    /// The next message. Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Result<RpcMessage, ClientDisconnected> {
        if let Some(message) = self.waiting.pop_front() {
            self.waiting_bytes -= message.line().len();
            return Ok(message);
        }
        self.receive().await
    }

    async fn receive(&mut self) -> Result<RpcMessage, ClientDisconnected> {
        loop {
            match self.incoming.recv_each().await.ok_or(ClientDisconnected)? {
                Ok(inbound) => return Ok(into_message(inbound)),
                Err(UnreadableLine { problem, id }) => {
                    let error = RpcError::invalid_request(format!("invalid request: {problem}"));
                    send(&self.peer, encode::error_response(&id, &for_client(error, false))).await?;
                }
            }
        }
    }

    /// Buffers messages until the client disconnects.
    pub(super) async fn buffer_messages(&mut self) -> ClientDisconnected {
        loop {
            if self.waiting.len() >= WAITING_MESSAGES || self.waiting_bytes >= WAITING_BYTES {
                return std::future::pending().await;
            }
            let Ok(message) = self.receive().await else { return ClientDisconnected };
            self.waiting_bytes += message.line().len();
            self.waiting.push_back(message);
        }
    }
}

/// Sends a line to the client.
pub(super) async fn send(peer: &Peer, line: String) -> Result<(), ClientDisconnected> {
    match peer.send(line).await {
        // Longer than the client accepts. No request is that long, so no response is missing.
        Ok(()) | Err(WireError::TooLong { .. }) => Ok(()),
        Err(_) => Err(ClientDisconnected),
    }
}

/// The bridge tracks ids itself, so it does not matter whether a response was expected.
pub(super) fn into_message(inbound: InboundMessage) -> RpcMessage {
    match inbound {
        InboundMessage::Request { message, .. }
        | InboundMessage::Notification(message)
        | InboundMessage::Response { message, .. }
        | InboundMessage::Stray(message) => message,
    }
}
