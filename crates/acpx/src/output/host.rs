//! The host's status for its user: whether it runs, and what it holds.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use acpx_core::model::Timestamp;
use serde::Serialize;

use super::{Console, json_line};
use crate::cli::Format;

/// A running host.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunningHost {
    pub(crate) pid: u32,
    /// The version of its program.
    pub(crate) version: String,
    pub(crate) since: Timestamp,
    pub(crate) socket: PathBuf,
    /// How many sessions have an agent.
    pub(crate) live_sessions: usize,
    /// How many clients are connected.
    pub(crate) clients: usize,
}

#[derive(Serialize)]
struct HostObject<'a> {
    action: &'static str,
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
    let out = &mut *console.out;
    match console.mode.format {
        Format::Quiet => writeln!(out, "{status}")?,
        Format::Json => json_line(&HostObject { action: "host_status", status, home, host }, out)?,
        Format::Text => {
            writeln!(out, "host: {status}\nhome: {}", home.display())?;
            if let Some(host) = host {
                writeln!(out, "pid: {}\nversion: {}\nsince: {}", host.pid, host.version, host.since)?;
                writeln!(out, "socket: {}", host.socket.display())?;
                writeln!(out, "liveSessions: {}\nclients: {}", host.live_sessions, host.clients)?;
            }
        }
    }
    console.flush()
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
    action: &'static str,
    stopped: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
}

/// Writes what was done to the host.
pub(crate) fn host_changed(change: HostChange, console: &mut Console<'_>) -> io::Result<()> {
    let (object, words) = match change {
        HostChange::Stopped => {
            (HostChangeObject { action: "host_stopped", stopped: true, pid: None }, "host stopped".to_owned())
        }
        HostChange::NoneToStop => (
            HostChangeObject { action: "host_stopped", stopped: false, pid: None },
            "no host runs".to_owned(),
        ),
        HostChange::Restarted { pid } => (
            HostChangeObject { action: "host_restarted", stopped: true, pid: Some(pid) },
            format!("host restarted (pid {pid})"),
        ),
    };
    match console.mode.format {
        Format::Quiet => {}
        Format::Json => json_line(&object, &mut *console.out)?,
        Format::Text => writeln!(console.out, "{words}")?,
    }
    console.flush()
}
