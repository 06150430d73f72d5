//! The arguments of `acpx search` and `acpx index`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::options::count;
use super::usage_report::{Moment, moment};

/// Search every conversation on this machine
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Searches the sessions of acpx and the transcripts that agents keep themselves. A message matches if it has all words;
upper and lower case are the same. Write a phrase in quotes within the argument, and * for any end of a word.
No agent is started. New conversations are read first, for at most two seconds.

In a pipe, a hit is one line: where it comes from (record or transcript), the id, the agent, the directory, the time,
the role, the place, the title and the text around the match, between tabs; - is unknown.

Examples:
  acpx search parse error                    messages with both words
  acpx search '\"parse error\"' --role user    this phrase in a prompt
  acpx search 'migrat*' --project . --since 7d
  acpx search retry --tool bash --format json")]
#[command(override_usage = "acpx search [FLAGS] WORDS...")]
pub(crate) struct SearchArgs {
    /// What to search for: words, "phrases in quotes", and beginnings of words as in migrat*
    #[arg(value_name = "WORDS", required = true)]
    pub(crate) words: Vec<String>,
    /// Only sessions of this agent
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Only sessions of this directory or below it
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// Only messages since then: a date, a time, or 7d or 12h before now
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub(crate) since: Option<Moment>,
    /// Only messages of this role: user, agent, thought or tool; may be repeated
    #[arg(long, value_name = "ROLE", value_enum, hide_possible_values = true)]
    pub(crate) role: Vec<RoleArg>,
    /// Only calls of this tool, by its name or its kind, as in bash or edit
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    /// Maximum number of hits
    #[arg(long, value_name = "N", default_value = "20", value_parser = count::<NonZeroUsize>)]
    pub(crate) limit: NonZeroUsize,
}

/// Whose message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleArg {
    User,
    Agent,
    Thought,
    Tool,
}

/// Show or rebuild the search index
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub(crate) enum IndexCommand {
    /// Show what the index has, and what is still to be read
    Status,
    /// Create the index anew and read every conversation
    Rebuild,
    /// Read what has changed since the last time, to the end
    Update,
    /// Update the index at low priority until stdin ends
    #[command(hide = true)]
    Background,
}
