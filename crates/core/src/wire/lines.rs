//! Splits bytes into lines. Pure, so that every way of cutting a stream into reads can be tested.
//!
//! The buffer never holds much more than one line of the maximum length. A longer line is dropped as it arrives, and
//! only its beginning and length are kept. Reports of lines that are no messages are bounded too.

use std::collections::VecDeque;

use super::{RpcId, WireLimits};

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

/// The request id in a line's beginning; `None` if it is not recognisable as a request.
pub(super) fn request_id(head: &[u8]) -> Option<RpcId> {
    let mut rest = PrefixScanner(std::str::from_utf8(head).unwrap_or_else(|cut| {
        // The kept beginning may end within a character.
        std::str::from_utf8(&head[..cut.valid_up_to()]).unwrap_or_default()
    }));
    rest.take('{')?;
    let (mut id, mut has_method) = (None, false);
    loop {
        let name = rest.scalar()?;
        rest.take(':')?;
        let value = rest.scalar()?;
        match serde_json::from_str::<String>(name).ok()?.as_str() {
            "id" => id = Some(RpcId::from_raw(value)?),
            "method" => has_method = value.starts_with('"'),
            _ => {}
        }
        if has_method && id.is_some() {
            return id;
        }
        rest.take(',')?;
    }
}

/// The rest of the text to scan.
struct PrefixScanner<'a>(&'a str);

impl<'a> PrefixScanner<'a> {
    /// Consumes this character and the whitespace before it.
    fn take(&mut self, character: char) -> Option<()> {
        self.0 = self.0.trim_ascii_start().strip_prefix(character)?;
        Some(())
    }

    /// Consumes a scalar as raw text. Something must follow it: a scalar at the very end may be incomplete.
    fn scalar(&mut self) -> Option<&'a str> {
        let text = self.0.trim_ascii_start();
        let end = match text.strip_prefix('"') {
            Some(inside) => end_of_string(inside)? + 2,
            None => text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)))?,
        };
        let (value, rest) = text.split_at_checked(end)?;
        self.0 = rest;
        Some(value).filter(|value| !value.is_empty())
    }
}

/// The position of the closing quote of a string, in the text after its opening one.
fn end_of_string(inside: &str) -> Option<usize> {
    let mut is_escaped = false;
    inside.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

#[cfg(test)]
mod truncated_line_tests {
    use super::*;

    #[test]
    fn truncated_line_is_a_request_only_with_method_and_id() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"x":"xxx"#, Some("7")),
            (r#" { "method" : "m\"\\" , "id" : "a,\"b" , "params":["#, Some(r#""a,\"b""#)),
            (r#"{"id":-1.5e3,"method":"m","#, Some("-1.5e3")),
            (r#"{"\u0069d":1,"method":"m","#, Some("1")),
            // The last value may be incomplete.
            (r#"{"method":"m","id":12"#, None),
            (r#"{"id":12,"method":"session/pro"#, None),
            // A response, a notification, and ambiguous text.
            (r#"{"jsonrpc":"2.0","id":7,"result":{"x"#, None),
            (r#"{"jsonrpc":"2.0","id":7,"result":"x"#, None),
            (r#"{"jsonrpc":"2.0","method":"session/update","params":{"id":7,"#, None),
            (r#"{"method":"m","id":null,"#, None),
            (r#"{"method":1,"id":7,"params":{"#, None),
            (r#"[{"method":"m","id":7,"#, None),
            (r#"{"method":"m","id":tru7,"#, None),
            ("{", None),
            ("", None),
        ];
        for (head, id) in cases {
            assert_eq!(request_id(head.as_bytes()).as_ref().map(RpcId::as_str), id, "{head}");
        }
        let cut = [br#"{"id":7,"method":"m","x":""#.as_slice(), &[0xc3]].concat();
        assert_eq!(request_id(&cut).as_ref().map(RpcId::as_str), Some("7"));
    }
}

#[cfg(test)]
mod tests;
