//! A bridge connects a client on any pair of byte streams to its home's host, and survives the host.
//!
//! Lines pass byte for byte in both directions, except for the few changes in [`edits`]. When the host exits, the
//! client's connection stays: the bridge connects to another host, initializes it, resumes the sessions, forwards what
//! the client missed, and re-sends its pending requests. Re-sent prompts keep their request id, so the next host
//! deduplicates them. A client that closes its sending side still receives the responses to its requests.
//!
//! A remote host is bridged in the same way ([`remote`]); there it is the connection that is lost.

mod client_end;
mod connector;
mod edits;
mod profile;
mod recover;
mod remote;
mod state;

pub use remote::{RemoteLine, bridge_remote};

use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;

use crate::wire::{self, GarbageReport, InboundStream, Peer, RpcMessage, WireError};

use super::Launcher;
use crate::home::HostPaths;
use crate::protocol::HostError;
use crate::protocol::limits::limits;
use crate::protocol::meta::REMOTE_CLIENT;
use crate::protocol::meta::{ClientMeta, RemoteClientMeta};
use crate::protocol::rpc_error;
use crate::sync::Lock;

use client_end::{ClientDisconnected, ClientEnd, into_message, send};
use connector::Connector;
use profile::BridgeProfile;
use recover::BridgeExit;
use state::{BridgeState, LineRoute};

/// How long the last lines may take to be written when the client or the host disconnects.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a client that closed its sending side still receives responses. An agent may have to start for them.
const LAST_RESPONSES: Duration = Duration::from_mins(1);

/// How many hosts of a home are tried in a row.
const TRIES: usize = 5;
/// How long a host may be silent while the bridge waits for it.
const SILENCE_TIMEOUT: Duration = Duration::from_mins(2);

/// Connects a client to its host.
pub struct Bridge {
    launcher: Launcher,
    paths: HostPaths,
    client: ClientIdentity,
}

/// How the bridge describes its client to the host; a JSON object.
enum ClientIdentity {
    /// In the client's own `initialize`.
    InInitialize(String),
    /// In a request before the client's first message.
    BeforeInitialize { client: String, is_page: bool },
}

/// The result of a finished bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bridged {
    /// Lines of the client that were not messages.
    pub garbage: GarbageReport,
}

/// A connection to a host.
struct HostEnd {
    peer: Peer,
    incoming: InboundStream,
}

/// Why a bridge stopped forwarding lines.
enum BridgeDisconnect {
    ClientGone,
    HostGone,
}

impl Bridge {
    /// A bridge to the host of a home. Describes the client to every host.
    pub fn new(launcher: Launcher, paths: HostPaths, client: &ClientMeta) -> Self {
        let client = serde_json::to_string(client).expect("a client has only text, numbers and lists");
        Self { launcher, paths, client: ClientIdentity::InInitialize(client) }
    }

    /// A bridge for a remote client. Every host learns this before it gets a message of the client. Keeps less state
    /// per client, because there may be many. The connection of the page ends with its host.
    pub fn for_remote_client(launcher: Launcher, paths: HostPaths, client: &RemoteClientMeta) -> Self {
        let is_page = client.page.is_some();
        let client = serde_json::to_string(client).expect("a client has only text, numbers and lists");
        Self { launcher, paths, client: ClientIdentity::BeforeInitialize { client, is_page } }
    }

    /// Forwards lines until the client disconnects, or until `stop`. A running turn continues. A client that only
    /// closed its sending side still receives the responses that need no turn, unless `receiver_closed` completes: then its
    /// receiving side is closed too. Fails if there was no host to begin with; the client has received nothing then.
    pub async fn run<R, W>(
        &self,
        source: R,
        target: W,
        stop: impl Future<Output = ()>,
        receiver_closed: impl Future<Output = ()>,
    ) -> Result<Bridged, HostError>
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let mut stop = pin!(stop);
        let first = tokio::select! {
            host = self.connect() => host?,
            () = &mut stop => return Ok(Bridged { garbage: GarbageReport::default() }),
        };
        let mut client = ClientEnd::new(wire::connect(source, target, limits()));
        let session = BridgeSession { connector: self, state: Lock::new(self.state()), sent: Notify::new() };
        drop(session.run_through_hosts(&mut client, first, stop, pin!(receiver_closed)).await);
        drop(tokio::time::timeout(CLOSE_TIMEOUT, client.peer.close()).await);
        Ok(Bridged { garbage: client.peer.garbage() })
    }

    fn state(&self) -> BridgeState {
        BridgeState::new(match &self.client {
            ClientIdentity::InInitialize(client) => BridgeProfile::local(client.clone()),
            ClientIdentity::BeforeInitialize { is_page, .. } => BridgeProfile::remote_client(*is_page),
        })
    }
}

/// A bridge with its connected client.
struct BridgeSession<'a, W> {
    connector: &'a W,
    /// Both directions update it, and neither waits for the other.
    state: Lock<BridgeState>,
    /// Notified when a line was sent to the client.
    sent: Notify,
}

impl<W: Connector> BridgeSession<'_, W> {
    /// Forwards lines, through one host after another. Fails when there is no host any more and the client does not
    /// stay without one.
    async fn run_through_hosts<S: Future<Output = ()>, U: Future<Output = ()>>(
        &self,
        client: &mut ClientEnd,
        first: HostEnd,
        mut stop: Pin<&mut S>,
        mut receiver_closed: Pin<&mut U>,
    ) -> Result<(), HostError> {
        let mut host = Some(first);
        loop {
            let stopped = if let Some(mut host) = host.take() {
                let stopped = tokio::select! {
                    stopped = self.forward(client, &mut host, receiver_closed.as_mut()) => stopped,
                    () = &mut stop => BridgeDisconnect::ClientGone,
                };
                host.disconnect().await;
                stopped
            } else {
                // Without a host, the client's next request triggers a new attempt.
                tokio::select! {
                    received = self.wait_for_request(client) => received.map_or(BridgeDisconnect::ClientGone, |()| BridgeDisconnect::HostGone),
                    () = &mut stop => BridgeDisconnect::ClientGone,
                }
            };
            if matches!(stopped, BridgeDisconnect::ClientGone) || !self.state.lock().can_continue() {
                return Ok(());
            }
            let peer = client.peer.clone();
            host = tokio::select! {
                restored = self.restore(&peer) => match restored {
                    Ok(host) => host,
                    Err(BridgeExit::ClientGone) => return Ok(()),
                    Err(BridgeExit::NoHost(error)) => return Err(error),
                },
                ClientDisconnected = client.buffer_messages() => return Ok(()),
                () = &mut stop => return Ok(()),
            };
        }
    }

    /// Forwards lines between the two until one of them disconnects.
    async fn forward<U: Future<Output = ()>>(
        &self,
        client: &mut ClientEnd,
        host: &mut HostEnd,
        receiver_closed: Pin<&mut U>,
    ) -> BridgeDisconnect {
        let to_client = client.peer.clone();
        let HostEnd { peer: to_host, incoming } = host;
        let up = async {
            while let Ok(message) = client.next().await {
                if self.forward_to_host(&message, to_host, &to_client).await.is_err() {
                    return BridgeDisconnect::ClientGone;
                }
            }
            tokio::select! {
                () = self.all_answered() => {}
                () = receiver_closed => {}
                () = tokio::time::sleep(LAST_RESPONSES) => {}
            }
            BridgeDisconnect::ClientGone
        };
        let down = async {
            while let Some(inbound) = incoming.recv().await {
                let route = self.state.lock().on_host_message(&into_message(inbound));
                if let LineRoute::ToClient(line) = route
                    && send(&to_client, line).await.is_err()
                {
                    return BridgeDisconnect::ClientGone;
                }
                self.sent.notify_one();
            }
            BridgeDisconnect::HostGone
        };
        tokio::select! {
            stopped = up => stopped,
            stopped = down => stopped,
        }
    }

    /// Waits until the client has all responses that need no turn.
    async fn all_answered(&self) {
        while self.state.lock().has_unanswered() {
            self.sent.notified().await;
        }
    }

    /// Forwards a line of the client. The receiving loop notices when the host has disconnected.
    async fn forward_to_host(
        &self,
        message: &RpcMessage,
        to_host: &Peer,
        to_client: &Peer,
    ) -> Result<(), ClientDisconnected> {
        let LineRoute::ToHost(line) = self.state.lock().on_client_message(message) else { return Ok(()) };
        let Err(WireError::TooLong { bytes, limit }) = to_host.send(line).await else { return Ok(()) };
        let Some(id) = message.id() else { return Ok(()) };
        let error = HostError::TooLong { method: "a request".to_owned(), bytes, limit };
        let failure = self.state.lock().fail(id, &rpc_error::no_host(&error));
        send(to_client, failure).await
    }

    /// Waits for the client's next request.
    async fn wait_for_request(&self, client: &mut ClientEnd) -> Result<(), ClientDisconnected> {
        loop {
            let message = client.next().await?;
            // Notifications without a host are lost; requests are kept.
            drop(self.state.lock().on_client_message(&message));
            if matches!(message.body(), wire::Body::Request { .. }) {
                return Ok(());
            }
        }
    }
}

impl HostEnd {
    /// Writes what was sent, if the host still reads it. Disconnecting does not close the sessions.
    async fn disconnect(self) {
        drop(tokio::time::timeout(CLOSE_TIMEOUT, self.peer.close()).await);
    }
}
