//! An agent's stderr: always drained, so that the agent never blocks, and kept only as a short tail.

use std::collections::VecDeque;
use std::sync::Arc;

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinSet;

use crate::sync::Lock;

/// How many bytes of stderr are kept.
const TAIL_BYTES: usize = 16 * 1024;
/// How many lines of it are reported, and how much of each.
const TOLD_LINES: usize = 5;
const TOLD_CHARS: usize = 300;

/// An agent's stderr. It is drained until this value is dropped or the pipe closes.
#[derive(Debug)]
pub(super) struct Stderr {
    tail: StderrTail,
    /// The reader task, which ends with this value.
    drain: JoinSet<()>,
}

impl Stderr {
    /// Starts draining. Must be called inside a tokio runtime.
    pub(super) fn drain(source: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let tail = StderrTail::default();
        let mut drain = JoinSet::new();
        drain.spawn(tail.clone().read(source));
        Self { tail, drain }
    }

    /// The tail, readable while it grows.
    pub(super) fn tail(&self) -> StderrTail {
        self.tail.clone()
    }

    /// The last non-blank lines, each shortened. Waits up to `limit` for the end of the pipe.
    pub(super) async fn last_lines(&mut self, limit: Duration) -> Vec<String> {
        // Another process may hold the pipe open forever.
        drop(tokio::time::timeout(limit, self.drain.join_next()).await);
        self.tail.last_lines()
    }
}

/// The end of the output.
#[derive(Debug, Clone, Default)]
pub(crate) struct StderrTail(Arc<Lock<VecDeque<u8>>>);

impl StderrTail {
    /// Reads until the other side closes.
    async fn read(self, mut source: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; 8 * 1024];
        while let Ok(read @ 1..) = source.read(&mut buffer).await {
            self.push(buffer.get(..read).unwrap_or_default());
        }
    }

    fn push(&self, bytes: &[u8]) {
        let mut tail = self.0.lock();
        tail.extend(bytes);
        let excess = tail.len().saturating_sub(TAIL_BYTES);
        tail.drain(..excess);
    }

    /// The last non-blank lines so far.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        let tail = self.0.lock();
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
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[test]
    fn stderr_tail_has_no_colours_and_is_shortened() {
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

    #[tokio::test]
    async fn stderr_tail_is_read_to_its_end_or_until_the_timeout() {
        let (mut theirs, ours) = tokio::io::duplex(64);
        let mut stderr = Stderr::drain(ours);
        theirs.write_all("x\n".repeat(1000).as_bytes()).await.unwrap();
        theirs.write_all(b"last\n").await.unwrap();
        let expected = ["x", "x", "x", "x", "last"];
        // The pipe is open, and everything written so far was read.
        assert_eq!(stderr.last_lines(Duration::from_millis(100)).await, expected);
        drop(theirs);
        assert_eq!(stderr.last_lines(Duration::MAX).await, expected);
        assert_eq!(stderr.last_lines(Duration::MAX).await, expected);
    }

    #[tokio::test]
    async fn stderr_reader_stops_with_the_agent_despite_an_open_pipe() {
        let (mut theirs, ours) = tokio::io::duplex(64);
        let stderr = Stderr::drain(ours);
        theirs.write_all(b"a daemon speaks\n").await.unwrap();
        drop(stderr);
        while theirs.write_all(b"and on\n").await.is_ok() {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn remembered_stderr_is_bounded() {
        let tail = StderrTail::default();
        for _ in 0..100 {
            tail.push(&[b'x'; TAIL_BYTES]);
        }
        assert_eq!(tail.0.lock().len(), TAIL_BYTES);
    }
}
