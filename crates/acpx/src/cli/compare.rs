//! The command that compares agents, with its arguments and help texts.

use std::path::PathBuf;

use clap::Args;

/// Send one prompt to several agents, one after the other, and compare the answers
#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is stored. Each agent has five minutes, or the time of --timeout. The exit code is 1 if an agent failed, 5 if one
was denied every permission, and 3 if one was cancelled or took too long.

Examples:
  acpx compare claude codex 'what does this project do?'
  acpx compare claude codex gemini --file prompt.md --json
  acpx compare claude codex -- why is the build slow?")]
#[command(override_usage = "\
acpx compare [FLAGS] AGENT... PROMPT
       acpx compare [FLAGS] AGENT... --file FILE
       acpx compare [FLAGS] AGENT... -- WORDS...")]
pub(super) struct CompareArgs {
    /// The agents by name, and then the prompt
    #[arg(value_name = "AGENT", required = true)]
    pub(super) arguments: Vec<String>,
    /// The prompt
    #[arg(value_name = "WORDS", last = true)]
    pub(super) words: Vec<String>,
    /// Read the prompt from this file, - for stdin
    #[arg(short, long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// The same as --file
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub(super) prompt_file: Option<PathBuf>,
    /// The same as --format json
    #[arg(long)]
    pub(super) json: bool,
}
