//! A bridge to a remote agent, which survives the loss of the connection.
//!
//! If the agent is an acpx host, a lost connection is re-established, and the client receives the events it missed. Any
//! other agent has no event numbers to continue from, so its bridge ends with the connection. So does the bridge to a
//! host that is not reached again in time.

use std::iter;
use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::wire::{self, InboundStream, Peer, WireLimits};

use super::client_end::ClientEnd;
use super::connector::Connector;
use super::profile::BridgeProfile;
use super::state::BridgeState;
use super::{BridgeSession, CLOSE_TIMEOUT, HostEnd};
use crate::protocol::HostError;
use crate::sync::Lock;

/// The first and the longest delay between two attempts to connect. A connection that lasts less than the longest delay
/// counts as a failed attempt.
const FIRST_DELAY: Duration = Duration::from_millis(250);
const LONGEST_DELAY: Duration = Duration::from_secs(5);
/// How long to retry, not counting the duration of each attempt.
const RETRY_TIMEOUT: Duration = Duration::from_mins(1);

/// Opens connections to a remote agent.
pub trait RemoteLine: Sync {
    /// A new connection. If it fails, the stream ends at once. `None` if there is no point in trying.
    fn line(&self) -> Option<(Peer, InboundStream)>;
}

/// Forwards lines between a client and a remote agent until one of them disconnects. Fails if an acpx host could not be
/// reached again; with [`HostError::Lost`] also if it does not answer.
pub async fn bridge_remote<L, R, W>(
    lines: &L,
    source: R,
    target: W,
    limits: WireLimits,
) -> Result<(), HostError>
where
    L: RemoteLine,
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let connector = RemoteConnector { lines, pace: Lock::default() };
    let mut client = ClientEnd::new(wire::connect(source, target, limits));
    let mut done = Ok(());
    if let Ok(first) = connector.connect().await {
        let state = Lock::new(BridgeState::new(BridgeProfile::remote_agent()));
        let session = BridgeSession { connector: &connector, state, sent: Notify::new() };
        // A client that closes its sending side does not need the agent any more.
        let (stop, receiver_closed) = (std::future::pending(), std::future::ready(()));
        done = session.run_through_hosts(&mut client, first, pin!(stop), pin!(receiver_closed)).await;
    }
    drop(tokio::time::timeout(CLOSE_TIMEOUT, client.peer.close()).await);
    done
}

struct RemoteConnector<'a, L> {
    lines: &'a L,
    pace: Lock<Pace>,
}

/// The pace of connection attempts: increasing delays until a connection lasts.
#[derive(Default)]
struct Pace {
    /// When the last connection was opened.
    made: Option<Instant>,
    /// How many attempts there were since a connection lasted.
    tries: usize,
}

impl<L: RemoteLine> Connector for RemoteConnector<'_, L> {
    async fn connect(&self) -> Result<HostEnd, HostError> {
        let (peer, incoming) = self.lines.line().ok_or(HostError::Lost)?;
        self.pace.lock().made = Some(Instant::now());
        Ok(HostEnd { peer, incoming })
    }

    fn tries(&self) -> impl Iterator<Item = Duration> {
        let waits = iter::successors(Some(FIRST_DELAY), |wait| Some((*wait * 2).min(LONGEST_DELAY)));
        let mut waited = Duration::ZERO;
        let tries = iter::once(Duration::ZERO).chain(waits.take_while(move |wait| {
            waited += *wait;
            waited <= RETRY_TIMEOUT
        }));
        let mut pace = self.pace.lock();
        if pace.made.is_some_and(|made| made.elapsed() >= LONGEST_DELAY) {
            pace.tries = 0;
        }
        tries.skip(pace.tries).inspect(|_| self.pace.lock().tries += 1)
    }

    fn stays_without_host(&self) -> bool {
        false
    }

    fn silent(&self) -> HostError {
        HostError::Lost
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, duplex, split};
    use tokio::io::{ReadHalf, WriteHalf};

    use super::*;
    use crate::acp::acpx_peer;
    use crate::acp::client_error::for_client;
    use crate::protocol::rpc_error;
    use crate::wire::{InboundMessage, RpcId, encode, memory};

    const HOST: &str = r#"{"_meta":{"acpx":{"protocol":{}}}}"#;

    /// Scripted connections: the script gets the number of each.
    struct ScriptedLine<S> {
        script: S,
        lines: AtomicUsize,
    }

    impl<S, F> RemoteLine for ScriptedLine<S>
    where
        S: Fn(usize, Peer, InboundStream) -> F + Sync,
        F: Future<Output = ()> + Send + 'static,
    {
        fn line(&self) -> Option<(Peer, InboundStream)> {
            let (near, (peer, incoming)) = memory(WireLimits::default());
            let number = self.lines.fetch_add(1, Ordering::Relaxed);
            tokio::spawn((self.script)(number, peer, incoming));
            Some(near)
        }
    }

    /// A client of a bridge.
    struct Client {
        writer: WriteHalf<DuplexStream>,
        reader: Lines<BufReader<ReadHalf<DuplexStream>>>,
    }

    impl Client {
        async fn request(&mut self, number: u64, method: &str) {
            let line = encode::request(&id(number), method, "{}");
            self.writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        }

        async fn next_line(&mut self) -> Option<String> {
            self.reader.next_line().await.unwrap()
        }

        /// The next response.
        async fn next_response(&mut self) -> Option<String> {
            loop {
                let line = self.next_line().await?;
                if line.contains("\"id\"") {
                    return Some(line);
                }
            }
        }
    }

    fn id(number: u64) -> RpcId {
        RpcId::from_string(&number.to_string())
    }

    /// Runs a client over scripted connections; returns how many were opened, how long that took, and the result.
    async fn bridged<S, F>(
        script: S,
        client: impl AsyncFnOnce(Client),
    ) -> (usize, Duration, Result<(), HostError>)
    where
        S: Fn(usize, Peer, InboundStream) -> F + Sync,
        F: Future<Output = ()> + Send + 'static,
    {
        let (near, agent) = duplex(4096);
        let (source, target) = split(agent);
        let (reader, writer) = split(near);
        let lines = ScriptedLine { script, lines: AtomicUsize::new(0) };
        let began = Instant::now();
        let client = client(Client { writer, reader: BufReader::new(reader).lines() });
        let (done, ()) = tokio::join!(bridge_remote(&lines, source, target, WireLimits::default()), client);
        (lines.lines.load(Ordering::Relaxed), began.elapsed(), done)
    }

    /// A client that waits. It receives only connection state changes, each once.
    async fn waits(mut client: Client) {
        client.request(1, "initialize").await;
        assert!(client.next_line().await.unwrap().contains("\"result\""));
        let mut lines = Vec::new();
        while let Some(line) = client.next_line().await {
            lines.push(line);
        }
        let changes = [acpx_peer::AWAY, acpx_peer::BACK].map(|word| encode::notification(word, "{}"));
        assert!(lines.iter().eq(changes.iter().cycle().take(lines.len())), "{lines:?}");
    }

    /// The first connection: answers `initialize` with this, then drops.
    async fn greets(peer: &Peer, incoming: &mut InboundStream, answer: &str) {
        let Some(InboundMessage::Request { id, .. }) = incoming.recv().await else { return };
        drop(peer.send(encode::response(&id, answer)).await);
    }

    /// Connections of which all but the first drop at once.
    async fn tries(answer: &'static str) -> (usize, Duration, Result<(), HostError>) {
        let speak = move |number, peer: Peer, mut incoming| async move {
            if number == 0 {
                greets(&peer, &mut incoming, answer).await;
            }
            drop(peer.close().await);
        };
        bridged(speak, waits).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_host_is_retried_for_a_minute_and_another_agent_not() {
        let (lines, took, done) = tries(HOST).await;
        assert!(lines > 10 && took > RETRY_TIMEOUT / 2 && took < RETRY_TIMEOUT * 2, "{lines} in {took:?}");
        assert!(matches!(done, Err(HostError::Lost)), "{done:?}");
        let (lines, _, done) = tries("{}").await;
        assert!(lines == 1 && done.is_ok(), "{lines}: {done:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_lost_with_every_connection_fails_and_the_next_is_served() {
        let speak = |_, peer: Peer, mut incoming: InboundStream| async move {
            while let Some(InboundMessage::Request { id, message }) = incoming.recv().await {
                match message.method() {
                    Some("session/list") => break,
                    _ => drop(peer.send(encode::response(&id, HOST)).await),
                }
            }
            drop(peer.close().await);
        };
        let client = async |mut client: Client| {
            client.request(1, "initialize").await;
            assert_eq!(client.next_response().await, Some(encode::response(&id(1), HOST)));
            client.request(2, "session/list").await;
            let lost =
                encode::error_response(&id(2), &for_client(rpc_error::unanswered("session/list"), true));
            assert_eq!(client.next_response().await, Some(lost));
            client.request(3, "session/close").await;
            assert_eq!(client.next_response().await, Some(encode::response(&id(3), HOST)));
        };
        let (lines, took, done) = bridged(speak, client).await;
        // The original connection, two with the request re-sent, and the current one.
        assert_eq!((lines, took), (4, FIRST_DELAY * 3));
        assert!(done.is_ok(), "{done:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn reconnects_to_a_host_that_disconnects_after_initialize_are_limited() {
        let speak = |_, peer: Peer, mut incoming: InboundStream| async move {
            greets(&peer, &mut incoming, HOST).await;
            drop(peer.close().await);
        };
        let (lines, took, done) = bridged(speak, waits).await;
        assert!(lines > 10 && took > RETRY_TIMEOUT / 2 && took < RETRY_TIMEOUT * 2, "{lines} in {took:?}");
        assert!(matches!(done, Err(HostError::Lost)), "{done:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_host_after_a_reconnect_ends_the_bridge() {
        let speak = |number, peer: Peer, mut incoming: InboundStream| async move {
            if number == 0 {
                greets(&peer, &mut incoming, HOST).await;
                return drop(peer.close().await);
            }
            while incoming.recv().await.is_some() {}
        };
        let (lines, _, done) = bridged(speak, waits).await;
        assert_eq!(lines, 2);
        assert!(matches!(done, Err(HostError::Lost)), "{done:?}");
    }
}
