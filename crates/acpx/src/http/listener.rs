//! Accepts sockets and serves HTTP on them: TLS, the limits of sockets, and deadlines for clients that do not speak.
//!
//! `axum::serve` knows neither TLS nor limits per address nor a timeout for request heads, so the accept loop is ours
//! and hyper-util serves each connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tower_http::add_extension::AddExtension;

use super::guard::is_loopback;
use super::limits::KeyedCounter;
use super::observed_stream::ObservedStream;
use super::peer_process::SocketAddresses;
use super::server::HttpServer;
use super::timeouts::StreamDeadlines;

/// Maximum number of open sockets. Further connections wait in the listener's backlog.
const SOCKETS: usize = 512;
/// Maximum number of sockets per address. Loopback is exempt because a local proxy forwards many clients.
const SOCKETS_OF_ONE: usize = 128;
/// Timeout of the TLS handshake and of a request's headers.
const PEER_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a request's headers.
const HEAD: usize = 64 * 1024;
/// Maximum number of concurrent requests per socket; each event stream is one.
const REQUESTS: u32 = 512;
/// Pause after a failed accept, which means that file descriptors or memory are exhausted.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// How long clients have to receive the shutdown notice, and their responses.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Listens at an address.
pub(crate) async fn listen(address: SocketAddr) -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Serves these routes until `stop` completes.
pub(crate) async fn serve(
    server: &Arc<HttpServer>,
    router: Router,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    stop: impl Future<Output = ()>,
) {
    let sockets = Arc::new(Semaphore::new(SOCKETS));
    let addresses = Arc::new(KeyedCounter::default());
    let graceful = GracefulShutdown::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(Arc::clone(server).watch_tokens());
    let mut stop = std::pin::pin!(stop);
    loop {
        let socket = tokio::select! {
            () = &mut stop => break,
            accepted = accept(&listener, &sockets) => accepted,
            Some(_) = tasks.join_next() => continue,
        };
        let Some((stream, ends, permit)) = socket else {
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        // An address at its limit is dropped without a reply.
        let most = if is_loopback(ends.theirs) { SOCKETS } else { SOCKETS_OF_ONE };
        if let Some(share) = addresses.take(&ends.theirs.ip(), most) {
            let (router, watcher, tls) = (router.clone(), graceful.watcher(), tls.clone());
            tasks.spawn(async move {
                serve_socket(router, stream, ends, tls, watcher).await;
                drop((permit, share));
            });
        }
    }
    // A client that does not read the shutdown notice or its response in time is cut off.
    let stopping = async { tokio::join!(graceful.shutdown(), server.disconnect_clients()) };
    drop(timeout(SHUTDOWN_TIMEOUT, stopping).await);
    server.end().await;
}

/// Accepts the next socket; `None` if accepting failed.
async fn accept(
    listener: &TcpListener,
    sockets: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddresses, OwnedSemaphorePermit)> {
    let permit = Arc::clone(sockets).acquire_owned().await.ok()?;
    let (stream, theirs) = listener.accept().await.ok()?;
    let ours = stream.local_addr().ok()?;
    Some((stream, SocketAddresses { theirs, ours }, permit))
}

async fn serve_socket(
    router: Router,
    stream: TcpStream,
    ends: SocketAddresses,
    tls: Option<TlsAcceptor>,
    watcher: Watcher,
) {
    // Messages are small and latency-sensitive, so do not batch them.
    drop(stream.set_nodelay(true));
    match tls {
        None => serve_http(router, ends, stream, watcher).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(PEER_TIMEOUT, tls.accept(stream)).await {
                serve_http(router, ends, stream, watcher).await;
            }
        }
    }
}

async fn serve_http(
    router: Router,
    ends: SocketAddresses,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    watcher: Watcher,
) {
    let io = TokioIo::new(ObservedStream::new(stream, StreamDeadlines::new(PEER_TIMEOUT)));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PEER_TIMEOUT).max_buf_size(HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(HEAD).unwrap_or(u32::MAX))
        .max_concurrent_streams(REQUESTS)
        .keep_alive_interval(PEER_TIMEOUT);
    let service = TowerToHyperService::new(AddExtension::new(router, ends));
    // hyper has already replied to malformed HTTP; there is nothing to report here.
    drop(watcher.watch(builder.serve_connection_with_upgrades(io, service)).await);
}
