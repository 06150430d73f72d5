//! The arguments of `acpx mcp`.

use std::path::PathBuf;

use clap::Args;

/// Serve past sessions of this project to an agent, as an MCP server on stdin and stdout
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(after_help = "\
The tools are list_sessions, search, read_session and get_status. They only read, and start nothing. Private sessions
are never shown: acpx sessions private.

A project is the git repository of a directory, or the directory itself. A program that an agent started sees the
project of its session, and nothing else.

--with-recall, or \"recall\": true in the configuration, gives a session this server. To add it to another program:
  { \"mcpServers\": { \"acpx-recall\": { \"command\": \"acpx\", \"args\": [\"mcp\", \"--project\", \"DIR\"] } } }")]
#[command(override_usage = "acpx mcp [--project DIR | --all-projects]")]
pub(crate) struct McpArgs {
    /// Show the sessions of this directory's project instead of the current one's
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// Show the sessions of all projects
    #[arg(long, conflicts_with = "project")]
    pub(crate) all_projects: bool,
}
