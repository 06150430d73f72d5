//! `acpx completions`: prints the completion script of a shell. The scripts only ask `acpx complete`.

use crate::cli::{CompletionsArgs, Shell};
use crate::error::CliError;
use crate::output::Printer;

/// Prints the script.
pub(super) fn run(args: CompletionsArgs) -> Result<(), CliError> {
    let script = match args.shell {
        Shell::Bash => include_str!("../completions/acpx.bash"),
        Shell::Zsh => include_str!("../completions/acpx.zsh"),
        Shell::Fish => include_str!("../completions/acpx.fish"),
    };
    Ok(Printer::stdout().part(script)?)
}
