//! Where a home's host is found: its paths, its lock, its socket, and the list of commands that hold agents themselves.

pub(crate) mod direct_runs;
pub(crate) mod local_socket;
pub(crate) mod lock;
pub(crate) mod paths;

pub use direct_runs::{DirectRun, end_leftovers, has_leftovers};
pub use lock::{HostInfo, HostLock, listens, published};
pub use paths::HostPaths;
