//! Errors between a client and its host.

use std::io;
use std::path::PathBuf;

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
    #[error("the host did not start: {said}")]
    GaveUp {
        /// Its output.
        said: String,
    },
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
    pub fn code(&self) -> &str {
        match self {
            Self::Directory { .. } => "HOST_DIRECTORY",
            Self::UnsafeDirectory { .. } => "HOST_DIRECTORY_UNSAFE",
            Self::NoSocketDirectory { .. } | Self::Socket { .. } => "HOST_SOCKET",
            Self::Lock { .. } => "HOST_LOCK",
            Self::Stranger { .. } => "HOST_STRANGER",
            Self::NotStarted(_) | Self::GaveUp { .. } => "HOST_NOT_STARTED",
            Self::Silent { .. } => "HOST_SILENT",
            Self::Lost => "HOST_LOST",
            Self::Older { .. } => "HOST_OLDER",
            Self::Newer { .. } => "HOST_NEWER",
            Self::TooLong { .. } => "BAD_REQUEST",
            Self::Refused(refusal) => refusal.code(),
            Self::BadAnswer { .. } => "HOST_BAD_ANSWER",
        }
    }

    /// What the user can do next.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Directory { .. } | Self::Lock { .. } => {
                Some("see that you may write there, or set ACPX_HOME to another directory")
            }
            Self::UnsafeDirectory { .. } | Self::Stranger { .. } => Some(
                "set XDG_RUNTIME_DIR to a directory that is yours alone; if no host runs, remove host.lock in the home of acpx",
            ),
            Self::NoSocketDirectory { .. } => Some("set XDG_RUNTIME_DIR to a directory with a short path"),
            Self::GaveUp { .. } => Some("host.log in the home of acpx may say more"),
            Self::Silent { .. } | Self::BadAnswer { .. } => {
                Some("`acpx host restart` starts another; what is kept stays")
            }
            Self::Lost => Some("run the command again: what was kept is there, and a new host is started"),
            Self::Older { .. } => Some("`acpx host restart` replaces it; running turns are interrupted"),
            Self::Newer { .. } => Some("use that version of acpx, or `acpx host stop` with it first"),
            Self::TooLong { .. } => Some("say it in parts, or name a file that has it"),
            Self::Refused(refusal) => refusal.hint(),
            Self::Socket { .. } | Self::NotStarted(_) => None,
        }
    }
}
