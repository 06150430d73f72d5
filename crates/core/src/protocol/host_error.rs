//! Errors between a client and its host.

use std::io;
use std::path::PathBuf;

use crate::model::ErrorCode;

use super::rpc_error::HostErrorResponse;

/// Why a host could not be reached, started or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// A directory cannot be created or inspected.
    #[error("cannot use the directory {}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// A directory exists, but other users could interfere with it.
    #[error("the directory {} is not safe: {problem}", path.display())]
    UnsafeDirectory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// No directory for sockets has a path short enough.
    #[error("there is no directory for the socket: {tried:?} are too long")]
    NoSocketDirectory {
        /// The candidates.
        tried: Vec<PathBuf>,
    },
    /// The lock cannot be used.
    #[error("cannot use the lock {}", path.display())]
    Lock {
        /// The lock's file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The socket cannot be used.
    #[error("cannot use the socket {}", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The listening process belongs to another user.
    #[error("another user listens on the socket {}", path.display())]
    Stranger {
        /// The socket.
        path: PathBuf,
    },
    /// The host's process cannot be started.
    #[error("cannot start the host")]
    NotStarted(#[source] io::Error),
    /// The host was started and failed.
    #[error("the host did not start: {output}")]
    GaveUp {
        /// Its output.
        output: String,
    },
    /// The host was killed while it started.
    #[error("the host did not start: it was killed")]
    Killed,
    /// The host did not answer in time.
    #[error("the host in {} does not answer", home.display())]
    Silent {
        /// The home.
        home: PathBuf,
    },
    /// The connection ended before the response arrived.
    #[error("the host went away")]
    Lost,
    /// A host of an older version is running.
    #[error("a host of acpx {version} is running, which this version cannot talk to")]
    Older {
        /// Its version.
        version: String,
    },
    /// A host of a newer version is running.
    #[error("a host of acpx {version} is running, which is newer than this program")]
    Newer {
        /// Its version.
        version: String,
    },
    /// The request exceeds the line limit.
    #[error("{method} with {bytes} bytes is over the limit of {limit}")]
    TooLong {
        /// The request's method.
        method: String,
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The host refused the request.
    #[error(transparent)]
    Refused(#[from] HostErrorResponse),
    /// The host's response does not follow the protocol.
    #[error("the host answered {method} with something else than the protocol says")]
    BadAnswer {
        /// The request's method.
        method: String,
    },
}

impl HostError {
    /// The stable code of this error.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Directory { .. } => ErrorCode::HostDirectory,
            Self::UnsafeDirectory { .. } => ErrorCode::HostDirectoryUnsafe,
            Self::NoSocketDirectory { .. } | Self::Socket { .. } => ErrorCode::HostSocket,
            Self::Lock { .. } => ErrorCode::HostLock,
            Self::Stranger { .. } => ErrorCode::HostStranger,
            Self::NotStarted(_) | Self::GaveUp { .. } | Self::Killed => ErrorCode::HostNotStarted,
            Self::Silent { .. } => ErrorCode::HostSilent,
            Self::Lost => ErrorCode::HostLost,
            Self::Older { .. } => ErrorCode::HostOlder,
            Self::Newer { .. } => ErrorCode::HostNewer,
            Self::TooLong { .. } => ErrorCode::BadRequest,
            Self::Refused(refusal) => refusal.code().clone(),
            Self::BadAnswer { .. } => ErrorCode::HostBadAnswer,
        }
    }

    /// What the user can do next.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::NoSocketDirectory { .. } => Some("set XDG_RUNTIME_DIR to a directory with a short path"),
            Self::GaveUp { .. } | Self::Killed => Some("acpx host log may say more"),
            Self::TooLong { .. } => Some("send it in parts, or name a file that contains it"),
            Self::Refused(refusal) => refusal.hint(),
            _ => self.code().hint(),
        }
    }
}
