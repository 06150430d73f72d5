//! One host per home: the process that holds the lock. The lock's file also stores where it listens.
//!
//! The kernel releases the lock when its holder exits for any reason. The file's content may then be stale, so it
//! counts only if a process listens there.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::model::ProcessIdentity;
use crate::store::file_system;

use super::HostPaths;
use crate::protocol::HostError;
use crate::protocol::meta::ProtocolRange;

/// How often a held lock is tried again.
const RETRY_EVERY: Duration = Duration::from_millis(5);

/// The held lock, which makes this process the home's host.
#[derive(Debug)]
pub struct HostLock {
    file: File,
    path: PathBuf,
}

/// The identity and address of a home's host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInfo {
    /// Its process. The file may outlive it, so its pid alone proves nothing.
    #[serde(flatten)]
    pub process: ProcessIdentity,
    /// The socket it listens on.
    pub socket: PathBuf,
    /// The versions of the socket's protocol it understands.
    pub protocol: ProtocolRange,
    /// The program's version.
    pub version: String,
    /// The commit that the program was built from, with its date, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
}

impl HostLock {
    /// Takes the lock if it is free, and clears the stale content of its last holder.
    pub fn try_take(paths: &HostPaths) -> Result<Option<Self>, HostError> {
        paths.make_home()?;
        let path = paths.lock();
        let problem = |source| HostError::Lock { path: path.clone(), source };
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .custom_flags(nonblock())
            .open(&path)
            .map_err(problem)?;
        if !file.metadata().is_ok_and(|found| found.is_file()) {
            let words = "it is not a regular file";
            return Err(problem(io::Error::new(io::ErrorKind::InvalidInput, words)));
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let mut lock = Self { file, path };
                lock.retract()?;
                Ok(Some(lock))
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(problem(error.into())),
        }
    }

    /// Takes the lock, or returns `None` if another host holds it and listens. Waits for a host that is shutting down.
    /// Blocks the thread.
    pub fn contend(paths: &HostPaths, timeout: Duration) -> Result<Option<Self>, HostError> {
        let deadline = Instant::now() + timeout;
        loop {
            let lock = Self::try_take(paths)?;
            if lock.is_some() || listens(paths) {
                return Ok(lock);
            }
            if Instant::now() >= deadline {
                return Err(HostError::Silent { home: paths.home().to_owned() });
            }
            std::thread::sleep(RETRY_EVERY);
        }
    }

    /// Writes where the holder listens.
    pub(crate) fn publish(&mut self, info: &HostInfo) -> Result<(), HostError> {
        let text = serde_json::to_string(info).expect("who a host is can always be written as JSON");
        self.write(text.as_bytes())
    }

    /// Clears the file: the holder does not listen any more.
    pub(crate) fn retract(&mut self) -> Result<(), HostError> {
        self.write(b"")
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), HostError> {
        let written =
            self.file.rewind().and_then(|()| self.file.set_len(0)).and_then(|()| self.file.write_all(bytes));
        written.map_err(|source| HostError::Lock { path: self.path.clone(), source })
    }
}

fn nonblock() -> i32 {
    rustix::fs::OFlags::NONBLOCK.bits().cast_signed()
}

/// Whether a home's host listens. Only connects, without sending anything.
pub fn listens(paths: &HostPaths) -> bool {
    published(paths).is_some_and(|info| UnixStream::connect(info.socket).is_ok())
}

/// The host that the lock's file names; `None` if the file is empty or unreadable.
pub fn published(paths: &HostPaths) -> Option<HostInfo> {
    let bytes = file_system::read(&paths.lock(), 64 * 1024).ok()??;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ErrorCode;

    #[test]
    fn published_host_info_is_read_back_and_cleared_by_the_next_lock() {
        let home = tempfile::tempdir().unwrap();
        let paths = HostPaths::new(home.path().to_owned(), None, home.path());
        let mut lock = HostLock::try_take(&paths).unwrap().unwrap();
        let info = HostInfo {
            process: ProcessIdentity { pid: 42, started: 1_178_657, boot: "ea83b2c4".to_owned() },
            socket: "/run/acpx.sock".into(),
            protocol: ProtocolRange { oldest: 1, newest: 2 },
            version: "7.0".to_owned(),
            build: Some("1a2b3c4d5 2026-11-18".to_owned()),
        };
        lock.publish(&info).unwrap();
        let text = std::fs::read_to_string(paths.lock()).unwrap();
        let expected = r#"{"pid":42,"started":1178657,"boot":"ea83b2c4","socket":"/run/acpx.sock","protocol":{"oldest":1,"newest":2},"version":"7.0","build":"1a2b3c4d5 2026-11-18"}"#;
        assert_eq!((text.as_str(), published(&paths)), (expected, Some(info)));
        drop(lock);
        let _lock = HostLock::try_take(&paths).unwrap().unwrap();
        assert_eq!(published(&paths), None);
    }

    #[test]
    fn named_pipe_as_the_lock_file_is_an_error_without_blocking() {
        let home = tempfile::tempdir().unwrap();
        let paths = HostPaths::new(home.path().to_owned(), None, home.path());
        assert!(std::process::Command::new("mkfifo").arg(paths.lock()).status().unwrap().success());
        assert_eq!(published(&paths), None);
        assert_eq!(HostLock::try_take(&paths).err().map(|error| error.code()), Some(ErrorCode::HostLock));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_published_pid_without_start_and_boot_is_no_process() {
        let home = tempfile::tempdir().unwrap();
        let paths = HostPaths::new(home.path().to_owned(), None, home.path());
        let pid = std::process::id();
        let protocol = r#"{"oldest":1,"newest":1}"#;
        let text = format!(r#"{{"pid":{pid},"socket":"/s","protocol":{protocol},"version":"7.0"}}"#);
        std::fs::write(paths.lock(), text).unwrap();
        let info = published(&paths).unwrap();
        assert_eq!((info.socket.as_path(), info.process.pid), (std::path::Path::new("/s"), pid));
        assert!(!info.process.is_alive());
    }
}
