//! Reads a file line by line with a bound on each line. A line that is not wanted, or too long, is passed over without
//! holding it in memory.

use std::io::{self, BufRead, BufReader, Read};
use std::time::Instant;

use serde::de::IgnoredAny;

/// The longest line that is read.
pub(crate) const LINE_LIMIT: usize = 32 * 1024 * 1024;
/// How many bytes of a line decide whether it is wanted.
const PREFIX: usize = 256;
const BUFFER: usize = 64 * 1024;
/// The time is checked after this many bytes.
const WATCHED: usize = 1024 * 1024;

/// One line of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// A whole line without its end.
    Whole(&'a [u8]),
    /// A line above the limit.
    TooLong,
}

/// Reads lines.
pub(crate) struct LineReader {
    reader: BufReader<Box<dyn Read + Send>>,
    /// The position after the last whole line.
    position: u64,
    /// Where the line that was returned last begins.
    begin: u64,
    line: Vec<u8>,
    limit: usize,
    is_torn: bool,
    until: Option<Instant>,
    /// How many bytes were read since the last check of the time.
    unwatched: usize,
}

impl LineReader {
    /// Reads on from a position, where the reader is.
    pub(crate) fn new(reader: Box<dyn Read + Send>, position: u64) -> Self {
        Self {
            reader: BufReader::with_capacity(BUFFER, reader),
            position,
            begin: position,
            line: Vec::new(),
            limit: LINE_LIMIT,
            is_torn: false,
            until: None,
            unwatched: 0,
        }
    }

    /// From this time on, reading fails with [`io::ErrorKind::TimedOut`], also within a line. Without it a line of
    /// gigabytes would be read to its end.
    pub(crate) fn stop_at(&mut self, until: Instant) {
        self.until = Some(until);
    }

    /// The position after the last whole line that was read.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Whether the last line is incomplete.
    pub(crate) fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// The next line that is not blank and that `is_wanted`, given its first bytes; `None` at the end. A last line
    /// without an end counts only if it is a whole JSON value: the agent may still be writing it.
    pub(crate) fn next(&mut self, is_wanted: impl Fn(&[u8]) -> bool) -> io::Result<Option<Line<'_>>> {
        Ok(self.advance(is_wanted)?.map(|is_kept| self.line(is_kept)))
    }

    /// The next line that is not blank, and where it begins.
    pub(crate) fn next_with_begin(&mut self) -> io::Result<Option<(u64, Line<'_>)>> {
        Ok(self.advance(|_| true)?.map(|is_kept| (self.begin, self.line(is_kept))))
    }

    fn line(&self, is_kept: bool) -> Line<'_> {
        if is_kept { Line::Whole(self.line.trim_ascii()) } else { Line::TooLong }
    }

    /// Reads the next line that is wanted. Returns whether it is kept; `None` at the end.
    fn advance(&mut self, is_wanted: impl Fn(&[u8]) -> bool) -> io::Result<Option<bool>> {
        loop {
            let (length, has_end) = self.read_line(&is_wanted)?;
            if length == 0 {
                return Ok(None);
            }
            let is_kept = self.line.len() as u64 == length;
            if !has_end {
                self.is_torn = !is_kept || serde_json::from_slice::<IgnoredAny>(&self.line).is_err();
                if self.is_torn {
                    return Ok(None);
                }
            }
            let space = self.line.len() - self.line.trim_ascii_start().len();
            self.begin = self.position + space as u64;
            self.position += length;
            if is_wanted(&self.line[..self.line.len().min(PREFIX)]) && !self.line.trim_ascii().is_empty() {
                return Ok(Some(is_kept));
            }
        }
    }

    /// Reads a line, and keeps all of it if it is wanted and within the limit, or else its beginning. Returns its
    /// length with its end, and whether it has one.
    fn read_line(&mut self, is_wanted: &impl Fn(&[u8]) -> bool) -> io::Result<(u64, bool)> {
        self.line.clear();
        let (mut length, mut keeps) = (0_u64, true);
        loop {
            let buffer = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffer => buffer?,
            };
            if buffer.is_empty() {
                return Ok((length, false));
            }
            let end = memchr::memchr(b'\n', buffer);
            let taken = end.map_or(buffer.len(), |end| end + 1);
            if keeps {
                let room = self.limit.saturating_sub(self.line.len());
                self.line.extend_from_slice(&buffer[..taken.min(room)]);
                keeps = taken <= room && (self.line.len() < PREFIX || is_wanted(&self.line[..PREFIX]));
            }
            length += taken as u64;
            self.reader.consume(taken);
            self.unwatched += taken;
            if self.unwatched > WATCHED {
                self.unwatched = 0;
                if self.until.is_some_and(|until| Instant::now() >= until) {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            if end.is_some() {
                return Ok((length, true));
            }
        }
    }
}

/// The member `type` of the object that a line begins, if it is within these first bytes. Members before it may be of any
/// kind, as long as they end within the bytes too.
pub(crate) fn kind_of(prefix: &[u8]) -> Option<&[u8]> {
    let (mut rest, mut depth) = (prefix, 0_usize);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let (text, after) = split_string(rest)?;
                rest = after;
                if depth == 1 && text == b"type" {
                    let value = rest.trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start);
                    if let Some(value) = value.and_then(|value| value.strip_prefix(b"\"")) {
                        return split_string(value).map(|(kind, _)| kind);
                    }
                }
            }
            _ => {}
        }
    }
    None
}

/// The content of a JSON string without its first quote, and what follows it.
fn split_string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut is_escaped = false;
    let end = bytes.iter().position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    })?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The lines of a text, its length that is read, and whether its end is torn. `x` begins an unwanted line.
    fn lines(text: &[u8], limit: usize) -> (Vec<Option<Vec<u8>>>, u64, bool) {
        let mut reader = LineReader { limit, ..LineReader::new(Box::new(io::Cursor::new(text.to_vec())), 0) };
        let mut lines = Vec::new();
        while let Some(line) = reader.next(|prefix| !prefix.starts_with(b"x")).unwrap() {
            lines.push(match line {
                Line::Whole(line) => Some(line.to_vec()),
                Line::TooLong => None,
            });
        }
        (lines, reader.position(), reader.is_torn())
    }

    #[test]
    fn last_line_counts_only_if_it_is_whole() {
        let one = || Some(b"{}".to_vec());
        assert_eq!(lines(b"{}\r\n\n{}\n", 100), (vec![one(), one()], 8, false));
        assert_eq!(lines(b"{}\n{}", 100), (vec![one(), one()], 5, false));
        assert_eq!(lines(b"{}\n{\"a", 100), (vec![one()], 3, true));
        assert_eq!(lines(b"", 100), (vec![], 0, false));
    }

    #[test]
    fn long_and_unwanted_lines_are_passed_over() {
        let long = |first: u8| [vec![first; 300_000], b"\n{}\n".to_vec()].concat();
        assert_eq!(lines(&long(b'y'), 1000), (vec![None, Some(b"{}".to_vec())], 300_004, false));
        assert_eq!(lines(&long(b'x'), 1000), (vec![Some(b"{}".to_vec())], 300_004, false));
        assert_eq!(lines(&long(b'x'), 1 << 20), (vec![Some(b"{}".to_vec())], 300_004, false));
    }

    #[test]
    fn line_without_an_end_is_read_until_the_deadline_only() {
        let endless = io::Cursor::new(b"{}\n").chain(io::repeat(b'x'));
        let mut reader = LineReader { limit: 1000, ..LineReader::new(Box::new(endless), 0) };
        reader.stop_at(Instant::now());
        assert_eq!(reader.next(|_| true).unwrap(), Some(Line::Whole(b"{}")));
        assert_eq!(reader.next(|_| true).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(reader.position(), 3);
    }

    #[test]
    fn kind_of_a_line_is_its_own_type_and_no_inner_one() {
        let kind =
            |line: &str| kind_of(line.as_bytes()).map(|kind| String::from_utf8(kind.to_vec()).unwrap());
        assert_eq!(kind(r#"{"type":"api-request","a":1}"#).as_deref(), Some("api-request"));
        assert_eq!(kind(r#"{"a": {"type": "x"}, "b\"": [1], "type" : "y"}"#).as_deref(), Some("y"));
        for none in
            [r#"{"a":"type","b":"type"}"#, r#"{"a":{"type":"x""#, r#"["type"]"#, r#"{"type":1}"#, "", "\"\\"]
        {
            assert_eq!(kind(none), None, "{none}");
        }
    }

    proptest! {
        #[test]
        fn kind_of_any_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = kind_of(&bytes);
        }

        #[test]
        fn reading_on_from_the_position_gives_the_appended_lines(text in "([a-z]{0,9}\n){0,9}", more in "([a-z]{0,9}\n){0,9}") {
            let (first, position, is_torn) = lines(text.as_bytes(), 100);
            prop_assert!(!is_torn);
            prop_assert_eq!(position, text.len() as u64);
            let (rest, ..) = lines(more.as_bytes(), 100);
            let (all, ..) = lines(format!("{text}{more}").as_bytes(), 100);
            prop_assert_eq!([first, rest].concat(), all);
        }
    }
}
