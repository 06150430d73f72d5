//! An MCP server over byte streams, for a set of tools that only read.
//!
//! A client is untrusted: a message has a size limit, few requests are open at a time, and calls run one after another on
//! a thread of their own, so that a slow one does not delay other replies.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{RoleServer, ServerHandler, serve_server};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;

use super::backpressure::Backpressure;

/// Maximum size of a client's message.
const MAX_MESSAGE: usize = 1 << 20;

/// A tool as clients see it.
pub(crate) struct ServedTool {
    pub(crate) name: &'static str,
    pub(crate) description: String,
    /// The JSON Schema of its arguments, an object.
    pub(crate) input: Map<String, Value>,
}

/// What a tool found: the same as text and as JSON.
#[derive(Debug, PartialEq)]
pub(crate) struct ServedResult {
    pub(crate) text: String,
    pub(crate) structured: Value,
}

/// The tools of a server.
pub(crate) trait ServedTools: Send + Sync + 'static {
    /// What the server is for, in words for a model.
    fn instructions(&self) -> String;

    /// The tools.
    fn tools(&self) -> Vec<ServedTool>;

    /// Calls a tool and blocks. The error is in words for a model; `None` if there is no such tool.
    fn call(&self, tool: &str, arguments: Map<String, Value>) -> Option<Result<ServedResult, String>>;
}

/// Serves a client until it closes its side; the error is in words.
pub(crate) async fn serve(
    name: &'static str,
    tools: Arc<dyn ServedTools>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), String> {
    let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(MAX_MESSAGE);
    let server = ToolServer { name, tools, one_at_a_time: Mutex::new(()) };
    match serve_server(server, Backpressure::new(transport)).await {
        Ok(running) => running.waiting().await.map(drop).map_err(|error| error.to_string()),
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

struct ToolServer {
    name: &'static str,
    tools: Arc<dyn ServedTools>,
    one_at_a_time: Mutex<()>,
}

impl ServerHandler for ToolServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(self.name, env!("CARGO_PKG_VERSION")))
            .with_instructions(self.tools.instructions())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let reads_only = || ToolAnnotations::new().read_only(true).destructive(false).open_world(false);
        let tool = |ServedTool { name, description, input }| {
            Tool::new(name, description, Arc::new(input)).with_annotations(reads_only())
        };
        Ok(ListToolsResult::with_all_items(self.tools.tools().into_iter().map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let _turn = self.one_at_a_time.lock().await;
        let tools = Arc::clone(&self.tools);
        let CallToolRequestParams { name, arguments, .. } = request;
        let called = tokio::task::spawn_blocking(move || tools.call(&name, arguments.unwrap_or_default()));
        let called = called.await.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let called = called.ok_or_else(|| ErrorData::invalid_params("there is no such tool", None))?;
        Ok(match called {
            Ok(ServedResult { text, structured }) => {
                let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
                result.structured_content = Some(structured);
                result
            }
            Err(words) => CallToolResult::error(vec![ContentBlock::text(words)]),
        }
        .into())
    }
}
