//! `acpx man`: prints the manual page in troff, for `man -l -`.

use crate::cli::manual_page;
use crate::error::CliError;
use crate::output::Printer;

/// Prints the page.
pub(super) fn run() -> Result<(), CliError> {
    Ok(Printer::stdout().part(&manual_page())?)
}
