//! The socket that a host listens on, published in the lock file.
//!
//! Sockets are in directories that others clean up: the runtime directory is removed with the last login, and old
//! temporary files are deleted. So the host checks regularly that its socket is still its own, and otherwise creates
//! another and publishes it in the lock, where waiting clients find it.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use tokio::net::{UnixListener, UnixStream};

use crate::model::ProcessIdentity;

use crate::home::paths::remove_socket;
use crate::home::{HostInfo, HostLock, HostPaths};
use crate::protocol::HostError;
use crate::protocol::meta::PROTOCOL;

/// A host's listening socket.
pub(crate) struct HostListener {
    paths: HostPaths,
    lock: HostLock,
    info: HostInfo,
    listener: UnixListener,
    file: SocketFileId,
}

/// Identifies the socket file, even if its path now leads to another file.
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
    /// Listens, and publishes the socket in the lock.
    pub(crate) fn open(
        paths: HostPaths,
        mut lock: HostLock,
        (version, build): (String, Option<String>),
    ) -> Result<Self, HostError> {
        let socket = paths.make_socket_path()?;
        let (listener, file) = listen(&socket)?;
        let process = ProcessIdentity::of_this_process();
        let info = HostInfo { process, socket, protocol: PROTOCOL, version, build };
        lock.publish(&info)?;
        Ok(Self { paths, lock, info, listener, file })
    }

    /// The next client.
    pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept().await?.0)
    }

    /// Listens again if the socket is missing or not ours.
    pub(crate) fn keep_open(&mut self) -> Result<(), HostError> {
        if self.is_ours() {
            return Ok(());
        }
        let socket = self.paths.make_socket_path()?;
        (self.listener, self.file) = listen(&socket)?;
        self.info.socket = socket;
        tracing::warn!("the socket was removed; listening on another");
        self.lock.publish(&self.info)
    }

    /// Stops listening. The lock stays held until the returned value is dropped.
    pub(crate) fn close(mut self) -> HostLock {
        // If the entry cannot be retracted, clients find a socket without a listener.
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
