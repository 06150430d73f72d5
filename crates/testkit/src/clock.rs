//! The one clock that an agent and whoever reads its words can both look at.

use rustix::time::{ClockId, clock_gettime};

/// The nanoseconds of the machine's monotonic clock, which is the same for all its processes.
pub fn monotonic_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The clock counts from the machine's start, so neither part is ever below zero.
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
