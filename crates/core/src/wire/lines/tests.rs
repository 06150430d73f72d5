//! Splitting lines, for every way the bytes arrive.

use super::*;

#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Whole(String),
    TooLong(String, u64),
}

/// All lines of a stream that arrives in chunks of `size` bytes.
fn lines(bytes: &[u8], size: usize, limit: usize) -> Vec<Seen> {
    let mut lines = LineBuffer::new(limit, 4);
    let mut seen = Vec::new();
    let see = |line: RawLine<'_>| match line {
        RawLine::Whole(line) => Seen::Whole(String::from_utf8_lossy(line).into_owned()),
        RawLine::TooLong(dropped) => {
            Seen::TooLong(String::from_utf8_lossy(&dropped.head).into_owned(), dropped.bytes)
        }
    };
    for part in bytes.chunks(size) {
        lines.room().extend_from_slice(part);
        while let Some(line) = lines.next() {
            seen.push(see(line));
        }
    }
    seen.extend(lines.rest().map(see));
    seen
}

#[test]
fn lines_are_the_same_however_the_stream_is_cut() {
    let stream = b"ab\r\n\nabcdef\nabcdef\r\nabcdefghijkl\nabcdefg\n\xffz";
    let whole = |text: &str| Seen::Whole(text.to_owned());
    let expected = [
        whole("ab"),
        whole(""),
        whole("abcdef"),
        whole("abcdef"),
        Seen::TooLong("abcd".to_owned(), 12),
        Seen::TooLong("abcd".to_owned(), 7),
        whole("\u{fffd}z"),
    ];
    for size in 1..=stream.len() {
        assert_eq!(lines(stream, size, 6), expected, "in parts of {size}");
    }
}

#[test]
fn an_unfinished_line_over_the_limit_is_reported_at_the_end() {
    for size in 1..=9 {
        assert_eq!(lines(b"abcdefghi", size, 2), [Seen::TooLong("abcd".to_owned(), 9)], "in parts of {size}");
    }
    assert_eq!(lines(b"", 1, 2), []);
}

#[test]
fn an_endless_line_is_not_kept() {
    let mut lines = LineBuffer::new(1000, 4);
    for _ in 0..10_000 {
        lines.room().extend_from_slice(&[b'x'; 500]);
        assert_eq!(lines.next(), None);
    }
    assert_eq!(lines.dropped_so_far(), 5_000_000);
    assert!(lines.buffer.capacity() <= 2 * READ_BYTES, "{}", lines.buffer.capacity());
}

#[test]
fn the_room_of_a_long_line_is_given_back() {
    let mut lines = LineBuffer::new(8 * KEPT_BYTES, 4);
    lines.room().extend_from_slice(&vec![b'x'; 4 * KEPT_BYTES]);
    assert_eq!(lines.next(), None);
    lines.room().extend_from_slice(b"\n");
    assert!(matches!(lines.next(), Some(RawLine::Whole(line)) if line.len() == 4 * KEPT_BYTES));
    assert_eq!(lines.next(), None);
    assert!(lines.room().capacity() <= KEPT_BYTES);
}
