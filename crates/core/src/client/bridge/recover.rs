//! How a bridge goes on with another host.
//!
//! The order is what makes it whole: the host is greeted as the first one was, every session is taken up and what was
//! missed of it told, and only then is asked again what has no answer. Should that host go away too, another is tried,
//! a few times.

use tokio::time::{sleep, timeout};

use crate::wire::{Message, Peer};

use super::client_end::{Gone, into_message, tell};
use super::connector::Way;
use super::state::{Own, Pass};
use super::{HostEnd, Joined, PATIENCE};
use crate::protocol::{HostError, Refusal, rpc_error};

/// Why a bridge is over.
pub(super) enum Over {
    ClientGone,
    /// There is no host, and the client does not stay without one.
    NoHost(HostError),
}

impl From<Gone> for Over {
    fn from(Gone: Gone) -> Self {
        Self::ClientGone
    }
}

/// Why a host could not be gone on with.
enum Trouble {
    /// It went away, too.
    Lost,
    Failed(HostError),
    ClientGone,
}

impl From<HostError> for Trouble {
    fn from(error: HostError) -> Self {
        Self::Failed(error)
    }
}

impl From<Gone> for Trouble {
    fn from(Gone: Gone) -> Self {
        Self::ClientGone
    }
}

impl<W: Way> Joined<'_, W> {
    /// Goes on with another host; without one, if none can be had and the client stays all the same, and then everything
    /// that was asked has been answered with the reason.
    pub(super) async fn restore(&self, to_client: &Peer) -> Result<Option<HostEnd>, Over> {
        let mut error = HostError::Lost;
        for wait in self.way.tries() {
            let withdrawals = self.memory().host_is_gone();
            for line in withdrawals {
                tell(to_client, line).await?;
            }
            // One that is there at once was hardly gone.
            let away = if wait.is_zero() { None } else { self.memory().is_away() };
            if let Some(line) = away {
                tell(to_client, line).await?;
            }
            sleep(wait).await;
            match self.attempt(to_client).await {
                Ok(host) => {
                    let back = self.memory().is_back();
                    if let Some(line) = back {
                        tell(to_client, line).await?;
                    }
                    return Ok(Some(host));
                }
                Err(Trouble::Lost) => {}
                Err(Trouble::ClientGone) => return Err(Over::ClientGone),
                Err(Trouble::Failed(failed)) => {
                    error = failed;
                    break;
                }
            }
        }
        if !self.way.stays_without_host() {
            return Err(Over::NoHost(error));
        }
        let answers = self.memory().give_up(&rpc_error::no_host(&error));
        for line in answers {
            tell(to_client, line).await?;
        }
        Ok(None)
    }

    async fn attempt(&self, to_client: &Peer) -> Result<HostEnd, Trouble> {
        let mut host = self.way.connect().await?;
        let greeting = self.memory().greeting();
        self.settle(&mut host, greeting.into_iter().collect(), to_client).await?;
        let resumes = self.memory().resumes();
        self.settle(&mut host, resumes, to_client).await?;
        let mut lines = Vec::new();
        let again = self.memory().asked_again();
        for pass in again {
            match pass {
                Pass::ToHost(line) => lines.push(line),
                Pass::ToClient(line) => tell(to_client, line).await?,
                Pass::Own(..) | Pass::Nothing => {}
            }
        }
        self.settle(&mut host, lines, to_client).await?;
        Ok(host)
    }

    /// Says these lines, and waits for the answers to those that are the bridge's own. What the host says meanwhile
    /// reaches the client.
    async fn settle(&self, host: &mut HostEnd, lines: Vec<String>, to_client: &Peer) -> Result<(), Trouble> {
        let HostEnd { peer, incoming } = host;
        let mut saying = std::pin::pin!(async {
            for line in lines {
                // A line that passed once passes again.
                peer.send(line).await.map_err(|_| Trouble::Lost)?;
            }
            Ok::<_, Trouble>(())
        });
        let mut is_said = false;
        while !is_said || self.memory().awaits() {
            tokio::select! {
                said = &mut saying, if !is_said => {
                    said?;
                    is_said = true;
                }
                heard = timeout(PATIENCE, incoming.recv()) => {
                    let inbound = heard.map_err(|_| self.way.silent())?.ok_or(Trouble::Lost)?;
                    self.hear_host(&into_message(inbound), to_client).await?;
                }
            }
        }
        Ok(())
    }

    async fn hear_host(&self, message: &Message, to_client: &Peer) -> Result<(), Trouble> {
        let pass = self.memory().host_says(message);
        match pass {
            Pass::ToClient(line) => Ok(tell(to_client, line).await?),
            Pass::Own(own, error) => self.settled(&own, error.as_deref()),
            Pass::ToHost(_) | Pass::Nothing => Ok(()),
        }
    }

    /// A session that cannot be taken up is gone; what is asked of it says so.
    fn settled(&self, own: &Own, error: Option<&str>) -> Result<(), Trouble> {
        match (own, error) {
            (_, None) => Ok(()),
            (Own::Initialize, Some(error)) => Err(HostError::Refused(Refusal::read(error)).into()),
            (Own::Resume(session), Some(_)) => {
                self.memory().forget_session(session);
                Ok(())
            }
        }
    }
}
