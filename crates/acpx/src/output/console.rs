//! A command's output streams, with the requested format.

use std::cell::Cell;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::rc::Rc;

use serde::Serialize;

use super::json_line;
use super::sanitize::{Clean, line};
use crate::cli::Format;

/// The output mode of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OutputMode {
    /// The format.
    pub(crate) format: Format,
    /// Whether stderr stays empty, so that nothing but JSON is written.
    pub(crate) strict: bool,
    /// Whether to report what is being done.
    pub(crate) verbose: bool,
}

/// The two streams of a command. `flush` makes the output visible.
pub(crate) struct Console<'a> {
    /// The output mode.
    pub(crate) mode: OutputMode,
    /// Data.
    pub(crate) out: Box<dyn Write + 'a>,
    /// Notices for people.
    err: Box<dyn Write + 'a>,
    /// How many bytes were written to terminals.
    shown: Rc<Cell<u64>>,
}

/// What a command did, for programs.
#[derive(Serialize)]
struct ResultObject<'a, T> {
    action: &'static str,
    #[serde(flatten)]
    members: &'a T,
}

/// Counts the bytes written through it.
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
    /// Stdout and stderr of the program. Control characters are removed from text to a terminal, and escaped in JSON.
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
    /// Flushes stdout.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes a result and flushes: an object with this action for programs, or a line for people.
    pub(super) fn result(
        &mut self,
        action: &'static str,
        members: &impl Serialize,
        text: Option<&str>,
        quiet: Option<&str>,
    ) -> io::Result<()> {
        match self.mode.format {
            Format::Json => json_line(&ResultObject { action, members }, &mut *self.out)?,
            Format::Text => text.iter().try_for_each(|text| writeln!(self.out, "{text}"))?,
            Format::Quiet => quiet.iter().try_for_each(|text| writeln!(self.out, "{text}"))?,
        }
        self.flush()
    }

    /// How many bytes have been written to a terminal so far.
    pub(crate) fn shown(&self) -> u64 {
        self.shown.get()
    }

    /// Discards further data: stdout is unwritable. Notices still go to stderr.
    pub(crate) fn stop_writing(&mut self) {
        self.out = Box::new(io::sink());
    }

    /// Writes a notice to stderr, except in strict mode. A failure to write it is ignored.
    pub(crate) fn notice(&mut self, text: &str) {
        if !self.mode.strict {
            drop(line(&mut *self.err, format_args!("[acpx] {text}")));
        }
    }

    /// Writes a notice after all data written so far.
    pub(super) fn flush_and_notice(&mut self, text: &str) -> io::Result<()> {
        self.flush()?;
        self.notice(text);
        Ok(())
    }

    /// Reports what is being done, in verbose mode.
    pub(crate) fn detail(&mut self, text: &str) {
        if self.mode.verbose {
            self.notice(text);
        }
    }

    /// Writes a notice about the session, except in quiet mode.
    pub(crate) fn banner(&mut self, text: &str) {
        if self.mode.format != Format::Quiet {
            self.notice(text);
        }
    }
}
