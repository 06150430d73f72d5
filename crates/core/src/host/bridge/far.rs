//! A bridge to an agent on another machine, which survives the line to it.
//!
//! If the agent there is a host of ours, a line that is lost is made anew, and the client is told what it missed and
//! goes on. Any other agent has no numbers to go on from: with its line it is gone. So is a host that is not reached
//! again in time.

use std::iter;
use std::pin::pin;
use std::sync::Mutex;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;

use crate::wire::{self, Incoming, Limits, Peer};

use super::super::HostError;
use super::client_end::ClientEnd;
use super::memory::Memory;
use super::terms::Terms;
use super::way::Way;
use super::{FAREWELL, HostEnd, Joined};

/// The first time that is waited between two tries to reach the other machine, and the longest.
const SOON: Duration = Duration::from_millis(250);
const LATER: Duration = Duration::from_secs(5);
/// How long it is tried to be reached, the time that each try takes not counted.
const PATIENCE: Duration = Duration::from_mins(1);

/// How lines to another machine are made.
pub trait FarLine: Sync {
    /// A new line. One that cannot be made ends at once. `None` if there is no use in trying.
    fn line(&self) -> Option<(Peer, Incoming)>;
}

/// Passes lines between a client and an agent on another machine, until the client says no more or the agent is gone.
pub async fn bridge_far<L, R, W>(lines: &L, source: R, target: W, limits: Limits)
where
    L: FarLine,
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let far = Far(lines);
    let mut client = ClientEnd::new(wire::connect(source, target, limits));
    if let Ok(first) = far.connect().await {
        let memory = Mutex::new(Memory::new(Terms::far()));
        let joined = Joined { way: &far, memory, told: Notify::new() };
        // Whoever says no more to an agent has no more use for it.
        let (stop, unheard) = (std::future::pending(), std::future::ready(()));
        joined.see_through(&mut client, first, pin!(stop), pin!(unheard)).await;
    }
    drop(tokio::time::timeout(FAREWELL, client.peer.close()).await);
}

struct Far<'a, L>(&'a L);

impl<L: FarLine> Way for Far<'_, L> {
    async fn connect(&self) -> Result<HostEnd, HostError> {
        let (peer, incoming) = self.0.line().ok_or(HostError::Lost)?;
        Ok(HostEnd { peer, incoming })
    }

    fn tries(&self) -> impl Iterator<Item = Duration> {
        let waits = iter::successors(Some(SOON), |wait| Some((*wait * 2).min(LATER)));
        let mut waited = Duration::ZERO;
        iter::once(Duration::ZERO).chain(waits.take_while(move |wait| {
            waited += *wait;
            waited <= PATIENCE
        }))
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

    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, duplex, split};
    use tokio::time::Instant;

    use super::*;
    use crate::wire::{Inbound, encode, memory};

    /// A first line on which `initialize` is answered with this, and then it is lost; every other is lost at once.
    struct Lost {
        answer: &'static str,
        lines: AtomicUsize,
    }

    impl FarLine for Lost {
        fn line(&self) -> Option<(Peer, Incoming)> {
            let (near, (peer, mut incoming)) = memory(Limits::default());
            let is_first = self.lines.fetch_add(1, Ordering::Relaxed) == 0;
            let answer = self.answer;
            tokio::spawn(async move {
                if is_first && let Some(Inbound::Request { id, .. }) = incoming.recv().await {
                    drop(peer.send(encode::response(&id, answer)).await);
                }
                drop(peer.close().await);
            });
            Some(near)
        }
    }

    /// How many lines were made, and how long that took.
    async fn tries(answer: &'static str) -> (usize, Duration) {
        let (client, agent) = duplex(4096);
        let (source, target) = split(agent);
        let lines = Lost { answer, lines: AtomicUsize::new(0) };
        let began = Instant::now();
        let speaking = async {
            let (heard, mut said) = split(client);
            said.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}\n")
                .await
                .unwrap();
            let mut heard = BufReader::new(heard).lines();
            assert!(heard.next_line().await.unwrap().unwrap().contains("\"result\""));
            // It waits for more, which never comes.
            assert_eq!(heard.next_line().await.unwrap(), None);
            drop(said);
        };
        tokio::join!(bridge_far(&lines, source, target, Limits::default()), speaking);
        (lines.lines.load(Ordering::Relaxed), began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_of_ours_is_tried_to_be_reached_for_about_a_minute_and_another_agent_is_gone_with_its_line()
     {
        let (lines, took) = tries(r#"{"_meta":{"acpx":{"protocol":{}}}}"#).await;
        assert!(lines > 10 && took > PATIENCE / 2 && took < PATIENCE * 2, "{lines} in {took:?}");
        assert_eq!(tries("{}").await.0, 1);
    }
}
