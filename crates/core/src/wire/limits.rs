//! The limits of one connection. Together they bound its memory, independent of the peer.

use std::time::Duration;

const MIB: usize = 1024 * 1024;

/// Upper bounds of the queue limits.
const QUEUE_BYTES_AT_MOST: u32 = 256 << 20;
const QUEUE_MESSAGES_AT_MOST: u32 = 256 << 20;

/// The bounds of one connection. A queue bound of 0 counts as 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireLimits {
    /// The longest line, without its end. A longer one is dropped when read and refused when sent.
    pub line_bytes: usize,
    /// The longest line that is sent, if it is another one.
    pub sent_line_bytes: Option<usize>,
    /// Queued messages in each direction, 256 Mi at most.
    pub queue_messages: usize,
    /// Queued bytes in each direction, 256 MiB at most. A longer line may still pass, alone.
    pub queue_bytes: usize,
    /// Unanswered requests of ours.
    pub outstanding: usize,
    /// Garbage lines kept for diagnosis, the latest ones.
    pub garbage_lines: usize,
    /// How many bytes of each garbage line are kept.
    pub garbage_line_bytes: usize,
    /// Bytes of garbage without a message in between that end the connection. Must be larger than `line_bytes`, or a
    /// single line over the limit is enough.
    pub flood_bytes: u64,
    /// How long the peer may read nothing while data is queued, before writing fails. `None` means no limit.
    pub write_timeout: Option<Duration>,
}

impl Default for WireLimits {
    fn default() -> Self {
        Self {
            line_bytes: 64 * MIB,
            sent_line_bytes: None,
            queue_messages: 1024,
            queue_bytes: 4 * MIB,
            outstanding: 65_536,
            garbage_lines: 32,
            garbage_line_bytes: 512,
            flood_bytes: 256 * MIB as u64,
            write_timeout: None,
        }
    }
}

impl WireLimits {
    /// The longest line that is sent.
    pub(crate) fn longest_sent(&self) -> usize {
        self.sent_line_bytes.unwrap_or(self.line_bytes)
    }

    /// Room for messages in one direction, in semaphore permits.
    pub(super) fn message_permits(&self) -> u32 {
        u32::try_from(self.queue_messages).unwrap_or(u32::MAX).clamp(1, QUEUE_MESSAGES_AT_MOST)
    }

    /// Room for bytes in one direction, in semaphore permits.
    pub(super) fn byte_permits(&self) -> u32 {
        u32::try_from(self.queue_bytes).unwrap_or(u32::MAX).clamp(1, QUEUE_BYTES_AT_MOST)
    }

    /// The permits a line needs. A line longer than the whole room takes all of it.
    pub(super) fn cost(&self, line: &str) -> u32 {
        u32::try_from(line.len()).unwrap_or(u32::MAX).min(self.byte_permits())
    }
}
