//! Counts the peer's lines that are not messages, and keeps the latest of them.
//!
//! Agents print banners, warnings and stack traces to stdout. These are not answered; they are counted, and the last
//! lines are kept to diagnose an agent that does not speak the protocol.

use std::collections::VecDeque;

use super::WireLimits;

/// How much garbage a peer has sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GarbageReport {
    /// Lines that were not messages; blank ones are not counted.
    pub lines: u64,
    /// How many of them look like requests, so that the peer may wait for a response.
    pub answerable: u64,
    /// Their bytes, without line ends.
    pub bytes: u64,
    /// The latest of them, oldest first, each truncated.
    pub recent: Vec<String>,
}

/// The counters, and the bounded ring of recent lines.
#[derive(Debug)]
pub(super) struct Garbage {
    lines: u64,
    answerable: u64,
    bytes: u64,
    recent: VecDeque<String>,
    keep_lines: usize,
    keep_bytes: usize,
}

impl Garbage {
    pub(super) fn new(limits: &WireLimits) -> Self {
        Self {
            lines: 0,
            answerable: 0,
            bytes: 0,
            recent: VecDeque::new(),
            keep_lines: limits.garbage_lines,
            keep_bytes: limits.garbage_line_bytes,
        }
    }

    /// Counts a line of `bytes` bytes that begins with `head`.
    pub(super) fn count(&mut self, head: &[u8], bytes: u64) {
        self.lines += 1;
        self.bytes += bytes;
        if self.keep_lines == 0 {
            return;
        }
        if self.recent.len() == self.keep_lines {
            self.recent.pop_front();
        }
        let head = &head[..head.len().min(self.keep_bytes)];
        self.recent.push_back(String::from_utf8_lossy(head).into_owned());
    }

    /// Marks the last counted line as one that looks like a request.
    pub(super) fn wants_an_answer(&mut self) {
        self.answerable += 1;
    }

    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    pub(super) fn report(&self) -> GarbageReport {
        let recent = self.recent.iter().cloned().collect();
        GarbageReport { lines: self.lines, answerable: self.answerable, bytes: self.bytes, recent }
    }
}
