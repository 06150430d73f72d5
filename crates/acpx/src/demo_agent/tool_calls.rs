//! The steps of a turn that use MCP servers: listing them and their tools, and calling a tool with permission.

use std::sync::Arc;

use acpx_core::acp::agent::{ToolCallKind, ToolCallStatus, ToolOutput, ToolReport, UpdateBody};
use acpx_core::model::StopReason;
use serde_json::Value;

use super::servers::{ServerState, SessionServer, tool_names};
use super::turn::{DemoTurn, DemoTurnStop};
use super::words::McpCall;
use crate::mcp::{McpConnection, McpFailure};

impl DemoTurn {
    /// Sends the list of the session's servers with their status.
    pub(super) async fn list_servers(&mut self) {
        let servers = self.servers.of(&self.session);
        let lines: String = servers.iter().map(SessionServer::line).collect();
        let words = if lines.is_empty() { "This session has no MCP servers.\n".into() } else { lines };
        self.send_text(words).await;
    }

    /// Sends the tools of a server.
    pub(super) async fn list_tools(&mut self, server: &str) {
        let words = match self.server(server) {
            Ok(found) => found.line(),
            Err(words) => words,
        };
        self.send_text(words).await;
    }

    /// Calls an MCP tool as a tool call of the turn, after requesting permission.
    pub(super) async fn call_mcp_tool(&mut self, wanted: &McpCall) -> Result<(), DemoTurnStop> {
        let connection = match self.connection_of(wanted) {
            Ok(connection) => connection,
            Err(words) => {
                self.send_text(words).await;
                return Ok(());
            }
        };
        let arguments = match &wanted.arguments {
            Ok(arguments) => arguments.clone(),
            Err(problem) => {
                self.send_text(format!("The arguments of {} are no JSON object: {problem}.\n", wanted.tool))
                    .await;
                return Ok(());
            }
        };
        let id = self.next_tool();
        let report = || ToolReport::new(id.clone());
        let call = report()
            .title(format!("mcp {} {}", wanted.server, wanted.tool))
            // Never from the server's `readOnlyHint`: a server is untrusted, and reads are approved without a request.
            .kind(ToolCallKind::Other)
            .status(ToolCallStatus::Pending)
            .raw_input(Value::Object(arguments.clone()));
        if let Err(refusal) = self.ask(call).await? {
            self.send_text(format!("The call was {refusal}.\n")).await;
            return Ok(());
        }
        self.send_update(UpdateBody::tool_call_update(report().status(ToolCallStatus::InProgress))).await;
        let cancelled = async {
            self.cancellation.requested().await;
        };
        let (done, words) = match connection.call(&wanted.tool, arguments, cancelled).await {
            Ok(result) => {
                let status = if result.is_error { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
                let done = report().status(status).raw_output(result.raw);
                let done = result
                    .content
                    .into_iter()
                    .fold(done, |done, block| done.output(ToolOutput::Block(block)));
                let words = if result.is_error { "The tool failed.\n" } else { "The tool answered.\n" };
                (done, words.to_owned())
            }
            Err(failure) => {
                let words = format!("MCP server {} failed: {failure}.\n", wanted.server);
                let failed = report().status(ToolCallStatus::Failed);
                if failure == McpFailure::Cancelled {
                    self.send_update(UpdateBody::tool_call_update(failed)).await;
                    return Err(DemoTurnStop::Because(StopReason::cancelled()));
                }
                (failed.output(ToolOutput::Text(failure.to_string())), words)
            }
        };
        self.send_update(UpdateBody::tool_call_update(done)).await;
        self.send_text(words).await;
        Ok(())
    }

    /// The server with this name, or a message that lists the existing ones.
    fn server(&self, name: &str) -> Result<SessionServer, String> {
        let servers = self.servers.of(&self.session);
        if servers.is_empty() {
            return Err(format!("There is no MCP server {name}: this session has none.\n"));
        }
        let found = servers.iter().find(|server| server.name() == name).cloned();
        found.ok_or_else(|| {
            let names: Vec<&str> = servers.iter().map(SessionServer::name).collect();
            format!("There is no MCP server {name}; this session has {}.\n", names.join(", "))
        })
    }

    /// The connection to the tool's server, or a message why the tool cannot be called.
    fn connection_of(&self, wanted: &McpCall) -> Result<Arc<McpConnection>, String> {
        let server = self.server(&wanted.server)?;
        let connection = match (&server.state, server.failure()) {
            (ServerState::Connected(connection), None) => connection,
            (_, failure) => {
                let failure = failure.unwrap_or(McpFailure::Closed);
                return Err(format!("MCP server {} is not connected: {failure}.\n", server.name()));
            }
        };
        if !connection.tools().iter().any(|tool| tool.name == wanted.tool) {
            let names = tool_names(connection);
            return Err(format!(
                "MCP server {} has no tool {}; it has {names}.\n",
                server.name(),
                wanted.tool
            ));
        }
        Ok(Arc::clone(connection))
    }
}
