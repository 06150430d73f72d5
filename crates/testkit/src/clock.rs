//! The monotonic clock that the scripted agent and the tests share.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the machine's monotonic clock, which all its processes share.
pub fn monotonic_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The clock counts from boot, so neither part is negative.
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
