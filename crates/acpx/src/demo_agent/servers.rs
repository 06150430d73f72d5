//! MCP servers of the demo agent's sessions, connected during session setup and ended with the session.
//!
//! A server that fails costs its session only that server's tools. A setup keeps running servers that it names,
//! connects the others concurrently, and ends those it does not name.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;

use acpx_core::acp::agent::UpdateBody;
use acpx_core::model::{AbsolutePath, AcpSessionId, McpServer};
use acpx_core::sync::Lock;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::mcp::{McpConnection, McpConnector, McpFailure, McpLimits};

/// Maximum number of tools named per server; further ones are only counted.
const NAMED_TOOLS: usize = 100;

/// The servers of all sessions. Clones share them.
#[derive(Clone)]
pub(super) struct SessionServers {
    sessions: Arc<Lock<HashMap<AcpSessionId, Vec<SessionServer>>>>,
    limits: McpLimits,
    /// The number of the signal that ends this agent, once one has arrived.
    signal: watch::Sender<Option<u8>>,
    /// Created with the first server, together with the signal handlers; an agent without servers needs neither.
    connector: Arc<Lock<Option<McpConnector>>>,
}

/// One server of a session.
#[derive(Clone)]
pub(super) struct SessionServer {
    config: McpServer,
    pub(super) state: ServerState,
}

/// Whether a server is connected.
#[derive(Clone)]
pub(super) enum ServerState {
    Connected(Arc<McpConnection>),
    Failed(McpFailure),
}

impl SessionServers {
    pub(super) fn new(limits: McpLimits) -> Self {
        Self { sessions: Arc::default(), limits, signal: watch::Sender::new(None), connector: Arc::default() }
    }

    /// Gives a session exactly these servers. Returns a notice for each that failed.
    pub(super) async fn set_up(
        &self,
        session: &AcpSessionId,
        cwd: &AbsolutePath,
        config: &[McpServer],
    ) -> Vec<UpdateBody> {
        let running: Vec<SessionServer> =
            self.of(session).into_iter().filter(SessionServer::is_connected).collect();
        let servers = self.connect(cwd, config, &running).await;
        let notices = servers.iter().filter_map(SessionServer::notice).collect();
        // A request that is cancelled while connecting changes nothing.
        let mut dropped = self.sessions.lock().insert(session.clone(), servers.clone()).unwrap_or_default();
        dropped.retain(|old| !servers.iter().any(|server| server.is_same_as(old)));
        self.end_each(dropped).await;
        notices
    }

    async fn connect(
        &self,
        cwd: &AbsolutePath,
        config: &[McpServer],
        running: &[SessionServer],
    ) -> Vec<SessionServer> {
        let mut slots: Vec<Option<SessionServer>> = vec![None; config.len()];
        let mut connecting = JoinSet::new();
        for (index, server) in config.iter().enumerate() {
            let is_again = config[..index].iter().any(|earlier| earlier.name == server.name);
            if is_again {
                let state = ServerState::Failed(McpFailure::NotStarted("another server has its name".into()));
                slots[index] = Some(SessionServer { config: server.clone(), state });
            } else if let Some(running) = running.iter().find(|running| running.config == *server) {
                slots[index] = Some(running.clone());
            } else {
                let (connector, cwd, config) = (self.connector(), cwd.clone(), server.clone());
                // The state that remains if the task panics.
                let state = ServerState::Failed(McpFailure::Closed);
                slots[index] = Some(SessionServer { config: config.clone(), state });
                connecting.spawn(async move {
                    let state = match connector.connect(&config, &cwd).await {
                        Ok(connection) => ServerState::Connected(Arc::new(connection)),
                        Err(failure) => ServerState::Failed(failure),
                    };
                    (index, SessionServer { config, state })
                });
            }
        }
        while let Some(connected) = connecting.join_next().await {
            if let Ok((index, server)) = connected {
                slots[index] = Some(server);
            }
        }
        slots.into_iter().flatten().collect()
    }

    /// The servers of a session.
    pub(super) fn of(&self, session: &AcpSessionId) -> Vec<SessionServer> {
        self.sessions.lock().get(session).cloned().unwrap_or_default()
    }

    /// Ends the servers of a session.
    pub(super) async fn end(&self, session: &AcpSessionId) {
        let servers = self.sessions.lock().remove(session).unwrap_or_default();
        self.end_each(servers).await;
    }

    /// Ends every server.
    pub(super) async fn end_all(&self) {
        let servers: Vec<SessionServer> =
            self.sessions.lock().drain().flat_map(|(_, servers)| servers).collect();
        self.end_each(servers).await;
    }

    /// Ends servers concurrently.
    async fn end_each(&self, servers: Vec<SessionServer>) {
        let mut ending = JoinSet::new();
        for server in servers {
            if let ServerState::Connected(connection) = server.state {
                ending.spawn(async move { connection.end().await });
            }
        }
        while ending.join_next().await.is_some() {}
    }

    /// Kills every server immediately.
    pub(super) fn kill_all(&self) {
        kill(self.sessions.lock().drain().flat_map(|(_, servers)| servers));
    }

    /// A guard for the servers of a session during setup: kills them if the client cancels its request before the
    /// reply.
    pub(super) fn unclaimed(&self, session: &AcpSessionId) -> ServerSetupGuard {
        let (servers, session) = (self.clone(), Some(session.clone()));
        ServerSetupGuard { servers, session }
    }

    fn connector(&self) -> McpConnector {
        let mut connector = self.connector.lock();
        let made = connector.get_or_insert_with(|| {
            self.watch_signals();
            McpConnector::new(std::env::vars_os(), self.limits)
        });
        made.clone()
    }

    /// Waits for a signal that would end this process; returns its number.
    pub(super) async fn signalled(&self) -> u8 {
        let mut signal = self.signal.subscribe();
        let signal = signal.wait_for(Option::is_some).await;
        match signal.ok().and_then(|signal| *signal) {
            Some(signal) => signal,
            // Unreachable: `self` holds the sender.
            None => pending().await,
        }
    }

    /// Watches for signals. A server leads its own process group, so a signal to this process does not reach it.
    fn watch_signals(&self) {
        for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
            // An unwatched signal ends this process as usual, and the kernel ends the servers.
            let Ok(mut signals) = signal(kind) else { continue };
            let signal = self.signal.clone();
            // The task ends with its signal or with the runtime.
            tokio::spawn(async move {
                if signals.recv().await.is_some() {
                    signal.send_replace(u8::try_from(kind.as_raw_value()).ok());
                }
            });
        }
    }
}

/// Guard of a session's servers during setup; dropping it unclaimed kills them.
pub(super) struct ServerSetupGuard {
    servers: SessionServers,
    session: Option<AcpSessionId>,
}

impl ServerSetupGuard {
    /// Keeps the servers: the session is set up.
    pub(super) fn claim(mut self) {
        self.session = None;
    }
}

impl Drop for ServerSetupGuard {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            kill(self.servers.sessions.lock().remove(session).unwrap_or_default());
        }
    }
}

impl SessionServer {
    pub(super) fn name(&self) -> &str {
        &self.config.name
    }

    fn is_same_as(&self, other: &Self) -> bool {
        match (&self.state, &other.state) {
            (ServerState::Connected(one), ServerState::Connected(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    fn is_connected(&self) -> bool {
        matches!(&self.state, ServerState::Connected(connection) if connection.loss().is_none())
    }

    /// Why its tools cannot be called, if that is the case.
    pub(super) fn failure(&self) -> Option<McpFailure> {
        match &self.state {
            ServerState::Connected(connection) => connection.loss(),
            ServerState::Failed(failure) => Some(failure.clone()),
        }
    }

    fn notice(&self) -> Option<UpdateBody> {
        let ServerState::Failed(failure) = &self.state else { return None };
        Some(UpdateBody::agent_text(format!("MCP server {} failed: {failure}.\n", self.name())))
    }

    /// One line with its status.
    pub(super) fn line(&self) -> String {
        match (&self.state, self.failure()) {
            (ServerState::Connected(_), Some(failure)) => format!("- {}: lost: {failure}\n", self.name()),
            (ServerState::Connected(connection), None) => {
                let (info, tools) = (connection.server_info(), tool_names(connection));
                format!("- {}: connected to {info}, {tools}\n", self.name())
            }
            (ServerState::Failed(failure), _) => format!("- {}: failed: {failure}\n", self.name()),
        }
    }
}

/// The tools of a server, counted and named.
pub(super) fn tool_names(connection: &McpConnection) -> String {
    let tools = connection.tools();
    let named: Vec<&str> = tools.iter().take(NAMED_TOOLS).map(|tool| &*tool.name).collect();
    let named = named.join(", ");
    let words = match tools.len() {
        0 => "no tools".to_owned(),
        1 => format!("1 tool: {named}"),
        count if count > NAMED_TOOLS => format!("{count} tools: {named} and {} more", count - NAMED_TOOLS),
        count => format!("{count} tools: {named}"),
    };
    connection.masked(&words)
}

fn kill(servers: impl IntoIterator<Item = SessionServer>) {
    for server in servers {
        if let ServerState::Connected(connection) = server.state {
            connection.kill();
        }
    }
}
