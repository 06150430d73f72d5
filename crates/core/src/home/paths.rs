//! The paths of a host: lock and store in the home, the socket in a directory private to the user.
//!
//! The kernel limits the length of a socket's path, and a home may be anywhere. So the socket is outside the home and
//! named after it, and the lock stores its path.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::getuid;
use sha2::{Digest, Sha256};

use crate::protocol::HostError;
use crate::store::make_private_directory;

/// The longest socket path that all systems allow, without the final zero byte.
const SOCKET_PATH: usize = 103;

/// A home and the paths of its host.
#[derive(Debug, Clone)]
pub struct HostPaths {
    home: PathBuf,
    /// Candidates for the socket's directory, best first.
    runtime: Vec<PathBuf>,
}

impl HostPaths {
    /// The paths of a home. `runtime` is a directory for the user's sockets, if the system has one; `temporary` is one
    /// where every user may create directories.
    pub fn new(home: PathBuf, runtime: Option<PathBuf>, temporary: &Path) -> Self {
        let ours = temporary.join(format!("acpx-{}", getuid().as_raw()));
        let runtime = runtime.map(|runtime| runtime.join("acpx")).into_iter().chain([ours]).collect();
        Self { home, runtime }
    }

    /// The home.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The store.
    pub fn store(&self) -> PathBuf {
        self.home.join("acpx.db")
    }

    /// The search index.
    pub fn index(&self) -> PathBuf {
        self.home.join("index.db")
    }

    /// The host's log.
    pub fn log(&self) -> PathBuf {
        self.home.join("host.log")
    }

    /// The session directory of npm acpx.
    pub fn npm_sessions(&self) -> PathBuf {
        self.home.join("sessions")
    }

    /// The list of commands that hold agents themselves.
    pub(crate) fn holders(&self) -> PathBuf {
        self.home.join("holders")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.home.join("host.lock")
    }

    /// The home's name among many homes: the same for every spelling of its path, and different for a home at the same
    /// path in a container. A home that does not exist has no name yet.
    pub fn name(&self) -> Result<String, HostError> {
        let problem = |source| HostError::Directory { path: self.home.clone(), source };
        let real = self.home.canonicalize().map_err(problem)?;
        let facts = real.metadata().map_err(problem)?;
        let mut hash = Sha256::new();
        hash.update(facts.dev().to_be_bytes());
        hash.update(facts.ino().to_be_bytes());
        hash.update(real.as_os_str().as_encoded_bytes());
        let first =
            hash.finalize().iter().take(8).fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
        Ok(format!("{first:016x}"))
    }

    /// Creates the home if it is missing.
    pub fn make_home(&self) -> Result<(), HostError> {
        make_private(&self.home)
    }

    /// The current or future directory of the socket, checked for safety if it exists. Creates nothing.
    pub fn socket_directory(&self) -> Result<PathBuf, HostError> {
        self.first_usable(|directory| match check_private(directory) {
            Err(HostError::Directory { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
            checked => checked,
        })
    }

    /// The socket's path, after creating and checking its directory. The home must exist.
    pub(crate) fn make_socket_path(&self) -> Result<PathBuf, HostError> {
        let file = format!("{}.sock", self.name()?);
        let is_usable = |directory: &Path| make_private(directory).and_then(|()| check_private(directory));
        Ok(self.first_usable(is_usable)?.join(file))
    }

    /// The first candidate for the socket's directory that is short enough and passes the check.
    fn first_usable(&self, check: impl Fn(&Path) -> Result<(), HostError>) -> Result<PathBuf, HostError> {
        // A home's name and the suffix.
        const FILE: usize = 16 + ".sock".len();
        let fits = |directory: &&PathBuf| directory.as_os_str().len() + 1 + FILE <= SOCKET_PATH;
        let mut problem = None;
        for directory in self.runtime.iter().filter(fits) {
            match check(directory) {
                Ok(()) => return Ok(directory.clone()),
                Err(error) => problem = Some(error),
            }
        }
        Err(problem.unwrap_or_else(|| HostError::NoSocketDirectory { tried: self.runtime.clone() }))
    }
}

fn make_private(directory: &Path) -> Result<(), HostError> {
    make_private_directory(directory)
        .map_err(|source| HostError::Directory { path: directory.to_owned(), source })
}

/// Rejects a directory that another user could have created or can read.
pub(crate) fn check_private(directory: &Path) -> Result<(), HostError> {
    let path = || directory.to_owned();
    let facts =
        directory.symlink_metadata().map_err(|source| HostError::Directory { path: path(), source })?;
    match problem_of(&facts) {
        None => Ok(()),
        Some(problem) => Err(HostError::UnsafeDirectory { path: path(), problem }),
    }
}

fn problem_of(facts: &Metadata) -> Option<&'static str> {
    if !facts.is_dir() {
        Some("it is not a directory")
    } else if facts.uid() != getuid().as_raw() {
        Some("it belongs to another user")
    } else if facts.mode() & 0o077 != 0 {
        Some("others than its owner may use it")
    } else {
        None
    }
}

/// Removes a socket without a listener.
pub(crate) fn remove_socket(path: &Path) -> Result<(), HostError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(HostError::Socket { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_runtime_directory_too_long_or_unsafe_is_skipped_and_unchanged() {
        let temporary = tempfile::tempdir().unwrap();
        let home = temporary.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let ours = temporary.path().join(format!("acpx-{}", getuid().as_raw()));
        let paths = |runtime: &str| {
            HostPaths::new(home.clone(), Some(temporary.path().join(runtime)), temporary.path())
        };
        let directory =
            |paths: HostPaths| paths.make_socket_path().map(|path| path.parent().unwrap().to_owned());
        let run = temporary.path().join("run/acpx");
        assert_eq!(directory(paths("run")).unwrap(), run);
        assert_eq!(directory(paths(&"x".repeat(SOCKET_PATH))).unwrap(), ours);
        std::fs::set_permissions(&run, PermissionsExt::from_mode(0o750)).unwrap();
        assert_eq!(directory(paths("run")).unwrap(), ours);
        std::fs::set_permissions(&ours, PermissionsExt::from_mode(0o777)).unwrap();
        assert_eq!(directory(paths("run")).unwrap_err().code().as_str(), "HOST_DIRECTORY_UNSAFE");
        let modes = [&run, &ours].map(|path| path.metadata().unwrap().mode() & 0o777);
        assert_eq!(modes, [0o750, 0o777]);
        let long = HostPaths::new(home, None, &temporary.path().join("x".repeat(SOCKET_PATH)));
        assert_eq!(directory(long).unwrap_err().code().as_str(), "HOST_SOCKET");
    }

    #[test]
    fn a_home_has_one_name_for_every_spelling_of_its_path() {
        let temporary = tempfile::tempdir().unwrap();
        let real = temporary.path().join("home");
        std::fs::create_dir(&real).unwrap();
        let link = temporary.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let name = |home: &Path| HostPaths::new(home.to_owned(), None, temporary.path()).name().unwrap();
        assert_eq!(name(&real), name(&link));
        assert_eq!(name(&real), name(&temporary.path().join("link/../home")));
        assert_ne!(name(&real), name(temporary.path()));
        assert_eq!(name(&real).len(), 16);
    }

    #[test]
    fn a_missing_home_has_no_name_and_a_recreated_one_another() {
        let temporary = tempfile::tempdir().unwrap();
        let paths = HostPaths::new(temporary.path().join("home"), None, temporary.path());
        assert_eq!(paths.name().unwrap_err().code().as_str(), "HOST_DIRECTORY");
        paths.make_home().unwrap();
        let first = paths.name().unwrap();
        paths.make_home().unwrap();
        assert_eq!(paths.name().unwrap(), first);
        // The old directory still exists, so that the new one cannot get the same inode.
        std::fs::rename(paths.home(), temporary.path().join("moved")).unwrap();
        paths.make_home().unwrap();
        assert_ne!(paths.name().unwrap(), first);
    }
}
