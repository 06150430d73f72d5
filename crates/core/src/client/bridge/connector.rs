//! How a bridge connects to a host: to the host of a home on this machine, or to a remote one.

use std::iter;
use std::time::Duration;

use crate::wire;

use super::{Bridge, ClientIdentity, HostEnd, SILENCE_TIMEOUT, TRIES};
use crate::protocol::limits::limits;
use crate::protocol::meta::{PROTOCOL, REMOTE_CLIENT_PROTOCOL};
use crate::protocol::{HostError, HostErrorResponse};

/// Connects to a host.
pub(super) trait Connector {
    /// A new connection to a host, not initialized yet.
    async fn connect(&self) -> Result<HostEnd, HostError>;

    /// The delays before each attempt to reconnect.
    fn tries(&self) -> impl Iterator<Item = Duration>;

    /// Whether the client stays connected without a host. It then gets an error, and its next request triggers a new
    /// attempt.
    fn stays_without_host(&self) -> bool;

    /// The error for a host that does not answer.
    fn silent(&self) -> HostError;
}

impl Connector for Bridge {
    async fn connect(&self) -> Result<HostEnd, HostError> {
        for _ in 0..TRIES {
            let supported = match &self.client {
                ClientIdentity::InInitialize(_) => PROTOCOL,
                ClientIdentity::BeforeInitialize { .. } => REMOTE_CLIENT_PROTOCOL,
            };
            let socket = self.launcher.reach_socket(&self.paths, supported).await?;
            let (peer, incoming) = wire::connect(socket.reader, socket.writer, limits());
            let mut host = HostEnd { peer, incoming };
            let ClientIdentity::BeforeInitialize { client, .. } = &self.client else { return Ok(host) };
            let introduced = tokio::time::timeout(SILENCE_TIMEOUT, host.introduce(client)).await;
            match introduced.map_err(|_| self.silent())? {
                Ok(()) => return Ok(host),
                // A host that is shutting down has not accepted the client.
                Err(HostError::Lost) => {}
                Err(error) => return Err(error),
            }
        }
        Err(HostError::Lost)
    }

    fn tries(&self) -> impl Iterator<Item = Duration> {
        iter::repeat_n(Duration::ZERO, TRIES)
    }

    fn stays_without_host(&self) -> bool {
        true
    }

    fn silent(&self) -> HostError {
        HostError::Silent { home: self.paths.home().to_owned() }
    }
}

impl HostEnd {
    /// Announces a remote client. A host that does not support this rejects it.
    async fn introduce(&mut self, client: &str) -> Result<(), HostError> {
        let request = self.peer.request(super::REMOTE_CLIENT, client).await.map_err(|_| HostError::Lost)?;
        loop {
            match self.incoming.recv().await.ok_or(HostError::Lost)? {
                wire::InboundMessage::Response { id, message, .. } if id == request => {
                    let refused =
                        message.error().map(|error| HostError::Refused(HostErrorResponse::read(error)));
                    return refused.map_or(Ok(()), Err);
                }
                _ => {}
            }
        }
    }
}
