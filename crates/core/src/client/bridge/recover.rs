//! Reconnects a bridge to another host.
//!
//! The order matters: initialize the host as before, resume every session with the missed events, and only then re-send
//! the pending requests. If that host exits too, another is tried, a few times.

use tokio::time::{sleep, timeout};

use crate::wire::{Peer, RpcMessage};

use super::client_end::{ClientDisconnected, into_message, send};
use super::connector::Connector;
use super::state::{BridgeRequest, LineRoute};
use super::{BridgeSession, HostEnd, SILENCE_TIMEOUT};
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
        tracing::warn!("the host is gone; connecting to another");
        let mut error = HostError::Lost;
        for wait in self.connector.tries() {
            let withdrawals = self.state.lock().on_host_exit();
            for line in withdrawals {
                send(to_client, line).await?;
            }
            // A host that is reached at once needs no notification.
            let unreachable = if wait.is_zero() { None } else { self.state.lock().on_unreachable() };
            if let Some(line) = unreachable {
                send(to_client, line).await?;
            }
            sleep(wait).await;
            match self.attempt(to_client).await {
                Ok(host) => {
                    tracing::info!("connected to another host");
                    let reachable = self.state.lock().on_reachable();
                    if let Some(line) = reachable {
                        send(to_client, line).await?;
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
        tracing::warn!(code = error.code().as_str(), "no host");
        if !self.connector.stays_without_host() {
            return Err(BridgeExit::NoHost(error));
        }
        let failures = self.state.lock().fail_all(&rpc_error::no_host(&error));
        for line in failures {
            send(to_client, line).await?;
        }
        Ok(None)
    }

    async fn attempt(&self, to_client: &Peer) -> Result<HostEnd, AttemptError> {
        let mut host = self.connector.connect().await?;
        let greeting = self.state.lock().greeting();
        self.send_and_wait(&mut host, greeting.into_iter().collect(), to_client).await?;
        let resumes = self.state.lock().resumes();
        self.send_and_wait(&mut host, resumes, to_client).await?;
        let mut lines = Vec::new();
        let resent = self.state.lock().resent_requests();
        for route in resent {
            match route {
                LineRoute::ToHost(line) => lines.push(line),
                LineRoute::ToClient(line) => send(to_client, line).await?,
                LineRoute::Own(..) | LineRoute::Nothing => {}
            }
        }
        self.send_and_wait(&mut host, lines, to_client).await?;
        Ok(host)
    }

    /// Sends these lines and waits for the responses to the bridge's own requests. Forwards the host's other messages
    /// to the client.
    async fn send_and_wait(
        &self,
        host: &mut HostEnd,
        lines: Vec<String>,
        to_client: &Peer,
    ) -> Result<(), AttemptError> {
        let HostEnd { peer, incoming } = host;
        let mut sending = std::pin::pin!(async {
            for line in lines {
                // A line that was short enough before is short enough now.
                peer.send(line).await.map_err(|_| AttemptError::Lost)?;
            }
            Ok::<_, AttemptError>(())
        });
        let mut is_sent = false;
        while !is_sent || self.state.lock().has_own_pending() {
            tokio::select! {
                sent = &mut sending, if !is_sent => {
                    sent?;
                    is_sent = true;
                }
                received = timeout(SILENCE_TIMEOUT, incoming.recv()) => {
                    let inbound = received.map_err(|_| self.connector.silent())?.ok_or(AttemptError::Lost)?;
                    self.on_setup_message(&into_message(inbound), to_client).await?;
                }
            }
        }
        Ok(())
    }

    /// Handles a message of a host that is being set up. A session that cannot be resumed is dropped; requests for it
    /// then fail at the host.
    async fn on_setup_message(&self, message: &RpcMessage, to_client: &Peer) -> Result<(), AttemptError> {
        let route = self.state.lock().on_host_message(message);
        match route {
            LineRoute::ToClient(line) => send(to_client, line).await?,
            LineRoute::Own(BridgeRequest::Initialize, Some(error)) => {
                return Err(HostError::Refused(HostErrorResponse::read(&error)).into());
            }
            LineRoute::Own(BridgeRequest::Resume(session), Some(_)) => {
                self.state.lock().remove_session(&session);
            }
            LineRoute::Own(_, None) | LineRoute::ToHost(_) | LineRoute::Nothing => {}
        }
        Ok(())
    }
}
