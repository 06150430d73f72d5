//! Connections to MCP servers over stdio and streamable HTTP, for the built-in agent's sessions and for the doctor. The
//! server of `acpx mcp` is in [`server`].
//!
//! A server is untrusted: every step has a time limit and every reply a size limit. Text from a server passes through
//! [`McpConnection::masked`] before it leaves this module, so that it cannot reveal values of the server's environment
//! or headers.

mod backpressure;
mod failure;
mod http;
pub(crate) mod server;

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use acpx_core::model::{AbsolutePath, AgentError, AgentSpec, McpServer, McpTransport, NamedValue, Secrets};
use acpx_core::sync::Lock;
use acpx_core::tools::{AgentProcess, Environment, GracePeriods, ProcessExit, Spawner};
use hyper::header::{HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest,
    Implementation, PaginatedRequestParams, ProtocolVersion, ServerResult, Tool,
};
use rmcp::service::{ClientInitializeError, PeerRequestOptions, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientCacheConfig, ClientLifecycleMode, Peer, RoleClient, serve_client_with_lifecycle};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use self::backpressure::Backpressure;
pub(crate) use self::failure::McpFailure;
use self::http::HttpClient;

/// Maximum number of tools listed per server, which bounds an endless list.
const MAX_TOOLS: usize = 10_000;
/// Tools with longer names are not listed.
const MAX_TOOL_NAME: usize = 256;
/// Maximum size of a tool's result, which is sent to the client twice: as content and as raw output.
const MAX_RESULT: usize = 4 << 20;
/// Maximum size of a server's message; longer ones are dropped.
const MAX_MESSAGE: usize = 16 << 20;
/// How often an ended event stream is reopened.
const MAX_RECONNECTS: usize = 5;
/// Timeout of closing a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Grace periods for ending a server's process.
const GRACE: GracePeriods = GracePeriods { eof: Duration::from_secs(1), term: Duration::from_secs(1) };
/// How long to wait for the exit status of a process that closed its stdout, and how often to poll for it.
const EXIT: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Time limits of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct McpLimits {
    /// To start, reply to `initialize` and list its tools.
    pub(crate) connect: Duration,
    /// To reply to a tool call.
    pub(crate) call: Duration,
}

impl Default for McpLimits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), call: Duration::from_mins(1) }
    }
}

/// Connects to servers. Clones share the thread that spawns processes.
#[derive(Debug, Clone)]
pub(crate) struct McpConnector {
    spawner: Spawner,
    environment: Environment,
    limits: McpLimits,
}

/// A connected server; dropping it kills the server's process group.
pub(crate) struct McpConnection {
    peer: Peer<RoleClient>,
    /// The running connection, until it is ended.
    running: Lock<Option<McpServerHandle>>,
    /// The exit status of a stdio server's process, once it has exited.
    exit: Option<Box<dyn Fn() -> Option<ProcessExit> + Send + Sync>>,
    tools: Vec<McpTool>,
    secrets: Arc<Secrets>,
    limits: McpLimits,
}

/// A tool of a server, without its description and schema, which may be large and are not used here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct McpTool {
    pub(crate) name: String,
}

struct McpServerHandle {
    service: RunningService<RoleClient, ClientConfig>,
    /// The process of a stdio server.
    process: Option<AgentProcess>,
}

/// What a tool returned.
#[derive(Debug, PartialEq)]
pub(crate) struct McpToolResult {
    /// Its content blocks.
    pub(crate) content: Vec<Value>,
    /// The whole result.
    pub(crate) raw: Value,
    /// Whether the server marked it as an error.
    pub(crate) is_error: bool,
}

impl McpConnector {
    /// A connector whose stdio servers inherit this environment.
    pub(crate) fn new(
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        limits: McpLimits,
    ) -> Self {
        Self { spawner: Spawner::new(None), environment: environment.into_iter().collect(), limits }
    }

    /// Connects to a server and lists its tools. A stdio server is started in `cwd`. Cancelling this future leaves no
    /// process behind.
    pub(crate) async fn connect(
        &self,
        server: &McpServer,
        cwd: &AbsolutePath,
    ) -> Result<McpConnection, McpFailure> {
        let secrets = Arc::new(Secrets::new(secrets_of(server)));
        let connected = timeout(self.limits.connect, self.connect_and_list(server, cwd, &secrets)).await;
        let connected = connected.unwrap_or(Err(McpFailure::Silent(self.limits.connect)));
        connected.map_err(|failure| failure.masked(&secrets))
    }

    async fn connect_and_list(
        &self,
        server: &McpServer,
        cwd: &AbsolutePath,
        secrets: &Arc<Secrets>,
    ) -> Result<McpConnection, McpFailure> {
        let initialize = ClientLifecycleMode::Initialize;
        let mut running = match self.open(server, cwd, initialize).await {
            Err(refused @ (McpFailure::Refused(_) | McpFailure::Http { status: 400, .. })) => {
                // Servers of the newest protocol have no `initialize`: reconnect with `server/discover`.
                let preferred_versions = vec![ProtocolVersion::LATEST];
                let discover = ClientLifecycleMode::Discover { preferred_versions };
                self.open(server, cwd, discover).await.map_err(|_| refused)?
            }
            opened => opened?,
        };
        let tools = running.list_tools().await?;
        Ok(McpConnection {
            peer: running.service.peer().clone(),
            exit: running.process.as_ref().map(|process| Box::new(process.exit()) as _),
            running: Lock::new(Some(running)),
            tools,
            secrets: Arc::clone(secrets),
            limits: self.limits,
        })
    }

    async fn open(
        &self,
        server: &McpServer,
        cwd: &AbsolutePath,
        lifecycle: ClientLifecycleMode,
    ) -> Result<McpServerHandle, McpFailure> {
        let (service, process) = match &server.transport {
            McpTransport::Stdio { command, args, env } => {
                let agent = AgentSpec::new(command.to_string(), args.iter().cloned());
                let own =
                    env.iter().map(|variable| (variable.name.clone().into(), variable.value.clone().into()));
                let environment = self.environment.clone().with_all(own);
                let started = AgentProcess::spawn(&self.spawner, &agent, cwd, &environment, GRACE).await;
                let (mut process, pipes) = started.map_err(|error| not_started(&error))?;
                let transport = AsyncRwTransport::new_client(pipes.stdout, pipes.stdin);
                let transport = Backpressure::new(transport.with_max_line_length(MAX_MESSAGE));
                match serve_client_with_lifecycle(client(), transport, lifecycle).await {
                    Ok(service) => (service, Some(process)),
                    Err(error) => return Err(with_exit(initialize_failure(&error), &mut process).await),
                }
            }
            McpTransport::Http { url, headers } => {
                let transport = http_transport(url, headers)?;
                let transport = Backpressure::new(transport);
                let service = serve_client_with_lifecycle(client(), transport, lifecycle).await;
                (service.map_err(|error| initialize_failure(&error))?, None)
            }
            McpTransport::Sse { .. } => return Err(McpFailure::Transport("sse".into())),
            McpTransport::Other { kind } => return Err(McpFailure::Transport(kind.clone())),
        };
        // Disable the response cache: a server would control its size, and no request is repeated.
        service.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
        Ok(McpServerHandle { service, process })
    }
}

impl From<Tool> for McpTool {
    fn from(tool: Tool) -> Self {
        Self { name: tool.name.into_owned() }
    }
}

impl McpServerHandle {
    async fn list_tools(&mut self) -> Result<Vec<McpTool>, McpFailure> {
        let has_tools = self.service.peer().peer_info().is_some_and(|info| info.capabilities.tools.is_some());
        let mut tools: Vec<McpTool> = Vec::new();
        let mut cursor = None;
        if !has_tools {
            return Ok(tools);
        }
        loop {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = match self.service.peer().list_tools(Some(params)).await {
                Ok(page) => page,
                Err(error) => {
                    let failure = McpFailure::from(&error);
                    return Err(match &mut self.process {
                        Some(process) => with_exit(failure, process).await,
                        None => failure,
                    });
                }
            };
            tools.extend(
                page.tools.into_iter().filter(|tool| tool.name.len() <= MAX_TOOL_NAME).map(McpTool::from),
            );
            cursor = page.next_cursor;
            if cursor.is_none() || tools.len() >= MAX_TOOLS {
                break;
            }
        }
        tools.truncate(MAX_TOOLS);
        Ok(tools)
    }
}

impl McpConnection {
    /// The server's tools at the time of connecting.
    pub(crate) fn tools(&self) -> &[McpTool] {
        &self.tools
    }

    /// The name and version that the server reports.
    pub(crate) fn server_info(&self) -> String {
        let info = self.peer.peer_info();
        let named = info.as_ref().and_then(|info| info.server_info.as_ref());
        let words = named.map_or("a server without a name".to_owned(), |info| {
            format!("{} {}", info.title.as_ref().unwrap_or(&info.name), info.version)
        });
        failure::one_line(&self.masked(&words))
    }

    /// Text of the server without values of its environment and headers.
    pub(crate) fn masked(&self, words: &str) -> String {
        self.secrets.redact_text(words).into_owned()
    }

    /// Why the server cannot be used any more, if its connection is lost.
    pub(crate) fn loss(&self) -> Option<McpFailure> {
        let exit = self.exit.as_ref().and_then(|exit| exit());
        match exit {
            Some(exit) => Some(exited(&exit, Vec::new())),
            None => self.peer.is_transport_closed().then_some(McpFailure::Closed),
        }
    }

    /// Calls a tool; cancels the call if `cancelled` completes first or the server takes too long.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: serde_json::Map<String, Value>,
        cancelled: impl Future<Output = ()>,
    ) -> Result<McpToolResult, McpFailure> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options();
        let mut sent = None;
        let answered = async {
            let call = sent.insert(self.peer.send_cancellable_request(request, options).await?);
            (&mut call.rx).await.unwrap_or(Err(ServiceError::TransportClosed))
        };
        let withdrawn = tokio::select! {
            biased;
            () = cancelled => McpFailure::Cancelled,
            answer = timeout(self.limits.call, answered) => match answer {
                Ok(Ok(answer)) => return self.answer(answer),
                Ok(Err(error)) => return Err(self.failed((&error).into()).await),
                Err(_) => McpFailure::Silent(self.limits.call),
            },
        };
        if let Some(call) = sent {
            // Do not wait for a server that has stopped reading.
            drop(timeout(CLOSE_TIMEOUT, call.cancel(Some("cancelled by the client".into()))).await);
        }
        Err(withdrawn)
    }

    /// Refines the failure of a call: a process that closed its stdout is about to exit, and its exit status is more
    /// specific.
    async fn failed(&self, failure: McpFailure) -> McpFailure {
        let exited = async {
            loop {
                match self.loss() {
                    Some(exited @ McpFailure::Exited { .. }) => break exited,
                    _ => sleep(LOOK_AGAIN).await,
                }
            }
        };
        let failure = match failure {
            McpFailure::Closed if self.exit.is_some() => timeout(EXIT, exited).await.unwrap_or(failure),
            other => other,
        };
        failure.masked(&self.secrets)
    }

    fn answer(&self, answer: ServerResult) -> Result<McpToolResult, McpFailure> {
        match answer {
            ServerResult::CallToolResult(result) => self.result(&result),
            // Only servers of the newest protocol reply with this.
            ServerResult::InputRequiredResult(_) => Err(McpFailure::AsksForInput),
            _ => Err(McpFailure::Unreadable("the answer is no result of a tool".into())),
        }
    }

    fn result(&self, result: &CallToolResult) -> Result<McpToolResult, McpFailure> {
        let json =
            serde_json::to_string(result).map_err(|error| McpFailure::Unreadable(error.to_string()))?;
        if json.len() > MAX_RESULT {
            return Err(McpFailure::TooLong(json.len()));
        }
        let json = self.secrets.redact_json(&json).unwrap_or(json);
        let raw: Value =
            serde_json::from_str(&json).map_err(|error| McpFailure::Unreadable(error.to_string()))?;
        let content = raw["content"].as_array().cloned().unwrap_or_default();
        Ok(McpToolResult { content, raw, is_error: result.is_error == Some(true) })
    }

    /// Ends the connection and the process group of a stdio server. Pending calls fail.
    pub(crate) async fn end(&self) {
        let Some(McpServerHandle { mut service, process }) = self.take() else { return };
        // Continue even if the server does not close in time.
        drop(service.close_with_timeout(CLOSE_TIMEOUT).await);
        if let Some(process) = process {
            // A process that survives even SIGKILL is left to the kernel.
            let _ended = process.end(GRACE).await;
        }
    }

    /// Kills the process group of a stdio server immediately.
    pub(crate) fn kill(&self) {
        drop(self.take());
    }

    fn take(&self) -> Option<McpServerHandle> {
        self.running.lock().take()
    }
}

fn client() -> ClientConfig {
    let info = Implementation::new("acpx", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), info)
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

fn http_transport(
    url: &str,
    headers: &[NamedValue],
) -> Result<StreamableHttpClientTransport<HttpClient>, McpFailure> {
    let client = HttpClient::new(url)?;
    let mut sent = HashMap::new();
    for NamedValue { name, value } in headers {
        let bad = || McpFailure::Header(name.clone());
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        sent.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?, value);
    }
    let mut reconnect = ExponentialBackoff::default();
    reconnect.max_times = Some(MAX_RECONNECTS);
    let mut config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(sent);
    config = config.max_sse_event_size(MAX_MESSAGE);
    config.retry_config = Arc::new(reconnect);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Values of a server that must be masked. A token is also masked without the name of its scheme.
fn secrets_of(server: &McpServer) -> Vec<&str> {
    let mut secrets = server.secrets();
    let tokens: Vec<&str> =
        secrets.iter().filter_map(|value| Some(value.split_once(' ')?.1.trim())).collect();
    secrets.extend(tokens);
    secrets
}

fn not_started(error: &AgentError) -> McpFailure {
    McpFailure::NotStarted(match error {
        AgentError::NotFound { program } => format!("there is no program {program}"),
        AgentError::NotExecutable { program } => format!("{program} is not executable"),
        AgentError::NoDirectory { cwd, .. } => format!("its directory {cwd} does not exist"),
        AgentError::NotStarted { program, reason } => format!("{program} cannot be started: {reason}"),
        other => other.to_string(),
    })
}

/// Replaces a failure with the exit status and last stderr line if the process has exited.
async fn with_exit(failure: McpFailure, process: &mut AgentProcess) -> McpFailure {
    match (&failure, process.exited_within(EXIT).await) {
        (McpFailure::Refused(_), _) | (_, None) => failure,
        (_, Some(exit)) => exited(&exit, process.output_tail().await),
    }
}

fn exited(exit: &ProcessExit, last_words: Vec<String>) -> McpFailure {
    McpFailure::Exited { exit: exit.to_string(), last_words: last_words.into_iter().next_back() }
}

fn initialize_failure(error: &ClientInitializeError) -> McpFailure {
    match error {
        ClientInitializeError::JsonRpcError(data) => McpFailure::Refused(failure::rpc_words(data)),
        ClientInitializeError::ConnectionClosed(_) => McpFailure::Closed,
        ClientInitializeError::TransportError { error, .. } => failure::transport(error),
        ClientInitializeError::ExpectedInitResult(_) | ClientInitializeError::ExpectedInitResponse(_) => {
            McpFailure::Unreadable("the answer to initialize is no result of it".into())
        }
        other => McpFailure::Unreadable(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use rmcp::service::serve_directly;
    use tokio::io::{AsyncReadExt, duplex, split};

    use super::*;

    #[tokio::test]
    async fn a_cancelled_mcp_tool_call_is_not_sent() {
        let (mut server, pipe) = duplex(1 << 16);
        let (read, write) = split(pipe);
        let service = serve_directly(client(), AsyncRwTransport::new_client(read, write), None);
        let connection = McpConnection {
            peer: service.peer().clone(),
            running: Lock::new(Some(McpServerHandle { service, process: None })),
            exit: None,
            tools: Vec::new(),
            secrets: Arc::default(),
            limits: McpLimits::default(),
        };
        let called = connection.call("t", serde_json::Map::new(), ready(())).await;
        assert_eq!(called, Err(McpFailure::Cancelled));
        connection.end().await;
        let mut sent = String::new();
        server.read_to_string(&mut sent).await.unwrap();
        assert_eq!(sent, "");
    }
}
