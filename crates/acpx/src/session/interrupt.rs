//! What ends a command early: its time limit, or a signal.

use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use crate::error::{CliError, InterruptReason};
use crate::output::Console;

/// When to report that something takes long: the first time, and the interval after that.
pub(crate) const SLOW: Duration = Duration::from_secs(2);
pub(crate) const STILL_SLOW: Duration = Duration::from_secs(15);
/// How much longer than its limit a command waits for the host, which enforces the limit, to report what was not done.
pub(crate) const EXPLANATION: Duration = Duration::from_secs(2);
/// The same for a command that has to end the agent itself first.
const AGENT_END_TIMEOUT: Duration = Duration::from_secs(8);

/// Waits for a reason to stop.
pub(crate) struct InterruptWatcher {
    limit: Option<(Duration, Instant)>,
    /// How much later than its limit the command stops by itself.
    grace: Duration,
    signals: [Signal; 3],
    /// Whether the work continues without the command, so that neither SIGTERM nor a lost terminal stops it.
    goes_on_alone: bool,
    /// Whether the terminal is gone and that has not been reported yet.
    hung_up: bool,
}

impl InterruptWatcher {
    /// Starts the time limit now.
    pub(crate) fn new(limit: Option<Duration>) -> Result<Self, CliError> {
        Self::since(Instant::now(), limit)
    }

    /// Starts the time limit when the command began: earlier work counts.
    pub(crate) fn since(begun: Instant, limit: Option<Duration>) -> Result<Self, CliError> {
        let listen = |kind| {
            signal(kind).map_err(|source| CliError::System { doing: "listen to signals".to_owned(), source })
        };
        let signals = [
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ];
        let limit = limit.and_then(|limit| Some((limit, begun.checked_add(limit)?)));
        Ok(Self { limit, grace: Duration::ZERO, signals, goes_on_alone: false, hung_up: false })
    }

    /// For a command whose work continues without it.
    pub(crate) fn going_on_alone(self) -> Self {
        Self { goes_on_alone: true, ..self }
    }

    /// The remaining time.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.limit.map(|(_, deadline)| deadline.saturating_duration_since(Instant::now()))
    }

    /// The elapsed time.
    pub(crate) fn spent(&self) -> Option<Duration> {
        let (limit, _) = self.limit?;
        Some(limit.saturating_sub(self.left()?))
    }

    /// The host or engine enforces the limit from now on; this command waits `grace` longer.
    pub(crate) fn allow(&mut self, grace: Duration) {
        self.grace = grace;
    }

    /// Runs `work` until it is done or there is a reason to stop. A lost terminal is reported afterwards.
    pub(crate) async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<T, InterruptReason> {
        let mut work = pin!(work);
        let mut hung_up = false;
        let done = loop {
            tokio::select! {
                biased;
                done = &mut work => break done,
                stop = self.over() => match stop {
                    InterruptReason::HungUp => hung_up = true,
                    stop => return Err(stop),
                },
            }
        };
        self.hung_up |= hung_up;
        Ok(done)
    }

    /// Runs work that has to start an agent, and reports if it takes long. The callee enforces the limit.
    pub(crate) async fn during_start<T>(
        &mut self,
        slow: &str,
        console: &mut Console<'_>,
        work: impl Future<Output = T>,
    ) -> Result<T, CliError> {
        self.allow(AGENT_END_TIMEOUT);
        let mut work = pin!(work);
        let mut notice_at = Instant::now() + SLOW;
        let has_spinner = console.wait_for(slow);
        let done = loop {
            tokio::select! {
                biased;
                done = &mut work => break Ok(done),
                stop = self.over() => break Err(stop.while_doing(slow)),
                () = console.next_frame() => {}
                () = sleep_until(notice_at), if !has_spinner => {
                    console.banner(slow);
                    notice_at = Instant::now() + STILL_SLOW;
                }
            }
        };
        console.stop_waiting();
        done
    }

    /// The next reason to stop. The time limit counts once, every signal counts.
    pub(crate) async fn over(&mut self) -> InterruptReason {
        if std::mem::take(&mut self.hung_up) {
            return InterruptReason::HungUp;
        }
        let limit = self.limit.and_then(|(limit, at)| Some((limit, at.checked_add(self.grace)?)));
        let timed_out = async move {
            match limit {
                Some((limit, deadline)) => {
                    sleep_until(deadline).await;
                    InterruptReason::TimedOut(limit)
                }
                None => pending().await,
            }
        };
        let [interrupt, terminate, hangup] = &mut self.signals;
        let stop = tokio::select! {
            _ = interrupt.recv() => InterruptReason::Signalled,
            _ = terminate.recv() => if self.goes_on_alone { InterruptReason::Terminated } else { InterruptReason::Signalled },
            _ = hangup.recv() => if self.goes_on_alone { InterruptReason::HungUp } else { InterruptReason::Signalled },
            stop = timed_out => stop,
        };
        if let InterruptReason::TimedOut(_) = stop {
            self.limit = None;
        }
        stop
    }
}
