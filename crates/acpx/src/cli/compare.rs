//! The command that compares agents, with its arguments and help texts.

use std::path::PathBuf;

use clap::Args;

use super::invocation::PromptWords;
use super::usage::UsageError;

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
    arguments: Vec<String>,
    /// The prompt
    #[arg(value_name = "WORDS", last = true)]
    words: Vec<String>,
    /// Read the prompt from this file, - for stdin
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The same as --file
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    prompt_file: Option<PathBuf>,
    /// The same as --format json
    #[arg(long)]
    pub(super) json: bool,
}

/// One prompt for several agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompareCommand {
    /// The agents by name.
    pub(crate) agents: Vec<String>,
    pub(crate) input: PromptWords,
}

impl CompareArgs {
    /// The agents and the prompt, which is the last argument unless it comes from a file or after `--`.
    pub(super) fn read(self) -> Result<CompareCommand, UsageError> {
        let Self { arguments: mut agents, mut words, file, prompt_file, json: _ } = self;
        let file = file.or(prompt_file);
        if file.is_none() && words.is_empty() {
            words.extend(agents.pop());
        }
        if agents.is_empty() {
            return Err(UsageError::CompareWords);
        }
        Ok(CompareCommand { agents, input: PromptWords { words, file, attachments: Vec::new() } })
    }
}
