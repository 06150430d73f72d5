//! A command's output streams, with the requested format.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::rc::Rc;

use serde::Serialize;

use super::error::wrapped;
use super::json_line;
use super::sanitize::{line, on_one_line};
use super::spinner::{Awaited, ConsoleStream, ObservedWriter, StreamState};
use super::style::{Style, StyledText, StyledWriter, has_color};
use crate::cli::{ColorMode, Format, OutputArgs};

/// The output mode of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OutputMode {
    /// The format.
    pub(crate) format: Format,
    /// Whether stderr stays empty, so that nothing but JSON is written.
    pub(crate) strict: bool,
    /// Whether to report what is being done.
    pub(crate) verbose: bool,
    /// Whether text is laid out for a terminal: stdout is one, or colour is forced.
    pub(crate) is_terminal: bool,
    /// When to use colour.
    pub(crate) color: ColorMode,
    /// Whether what agents read is part of the output.
    pub(crate) reads: ReadOutput,
}

/// What becomes of what agents read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ReadOutput {
    /// It is shown.
    #[default]
    Shown,
    /// A placeholder is shown.
    Suppressed,
}

impl OutputMode {
    /// The mode of the program's own streams.
    pub(crate) fn of_program(format: Format, flags: OutputArgs) -> Self {
        let OutputArgs { json_strict: strict, verbose, color, suppress_reads, .. } = flags;
        let reads = if suppress_reads { ReadOutput::Suppressed } else { ReadOutput::Shown };
        let is_terminal = stdout_is_terminal() || format == Format::Text && has_color(color, false);
        Self { format, strict, verbose, is_terminal, color, reads }
    }

    /// Whether the output is text for a person at a terminal.
    pub(crate) fn is_text_on_terminal(self) -> bool {
        self.is_terminal && self.format == Format::Text
    }

    /// Whether a person reads the output: text on a terminal, whole or only the answer.
    pub(crate) fn is_for_a_person(self) -> bool {
        stdout_is_terminal() && self.format != Format::Json
    }

    /// Whether stdout has colour.
    pub(crate) fn has_color(self) -> bool {
        self.format != Format::Json && has_color(self.color, self.is_terminal)
    }
}

/// The two streams of a command. `flush` makes the output visible.
pub(crate) struct Console<'a> {
    /// The output mode.
    pub(crate) mode: OutputMode,
    /// Data.
    pub(crate) out: StyledWriter<'a>,
    /// Notices for people.
    pub(super) err: StyledWriter<'a>,
    pub(super) streams: Rc<StreamState>,
    /// Whether stderr shows what is awaited.
    pub(super) has_spinner: bool,
    pub(super) awaited: Option<Awaited>,
}

/// What a command did, for programs.
#[derive(Serialize)]
struct ResultObject<'a, T> {
    action: &'static str,
    #[serde(flatten)]
    members: &'a T,
}

/// Whether stdout is a terminal.
pub(super) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether the terminal can erase a line.
fn knows_erase() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Stderr for people.
pub(super) fn stderr(color: ColorMode, state: Rc<StreamState>) -> StyledWriter<'static> {
    let inner = io::stderr();
    let is_terminal = inner.is_terminal();
    let observed = ObservedWriter { inner, kind: ConsoleStream::Stderr, is_terminal, state };
    StyledWriter::new(observed, Format::Text, is_terminal, has_color(color, is_terminal))
}

impl Console<'static> {
    /// Stdout and stderr of the program. Control characters are removed from text to a terminal, and escaped in JSON.
    pub(crate) fn of_program(mode: OutputMode) -> Self {
        let streams = Rc::<StreamState>::default();
        let OutputMode { format, is_terminal, .. } = mode;
        let (inner, kind) = (BufWriter::new(io::stdout()), ConsoleStream::Stdout);
        let out = ObservedWriter { inner, kind, is_terminal: stdout_is_terminal(), state: streams.clone() };
        let has_spinner = format == Format::Text && io::stderr().is_terminal() && knows_erase();
        Self {
            mode,
            out: StyledWriter::new(out, format, is_terminal, mode.has_color()),
            err: stderr(mode.color, streams.clone()),
            streams,
            has_spinner,
            awaited: None,
        }
    }
}

#[cfg(test)]
impl<'a> Console<'a> {
    /// A console over any two streams.
    pub(crate) fn over(mode: OutputMode, out: impl Write + 'a, err: impl Write + 'a) -> Self {
        let out = StyledWriter::new(out, mode.format, mode.is_terminal, mode.color == ColorMode::Always);
        let err = StyledWriter::new(err, Format::Text, mode.is_terminal, mode.color == ColorMode::Always);
        Self { mode, out, err, streams: Rc::default(), has_spinner: false, awaited: None }
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
            Format::Json => json_line(&ResultObject { action, members }, &mut self.out)?,
            Format::Text => text.iter().try_for_each(|text| writeln!(self.out, "{text}"))?,
            Format::Quiet => quiet.iter().try_for_each(|text| writeln!(self.out, "{text}"))?,
        }
        self.flush()
    }

    /// How many bytes have been written to a terminal so far.
    pub(crate) fn shown(&self) -> u64 {
        self.streams.shown.get()
    }

    /// Discards further data: stdout is unwritable. Notices still go to stderr.
    pub(crate) fn stop_writing(&mut self) {
        self.out = StyledWriter::new(io::sink(), self.mode.format, false, false);
    }

    /// Writes a notice to stderr, except in strict mode. A failure to write it is ignored.
    pub(crate) fn notice(&mut self, text: &str) {
        if self.mode.strict {
            return;
        }
        drop(if self.mode.is_terminal {
            let label = "note: ";
            let lines = wrapped(&on_one_line(text), label.len(), super::terminal_size().0.into());
            self.err.styled(Style::Dim, &format!("{label}{lines}\n"))
        } else {
            line(&mut self.err, format_args!("[acpx] {text}"))
        });
    }

    /// Writes a line to stderr of a terminal, as it is, except in strict mode. A failure to write it is ignored.
    pub(super) fn header(&mut self, text: &StyledText) {
        if !self.mode.strict {
            drop(self.err.text(text));
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

impl Drop for Console<'_> {
    /// No spinner stays behind.
    fn drop(&mut self) {
        self.stop_waiting();
    }
}
