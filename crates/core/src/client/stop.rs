//! Stopping a home's host, whatever its version and however it is: it is asked, then told, then killed.
//!
//! Its process is known from the lock, and believed only while the lock is held and the process is the very one that
//! wrote it there. Its agents die with it, and what is kept stays.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::model::ProcessIdentity;
use crate::tools::tell;

use super::any_version;
use crate::home::{HostLock, HostPlace, published};
use crate::protocol::HostError;

/// How long each step may take.
#[derive(Debug, Clone, Copy)]
struct StopTimeouts {
    /// To answer.
    answer: Duration,
    /// To go once it has said that it will: its agents have some seconds each, all at once.
    farewell: Duration,
    /// To go once it was told, for one that does not answer.
    term: Duration,
    /// To be gone once it was killed.
    kill: Duration,
}

const USUAL: StopTimeouts = StopTimeouts {
    answer: Duration::from_secs(5),
    farewell: Duration::from_secs(30),
    term: Duration::from_secs(10),
    kill: Duration::from_secs(5),
};

/// How often it is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What came of asking a host to stop.
enum StopOutcome {
    /// It says that it does, or is leaving already.
    Leaves,
    /// Nobody listens.
    Nobody,
    /// It does not answer.
    Silent,
}

/// Stops the host of a home, and waits until it is gone; whether there was one.
pub async fn stop(place: &HostPlace) -> Result<bool, HostError> {
    stop_within(place, USUAL).await
}

async fn stop_within(place: &HostPlace, patience: StopTimeouts) -> Result<bool, HostError> {
    let Some(host) = published(place).map(|info| info.process) else { return Ok(false) };
    let asked = ask(place, patience.answer).await?;
    if matches!(asked, StopOutcome::Nobody) && is_free(place)? {
        return Ok(false);
    }
    if matches!(asked, StopOutcome::Leaves) && is_gone_within(&host, place, patience.farewell).await? {
        return Ok(true);
    }
    for (signal, limit) in [(Signal::TERM, patience.term), (Signal::KILL, patience.kill)] {
        tell(&host, signal);
        if is_gone_within(&host, place, limit).await? {
            return Ok(true);
        }
    }
    Err(HostError::Silent { home: place.home().to_owned() })
}

async fn ask(place: &HostPlace, limit: Duration) -> Result<StopOutcome, HostError> {
    let ask = async {
        let Some(mut client) = any_version(place).await? else { return Ok(StopOutcome::Nobody) };
        client.call::<serde_json::Value>("_acpx/host/stop", &json!({})).await?;
        // A host waits a moment for those who are still connected, so we are not.
        Ok(StopOutcome::Leaves)
    };
    match timeout(limit, ask).await {
        Ok(Err(HostError::Lost)) => Ok(StopOutcome::Leaves),
        Err(_) | Ok(Err(HostError::Silent { .. } | HostError::Socket { .. })) => Ok(StopOutcome::Silent),
        Ok(asked) => asked,
    }
}

async fn is_gone_within(
    host: &ProcessIdentity,
    place: &HostPlace,
    limit: Duration,
) -> Result<bool, HostError> {
    let deadline = Instant::now() + limit;
    while !is_gone(host, place)? {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        sleep(LOOK_AGAIN).await;
    }
    Ok(true)
}

/// Whether a host is gone. Its lock may be somebody else's by now, so it is the process that is looked for; only where
/// the system does not tell which one that is, the lock has to do.
fn is_gone(host: &ProcessIdentity, place: &HostPlace) -> Result<bool, HostError> {
    if !host.boot.is_empty() {
        return Ok(!host.is_alive());
    }
    let is_another = published(place).is_some_and(|info| info.process != *host);
    Ok(is_another || is_free(place)?)
}

/// Whether nobody is the home's host.
fn is_free(place: &HostPlace) -> Result<bool, HostError> {
    Ok(HostLock::try_take(place)?.is_some())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
