//! The limits of a connection between a host and its clients, the same at both ends.

use std::time::Duration;

use crate::wire::WireLimits;

/// How long a client may take nothing of what is sent to it before its connection ends. A person may well look away from a
/// page of output.
pub(crate) const STALL_LIMIT: Duration = Duration::from_mins(30);

/// What an event's line has around the line it carries.
const ENVELOPE: usize = 64 * 1024;

/// The limits of a connection between a client and its host: whatever fits between host and agent fits here.
pub(crate) fn limits() -> WireLimits {
    let limits = WireLimits::default();
    let write_patience = Some(STALL_LIMIT);
    WireLimits { line_bytes: limits.line_bytes + ENVELOPE, write_patience, ..limits }
}
