//! Builds the requests that set a session up. Each carries the session's workspace, in the format of the agent's
//! protocol version. Values of MCP servers are sent and never stored.

use std::borrow::Cow;

use agent_client_protocol_schema::{v1, v2};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::model::{
    AbsolutePath, AcpSessionId, AgentError, McpServer, McpTransport, NamedValue, ProtocolVersion,
};
use crate::wire::encode;

use super::super::ExtraParams;
use super::super::agent::Feature;
use super::super::capabilities::advertised;
use super::super::translate::server_between;
use super::to_json;
use super::{AgentConnection, OutgoingLine};

/// The workspace of a session, sent unchanged with every setup request.
#[derive(Debug, Clone, Copy)]
pub struct SessionWorkspace<'a> {
    /// The working directory as first given.
    pub cwd: &'a AbsolutePath,
    /// Additional directories, for an agent that accepts them.
    pub additional_directories: &'a [AbsolutePath],
    /// The MCP servers.
    pub mcp_servers: &'a [McpServer],
    /// The client's extra params.
    pub extra_params: Option<&'a ExtraParams>,
}

/// `session/load`, of an agent that advertised it.
pub struct LoadMethod<'a>(&'a AgentConnection);
/// `session/resume`, of an agent that advertised it.
pub struct ResumeMethod<'a>(&'a AgentConnection);
/// `session/resume` with a replay, of an agent whose version of the protocol has it.
pub struct ReplayMethod<'a>(&'a AgentConnection);

impl AgentConnection {
    /// `session/load`, if the agent has it.
    pub fn load(&self) -> Option<LoadMethod<'_>> {
        self.capabilities.sessions.load.then_some(LoadMethod(self))
    }

    /// `session/resume`, if the agent has it.
    pub fn resume(&self) -> Option<ResumeMethod<'_>> {
        self.capabilities.sessions.resume.then_some(ResumeMethod(self))
    }

    /// `session/resume` with a replay, if the agent has it.
    pub fn replay(&self) -> Option<ReplayMethod<'_>> {
        self.capabilities.sessions.replay.then_some(ReplayMethod(self))
    }

    /// `session/new`. Every agent has it, except a version 2 agent without sessions.
    pub fn new_session(&self, place: SessionWorkspace<'_>) -> Result<OutgoingLine, AgentError> {
        if !self.capabilities.new {
            let (agent, method) = (self.agent.clone(), "session/new".to_owned());
            return Err(AgentError::NotOffered { agent, method });
        }
        self.setup("session/new", None, place, None)
    }

    /// `session/fork`, if the agent has it: a new session with the conversation of this one.
    pub(crate) fn fork_session(
        &self,
        session: &AcpSessionId,
        place: SessionWorkspace<'_>,
    ) -> Result<OutgoingLine, AgentError> {
        if !self.capabilities.fork {
            let (agent, method) = (self.agent.clone(), "session/fork".to_owned());
            return Err(AgentError::NotOffered { agent, method });
        }
        self.setup("session/fork", Some(session), place, None)
    }

    fn setup(
        &self,
        method: &'static str,
        session_id: Option<&AcpSessionId>,
        place: SessionWorkspace<'_>,
        replay_from: Option<ReplayFrom>,
    ) -> Result<OutgoingLine, AgentError> {
        for (index, server) in place.mcp_servers.iter().enumerate() {
            self.check_transport(index, server)?;
        }
        let extra = place.extra_params.map(|extra| extra.members(self.version)).unwrap_or_default();
        let SessionWorkspace { cwd, additional_directories, .. } = place;
        if !additional_directories.is_empty() && !self.capabilities.additional_directories {
            return Err(AgentError::DirectoriesUnsupported { agent: self.agent.clone() });
        }
        let mcp_servers =
            place.mcp_servers.iter().filter_map(|server| mcp_server_json(server, self.version)).collect();
        let params =
            with(&SetupParams { session_id, cwd, additional_directories, mcp_servers, replay_from }, &extra);
        let mut outgoing = OutgoingLine::request(&self.peer, method, &params);
        if let Some(id) = outgoing.id.as_ref().filter(|_| !place.mcp_servers.is_empty() || !extra.is_empty())
        {
            // Arguments and URLs may contain secrets too, so only the names are stored.
            let name = |server: &'_ McpServer| ServerName { name: server.name.clone() };
            let mcp_servers = place.mcp_servers.iter().map(name).collect();
            let params = with(
                &SetupParams { session_id, cwd, additional_directories, mcp_servers, replay_from },
                &extra,
            );
            let redacted = encode::request(id, method, &params);
            outgoing.redacted = Some(self.secrets.redact_json(&redacted).unwrap_or(redacted));
        }
        Ok(outgoing)
    }

    fn check_transport(&self, index: usize, server: &McpServer) -> Result<(), AgentError> {
        let offered = &self.capabilities;
        let (feature, is_offered) = match &server.transport {
            McpTransport::Stdio { .. } => (Feature::McpStdio, offered.mcp_stdio),
            McpTransport::Http { .. } => (Feature::McpHttp, offered.mcp_http),
            McpTransport::Sse { .. } => (Feature::McpSse, offered.mcp_sse),
            McpTransport::Other { kind } => {
                let path = format!("session.mcp.{kind}");
                if self.version == ProtocolVersion::V2 && takes_servers(&self.answer, kind) {
                    return Ok(());
                }
                let (agent, server) = (self.agent.clone(), server.name.clone());
                return Err(AgentError::McpUnsupported { agent, index, server, capability: path.into() });
            }
        };
        if is_offered {
            return Ok(());
        }
        let (agent, server) = (self.agent.clone(), server.name.clone());
        let capability = feature.capability(self.version).into();
        Err(AgentError::McpUnsupported { agent, index, server, capability })
    }
}

impl LoadMethod<'_> {
    /// Restores a session with its replay.
    pub fn request(
        &self,
        session: &AcpSessionId,
        place: SessionWorkspace<'_>,
    ) -> Result<OutgoingLine, AgentError> {
        self.0.setup("session/load", Some(session), place, None)
    }
}

impl ResumeMethod<'_> {
    /// Restores a session without a replay.
    pub fn request(
        &self,
        session: &AcpSessionId,
        place: SessionWorkspace<'_>,
    ) -> Result<OutgoingLine, AgentError> {
        self.0.setup("session/resume", Some(session), place, None)
    }
}

impl ReplayMethod<'_> {
    /// Restores a session with a replay of everything the agent stored.
    pub fn request(
        &self,
        session: &AcpSessionId,
        place: SessionWorkspace<'_>,
    ) -> Result<OutgoingLine, AgentError> {
        self.0.setup("session/resume", Some(session), place, Some(ReplayFrom { from: "start" }))
    }
}

/// The params of new, load, resume and fork. `mcpServers` is always present because strict agents require it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SetupParams<'a, S> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a AcpSessionId>,
    cwd: &'a AbsolutePath,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    additional_directories: &'a [AbsolutePath],
    mcp_servers: Vec<S>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay_from: Option<ReplayFrom>,
}

/// The params with the client's extra members, each of which follows a comma.
fn with<S: Serialize>(params: &SetupParams<'_, S>, extra: &str) -> String {
    let mut text = to_json(params);
    // `cwd` always precedes it.
    text.insert_str(text.len() - 1, extra);
    text
}

#[derive(Clone, Copy, Serialize)]
struct ReplayFrom {
    #[serde(rename = "type")]
    from: &'static str,
}

/// The stored form of a server.
#[derive(Serialize)]
struct ServerName {
    name: String,
}

/// A server in the format of this version: as its client sent it, or else from the parsed fields. `None` for a
/// transport that the version does not have; no agent of that version advertises it.
pub fn mcp_server_json(server: &McpServer, version: ProtocolVersion) -> Option<Box<RawValue>> {
    let sent = server.client_json().and_then(|(sent_in, json)| server_between(sent_in, json, version).ok());
    let json = sent.map(Cow::into_owned).or_else(|| match version {
        ProtocolVersion::V1 => server_v1(server).map(|server| to_json(&server)),
        ProtocolVersion::V2 => server_v2(server).map(|server| to_json(&server)),
    });
    RawValue::from_string(json?).ok()
}

/// Whether a version 2 agent advertises this server kind in its `initialize` reply.
fn takes_servers(answer: &str, kind: &str) -> bool {
    let answer: serde_json::Value = serde_json::from_str(answer).unwrap_or_default();
    advertised(&answer["capabilities"]["session"]["mcp"][kind])
}

/// `None` for a transport of a kind unknown to acpx.
fn server_v1(server: &McpServer) -> Option<v1::McpServer> {
    let env =
        |values: &[NamedValue]| values.iter().map(|v| v1::EnvVariable::new(&v.name, &v.value)).collect();
    let headers =
        |values: &[NamedValue]| values.iter().map(|v| v1::HttpHeader::new(&v.name, &v.value)).collect();
    Some(match &server.transport {
        McpTransport::Stdio { command, args, env: variables } => v1::McpServer::Stdio(
            v1::McpServerStdio::new(&server.name, command.as_path()).args(args.clone()).env(env(variables)),
        ),
        McpTransport::Http { url, headers: values } => {
            v1::McpServer::Http(v1::McpServerHttp::new(&server.name, url).headers(headers(values)))
        }
        McpTransport::Sse { url, headers: values } => {
            v1::McpServer::Sse(v1::McpServerSse::new(&server.name, url).headers(headers(values)))
        }
        McpTransport::Other { .. } => return None,
    })
}

/// `None` for a transport that version 2 does not have; no version 2 agent advertises it.
fn server_v2(server: &McpServer) -> Option<v2::McpServer> {
    let env =
        |values: &[NamedValue]| values.iter().map(|v| v2::EnvVariable::new(&v.name, &v.value)).collect();
    let headers =
        |values: &[NamedValue]| values.iter().map(|v| v2::HttpHeader::new(&v.name, &v.value)).collect();
    match &server.transport {
        McpTransport::Stdio { command, args, env: variables } => Some(v2::McpServer::Stdio(
            v2::McpServerStdio::new(&server.name, command.as_path()).args(args.clone()).env(env(variables)),
        )),
        McpTransport::Http { url, headers: values } => {
            Some(v2::McpServer::Http(v2::McpServerHttp::new(&server.name, url).headers(headers(values))))
        }
        McpTransport::Sse { .. } | McpTransport::Other { .. } => None,
    }
}
