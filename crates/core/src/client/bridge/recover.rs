//! Reconnects a bridge to another host.
//!
//! The order matters: initialize the host as before, resume every session with the missed events, and only then re-send
//! the pending requests. If that host exits too, another is tried, a few times.

use tokio::time::{sleep, timeout};

use crate::wire::{Peer, RpcMessage};

use super::client_end::{ClientDisconnected, into_message, tell};
use super::connector::Connector;
use super::state::{BridgeRequest, LineRoute};
use super::{BridgeSession, HostEnd, PATIENCE};
use crate::protocol::{HostError, HostErrorResponse, rpc_error};

/// Why a bridge ended.
pub(super) enum BridgeExit {
    ClientGone,
    /// There is no host, and the client does not stay without one.
    NoHost(HostError),
}

impl From<ClientDisconnected> for BridgeExit {
    fn from(ClientDisconnected: ClientDisconnected) -> Self {
        Self::ClientGone
    }
}

/// Why an attempt to reconnect failed.
enum AttemptError {
    /// The host disconnected too.
    Lost,
    Failed(HostError),
    ClientGone,
}

impl From<HostError> for AttemptError {
    fn from(error: HostError) -> Self {
        Self::Failed(error)
    }
}

impl From<ClientDisconnected> for AttemptError {
    fn from(ClientDisconnected: ClientDisconnected) -> Self {
        Self::ClientGone
    }
}

impl<W: Connector> BridgeSession<'_, W> {
    /// Connects to another host. Returns `None` if there is none and the client stays without one; all its pending
    /// requests have then failed with the reason.
    pub(super) async fn restore(&self, to_client: &Peer) -> Result<Option<HostEnd>, BridgeExit> {
        let mut error = HostError::Lost;
        for wait in self.way.tries() {
            let withdrawals = self.memory.lock().host_is_gone();
            for line in withdrawals {
                tell(to_client, line).await?;
            }
            // A host that is reached at once needs no notification.
            let away = if wait.is_zero() { None } else { self.memory.lock().is_away() };
            if let Some(line) = away {
                tell(to_client, line).await?;
            }
            sleep(wait).await;
            match self.attempt(to_client).await {
                Ok(host) => {
                    let back = self.memory.lock().is_back();
                    if let Some(line) = back {
                        tell(to_client, line).await?;
                    }
                    return Ok(Some(host));
                }
                Err(AttemptError::Lost) => {}
                Err(AttemptError::ClientGone) => return Err(BridgeExit::ClientGone),
                Err(AttemptError::Failed(failed)) => {
                    error = failed;
                    break;
                }
            }
        }
        if !self.way.stays_without_host() {
            return Err(BridgeExit::NoHost(error));
        }
        let answers = self.memory.lock().give_up(&rpc_error::no_host(&error));
        for line in answers {
            tell(to_client, line).await?;
        }
        Ok(None)
    }

    async fn attempt(&self, to_client: &Peer) -> Result<HostEnd, AttemptError> {
        let mut host = self.way.connect().await?;
        let greeting = self.memory.lock().greeting();
        self.settle(&mut host, greeting.into_iter().collect(), to_client).await?;
        let resumes = self.memory.lock().resumes();
        self.settle(&mut host, resumes, to_client).await?;
        let mut lines = Vec::new();
        let again = self.memory.lock().asked_again();
        for pass in again {
            match pass {
                LineRoute::ToHost(line) => lines.push(line),
                LineRoute::ToClient(line) => tell(to_client, line).await?,
                LineRoute::Own(..) | LineRoute::Nothing => {}
            }
        }
        self.settle(&mut host, lines, to_client).await?;
        Ok(host)
    }

    /// Sends these lines and waits for the responses to the bridge's own requests. Forwards the host's other messages
    /// to the client.
    async fn settle(
        &self,
        host: &mut HostEnd,
        lines: Vec<String>,
        to_client: &Peer,
    ) -> Result<(), AttemptError> {
        let HostEnd { peer, incoming } = host;
        let mut saying = std::pin::pin!(async {
            for line in lines {
                // A line that was short enough before is short enough now.
                peer.send(line).await.map_err(|_| AttemptError::Lost)?;
            }
            Ok::<_, AttemptError>(())
        });
        let mut is_said = false;
        while !is_said || self.memory.lock().awaits() {
            tokio::select! {
                said = &mut saying, if !is_said => {
                    said?;
                    is_said = true;
                }
                heard = timeout(PATIENCE, incoming.recv()) => {
                    let inbound = heard.map_err(|_| self.way.silent())?.ok_or(AttemptError::Lost)?;
                    self.hear_host(&into_message(inbound), to_client).await?;
                }
            }
        }
        Ok(())
    }

    async fn hear_host(&self, message: &RpcMessage, to_client: &Peer) -> Result<(), AttemptError> {
        let pass = self.memory.lock().host_says(message);
        match pass {
            LineRoute::ToClient(line) => Ok(tell(to_client, line).await?),
            LineRoute::Own(own, error) => self.settled(&own, error.as_deref()),
            LineRoute::ToHost(_) | LineRoute::Nothing => Ok(()),
        }
    }

    /// A session that cannot be resumed is dropped; requests for it then fail at the host.
    fn settled(&self, own: &BridgeRequest, error: Option<&str>) -> Result<(), AttemptError> {
        match (own, error) {
            (_, None) => Ok(()),
            (BridgeRequest::Initialize, Some(error)) => {
                Err(HostError::Refused(HostErrorResponse::read(error)).into())
            }
            (BridgeRequest::Resume(session), Some(_)) => {
                self.memory.lock().forget_session(session);
                Ok(())
            }
        }
    }
}
