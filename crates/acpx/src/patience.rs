//! What can end a command early: its time limit, and a signal of the person who waits.

use std::future::pending;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use crate::error::CliError;

/// Why a command shall stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Its time is over.
    TimedOut(Duration),
    /// A person, or whoever started it, has had enough.
    Signalled,
}

/// Waits for a reason to stop.
pub(crate) struct Patience {
    limit: Option<(Duration, Instant)>,
    /// How much later than at its limit the command stops by itself.
    grace: Duration,
    signals: [Signal; 3],
}

impl Patience {
    /// Patience from now on, for as long as the limit says.
    pub(crate) fn new(limit: Option<Duration>) -> Result<Self, CliError> {
        let listen = |kind| {
            signal(kind).map_err(|source| CliError::System { doing: "listen to signals".to_owned(), source })
        };
        let signals = [
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ];
        let limit = limit.and_then(|limit| Some((limit, Instant::now().checked_add(limit)?)));
        Ok(Self { limit, grace: Duration::ZERO, signals })
    }

    /// How much of the time is left.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.limit.map(|(_, deadline)| deadline.saturating_duration_since(Instant::now()))
    }

    /// From now on somebody else sees to the limit, and is given so much longer than it to do so.
    pub(crate) fn allow(&mut self, grace: Duration) {
        self.grace = grace;
    }

    /// Does something, unless there is a reason to stop first.
    pub(crate) async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            stop = self.over() => Err(stop),
        }
    }

    /// The next reason to stop. The time is over once; every signal counts.
    pub(crate) async fn over(&mut self) -> Stop {
        let limit = self.limit.and_then(|(limit, at)| Some((limit, at.checked_add(self.grace)?)));
        let timed_out = async move {
            match limit {
                Some((limit, deadline)) => {
                    sleep_until(deadline).await;
                    Stop::TimedOut(limit)
                }
                None => pending().await,
            }
        };
        let [interrupt, terminate, hangup] = &mut self.signals;
        let stop = tokio::select! {
            _ = interrupt.recv() => Stop::Signalled,
            _ = terminate.recv() => Stop::Signalled,
            _ = hangup.recv() => Stop::Signalled,
            stop = timed_out => stop,
        };
        if let Stop::TimedOut(_) = stop {
            self.limit = None;
        }
        stop
    }
}
