//! Where a command writes, and how: the two streams with the format that was asked for.

use std::cell::Cell;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::rc::Rc;

use super::clean::{Clean, line};
use crate::cli::Format;

/// How a command writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OutputMode {
    /// In which form.
    pub(crate) format: Format,
    /// Whether stderr stays empty, so that nothing but JSON is written.
    pub(crate) strict: bool,
    /// Whether to say what is done.
    pub(crate) verbose: bool,
}

/// The two streams of a command. What is written is shown by `flush`.
pub(crate) struct Console<'a> {
    /// How to write.
    pub(crate) mode: OutputMode,
    /// Data.
    pub(crate) out: Box<dyn Write + 'a>,
    /// Words for people.
    err: Box<dyn Write + 'a>,
    /// How many bytes were written to streams that are terminals.
    shown: Rc<Cell<u64>>,
}

/// Counts what is written through it.
struct CountingWriter<W> {
    inner: W,
    bytes: Rc<Cell<u64>>,
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes.set(self.bytes.get().saturating_add(written as u64));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl Console<'static> {
    /// Stdout and stderr of the program. Text to a terminal loses its control characters, and JSON escapes them.
    pub(crate) fn of_program(mode: OutputMode) -> Self {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let shown = Rc::new(Cell::new(0));
        let is_terminal = stdout.is_terminal();
        let buffered = BufWriter::new(stdout);
        let out: Box<dyn Write> = if is_terminal {
            Box::new(Clean::new(CountingWriter { inner: buffered, bytes: shown.clone() }, mode.format))
        } else {
            Box::new(buffered)
        };
        let err: Box<dyn Write> = if stderr.is_terminal() {
            Box::new(Clean::new(CountingWriter { inner: stderr, bytes: shown.clone() }, Format::Text))
        } else {
            Box::new(stderr)
        };
        Self { mode, out, err, shown }
    }
}

#[cfg(test)]
impl<'a> Console<'a> {
    /// A console over any two streams.
    pub(crate) fn over(mode: OutputMode, out: impl Write + 'a, err: impl Write + 'a) -> Self {
        Self { mode, out: Box::new(out), err: Box::new(err), shown: Rc::default() }
    }
}

impl Console<'_> {
    /// Shows what has been written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// How many bytes have been written to a terminal so far.
    pub(crate) fn shown(&self) -> u64 {
        self.shown.get()
    }

    /// Writes no more data: stdout takes none. Words are said as before.
    pub(crate) fn give_stdout_up(&mut self) {
        self.out = Box::new(io::sink());
    }

    /// Says something to a person. If nobody listens there is nobody to tell; nobody may listen in strict mode.
    pub(crate) fn say(&mut self, text: &str) {
        if !self.mode.strict {
            drop(line(&mut *self.err, format_args!("[acpx] {text}")));
        }
    }

    /// Says what is being done, if that was asked for.
    pub(crate) fn detail(&mut self, text: &str) {
        if self.mode.verbose {
            self.say(text);
        }
    }

    /// A note about the session for those who read along, but not for those who want the answer alone.
    pub(crate) fn banner(&mut self, text: &str) {
        if self.mode.format != Format::Quiet {
            self.say(text);
        }
    }
}
