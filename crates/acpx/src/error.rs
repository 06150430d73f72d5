//! What can go wrong with a command, and the one place that prints it.

use std::error::Error;
use std::io;
use std::process::ExitCode;

/// Why a command could not be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// Neither `ACPX_HOME` nor `HOME` is set.
    #[error("cannot tell where acpx keeps its files: set ACPX_HOME or HOME")]
    NoHome,
    /// The async runtime cannot be started.
    #[error("cannot start")]
    Runtime(#[source] io::Error),
}

impl CliError {
    /// Prints the error with its causes on stderr.
    #[expect(clippy::print_stderr, reason = "the one place where a failed command says why")]
    pub(crate) fn report(&self) -> ExitCode {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        eprintln!("acpx: {text}");
        ExitCode::FAILURE
    }
}
