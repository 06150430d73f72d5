//! One line on stderr that says what is awaited and for how long, while a command waits on a terminal.
//!
//! It appears after 300 ms without output and is erased before any other byte is written to stdout or stderr. It is
//! drawn only where the last line of stdout has ended, so it never touches the words of an agent. A command that
//! waits draws it: it waits for `Console::next_frame` too.

use std::cell::Cell;
use std::future::pending;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Console;
use super::elapsed::elapsed;
use super::sanitize::on_one_line;
use super::style::Style;
use super::table::cut_end;

/// How long nothing happens before the line appears.
const DELAY: Duration = Duration::from_millis(300);
/// How often it changes.
const FRAME: Duration = Duration::from_millis(100);
/// Goes to the start of the line and clears it.
const ERASE: &[u8] = b"\r\x1b[K";
pub(crate) const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// For a terminal that does not know its width.
const UNKNOWN_WIDTH: u16 = 80;

/// What the streams of a console know of each other.
#[derive(Debug, Default)]
pub(super) struct StreamState {
    /// How many bytes were written to terminals.
    pub(super) shown: Cell<u64>,
    /// Whether the line is on the screen.
    is_drawn: Cell<bool>,
    /// Whether stdout ends within a line, or is not a terminal and was written to.
    is_blocked: Cell<bool>,
    /// When stdout was written to.
    written_at: Cell<Option<Instant>>,
}

impl StreamState {
    /// Erases the line. Stderr is a terminal if the line is drawn; an error is ignored.
    fn erase(&self) {
        if self.is_drawn.take() {
            drop(io::stderr().write_all(ERASE));
        }
    }
}

/// Which stream a writer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConsoleStream {
    Stdout,
    Stderr,
}

/// Erases the line before it writes, and counts the bytes to terminals.
pub(super) struct ObservedWriter<W> {
    pub(super) inner: W,
    pub(super) kind: ConsoleStream,
    pub(super) is_terminal: bool,
    pub(super) state: Rc<StreamState>,
}

impl<W: Write> Write for ObservedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.state.erase();
        let written = self.inner.write(bytes)?;
        let state = &self.state;
        if self.is_terminal {
            state.shown.set(state.shown.get().saturating_add(written as u64));
        }
        if self.kind == ConsoleStream::Stdout
            && let Some(last) = written.checked_sub(1).and_then(|last| bytes.get(last))
        {
            state.is_blocked.set(!self.is_terminal || *last != b'\n');
            state.written_at.set(Some(Instant::now()));
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// What is awaited.
#[derive(Debug)]
pub(super) struct Awaited {
    words: String,
    activity: Option<String>,
    since: Instant,
    next: Instant,
    frame: usize,
}

impl Console<'_> {
    /// Shows what is awaited from now on, on a terminal; returns whether it does.
    pub(crate) fn wait_for(&mut self, words: &str) -> bool {
        if !self.has_spinner {
            return false;
        }
        let words = on_one_line(words);
        let now = Instant::now();
        match &mut self.awaited {
            Some(awaited) => awaited.words = words,
            none => *none = Some(Awaited { words, activity: None, since: now, next: now + DELAY, frame: 0 }),
        }
        true
    }

    /// Names what happens while something is awaited, such as a tool at work. Returns whether it is shown.
    pub(crate) fn wait_during(&mut self, activity: Option<&str>) -> bool {
        if let Some(awaited) = &mut self.awaited {
            awaited.activity = activity.map(on_one_line);
        }
        self.awaited.is_some()
    }

    /// Nothing is awaited any more.
    pub(crate) fn stop_waiting(&mut self) {
        self.awaited = None;
        self.streams.erase();
    }

    /// Waits until the line is to change, and draws it; forever if nothing is awaited. Stdout is flushed before.
    pub(crate) async fn next_frame(&mut self) {
        let Some(awaited) = self.awaited.as_ref().filter(|_| !self.streams.is_blocked.get()) else {
            return pending().await;
        };
        let quiet = self.streams.written_at.get().map(|at| at + DELAY);
        sleep_until(quiet.map_or(awaited.next, |quiet| quiet.max(awaited.next))).await;
        self.draw();
    }

    fn draw(&mut self) {
        let Some(awaited) = &mut self.awaited else { return };
        let frame = FRAMES.get(awaited.frame % FRAMES.len()).copied().unwrap_or_default();
        awaited.frame += 1;
        awaited.next = Instant::now() + FRAME;
        let text = format!(
            "{} · {}",
            awaited.activity.as_ref().unwrap_or(&awaited.words),
            elapsed(awaited.since.elapsed())
        );
        // The last columns stay empty, so that neither the line nor an echoed ^C wraps.
        let text = cut_end(&text, usize::from(width()).saturating_sub(5));
        // An unwritable terminal has no spinner.
        drop(self.err.styled(Style::Accent, frame));
        drop(self.err.styled(Style::Dim, &format!(" {text}")));
        self.streams.is_drawn.set(true);
    }
}

/// How many columns the terminal of stderr has.
fn width() -> u16 {
    let size = rustix::termios::tcgetwinsize(io::stderr()).map(|size| size.ws_col);
    size.ok().filter(|columns| *columns > 0).unwrap_or(UNKNOWN_WIDTH)
}
