//! The MCP server that gives an agent past sessions of its project: `acpx mcp`, as a server of the agent's session.

use acpx_core::model::{AbsolutePath, McpServer, McpTransport};

use super::host_locator::own_program;

/// The server's name.
pub(crate) const RECALL_NAME: &str = "acpx-recall";

/// The server for a session in this directory; `None` if the program does not know its own path.
pub(crate) fn recall_server(cwd: &AbsolutePath) -> Option<McpServer> {
    let command = AbsolutePath::from_path(&own_program().ok()?).ok()?;
    let args = vec!["mcp".to_owned(), "--project".to_owned(), cwd.to_string()];
    Some(McpServer::new(RECALL_NAME, McpTransport::Stdio { command, args, env: Vec::new() }))
}
