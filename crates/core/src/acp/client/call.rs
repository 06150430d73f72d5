//! The calls we make, each with what the protocol requires and nothing it forbids.

use std::borrow::Cow;

use agent_client_protocol_schema::v1 as acp;
use serde::{Deserialize, Serialize};

use crate::model::{
    AbsolutePath, AcpSessionId, AgentError, Direction, EventKind, McpServer, McpTransport, NamedValue,
};
use crate::wire::{Peer, RpcId, WireError, encode};

use super::{AgentConnection, Line};

/// A line to be kept and then sent, to the agent it was made for and no other.
pub struct Outgoing {
    pub(super) peer: Peer,
    pub(super) id: Option<RpcId>,
    pub(super) method: Cow<'static, str>,
    pub(super) line: String,
    pub(super) kept: Option<String>,
    pub(super) kind: EventKind,
}

/// Where a session lives: sent with every setup request, the same each time.
#[derive(Debug, Clone, Copy)]
pub struct SessionPlace<'a> {
    /// The working directory as first given.
    pub cwd: &'a AbsolutePath,
    /// The MCP servers.
    pub mcp_servers: &'a [McpServer],
}

/// `session/load`, of an agent that advertised it.
pub struct Load<'a>(&'a AgentConnection);
/// `session/resume`, of an agent that advertised it.
pub struct Resume<'a>(&'a AgentConnection);
/// `session/close`, of an agent that advertised it.
pub struct Close<'a>(&'a AgentConnection);
/// `session/delete`, of an agent that advertised it.
pub struct Delete<'a>(&'a AgentConnection);
/// `session/list`, of an agent that advertised it.
pub struct List<'a>(&'a AgentConnection);

impl AgentConnection {
    /// `session/load`, if the agent has it.
    pub fn load(&self) -> Option<Load<'_>> {
        self.capabilities.sessions.load.then_some(Load(self))
    }

    /// `session/resume`, if the agent has it.
    pub fn resume(&self) -> Option<Resume<'_>> {
        self.capabilities.sessions.resume.then_some(Resume(self))
    }

    /// `session/close`, if the agent has it.
    pub fn close(&self) -> Option<Close<'_>> {
        self.capabilities.sessions.close.then_some(Close(self))
    }

    /// `session/delete`, if the agent has it.
    pub fn delete(&self) -> Option<Delete<'_>> {
        self.capabilities.sessions.delete.then_some(Delete(self))
    }

    /// `session/list`, if the agent has it.
    pub fn list(&self) -> Option<List<'_>> {
        self.capabilities.sessions.list.then_some(List(self))
    }

    /// `authenticate` by this way, if the agent has it. `meta` is an object of JSON.
    pub fn login(&self, way: &str, meta: Option<&str>) -> Option<Outgoing> {
        let answer: serde_json::Value = serde_json::from_str(&self.answer).ok()?;
        answer["authMethods"].as_array()?.iter().find(|known| known["id"] == way)?;
        let meta = meta.map_or_else(String::new, |meta| format!(r#","_meta":{meta}"#));
        let params = format!(r#"{{"methodId":{}{meta}}}"#, json(&way));
        Some(Outgoing::request(&self.peer, "authenticate", &params))
    }

    /// `logout`, if the agent has it.
    pub fn logout(&self) -> Option<Outgoing> {
        self.capabilities.logout.then(|| Outgoing::request(&self.peer, "logout", "{}"))
    }

    /// `session/new`. Every agent has it.
    pub fn new_session(&self, place: SessionPlace<'_>) -> Result<Outgoing, AgentError> {
        self.setup("session/new", None, place)
    }

    /// `session/prompt`. The content blocks are a JSON array and go out as they are, if the agent takes
    /// content of their types.
    pub fn prompt(&self, session: &AcpSessionId, blocks: &str) -> Result<Outgoing, AgentError> {
        self.check_content(blocks)?;
        let params = format!(r#"{{"sessionId":{},"prompt":{blocks}}}"#, json(session));
        Ok(Outgoing::request(&self.peer, "session/prompt", &params))
    }

    fn check_content(&self, blocks: &str) -> Result<(), AgentError> {
        let types: Vec<BlockType<'_>> = serde_json::from_str(blocks).map_err(|error| {
            AgentError::BadPrompt { problem: format!("it is no list of content blocks: {error}") }
        })?;
        let offered = &self.capabilities.prompt;
        for (index, block) in types.into_iter().enumerate() {
            let (capability, is_offered) = match &*block.kind {
                "image" => ("image", offered.image),
                "audio" => ("audio", offered.audio),
                "resource" => ("embeddedContext", offered.embedded_context),
                // Text and links are for every agent; a type from the future is the agent's to judge.
                _ => continue,
            };
            if !is_offered {
                let (agent, kind) = (self.agent.clone(), block.kind.into_owned());
                return Err(AgentError::ContentUnsupported { agent, index, kind, capability });
            }
        }
        Ok(())
    }

    /// `session/cancel`, a notification.
    pub fn cancel(&self, session: &AcpSessionId) -> Outgoing {
        Outgoing::notification(&self.peer, "session/cancel", &session_params(session))
    }

    fn setup(
        &self,
        method: &'static str,
        session: Option<&AcpSessionId>,
        place: SessionPlace<'_>,
    ) -> Result<Outgoing, AgentError> {
        for server in place.mcp_servers {
            self.check_transport(server)?;
        }
        let cwd = place.cwd;
        let servers: Vec<_> = place.mcp_servers.iter().map(wire_server).collect();
        let params = json(&SetupParams { session_id: session, cwd, mcp_servers: servers });
        let mut outgoing = Outgoing::request(&self.peer, method, &params);
        if let Some(id) = &outgoing.id
            && !place.mcp_servers.is_empty()
        {
            // A command's arguments and an address may hold secrets too, so only the names are kept.
            let names: Vec<_> =
                place.mcp_servers.iter().map(|server| ServerName { name: &server.name }).collect();
            let params = json(&SetupParams { session_id: session, cwd, mcp_servers: names });
            outgoing.kept = Some(encode::request(id, method, &params));
        }
        Ok(outgoing)
    }

    fn check_transport(&self, server: &McpServer) -> Result<(), AgentError> {
        match server.transport {
            McpTransport::Stdio { .. } => Ok(()),
            McpTransport::Http { .. } if self.capabilities.mcp_http => Ok(()),
            McpTransport::Http { .. } => Err(self.mcp_unsupported(&server.name, "http")),
            McpTransport::Sse { .. } if self.capabilities.mcp_sse => Ok(()),
            McpTransport::Sse { .. } => Err(self.mcp_unsupported(&server.name, "sse")),
        }
    }
}

impl Load<'_> {
    /// Brings a session back with its replay.
    pub fn request(&self, session: &AcpSessionId, place: SessionPlace<'_>) -> Result<Outgoing, AgentError> {
        self.0.setup("session/load", Some(session), place)
    }
}

impl Resume<'_> {
    /// Brings a session back without a replay.
    pub fn request(&self, session: &AcpSessionId, place: SessionPlace<'_>) -> Result<Outgoing, AgentError> {
        self.0.setup("session/resume", Some(session), place)
    }
}

impl Close<'_> {
    /// Frees a session; its history stays.
    pub fn request(&self, session: &AcpSessionId) -> Outgoing {
        Outgoing::request(&self.0.peer, "session/close", &session_params(session))
    }
}

impl Delete<'_> {
    /// Takes a session out of the agent's list.
    pub fn request(&self, session: &AcpSessionId) -> Outgoing {
        Outgoing::request(&self.0.peer, "session/delete", &session_params(session))
    }
}

impl List<'_> {
    /// One page of the agent's sessions, of a directory or of all.
    pub fn request(&self, cwd: Option<&AbsolutePath>, cursor: Option<&str>) -> Outgoing {
        Outgoing::request(&self.0.peer, "session/list", &json(&ListParams { cwd, cursor }))
    }
}

impl Outgoing {
    pub(super) fn request(peer: &Peer, method: &'static str, params: &str) -> Self {
        let id = peer.mint_id();
        let line = encode::request(&id, method, params);
        let method = method.into();
        Self { peer: peer.clone(), id: Some(id), method, line, kept: None, kind: EventKind::Request }
    }

    pub(super) fn notification(peer: &Peer, method: &'static str, params: &str) -> Self {
        let line = encode::notification(method, params);
        let method = method.into();
        Self { peer: peer.clone(), id: None, method, line, kept: None, kind: EventKind::Notification }
    }

    pub(super) fn response(peer: &Peer, line: String) -> Self {
        Self { peer: peer.clone(), id: None, method: "".into(), line, kept: None, kind: EventKind::Response }
    }

    /// Sends it, now that it is kept. Waits while the agent has too much to read.
    pub async fn send(self) -> Result<(), WireError> {
        match self.id {
            Some(id) => self.peer.send_request(id, &self.method, self.line).await,
            None => self.peer.send(self.line).await,
        }
    }

    /// The line as it is kept: without secret values.
    pub fn kept(&self) -> Line {
        let body = self.kept.as_deref().unwrap_or(&self.line).into();
        Line { direction: Direction::ToAgent, kind: self.kind, body }
    }
}

/// What new, load and resume carry. `mcpServers` is always there: strict agents want it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SetupParams<'a, S> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a AcpSessionId>,
    cwd: &'a AbsolutePath,
    mcp_servers: Vec<S>,
}

/// All that is kept of a server.
#[derive(Serialize)]
struct ServerName<'a> {
    name: &'a str,
}

#[derive(Deserialize)]
struct BlockType<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

#[derive(Serialize)]
struct ListParams<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a AbsolutePath>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
}

fn wire_server(server: &McpServer) -> acp::McpServer {
    let env =
        |values: &[NamedValue]| values.iter().map(|v| acp::EnvVariable::new(&v.name, &v.value)).collect();
    let headers =
        |values: &[NamedValue]| values.iter().map(|v| acp::HttpHeader::new(&v.name, &v.value)).collect();
    match &server.transport {
        McpTransport::Stdio { command, args, env: variables } => acp::McpServer::Stdio(
            acp::McpServerStdio::new(&server.name, command.as_path()).args(args.clone()).env(env(variables)),
        ),
        McpTransport::Http { url, headers: values } => {
            acp::McpServer::Http(acp::McpServerHttp::new(&server.name, url).headers(headers(values)))
        }
        McpTransport::Sse { url, headers: values } => {
            acp::McpServer::Sse(acp::McpServerSse::new(&server.name, url).headers(headers(values)))
        }
    }
}

fn session_params(session: &AcpSessionId) -> String {
    format!(r#"{{"sessionId":{}}}"#, json(session))
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("our parameters have only strings and lists of them")
}
