//! What an agent writes to stderr: always drained, so that it never blocks, and kept only as a short tail.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

/// How much of stderr is remembered.
const TAIL_BYTES: usize = 16 * 1024;
/// How many lines of it are told, and how much of each.
const TOLD_LINES: usize = 5;
const TOLD_CHARS: usize = 300;

/// The end of what an agent wrote to stderr.
#[derive(Debug, Clone, Default)]
pub(super) struct StderrTail(Arc<Mutex<VecDeque<u8>>>);

impl StderrTail {
    /// Reads until the other side closes.
    pub(super) async fn drain(self, mut source: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; 8 * 1024];
        while let Ok(read @ 1..) = source.read(&mut buffer).await {
            self.push(buffer.get(..read).unwrap_or_default());
        }
    }

    fn push(&self, bytes: &[u8]) {
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend(bytes);
        let excess = tail.len().saturating_sub(TAIL_BYTES);
        tail.drain(..excess);
    }

    /// The last lines that say anything, each shortened.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = tail.iter().copied().collect();
        drop(tail);
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().map(readable).filter(|line| !line.is_empty()).collect();
        lines.into_iter().rev().take(TOLD_LINES).rev().collect()
    }
}

/// A line without colours and other control characters.
fn readable(line: &str) -> String {
    let mut text = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // A terminal sequence ends with a letter.
            chars.by_ref().find(char::is_ascii_alphabetic);
        } else if !c.is_control() {
            text.push(c);
        }
    }
    text.trim().chars().take(TOLD_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_told_without_colours_and_shortened() {
        let tail = StderrTail::default();
        for number in 0..10 {
            tail.push(format!("line {number}\n\n").as_bytes());
        }
        tail.push(b"\x1b[31mred\x1b[0m\xff\n");
        tail.push("x".repeat(1000).as_bytes());
        let expected = ["line 7", "line 8", "line 9", "red\u{fffd}", &"x".repeat(TOLD_CHARS)]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(tail.last_lines(), expected);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let tail = StderrTail::default();
        for _ in 0..100 {
            tail.push(&[b'x'; TAIL_BYTES]);
        }
        assert_eq!(tail.0.lock().unwrap().len(), TAIL_BYTES);
    }
}
