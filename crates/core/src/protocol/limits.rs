//! The limits of a connection between a host and its clients, the same at both ends.

use std::time::Duration;

use crate::wire::WireLimits;

/// How long a client may read nothing before it is disconnected. A user may pause a pager for a while.
pub(crate) const STALL_LIMIT: Duration = Duration::from_mins(30);

/// The size of an event's envelope around the line it carries.
const ENVELOPE: usize = 64 * 1024;

/// The limits of a connection between client and host: a line that fits between host and agent fits here too.
pub(crate) fn limits() -> WireLimits {
    let limits = WireLimits::default();
    let write_timeout = Some(STALL_LIMIT);
    WireLimits { line_bytes: limits.line_bytes + ENVELOPE, write_timeout, ..limits }
}
