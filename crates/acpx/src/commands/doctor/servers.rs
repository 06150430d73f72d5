//! Checks whether each MCP server of the user's configuration can be connected to, without an agent.
//!
//! Servers come from the user's own configuration file, or from the file that `--mcp-config` names: acpx starts them
//! for every session anyway. Project files are not read, so a project starts no program here.

use std::env;
use std::time::{Duration, Instant};

use acpx_core::model::{AbsolutePath, McpServer, McpTransport};
use tokio::task::JoinSet;

use super::DoctorReport;
use crate::config::{McpFile, ProgramSearch};
use crate::error::CliError;
use crate::mcp::{McpConnector, McpFailure, McpLimits};
use crate::output::Finding;
use crate::session::host_locator::for_agents;

/// How long a server may take without --timeout: long enough for a first `npx` on a fast connection.
const SERVER_TIMEOUT: Duration = Duration::from_secs(30);

/// The check's name in the report.
const CHECK: &str = "MCP connect";

/// A successful connection.
struct Connected {
    info: String,
    tools: usize,
    after: Duration,
}

/// Connects to all servers in parallel, and reports each result in the order of the file.
pub(super) async fn look(
    servers: &McpFile,
    cwd: &AbsolutePath,
    timeout: Option<Duration>,
    report: &mut DoctorReport,
) -> Result<(), CliError> {
    let path = env::var_os("PATH");
    let around = ProgramSearch { cwd: cwd.as_path(), path: path.as_deref() };
    let limit = timeout.unwrap_or(SERVER_TIMEOUT);
    let connector = McpConnector::new(for_agents(), McpLimits { connect: limit, call: limit });
    let mut found = Vec::new();
    for name in servers.names() {
        match servers.only(name).map(|only| only.servers(around)) {
            Some(Ok(mut list)) => found.extend(list.pop().map(Ok)),
            Some(Err(error)) => found.push(Err(error)),
            None => {}
        }
    }
    if found.iter().any(Result::is_ok) {
        report.progress("connecting to the MCP servers of the configuration");
    }
    let mut connecting = JoinSet::new();
    for (index, server) in found.iter().enumerate() {
        let Ok(server) = server else { continue };
        let (connector, server, cwd) = (connector.clone(), server.clone(), cwd.clone());
        connecting.spawn(async move { (index, connect(&connector, &server, &cwd).await) });
    }
    let mut results: Vec<Option<Result<Connected, McpFailure>>> = found.iter().map(|_| None).collect();
    while let Some(connected) = connecting.join_next().await {
        if let Ok((index, result)) = connected {
            results[index] = Some(result);
        }
    }
    for (server, result) in found.into_iter().zip(results) {
        match (server, result) {
            (Err(error), _) => report.fail(CHECK, &error.into())?,
            (Ok(server), Some(result)) => report.say(&finding(servers, &server, result))?,
            (Ok(_), None) => {}
        }
    }
    Ok(())
}

async fn connect(
    connector: &McpConnector,
    server: &McpServer,
    cwd: &AbsolutePath,
) -> Result<Connected, McpFailure> {
    let began = Instant::now();
    let connection = connector.connect(server, cwd).await?;
    let after = began.elapsed();
    let connected = Connected { info: connection.server_info(), tools: connection.tools().len(), after };
    connection.end().await;
    Ok(connected)
}

fn finding(servers: &McpFile, server: &McpServer, result: Result<Connected, McpFailure>) -> Finding {
    let (name, file) = (&server.name, servers.source.display());
    match result {
        Ok(Connected { info, tools, after }) => {
            let tools = if tools == 1 { "1 tool".to_owned() } else { format!("{tools} tools") };
            Finding::ok(CHECK, format!("{name}: {info}, {tools}, after {} ms", after.as_millis()))
        }
        Err(_) if matches!(server.transport, McpTransport::Sse { .. }) => Finding::warn(
            CHECK,
            format!("{name}: acpx does not speak sse, so it is not tested"),
            format!("if the server has streamable HTTP too, use its URL with the type http in {file}"),
        ),
        Err(failure) => {
            let hint = format!("{} {file}; then type acpx doctor again", failure.hint());
            Finding::fail(CHECK, format!("{name}: {failure}"), Some(hint))
        }
    }
}
