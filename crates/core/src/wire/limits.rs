//! How much one connection may hold. Together the limits bound its memory whatever the peer does.

use std::time::Duration;

const MIB: usize = 1024 * 1024;

/// Above these a queue is no queue any more.
const QUEUE_BYTES_AT_MOST: u32 = 256 << 20;
const QUEUE_MESSAGES_AT_MOST: u32 = 256 << 20;

/// The bounds of one connection. A queue bound of 0 counts as 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireLimits {
    /// The longest line, its end not counted. A longer one is dropped when read and refused when sent.
    pub line_bytes: usize,
    /// Messages waiting in each direction, 256 Mi at most.
    pub queue_messages: usize,
    /// Bytes waiting in each direction, 256 MiB at most. A longer line may still pass, alone.
    pub queue_bytes: usize,
    /// Requests of ours that wait for an answer.
    pub outstanding: usize,
    /// Garbage lines remembered for diagnosis, the latest ones.
    pub garbage_lines: usize,
    /// How much of each garbage line is remembered.
    pub garbage_line_bytes: usize,
    /// Bytes of garbage without any message between them that end the connection. Larger than
    /// `line_bytes`, or a single line over the cap is enough.
    pub flood_bytes: u64,
    /// How long the peer may take nothing of what waits for it. One that takes longer is written to no more; without
    /// a limit it is waited for.
    pub write_patience: Option<Duration>,
}

impl Default for WireLimits {
    fn default() -> Self {
        Self {
            line_bytes: 64 * MIB,
            queue_messages: 1024,
            queue_bytes: 4 * MIB,
            outstanding: 65_536,
            garbage_lines: 32,
            garbage_line_bytes: 512,
            flood_bytes: 256 * MIB as u64,
            write_patience: None,
        }
    }
}

impl WireLimits {
    /// Room for messages in one direction, as a semaphore counts it.
    pub(super) fn message_permits(&self) -> u32 {
        u32::try_from(self.queue_messages).unwrap_or(u32::MAX).clamp(1, QUEUE_MESSAGES_AT_MOST)
    }

    /// Room for bytes in one direction, as a semaphore counts it on any machine.
    pub(super) fn byte_permits(&self) -> u32 {
        u32::try_from(self.queue_bytes).unwrap_or(u32::MAX).clamp(1, QUEUE_BYTES_AT_MOST)
    }

    /// What a line takes of the room for bytes. A line longer than all of it takes all of it.
    pub(super) fn cost(&self, line: &str) -> u32 {
        u32::try_from(line.len()).unwrap_or(u32::MAX).min(self.byte_permits())
    }
}
