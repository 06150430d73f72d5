//! The one server of the page that a home has: it holds a lock and writes its process and URL to `web.json`.
//!
//! The file outlives its server, so it counts only while the process in it lives. The next server listens on the same
//! port if it can: to a browser another port is another site, without its cookie and its drafts.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use acpx_core::model::ProcessIdentity;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::home_file::{HomeFile, LockFile};

/// Maximum size of the file.
const MAX_FILE_BYTES: u64 = 64 * 1024;
/// How often to check whether a server has stopped.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The server of a home, as the file has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WebServerInfo {
    #[serde(flatten)]
    pub(crate) process: ProcessIdentity,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Where browsers reach it, with a slash at its end.
    pub(crate) url: String,
    /// The program's version.
    pub(crate) version: String,
    /// The arguments that start it again: in place of another version, or after it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) arguments: Option<Vec<String>>,
}

/// The registration of a running server.
#[derive(Debug)]
pub(crate) struct WebRegistration {
    home: PathBuf,
    _lock: LockFile,
}

fn file(home: &Path) -> HomeFile<Option<WebServerInfo>> {
    HomeFile::new(home.join("web.json"), MAX_FILE_BYTES)
}

/// The server that runs for a home.
pub(crate) fn running(home: &Path) -> io::Result<Option<WebServerInfo>> {
    Ok(file(home).read()?.filter(|server| server.process.is_alive()))
}

/// The home's last server, whether it runs or not.
pub(crate) fn last(home: &Path) -> Option<WebServerInfo> {
    file(home).read().ok()?
}

/// The URL of the home's last server.
pub(crate) fn last_url(home: &Path) -> Option<String> {
    last(home).map(|server| server.url)
}

/// Ends a server, and waits until it has ended; false if it does not in time.
pub(crate) fn stop(server: &WebServerInfo, limit: Duration) -> io::Result<bool> {
    let pid = i32::try_from(server.process.pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid.filter(|_| server.process.is_alive()) {
        kill_process(pid, Signal::TERM)?;
    }
    let deadline = Instant::now() + limit;
    while server.process.is_alive() {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(true)
}

impl WebRegistration {
    /// Becomes the home's server; `None` if it has one.
    pub(crate) fn try_take(home: &Path) -> io::Result<Option<Self>> {
        let lock = LockFile::try_take(&home.join("web-server.lock"))?;
        Ok(lock.map(|lock| Self { home: home.to_owned(), _lock: lock }))
    }

    /// Writes where this process listens.
    pub(crate) fn publish(&self, info: WebServerInfo) -> io::Result<()> {
        file(&self.home).change(|content| {
            *content = Some(info);
            Ok::<_, io::Error>(())
        })?
    }
}
