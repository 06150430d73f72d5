//! A bridge's end towards its client: what the client says, and what it has said while there was no host to hear it.
//! A line that is no message and wants an answer all the same, such as an array, is answered here.

use std::collections::VecDeque;

use crate::acp::told_error::for_client;
use crate::wire::{Inbound, Incoming, Message, Peer, RpcError, Unread, WireError, encode};

/// How much a client may say while a host is being looked for. Then it is read no further.
const WAITING_MESSAGES: usize = 1024;
const WAITING_BYTES: usize = 4 << 20;

/// The client is gone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gone;

/// The connection to the client.
pub(super) struct ClientEnd {
    pub(super) peer: Peer,
    incoming: Incoming,
    waiting: VecDeque<Message>,
    waiting_bytes: usize,
}

impl ClientEnd {
    pub(super) fn new((peer, incoming): (Peer, Incoming)) -> Self {
        Self { peer, incoming, waiting: VecDeque::new(), waiting_bytes: 0 }
    }

    /// What it says next. Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Result<Message, Gone> {
        if let Some(message) = self.waiting.pop_front() {
            self.waiting_bytes -= message.line().len();
            return Ok(message);
        }
        self.hear().await
    }

    async fn hear(&mut self) -> Result<Message, Gone> {
        loop {
            match self.incoming.recv_each().await.ok_or(Gone)? {
                Ok(inbound) => return Ok(into_message(inbound)),
                Err(Unread { problem, id }) => {
                    let error = RpcError::invalid_request(format!("invalid request: {problem}"));
                    tell(&self.peer, encode::error_response(&id, &for_client(error, false))).await?;
                }
            }
        }
    }

    /// Takes what it says, for later, until it is gone.
    pub(super) async fn listen(&mut self) -> Gone {
        loop {
            if self.waiting.len() >= WAITING_MESSAGES || self.waiting_bytes >= WAITING_BYTES {
                return std::future::pending().await;
            }
            let Ok(message) = self.hear().await else { return Gone };
            self.waiting_bytes += message.line().len();
            self.waiting.push_back(message);
        }
    }
}

/// Says a line to the client.
pub(super) async fn tell(peer: &Peer, line: String) -> Result<(), Gone> {
    match peer.send(line).await {
        // It is longer than any line that a client is told; nothing that asks for an answer is.
        Ok(()) | Err(WireError::TooLong { .. }) => Ok(()),
        Err(_) => Err(Gone),
    }
}

/// A bridge keeps track of ids itself, so it is all one whether an answer was expected.
pub(super) fn into_message(inbound: Inbound) -> Message {
    match inbound {
        Inbound::Request { message, .. }
        | Inbound::Notification(message)
        | Inbound::Response { message, .. }
        | Inbound::Stray(message) => message,
    }
}
