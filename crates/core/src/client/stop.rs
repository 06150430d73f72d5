//! Stops a home's host of any version and in any state: first a request, then TERM, then KILL.
//!
//! The process comes from the lock, and is trusted only while the lock is held and the process is exactly the one that
//! wrote it. Its agents end with it; the store stays.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::model::ProcessIdentity;
use crate::tools::signal_process;

use super::any_version;
use crate::home::{HostLock, HostPaths, published};
use crate::protocol::HostError;

/// The time limit of each step.
#[derive(Debug, Clone, Copy)]
struct StopTimeouts {
    /// For its response.
    answer: Duration,
    /// For its exit after it agreed: its agents have some seconds each, in parallel.
    exit: Duration,
    /// For its exit after TERM.
    term: Duration,
    /// For its exit after KILL.
    kill: Duration,
}

const TIMEOUTS: StopTimeouts = StopTimeouts {
    answer: Duration::from_secs(5),
    exit: Duration::from_secs(30),
    term: Duration::from_secs(10),
    kill: Duration::from_secs(5),
};

/// Poll interval.
const POLL_EVERY: Duration = Duration::from_millis(5);

/// The result of the stop request.
enum StopOutcome {
    /// The host stops, or is shutting down already.
    Stopping,
    /// No host listens.
    NoHost,
    /// The host does not answer.
    Silent,
}

/// Stops the host of a home and waits for its exit; returns whether there was one.
pub async fn stop(paths: &HostPaths) -> Result<bool, HostError> {
    stop_within(paths, TIMEOUTS).await
}

async fn stop_within(paths: &HostPaths, timeouts: StopTimeouts) -> Result<bool, HostError> {
    let Some(host) = published(paths).map(|info| info.process) else { return Ok(false) };
    let outcome = request_stop(paths, timeouts.answer).await?;
    if matches!(outcome, StopOutcome::NoHost) && is_free(paths)? {
        return Ok(false);
    }
    if matches!(outcome, StopOutcome::Stopping) && exits_within(&host, paths, timeouts.exit).await? {
        return Ok(true);
    }
    for (signal, limit) in [(Signal::TERM, timeouts.term), (Signal::KILL, timeouts.kill)] {
        signal_process(&host, signal);
        if exits_within(&host, paths, limit).await? {
            return Ok(true);
        }
    }
    Err(HostError::Silent { home: paths.home().to_owned() })
}

async fn request_stop(paths: &HostPaths, limit: Duration) -> Result<StopOutcome, HostError> {
    let request = async {
        let Some(mut client) = any_version(paths).await? else { return Ok(StopOutcome::NoHost) };
        client.call::<serde_json::Value>("_acpx/host/stop", &json!({})).await?;
        // The connection is dropped here, because the host waits a moment for connected clients.
        Ok(StopOutcome::Stopping)
    };
    match timeout(limit, request).await {
        Ok(Err(HostError::Lost)) => Ok(StopOutcome::Stopping),
        Err(_) | Ok(Err(HostError::Silent { .. } | HostError::Socket { .. })) => Ok(StopOutcome::Silent),
        Ok(outcome) => outcome,
    }
}

async fn exits_within(host: &ProcessIdentity, paths: &HostPaths, limit: Duration) -> Result<bool, HostError> {
    let deadline = Instant::now() + limit;
    while !is_gone(host, paths)? {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        sleep(POLL_EVERY).await;
    }
    Ok(true)
}

/// Whether the host has exited. Another host may hold the lock by now, so the process is checked; only where the system
/// cannot identify it, the lock is.
fn is_gone(host: &ProcessIdentity, paths: &HostPaths) -> Result<bool, HostError> {
    if !host.boot.is_empty() {
        return Ok(!host.is_alive());
    }
    let is_another = published(paths).is_some_and(|info| info.process != *host);
    Ok(is_another || is_free(paths)?)
}

/// Whether the home has no host.
fn is_free(paths: &HostPaths) -> Result<bool, HostError> {
    Ok(HostLock::try_take(paths)?.is_some())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
