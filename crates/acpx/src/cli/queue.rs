//! The commands for queued prompts, with their arguments and help texts.

use clap::{Args, Subcommand};

/// List and drop queued prompts; without a command, list them
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// List the queued prompts of all sessions, or of one
    #[command(override_usage = "acpx queue list [FLAGS] [SESSION]")]
    #[command(after_help = "\
A prompt is queued while its session works on an earlier one. The list starts no host and no agent.
  acpx claude --no-wait 'and then…'     queue a prompt; prints its id
  acpx queue list                       all queued prompts, with their ids
  acpx queue drop 01a1e8cc              drop one; a unique beginning of its id is enough
  acpx cancel 01a1e8cc                  stop a prompt, queued or running")]
    List(QueueListArgs),
    /// Drop queued prompts; one that the agent already has is left to acpx cancel
    #[command(override_usage = "acpx queue drop [FLAGS] <ID>...\n       acpx queue drop [FLAGS] --all")]
    Drop(QueueDropArgs),
}

#[derive(Debug, Args)]
pub(crate) struct QueueListArgs {
    /// Only the prompts of this session, by its name or id
    #[arg(value_name = "SESSION", conflicts_with = "session")]
    pub(crate) named: Option<String>,
    #[command(flatten)]
    pub(crate) filter: QueueFilterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct QueueDropArgs {
    /// The prompts, by their ids or unique beginnings of at least six characters
    #[arg(value_name = "ID", required_unless_present = "all")]
    pub(crate) requests: Vec<String>,
    /// Drop all queued prompts
    #[arg(long, conflicts_with = "requests")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) filter: QueueFilterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct QueueFilterArgs {
    /// Only prompts to this agent, by its name or command line
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Only the prompts of this session, by its name or id
    #[arg(short, long, value_name = "SESSION")]
    pub(crate) session: Option<String>,
}
