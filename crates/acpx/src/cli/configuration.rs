//! The commands for the configuration and for trust in a project's file, with their arguments and help texts.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Show the configuration, or create it; without a command, show it
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every setting and where it comes from
    #[command(override_usage = "acpx config [show] [FLAGS]")]
    #[command(after_help = "\
A flag takes precedence over an environment variable, that over the project's .acpxrc.json, that over config.json of
the home, and that over the default. In a pipe the output is JSON. Secrets are not shown.

Examples:
  acpx config                             the settings in this directory
  acpx --timeout 60 config                with a flag
  acpx --format json config | jq .origins the origin of each setting")]
    Show,
    /// Create config.json in the home; a file that exists is left alone
    #[command(override_usage = "acpx config init [FLAGS]")]
    Init,
}

/// Allow what a project's .acpxrc.json sets; without a command, the one of this directory
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub(crate) enum TrustCommand {
    /// Show what the project's file sets, and allow it after a question
    #[command(override_usage = "acpx trust [add] [FLAGS]")]
    #[command(after_help = "\
A project's .acpxrc.json may set a format, time limits and a default agent at once. Its agents, permissions, MCP servers
and credentials hold only after acpx trust, and only as long as the file does not change.")]
    Add(TrustArgs),
    /// List the trusted files, and whether they have changed
    #[command(override_usage = "acpx trust list [FLAGS]")]
    List,
    /// End the trust in the project's file, or in another one
    #[command(override_usage = "acpx trust revoke [FLAGS] [FILE]")]
    Revoke {
        /// The file, as acpx trust list shows it
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct TrustArgs {
    /// Allow it without a question
    #[arg(long)]
    pub(crate) yes: bool,
}
