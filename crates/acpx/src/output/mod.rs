//! The only code that writes for people: data to stdout, words about trouble to stderr.
//!
//! A reader that goes away (`acpx tour | head -1`) ends the program quietly; that is an error like any other
//! here, and `CliError` knows that it is not worth a word.

use std::io::{self, Write};

/// Writes lines to stdout.
#[derive(Debug)]
pub(crate) struct Printer {
    out: io::Stdout,
}

impl Printer {
    pub(crate) fn stdout() -> Self {
        Self { out: io::stdout() }
    }

    /// Writes a line and shows it at once.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        let mut out = self.out.lock();
        writeln!(out, "{text}")?;
        out.flush()
    }
}

/// Writes a line to stderr. If even that fails, there is nobody left to tell.
pub(crate) fn complain(text: &str) {
    drop(writeln!(io::stderr(), "{text}"));
}
