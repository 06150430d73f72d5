//! The host's status for its user: whether it runs, and what it holds.

use std::io;
use std::path::{Path, PathBuf};

use acpx_core::model::Timestamp;
use serde::Serialize;

use super::Console;
use crate::version::with_build;

/// A running host.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunningHost {
    pub(crate) pid: u32,
    /// The version of its program.
    pub(crate) version: String,
    /// The commit that it was built from, with its date, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) build: Option<String>,
    pub(crate) since: Timestamp,
    pub(crate) socket: PathBuf,
    /// How many sessions have an agent.
    pub(crate) live_sessions: usize,
    /// How many clients are connected.
    pub(crate) clients: usize,
}

#[derive(Serialize)]
struct HostObject<'a> {
    status: &'static str,
    home: &'a Path,
    #[serde(flatten)]
    host: Option<&'a RunningHost>,
}

/// Writes whether a host runs for this home.
pub(crate) fn host_status(
    home: &Path,
    host: Option<&RunningHost>,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let status = if host.is_some() { "running" } else { "stopped" };
    let running = host.map(|RunningHost { pid, version, build, since, socket, live_sessions, clients }| {
        let (socket, version) = (socket.display(), with_build(version, build.as_deref()));
        format!(
            "\npid: {pid}\nversion: {version}\nsince: {since}\nsocket: {socket}\nliveSessions: {live_sessions}\n\
             clients: {clients}"
        )
    });
    let text = format!("host: {status}\nhome: {}{}", home.display(), running.unwrap_or_default());
    console.result("host_status", &HostObject { status, home, host }, Some(&text), Some(status))
}

/// What was done to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostChange {
    /// It was running, and is stopped now.
    Stopped,
    /// There was none.
    NoneToStop,
    /// Another one runs now.
    Restarted {
        /// Its process.
        pid: u32,
    },
}

#[derive(Serialize)]
struct HostChangeObject {
    stopped: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
}

/// Writes what was done to the host.
pub(crate) fn host_changed(change: HostChange, console: &mut Console<'_>) -> io::Result<()> {
    let (action, stopped, pid, text) = match change {
        HostChange::Stopped => ("host_stopped", true, None, "host stopped".to_owned()),
        HostChange::NoneToStop => ("host_stopped", false, None, "no host runs".to_owned()),
        HostChange::Restarted { pid } => {
            ("host_restarted", true, Some(pid), format!("host restarted (pid {pid})"))
        }
    };
    console.result(action, &HostChangeObject { stopped, pid }, Some(&text), None)
}
