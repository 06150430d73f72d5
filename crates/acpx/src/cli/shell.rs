//! The arguments of `completions`, of the hidden `complete`, and of `man`.

use clap::{Args, ValueEnum};

/// A shell with completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Print the completion script of a shell: commands, flags, agents, sessions and models
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
#[command(after_help = "\
bash   eval \"$(acpx completions bash)\" in ~/.bashrc
zsh    eval \"$(acpx completions zsh)\" in ~/.zshrc, after compinit
fish   acpx completions fish > ~/.config/fish/completions/acpx.fish

The script asks acpx for every word, so it stays right after an update. It starts no agent and no host.")]
#[command(override_usage = "acpx completions SHELL")]
pub(crate) struct CompletionsArgs {
    /// bash, zsh or fish
    #[arg(value_name = "SHELL", value_enum, hide_possible_values = true)]
    pub(crate) shell: Shell,
}

/// Print what the last word can become; the completion scripts call this
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct CompleteArgs {
    /// The words after acpx up to the cursor
    #[arg(value_name = "WORDS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

pub(super) const MAN_HELP: &str = "\
Examples:
  acpx man | man -l -                       read it
  acpx man > ~/.local/share/man/man1/acpx.1  install it, then: man acpx";
