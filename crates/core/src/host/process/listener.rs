//! The socket a host listens on, and its word about it in the lock.
//!
//! Sockets lie in directories that others clean up: the user's runtime directory goes with the last login, and
//! temporary files go with age. So a host looks from time to time whether its socket is still its own, and makes
//! another if it is not. Whoever waits for its lock meanwhile finds it there.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use tokio::net::{UnixListener, UnixStream};

use crate::model::ProcessIdentity;

use crate::home::paths::remove_socket;
use crate::home::{HostInfo, HostLock, HostPlace};
use crate::protocol::HostError;
use crate::protocol::meta::PROTOCOL;

/// Where a host is reached.
pub(crate) struct HostListener {
    place: HostPlace,
    lock: HostLock,
    info: HostInfo,
    listener: UnixListener,
    file: SocketFileId,
}

/// Which file it is, whatever its path leads to by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SocketFileId {
    device: u64,
    inode: u64,
}

impl SocketFileId {
    fn of(path: &Path) -> io::Result<Self> {
        let facts = path.symlink_metadata()?;
        Ok(Self { device: facts.dev(), inode: facts.ino() })
    }
}

impl HostListener {
    /// Listens, and says so in the lock.
    pub(crate) fn open(place: HostPlace, mut lock: HostLock, version: String) -> Result<Self, HostError> {
        let socket = place.make_socket_path()?;
        let (listener, file) = listen(&socket)?;
        let process = ProcessIdentity::of_this_process();
        let info = HostInfo { process, socket, protocol: PROTOCOL, version };
        lock.publish(&info)?;
        Ok(Self { place, lock, info, listener, file })
    }

    /// The next client.
    pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept().await?.0)
    }

    /// Listens anew, if the socket is no longer there or no longer ours.
    pub(crate) fn keep_open(&mut self) -> Result<(), HostError> {
        if self.is_ours() {
            return Ok(());
        }
        let socket = self.place.make_socket_path()?;
        (self.listener, self.file) = listen(&socket)?;
        self.info.socket = socket;
        self.lock.publish(&self.info)
    }

    /// Nobody finds the way here any more. The lock stays taken for as long as it is held.
    pub(crate) fn close(mut self) -> HostLock {
        // What cannot be taken back leads to nobody, and whoever comes finds that.
        drop(self.lock.retract());
        if self.is_ours() {
            drop(remove_socket(&self.info.socket));
        }
        self.lock
    }

    fn is_ours(&self) -> bool {
        SocketFileId::of(&self.info.socket).is_ok_and(|file| file == self.file)
    }
}

/// Listens on a socket that only its user may use.
fn listen(socket: &Path) -> Result<(UnixListener, SocketFileId), HostError> {
    remove_socket(socket)?;
    let problem = |source| HostError::Socket { path: socket.to_owned(), source };
    let listener = UnixListener::bind(socket).map_err(problem)?;
    std::fs::set_permissions(socket, PermissionsExt::from_mode(0o600)).map_err(problem)?;
    Ok((listener, SocketFileId::of(socket).map_err(problem)?))
}
