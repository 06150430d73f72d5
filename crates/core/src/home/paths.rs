//! Where a host lives: its lock and its store in a home, its socket in a directory that is the user's alone.
//!
//! The path of a socket is short by decree of the kernel, and a home may be anywhere, so the socket is not in
//! the home: it is named after it, and the lock says where it is.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::getuid;
use sha2::{Digest, Sha256};

use crate::protocol::HostError;
use crate::store::make_private_directory;

/// The longest path a socket may have everywhere, the final zero left out.
const SOCKET_PATH: usize = 103;

/// A home and where its host can be reached.
#[derive(Debug, Clone)]
pub struct HostPlace {
    home: PathBuf,
    /// Where the socket's directory may be, best first.
    runtime: Vec<PathBuf>,
}

impl HostPlace {
    /// The place of a home. `runtime` is a directory for the user's sockets, if the system has one;
    /// `temporary` one where everybody may make directories.
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

    /// What the host says to nobody in particular.
    pub fn log(&self) -> PathBuf {
        self.home.join("host.log")
    }

    /// Where npm acpx keeps its sessions.
    pub fn npm_sessions(&self) -> PathBuf {
        self.home.join("sessions")
    }

    /// Where commands that hold agents themselves are listed while they run.
    pub(crate) fn holders(&self) -> PathBuf {
        self.home.join("holders")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.home.join("host.lock")
    }

    /// The home's name where many homes meet: the same for every way to write its path, and another one for a home
    /// that has the same path elsewhere, as in a container. A home that does not exist has no name yet.
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

    /// Makes the home if it is missing.
    pub fn make_home(&self) -> Result<(), HostError> {
        make_private(&self.home)
    }

    /// The directory that the socket is in or will be in, found to be safe as far as it is there. Nothing is made.
    pub fn socket_directory(&self) -> Result<PathBuf, HostError> {
        // The name of a home, and what stands behind it.
        const FILE: usize = 16 + ".sock".len();
        let fits = |directory: &&PathBuf| directory.as_os_str().len() + 1 + FILE <= SOCKET_PATH;
        let mut problem = None;
        for directory in self.runtime.iter().filter(fits) {
            match check_private(directory) {
                Ok(()) => return Ok(directory.clone()),
                Err(HostError::Directory { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    return Ok(directory.clone());
                }
                Err(error) => problem = Some(error),
            }
        }
        Err(problem.unwrap_or_else(|| HostError::NoSocketDirectory { tried: self.runtime.clone() }))
    }

    /// The socket's path, its directory made and found to be safe. The home has to be there.
    pub(crate) fn make_socket_path(&self) -> Result<PathBuf, HostError> {
        let file = format!("{}.sock", self.name()?);
        let fits = |directory: &&PathBuf| directory.as_os_str().len() + 1 + file.len() <= SOCKET_PATH;
        let mut problem = None;
        for directory in self.runtime.iter().filter(fits) {
            match make_private(directory).and_then(|()| check_private(directory)) {
                Ok(()) => return Ok(directory.join(file)),
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

/// A directory that somebody else could have made, or could look into, is no place for our socket.
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

/// Takes away a socket that nobody listens on any more.
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
    fn a_runtime_directory_that_is_too_long_or_not_safe_is_passed_over_and_never_made_safe() {
        let temporary = tempfile::tempdir().unwrap();
        let home = temporary.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let ours = temporary.path().join(format!("acpx-{}", getuid().as_raw()));
        let place = |runtime: &str| {
            HostPlace::new(home.clone(), Some(temporary.path().join(runtime)), temporary.path())
        };
        let directory =
            |place: HostPlace| place.make_socket_path().map(|path| path.parent().unwrap().to_owned());
        let run = temporary.path().join("run/acpx");
        assert_eq!(directory(place("run")).unwrap(), run);
        assert_eq!(directory(place(&"x".repeat(SOCKET_PATH))).unwrap(), ours);
        std::fs::set_permissions(&run, PermissionsExt::from_mode(0o750)).unwrap();
        assert_eq!(directory(place("run")).unwrap(), ours);
        std::fs::set_permissions(&ours, PermissionsExt::from_mode(0o777)).unwrap();
        assert_eq!(directory(place("run")).unwrap_err().code(), "HOST_DIRECTORY_UNSAFE");
        let modes = [&run, &ours].map(|path| path.metadata().unwrap().mode() & 0o777);
        assert_eq!(modes, [0o750, 0o777]);
        let long = HostPlace::new(home, None, &temporary.path().join("x".repeat(SOCKET_PATH)));
        assert_eq!(directory(long).unwrap_err().code(), "HOST_SOCKET");
    }

    #[test]
    fn a_home_has_one_name_however_its_path_is_written() {
        let temporary = tempfile::tempdir().unwrap();
        let real = temporary.path().join("home");
        std::fs::create_dir(&real).unwrap();
        let link = temporary.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let name = |home: &Path| HostPlace::new(home.to_owned(), None, temporary.path()).name().unwrap();
        assert_eq!(name(&real), name(&link));
        assert_eq!(name(&real), name(&temporary.path().join("link/../home")));
        assert_ne!(name(&real), name(temporary.path()));
        assert_eq!(name(&real).len(), 16);
    }

    #[test]
    fn a_home_has_no_name_before_it_is_there_and_another_one_when_it_was_made_anew() {
        let temporary = tempfile::tempdir().unwrap();
        let place = HostPlace::new(temporary.path().join("home"), None, temporary.path());
        assert_eq!(place.name().unwrap_err().code(), "HOST_DIRECTORY");
        place.make_home().unwrap();
        let first = place.name().unwrap();
        place.make_home().unwrap();
        assert_eq!(place.name().unwrap(), first);
        // The old one is still there, so that the new one cannot be the same directory again.
        std::fs::rename(place.home(), temporary.path().join("moved")).unwrap();
        place.make_home().unwrap();
        assert_ne!(place.name().unwrap(), first);
    }
}
