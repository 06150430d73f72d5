//! Reads a JSON document value by value, with its position, so that one value at a time is in memory.
//!
//! The scanner finds where a value ends, and bounds its size and nesting; `serde_json` then decides whether it is valid.

use std::io::{self, Read};

use serde::de::DeserializeOwned;

use super::damage::ScanError;

/// The largest message that is read. npm acpx accepts no longer line from an agent.
pub(super) const VALUE_LIMIT: usize = 64 * 1024 * 1024;
/// The largest number, word or other scalar member that is parsed.
pub(super) const SCALAR_LIMIT: usize = 1024;
/// How many values one parsed value may contain. A parsed value needs about a hundred bytes for each.
const MOST_VALUES: usize = 1_000_000;
/// The deepest nesting of a value, the one that `serde_json` reads.
const MAX_DEPTH: u32 = 127;
const BUFFER: usize = 256 * 1024;

/// A position in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// In bytes, from 0.
    pub(super) offset: u64,
    /// From 1.
    pub(super) line: u64,
    /// In bytes, from 1.
    pub(super) column: u64,
}

impl Position {
    pub(super) const START: Self = Self { offset: 0, line: 1, column: 1 };
}

/// A reader of values.
#[derive(Debug)]
pub(super) struct Scanner<R> {
    reader: R,
    buffer: Vec<u8>,
    next: usize,
    position: Position,
}

impl<R: Read> Scanner<R> {
    /// Reads on from this position, where the reader is.
    pub(super) fn at(reader: R, position: Position) -> Self {
        Self { reader, buffer: Vec::new(), next: 0, position }
    }

    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// A problem here.
    pub(super) fn wrong(&self, problem: impl Into<String>) -> ScanError {
        wrong_at(self.position, problem)
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        if self.next == self.buffer.len() {
            self.buffer.resize(BUFFER, 0);
            let read = loop {
                match self.reader.read(&mut self.buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => break read?,
                }
            };
            self.buffer.truncate(read);
            self.next = 0;
        }
        Ok(self.buffer.get(self.next).copied())
    }

    fn take(&mut self) -> io::Result<Option<u8>> {
        let byte = self.peek()?;
        if let Some(byte) = byte {
            self.next += 1;
            self.position.offset += 1;
            if byte == b'\n' {
                (self.position.line, self.position.column) = (self.position.line + 1, 1);
            } else {
                self.position.column += 1;
            }
        }
        Ok(byte)
    }

    /// The next byte that is not blank, which stays.
    pub(super) fn peek_token(&mut self) -> io::Result<Option<u8>> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek()? {
            self.take()?;
        }
        self.peek()
    }

    /// Takes this byte, after blanks.
    pub(super) fn expect(&mut self, byte: u8) -> Result<(), ScanError> {
        match self.peek_token()? {
            Some(found) if found == byte => Ok(self.take().map(drop)?),
            Some(_) => Err(self.wrong(format!("{:?} is expected here", char::from(byte)))),
            None => Err(self.wrong("the file ends too early")),
        }
    }

    /// Takes the comma before the next item, if there is another item. `is_first` is for the first one; `end` is the
    /// bracket that ends the items, and is taken.
    pub(super) fn has_next(&mut self, is_first: bool, end: u8) -> Result<bool, ScanError> {
        if self.peek_token()? == Some(end) {
            self.take()?;
            return Ok(false);
        }
        if !is_first {
            self.expect(b',')?;
        }
        Ok(true)
    }

    /// Takes the name of a member and its colon.
    pub(super) fn member(&mut self, value: &mut Vec<u8>) -> Result<String, ScanError> {
        if self.peek_token()? != Some(b'"') {
            return Err(self.wrong("the name of a member is expected here"));
        }
        let name = self.parsed(value, SCALAR_LIMIT)?;
        self.expect(b':')?;
        Ok(name)
    }

    /// Takes a value of at most `limit` bytes and parses it.
    pub(super) fn parsed<T: DeserializeOwned>(
        &mut self,
        value: &mut Vec<u8>,
        limit: usize,
    ) -> Result<T, ScanError> {
        let begin = self.value(value, limit)?;
        parse(value, begin)
    }

    /// Takes a value, and returns where it began.
    pub(super) fn value(&mut self, value: &mut Vec<u8>, limit: usize) -> Result<Position, ScanError> {
        value.clear();
        let first = self.peek_token()?;
        let begin = self.position;
        let mut too_large = false;
        self.walk(first, |byte| {
            if value.len() < limit {
                value.push(byte);
            } else {
                too_large = true;
            }
            !too_large
        })?;
        if too_large {
            return Err(wrong_at(begin, format!("a value has more than {limit} bytes")));
        }
        Ok(begin)
    }

    /// Skips a value.
    pub(super) fn skip(&mut self) -> Result<(), ScanError> {
        let first = self.peek_token()?;
        self.walk(first, |_| true)
    }

    /// Takes the bytes of a value that begins with `first`, until `each` returns false.
    fn walk(&mut self, first: Option<u8>, mut each: impl FnMut(u8) -> bool) -> Result<(), ScanError> {
        let Some(first) = first else { return Err(self.wrong("the file ends too early")) };
        if !matches!(first, b'{' | b'[' | b'"') {
            let is_scalar = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
            if !is_scalar(first) {
                return Err(self.wrong("a value is expected here"));
            }
            while let Some(byte) = self.peek()?.filter(|byte| is_scalar(*byte)) {
                self.take()?;
                if !each(byte) {
                    break;
                }
            }
            return Ok(());
        }
        let (mut depth, mut in_string, mut is_escaped) = (0_u32, false, false);
        loop {
            let Some(byte) = self.take()? else { return Err(self.wrong("the file ends too early")) };
            if !each(byte) {
                return Ok(());
            }
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if in_string => is_escaped = true,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => depth -= 1,
                _ => continue,
            }
            if depth > MAX_DEPTH {
                return Err(self.wrong(format!("a value is nested more than {MAX_DEPTH} deep")));
            }
            if depth == 0 && !in_string && !is_escaped {
                return Ok(());
            }
        }
    }
}

pub(super) fn wrong_at(position: Position, problem: impl Into<String>) -> ScanError {
    ScanError::At { problem: problem.into(), line: position.line, column: position.column }
}

/// Parses a value that began at a position; a problem is at its own place in the document.
pub(super) fn parse<T: DeserializeOwned>(value: &[u8], begin: Position) -> Result<T, ScanError> {
    if has_more_values_than(value, MOST_VALUES) {
        return Err(wrong_at(begin, format!("a value contains more than {MOST_VALUES} values")));
    }
    serde_json::from_slice(value).map_err(|error| {
        let (line, column) = (error.line() as u64, error.column() as u64);
        let place = match line {
            0 | 1 => Position { column: begin.column + column.saturating_sub(1), ..begin },
            line => Position { line: begin.line + line - 1, column, ..begin },
        };
        wrong_at(place, without_position(&error))
    })
}

/// What is wrong with a value. The position in the message is one within the value, and means nothing to the user.
pub(super) fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(problem, _)| problem).to_owned()
}

/// Whether a value has more than `limit` commas and opening brackets outside of its strings, so that its parsed form
/// could be many times larger than its text.
fn has_more_values_than(value: &[u8], limit: usize) -> bool {
    if value.len() <= limit {
        return false;
    }
    let (mut count, mut in_string, mut is_escaped) = (0_usize, false, false);
    for byte in value {
        if in_string {
            (in_string, is_escaped) = (is_escaped || *byte != b'"', !is_escaped && *byte == b'\\');
        } else {
            in_string = *byte == b'"';
            count += usize::from(matches!(byte, b',' | b'[' | b'{'));
        }
    }
    count > limit
}

/// A value on one line: without the blanks between its tokens if it has several lines, as npm acpx writes them.
pub(super) fn on_one_line(value: &mut Vec<u8>) {
    if !value.contains(&b'\n') {
        return;
    }
    let (mut in_string, mut is_escaped) = (false, false);
    value.retain(|byte| {
        if in_string {
            (in_string, is_escaped) = (is_escaped || *byte != b'"', !is_escaped && *byte == b'\\');
            return true;
        }
        in_string = *byte == b'"';
        !byte.is_ascii_whitespace()
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn values(text: &str) -> Result<Vec<Value>, (String, u64, u64)> {
        let mut scanner = Scanner::at(text.as_bytes(), Position::START);
        let mut read = || {
            let (mut value, mut all, mut is_first) = (Vec::new(), Vec::new(), true);
            scanner.expect(b'[')?;
            while scanner.has_next(is_first, b']')? {
                is_first = false;
                all.push(scanner.parsed(&mut value, VALUE_LIMIT)?);
            }
            Ok(all)
        };
        read().map_err(|error| match error {
            ScanError::At { problem, line, column } => (problem, line, column),
            ScanError::Io(error) => panic!("{error}"),
        })
    }

    #[test]
    fn problem_of_a_value_is_at_its_line_and_column() {
        let at = |text: &str| values(text).unwrap_err();
        let deep = format!("[{}", "[".repeat(200));
        let cases = [
            ("", "the file ends too early", 1, 1),
            ("{", "'[' is expected here", 1, 1),
            ("[1,\n  {\"a\":tru}]", "expected ident", 2, 11),
            ("[1,\n  {\"a\":\n nul}]", "expected ident", 3, 5),
            ("[1 2]", "',' is expected here", 1, 4),
            ("[1, }]", "a value is expected here", 1, 5),
            ("[\"a", "the file ends too early", 1, 4),
            (&deep, "a value is nested more than 127 deep", 1, 130),
        ];
        for (text, problem, line, column) in cases {
            assert_eq!(at(text), (problem.to_owned(), line, column), "{text}");
        }
    }

    #[test]
    fn value_above_the_limit_is_refused_at_its_begin() {
        let mut scanner = Scanner::at(&b"\n \"abcdef\""[..], Position::START);
        let mut value = Vec::new();
        let Err(ScanError::At { problem, line, column }) = scanner.value(&mut value, 5) else {
            panic!("it was read")
        };
        assert_eq!((problem.as_str(), line, column), ("a value has more than 5 bytes", 2, 2));
        assert!(value.len() <= 5);
    }

    #[test]
    fn value_with_too_many_values_is_refused_before_it_is_parsed() {
        let crowded = format!("[{}0]", "0,".repeat(MOST_VALUES));
        let Err(ScanError::At { problem, line, column }) =
            parse::<serde::de::IgnoredAny>(crowded.as_bytes(), Position::START)
        else {
            panic!("it was parsed")
        };
        let expected = ("a value contains more than 1000000 values", 1, 1);
        assert_eq!((problem.as_str(), line, column), expected);
        let text = serde_json::to_string(&",[{\\\"".repeat(MOST_VALUES)).unwrap();
        assert!(parse::<String>(text.as_bytes(), Position::START).is_ok());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn values_of_an_array_are_read_as_serde_json_reads_them(items in prop::collection::vec(any_json(), 0..5)) {
            let array = Value::from(items.clone());
            prop_assert_eq!(values(&array.to_string()), Ok(items.clone()));
            prop_assert_eq!(values(&serde_json::to_string_pretty(&array).unwrap()), Ok(items.clone()));
            for item in items {
                let mut pretty = serde_json::to_vec_pretty(&item).unwrap();
                on_one_line(&mut pretty);
                prop_assert_eq!(String::from_utf8(pretty).unwrap(), item.to_string());
            }
        }

        #[test]
        fn any_text_is_read_or_refused_and_nothing_panics(text in ".*") {
            drop(values(&text));
            drop(values(&format!("[{text}")));
        }
    }
}
