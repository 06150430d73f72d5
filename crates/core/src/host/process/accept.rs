//! The host's accept loop, which also decides when the host is idle and stops.
//!
//! Accepting and stopping are decided in one place, so no client is accepted by a host that stops: a client that
//! connects later is refused, and starts another host.
//!
//! The user can always connect: programs that agents started have a bounded share of the connections, and clients that
//! never sent `initialize` are disconnected when all are taken.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, sleep, sleep_until};
use tracing::{Instrument, Span, debug, error_span, info, warn};

use crate::acp::agent;
use crate::engine::CountGuard;
use crate::tools::is_inside;
use crate::wire::{self, InboundStream, Peer, RpcId, WireLimits, encode};

use super::listener::HostListener;
use super::unprompted;
use crate::home::HostLock;
use crate::home::local_socket::LocalSocket;
use crate::host::Host;
use crate::host::connection::Connection;
use crate::host::connection::capabilities::host_offer;
use crate::protocol::limits::limits;
use crate::protocol::rpc_error;

/// How long a client's requests may take to end after it disconnected. Its turns are not affected.
const GRACE: Duration = Duration::from_secs(2);
/// How long clients have to read their last replies when the host stops.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How many clients are served at once, if enough files may be open. Others wait to be accepted.
const MAX_CLIENTS: usize = 2048;
/// How many of them may be programs that agents started, and at most half of all. More are refused.
const MAX_CONFINED: usize = 256;
/// After how long a client without `initialize` may be disconnected for others, once the host is full.
const SILENT_AFTER: Duration = Duration::from_secs(10);
/// How long to wait after a failed accept, which means that files or memory are short.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// How many stop-if-idle requests may be queued.
const IDLE_STOPS: usize = 8;
/// How often the host checks that its socket and its store still exist.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// How many sessions without an agent and a client stay in memory.
const UNUSED_SESSIONS: usize = 64;
/// Serves clients until the host is stopped, has had no client and no live session for `linger`, or has lost its store.
/// Then it closes the socket and ends its sessions. The returned lock is still held.
pub(crate) async fn serve(
    mut listener: HostListener,
    host: &Arc<Host>,
    home: &str,
    linger: Duration,
    has_store: impl Fn() -> bool,
) -> HostLock {
    let mut clients = JoinSet::new();
    let mut live = host.engine.live();
    let mut stopping = host.stopping.subscribe();
    let (sender, mut idle_stops) = mpsc::channel(IDLE_STOPS);
    // A host is served once.
    drop(host.idle_stops.set(sender));
    let mut idle_since = Instant::now();
    let mut not_before = Instant::now();
    let mut checks = tokio::time::interval(CHECK_EVERY);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let max_clients = max_clients();
    let confined = Arc::new(Semaphore::new(MAX_CONFINED.min(max_clients / 2)));
    let mut sweeps = tokio::time::interval_at(Instant::now() + unprompted::FIRST_LOOK, unprompted::EVERY);
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let reason = loop {
        let is_full = clients.len() >= max_clients;
        host.is_full.send_if_modified(|was| std::mem::replace(was, is_full) != is_full);
        let is_idle = clients.is_empty() && *live.borrow_and_update() == 0;
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => break "requested",
            accepted = accept(&listener, not_before), if !is_full => match accepted {
                Ok(stream) => {
                    clients.spawn(serve_client(stream, Arc::clone(host), home.to_owned(), Arc::clone(&confined)));
                }
                Err(error) => {
                    warn!(%error, "client not accepted");
                    not_before = Instant::now() + ACCEPT_RETRY;
                }
            },
            Some(_) = clients.join_next() => idle_since = Instant::now(),
            _ = live.changed() => idle_since = Instant::now(),
            () = sleep_until(idle_since + linger), if is_idle => break "idle",
            Some(reply) = idle_stops.recv() => {
                // The requesting client counts itself.
                let stops = clients.len() <= 1 && *live.borrow() == 0;
                // If the requesting client is gone, another may have taken its place.
                if reply.send(stops).is_ok() && stops {
                    break "idle, requested";
                }
            }
            _ = checks.tick() => {
                if !has_store() {
                    break "its store is gone";
                }
                // A failure is retried at the next tick.
                drop(listener.keep_open());
                host.engine.free_unused(UNUSED_SESSIONS);
            }
            _ = sweeps.tick() => {
                let host = Arc::clone(host);
                host.clone().background.spawn(async move { host.remove_unprompted().await });
            }
        }
    };
    info!(reason, "host stopping");
    // Later stop-if-idle requests find the channel closed: the host is stopping.
    drop(idle_stops);
    let lock = listener.close();
    host.shut_down().await;
    let disconnected = async { while clients.join_next().await.is_some() {} };
    // A client that does not read its last replies loses them.
    drop(tokio::time::timeout(CLOSE_TIMEOUT, disconnected).await);
    lock
}

async fn accept(listener: &HostListener, not_before: Instant) -> io::Result<UnixStream> {
    sleep_until(not_before).await;
    listener.accept().await
}

/// How many clients may be served: each needs two open files, and agents need some too.
fn max_clients() -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files / 3).map_or(MAX_CLIENTS, |third| third.clamp(2, MAX_CLIENTS))
}

async fn serve_client(stream: UnixStream, host: Arc<Host>, home: String, slots: Arc<Semaphore>) {
    // The socket's directory already excludes other users; this is a second check.
    let Ok(peer) = stream.peer_cred() else { return };
    if peer.uid() != rustix::process::getuid().as_raw() {
        return;
    }
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
    // A client whose process cannot be identified counts as confined.
    let confined = pid.is_none_or(|pid| is_inside(pid, &home));
    let slot = if confined { Some(slots.try_acquire()) } else { None };
    if let Some(Err(_)) = slot {
        return refuse(&stream).await;
    }
    let Ok(socket) = LocalSocket::new(stream) else { return };
    let limits = WireLimits { write_timeout: Some(host.client_timeouts.disconnect), ..limits() };
    let (peer, incoming) = wire::connect(socket.reader, socket.writer, limits);
    let stalled = peer.clone();
    let connection = Arc::new(Connection::new(host, confined));
    let serving = async {
        tokio::select! {
            () = serve_connection(peer, incoming, Arc::clone(&connection)) => {}
            // Disconnect a client that does not read; its requests stay unanswered.
            () = stalled.stalled() => {
                warn!("client dropped: it does not read");
                stalled.abort();
            }
            () = displaced(&connection) => {
                warn!("client dropped: it never sent initialize, and the host is full");
                stalled.abort();
            }
        }
        if connection.is_initialized() {
            info!("client disconnected");
        } else {
            debug!("client disconnected before initialize");
        }
    };
    serving.instrument(connection_span(&connection)).await;
}

/// The span of everything that a client's connection causes.
pub(crate) fn connection_span(connection: &Connection) -> Span {
    error_span!("connection", conn = connection.id.0)
}

/// Sends a client the reason why it is refused. An unused socket has room for one line.
async fn refuse(stream: &UnixStream) {
    let error = rpc_error::not_allowed("open more connections: programs of agents have too many").to_rpc();
    let line = format!("{}\n", encode::error_response(&RpcId::null(), &error));
    if stream.writable().await.is_ok() {
        // The client may have disconnected.
        drop(stream.try_write(line.as_bytes()));
    }
}

/// Waits until a full host needs the slot of a client that has not sent `initialize` for long.
async fn displaced(connection: &Connection) {
    let host = &connection.host;
    let mut is_full = host.is_full.subscribe();
    sleep(SILENT_AFTER.min(host.client_timeouts.disconnect)).await;
    // The host owns the sender, so the channel stays open.
    drop(is_full.wait_for(|is_full| *is_full && !connection.is_initialized()).await);
}

/// Serves one client on an open connection.
pub(crate) async fn serve_connection(peer: Peer, incoming: InboundStream, connection: Arc<Connection>) {
    let host = Arc::clone(&connection.host);
    let _counted = CountGuard::one(&host.clients);
    let offer = host_offer(&host.version);
    Box::pin(agent::serve(peer, incoming, connection, offer, GRACE)).await;
}
