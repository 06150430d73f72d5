//! The requests that make a session or bring one back, as a command asks them.

use acpx_core::host::meta::{NewMeta, RestoreMeta, SessionMeta};
use acpx_core::model::{AbsolutePath, McpServer, McpTransport, NamedValue, Record, SessionIdentity};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::asking::Under;
use crate::config::McpFile;
use crate::error::CliError;
use crate::settings::Settings;

/// The params of `session/new`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewParams<'a> {
    cwd: &'a AbsolutePath,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    additional_directories: &'a [AbsolutePath],
    mcp_servers: Vec<Value>,
    #[serde(rename = "_meta")]
    meta: Under<NewMeta>,
}

/// The params of `session/resume`. Without servers it changes none.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResumeParams<'a> {
    session_id: &'a str,
    cwd: &'a AbsolutePath,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    additional_directories: &'a [AbsolutePath],
    #[serde(skip_serializing_if = "Option::is_none")]
    mcp_servers: Option<Vec<Value>>,
    #[serde(rename = "_meta")]
    meta: Under<RestoreMeta>,
}

/// The servers that a command brings, with the file they are from.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) servers: Vec<McpServer>,
    pub(crate) source: Option<String>,
}

impl Given {
    /// The servers of a file, their programs found.
    pub(crate) fn of(file: &McpFile, cwd: &AbsolutePath) -> Result<Self, CliError> {
        let path = std::env::var_os("PATH");
        let around = crate::config::Surroundings { cwd: cwd.as_path(), path: path.as_deref() };
        let servers = file.servers(around)?;
        let source = (!servers.is_empty()).then(|| file.source.to_str().map(str::to_owned)).flatten();
        Ok(Self { servers, source })
    }
}

impl<'a> NewParams<'a> {
    pub(crate) fn new(settings: &'a Settings, given: &Given, mut meta: NewMeta) -> Self {
        meta.start.mcp_source.clone_from(&given.source);
        let Settings { cwd, additional_directories, .. } = settings;
        let mcp_servers = given.servers.iter().map(server).collect();
        Self { cwd, additional_directories, mcp_servers, meta: Under { acpx: meta } }
    }
}

impl<'a> ResumeParams<'a> {
    pub(crate) fn new(
        record: &'a Record,
        settings: &'a Settings,
        given: Option<&Given>,
        mut meta: RestoreMeta,
    ) -> Self {
        meta.start.mcp_source = given.and_then(|given| given.source.clone());
        let mcp_servers = given.map(|given| given.servers.iter().map(server).collect());
        let (session_id, cwd) = (record.id.as_str(), &record.cwd);
        let additional_directories = &settings.additional_directories;
        Self { session_id, cwd, additional_directories, mcp_servers, meta: Under { acpx: meta } }
    }

    /// The agent need not run yet.
    pub(crate) fn start_later(&mut self) {
        self.meta.acpx.later = true;
    }
}

/// What the host says of a session that is ready.
pub(crate) fn read(answer: &str) -> Option<(SessionIdentity, SessionMeta)> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(rename = "_meta")]
        meta: Under<SessionMeta>,
    }
    let meta = serde_json::from_str::<Answer>(answer).ok()?.meta.acpx;
    Some((meta.ids.identity()?, meta))
}

/// A server in the protocol's form.
fn server(server: &McpServer) -> Value {
    let values = |values: &[NamedValue]| -> Value {
        values.iter().map(|value| json!({ "name": value.name, "value": value.value })).collect()
    };
    let name = &server.name;
    match &server.transport {
        McpTransport::Stdio { command, args, env } => {
            json!({ "name": name, "command": command, "args": args, "env": values(env) })
        }
        McpTransport::Http { url, headers } => {
            json!({ "type": "http", "name": name, "url": url, "headers": values(headers) })
        }
        McpTransport::Sse { url, headers } => {
            json!({ "type": "sse", "name": name, "url": url, "headers": values(headers) })
        }
    }
}
