//! A bridge joins a client on any pair of byte streams to its home's host, and survives the host.
//!
//! Lines pass byte for byte in both directions, but for the few changes in [`edits`]. When the host goes away the
//! client's connection stays: another host is reached, greeted and given the sessions again, the client is told what
//! it missed, and what it had asked is asked again. What a host was asked twice it was asked under one name, so that
//! nothing is done twice. A client that says no more is still told the answers to what it has asked.
//!
//! A host on another machine is bridged to likewise ([`far`]): there it is the line that goes away.

mod client_end;
mod connector;
mod edits;
mod profile;
mod recover;
mod remote;
mod state;

pub use remote::{FarLine, bridge_far};

use std::pin::{Pin, pin};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;

use crate::wire::{self, GarbageReport, InboundStream, Peer, RpcId, RpcMessage, WireError};

use super::Launcher;
use crate::home::HostPlace;
use crate::protocol::HostError;
use crate::protocol::limits::limits;
use crate::protocol::meta::ELSEWHERE;
use crate::protocol::meta::{ClientMeta, RemoteClientMeta};
use crate::protocol::rpc_error;

use client_end::{ClientDisconnected, ClientEnd, into_message, tell};
use connector::Connector;
use profile::BridgeProfile;
use recover::BridgeExit;
use state::{BridgeState, LineRoute};

/// How long the last lines may take to be written when the client or the host goes.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long a client that says no more is told the answers to what it has asked. An agent may have to start for them.
const LAST_ANSWERS: Duration = Duration::from_mins(1);

/// How many hosts of a home are tried in a row.
const TRIES: usize = 5;
/// How long a host may say nothing while it is waited for.
const PATIENCE: Duration = Duration::from_mins(2);

/// A client's way to its host.
pub struct Bridge {
    launcher: Launcher,
    place: HostPlace,
    client: ClientIdentity,
}

/// What a bridge says of its client, and where; an object of JSON.
enum ClientIdentity {
    /// In the client's own `initialize`.
    InGreeting(String),
    /// Before the client says anything.
    AtTheDoor(String),
}

/// What there is to say of a bridge when it is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bridged {
    /// What the client sent that was no message.
    pub garbage: GarbageReport,
}

/// A connection to a host.
struct HostEnd {
    peer: Peer,
    incoming: InboundStream,
}

/// Why a bridge stopped passing lines.
enum BridgeDisconnect {
    ClientGone,
    HostGone,
}

impl Bridge {
    /// A bridge to the host of a home. Of the client it says this to every host.
    pub fn new(launcher: Launcher, place: HostPlace, client: &ClientMeta) -> Self {
        let client = serde_json::to_string(client).expect("a client has only text, numbers and lists");
        Self { launcher, place, client: ClientIdentity::InGreeting(client) }
    }

    /// A bridge for a client from elsewhere. Every host is told so before it hears anything of the client, which is
    /// remembered less of: there may be many.
    pub fn from_elsewhere(launcher: Launcher, place: HostPlace, client: &RemoteClientMeta) -> Self {
        let client = serde_json::to_string(client).expect("a client has only text, numbers and lists");
        Self { launcher, place, client: ClientIdentity::AtTheDoor(client) }
    }

    /// Passes lines until the client is gone, or until `stop`. A turn that runs goes on. A client that has only ended
    /// what it says is told the answers that need no turn, unless it is `unheard`: nobody reads the target any more.
    /// The error is that there was no host to begin with: then the client was told nothing.
    pub async fn run<R, W>(
        &self,
        source: R,
        target: W,
        stop: impl Future<Output = ()>,
        unheard: impl Future<Output = ()>,
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
        let joined = BridgeSession { way: self, memory: Mutex::new(self.memory()), told: Notify::new() };
        drop(joined.see_through(&mut client, first, stop, pin!(unheard)).await);
        drop(tokio::time::timeout(FAREWELL, client.peer.close()).await);
        Ok(Bridged { garbage: client.peer.garbage() })
    }

    fn memory(&self) -> BridgeState {
        BridgeState::new(match &self.client {
            ClientIdentity::InGreeting(client) => BridgeProfile::near(client.clone()),
            ClientIdentity::AtTheDoor(_) => BridgeProfile::from_elsewhere(),
        })
    }
}

/// A bridge with a client on it.
struct BridgeSession<'a, W> {
    way: &'a W,
    /// Both directions write to it, and neither waits for the other.
    memory: Mutex<BridgeState>,
    /// The client was told something.
    told: Notify,
}

impl<W: Connector> BridgeSession<'_, W> {
    /// Passes lines, through one host after another. The error is why there is none any more, for a client that does not
    /// stay without.
    async fn see_through<S: Future<Output = ()>, U: Future<Output = ()>>(
        &self,
        client: &mut ClientEnd,
        first: HostEnd,
        mut stop: Pin<&mut S>,
        mut unheard: Pin<&mut U>,
    ) -> Result<(), HostError> {
        let mut host = Some(first);
        loop {
            let stopped = if let Some(mut host) = host.take() {
                let stopped = tokio::select! {
                    stopped = self.pass(client, &mut host, unheard.as_mut()) => stopped,
                    () = &mut stop => BridgeDisconnect::ClientGone,
                };
                host.leave().await;
                stopped
            } else {
                // Without a host, one is looked for when the client wants something.
                tokio::select! {
                    heard = self.hear(client) => heard.map_or(BridgeDisconnect::ClientGone, |()| BridgeDisconnect::HostGone),
                    () = &mut stop => BridgeDisconnect::ClientGone,
                }
            };
            if matches!(stopped, BridgeDisconnect::ClientGone) || !self.memory().can_go_on() {
                return Ok(());
            }
            let peer = client.peer.clone();
            host = tokio::select! {
                restored = self.restore(&peer) => match restored {
                    Ok(host) => host,
                    Err(BridgeExit::ClientGone) => return Ok(()),
                    Err(BridgeExit::NoHost(error)) => return Err(error),
                },
                ClientDisconnected = client.listen() => return Ok(()),
                () = &mut stop => return Ok(()),
            };
        }
    }

    /// Passes lines between the two until one of them is gone.
    async fn pass<U: Future<Output = ()>>(
        &self,
        client: &mut ClientEnd,
        host: &mut HostEnd,
        unheard: Pin<&mut U>,
    ) -> BridgeDisconnect {
        let to_client = client.peer.clone();
        let HostEnd { peer: to_host, incoming } = host;
        let up = async {
            while let Ok(message) = client.next().await {
                if self.pass_up(&message, to_host, &to_client).await.is_err() {
                    return BridgeDisconnect::ClientGone;
                }
            }
            tokio::select! {
                () = self.owed() => {}
                () = unheard => {}
                () = tokio::time::sleep(LAST_ANSWERS) => {}
            }
            BridgeDisconnect::ClientGone
        };
        let down = async {
            while let Some(inbound) = incoming.recv().await {
                if self.pass_down(&into_message(inbound), &to_client).await.is_err() {
                    return BridgeDisconnect::ClientGone;
                }
                self.told.notify_one();
            }
            BridgeDisconnect::HostGone
        };
        tokio::select! {
            stopped = up => stopped,
            stopped = down => stopped,
        }
    }

    /// Waits until the client has been told all that it can be told without a turn.
    async fn owed(&self) {
        while self.memory().owes() {
            self.told.notified().await;
        }
    }

    async fn pass_up(
        &self,
        message: &RpcMessage,
        to_host: &Peer,
        to_client: &Peer,
    ) -> Result<(), ClientDisconnected> {
        let LineRoute::ToHost(line) = self.memory().client_says(message) else { return Ok(()) };
        self.say(message.id(), line, to_host, to_client).await
    }

    /// Says a line to the host. That the host is gone is seen where it is listened to.
    async fn say(
        &self,
        id: Option<&RpcId>,
        line: String,
        to_host: &Peer,
        to_client: &Peer,
    ) -> Result<(), ClientDisconnected> {
        let Err(WireError::TooLong { bytes, limit }) = to_host.send(line).await else { return Ok(()) };
        let Some(id) = id else { return Ok(()) };
        let error = HostError::TooLong { method: "a request".to_owned(), bytes, limit };
        let refusal = self.memory().refuse(id, &rpc_error::no_host(&error));
        tell(to_client, refusal).await
    }

    async fn pass_down(&self, message: &RpcMessage, to_client: &Peer) -> Result<(), ClientDisconnected> {
        let pass = self.memory().host_says(message);
        match pass {
            LineRoute::ToClient(line) => tell(to_client, line).await,
            _ => Ok(()),
        }
    }

    /// Waits until the client wants something of a host.
    async fn hear(&self, client: &mut ClientEnd) -> Result<(), ClientDisconnected> {
        loop {
            let message = client.next().await?;
            // What is told to nobody is lost; what is asked is remembered.
            drop(self.memory().client_says(&message));
            if matches!(message.body(), wire::Body::Request { .. }) {
                return Ok(());
            }
        }
    }

    fn memory(&self) -> MutexGuard<'_, BridgeState> {
        // Nothing panics while it holds the lock, and every step leaves the memory whole.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostEnd {
    /// What was said is still written, for a host that still takes it. To end a connection is not to close its
    /// sessions.
    async fn leave(self) {
        drop(tokio::time::timeout(FAREWELL, self.peer.close()).await);
    }
}
