//! How a bridge gets to a host: the host of a home on this machine, or one on another.

use std::iter;
use std::time::Duration;

use crate::wire;

use super::{Bridge, ClientIdentity, HostEnd, PATIENCE, TRIES};
use crate::protocol::limits::limits;
use crate::protocol::meta::{FROM_ELSEWHERE, PROTOCOL};
use crate::protocol::{HostError, HostErrorResponse};

/// A way to a host, and what holds on it.
pub(super) trait Connector {
    /// A connection to a host that nobody has greeted yet.
    async fn connect(&self) -> Result<HostEnd, HostError>;

    /// How long is waited before each try to go on with another connection.
    fn tries(&self) -> impl Iterator<Item = Duration>;

    /// Whether a client stays for whom no host can be had: it is told so, and one is looked for when it wants something.
    fn stays_without_host(&self) -> bool;

    /// What a host is that says nothing.
    fn silent(&self) -> HostError;
}

impl Connector for Bridge {
    async fn connect(&self) -> Result<HostEnd, HostError> {
        for _ in 0..TRIES {
            let spoken = match &self.client {
                ClientIdentity::InGreeting(_) => PROTOCOL,
                ClientIdentity::AtTheDoor(_) => FROM_ELSEWHERE,
            };
            let socket = self.launcher.reach_socket(&self.place, spoken).await?;
            let (peer, incoming) = wire::connect(socket.reader, socket.writer, limits());
            let mut host = HostEnd { peer, incoming };
            let ClientIdentity::AtTheDoor(client) = &self.client else { return Ok(host) };
            let told = tokio::time::timeout(PATIENCE, host.introduce(client)).await;
            match told.map_err(|_| self.silent())? {
                Ok(()) => return Ok(host),
                // One that goes has let nobody in.
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
        HostError::Silent { home: self.place.home().to_owned() }
    }
}

impl HostEnd {
    /// Says who is at the door. A host that does not understand it lets nobody in.
    async fn introduce(&mut self, client: &str) -> Result<(), HostError> {
        let asked = self.peer.request(super::ELSEWHERE, client).await.map_err(|_| HostError::Lost)?;
        loop {
            match self.incoming.recv().await.ok_or(HostError::Lost)? {
                wire::InboundMessage::Response { id, message, .. } if id == asked => {
                    let refused =
                        message.error().map(|error| HostError::Refused(HostErrorResponse::read(error)));
                    return refused.map_or(Ok(()), Err);
                }
                _ => {}
            }
        }
    }
}
