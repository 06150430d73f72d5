//! Splits bytes into lines. Pure, so that every way of cutting a stream into reads can be tested.
//!
//! The buffer never holds much more than one line of the maximum length. A longer line is dropped as it arrives, and
//! only its beginning and length are kept.

/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;

/// An empty buffer larger than this is freed.
const KEPT_BYTES: usize = 1024 * 1024;

/// A complete line, without its line end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RawLine<'a> {
    /// Within the limit.
    Whole(&'a [u8]),
    /// Over the limit.
    TooLong(DroppedLine),
}

/// A dropped line over the limit.
#[derive(Debug, PartialEq, Eq, Default)]
pub(super) struct DroppedLine {
    /// Its beginning.
    pub(super) head: Vec<u8>,
    /// Its length.
    pub(super) bytes: u64,
}

/// The read buffer of a connection.
#[derive(Debug)]
pub(super) struct LineBuffer {
    buffer: Vec<u8>,
    /// Start of the next line to return.
    start: usize,
    /// There is no line end before this position.
    scanned: usize,
    /// The longest line.
    limit: usize,
    /// How many bytes of a longer one are kept.
    keep: usize,
    /// The line over the limit that has not ended yet.
    dropping: Option<DroppedLine>,
}

impl LineBuffer {
    /// Lines of up to `limit` bytes; the first `keep` bytes of longer ones are kept.
    pub(super) fn new(limit: usize, keep: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, scanned: 0, limit, keep, dropping: None }
    }

    /// The buffer to append to, with room in it. Call it when [`Self::next`] returns `None`.
    pub(super) fn room(&mut self) -> &mut Vec<u8> {
        if self.start == self.buffer.len() {
            self.buffer.clear();
            if self.buffer.capacity() > KEPT_BYTES {
                self.buffer = Vec::new();
            }
        } else {
            self.buffer.drain(..self.start);
        }
        self.scanned -= self.start;
        self.start = 0;
        if self.buffer.capacity() - self.buffer.len() < READ_BYTES / 4 {
            self.buffer.reserve(READ_BYTES);
        }
        &mut self.buffer
    }

    /// The next complete line in the buffer.
    pub(super) fn next(&mut self) -> Option<RawLine<'_>> {
        if let Some(offset) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) {
            let end = self.scanned + offset;
            return Some(self.cut(end, end + 1));
        }
        self.scanned = self.buffer.len();
        // One more byte, in case it is the first half of the line end.
        if self.dropping.is_some() || self.scanned - self.start > self.limit + 1 {
            self.drop_until(self.scanned);
            self.start = self.scanned;
        }
        None
    }

    /// The last line, if the stream ended without a line end.
    pub(super) fn rest(&mut self) -> Option<RawLine<'_>> {
        let end = self.buffer.len();
        (self.start < end || self.dropping.is_some()).then(|| self.cut(end, end))
    }

    /// Bytes so far of the line that is being dropped.
    pub(super) fn dropped_so_far(&self) -> u64 {
        self.dropping.as_ref().map_or(0, |dropped| dropped.bytes)
    }

    /// Returns the line up to `end`; the next one begins at `next`.
    fn cut(&mut self, end: usize, next: usize) -> RawLine<'_> {
        let start = self.start;
        let is_crlf = end > start && self.buffer.get(end - 1) == Some(&b'\r');
        if self.dropping.is_some() || end - start - usize::from(is_crlf) > self.limit {
            self.drop_until(end);
        }
        self.start = next;
        self.scanned = next;
        if let Some(dropped) = self.dropping.take() {
            return RawLine::TooLong(dropped);
        }
        let line = &self.buffer[start..end];
        RawLine::Whole(line.strip_suffix(b"\r").unwrap_or(line))
    }

    fn drop_until(&mut self, end: usize) {
        let part = &self.buffer[self.start..end];
        let dropped = self.dropping.get_or_insert_default();
        let room = self.keep - dropped.head.len();
        dropped.head.extend_from_slice(&part[..part.len().min(room)]);
        dropped.bytes += part.len() as u64;
    }
}

#[cfg(test)]
mod tests;
