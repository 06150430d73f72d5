//! MCP servers, from `mcpServers` of the configuration or from the file of `--mcp-config`.
//!
//! Parsing checks only the form. The program of a stdio server is resolved when a session receives the server, because
//! that depends on the directory and on PATH.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use acpx_core::model::{AbsolutePath, McpServer, McpTransport, NamedValue};

use super::node::{self, ConfigObject, Node};
use super::{Config, ConfigError};

/// One configured server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct McpEntry {
    name: String,
    transport: EntryTransport,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum EntryTransport {
    Stdio { command: String, args: Vec<String>, env: Vec<NamedValue> },
    Http { url: String, headers: Vec<NamedValue> },
    Sse { url: String, headers: Vec<NamedValue> },
}

/// The servers of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct McpFile {
    /// The file.
    pub(crate) source: PathBuf,
    /// Its servers.
    pub(crate) entries: Vec<McpEntry>,
}

/// Where a server's program is searched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramSearch<'a> {
    /// The session's working directory.
    pub(crate) cwd: &'a Path,
    /// The directories of `PATH`.
    pub(crate) path: Option<&'a OsStr>,
}

impl McpFile {
    /// Loads the file of `--mcp-config`: an object with `mcpServers`. The file must exist.
    pub(crate) fn load(file: PathBuf) -> Result<Self, ConfigError> {
        match super::read(&file) {
            Ok(text) => Self::parse(file, &text),
            Err(source) => Err(ConfigError::Unreadable { file, source }),
        }
    }

    /// Parses the text of such a file.
    pub(crate) fn parse(file: PathBuf, text: &str) -> Result<Self, ConfigError> {
        let value = node::json(&file, text)?;
        let members = Node::root(&file, &value).object("an object with mcpServers")?;
        let servers = members.needed("mcpServers", "an array")?;
        let entries = entries(&servers)?;
        Ok(Self { source: file, entries })
    }

    /// Reloads a file that had servers when a session began. It may have none by now.
    pub(crate) fn reload(file: PathBuf) -> Result<Self, ConfigError> {
        let text = match super::read(&file) {
            Ok(text) => text,
            Err(source) => return Err(ConfigError::Unreadable { file, source }),
        };
        let value = node::json(&file, &text)?;
        let members = Node::root(&file, &value).object("an object")?;
        let servers = members.get("mcpServers").map(|node| entries(&node)).transpose()?;
        Ok(Self { source: file, entries: servers.unwrap_or_default() })
    }

    /// The servers that the configuration defines for every session.
    pub(crate) fn of(config: &Config) -> Self {
        Self { source: config.file.clone(), entries: config.mcp_servers.clone() }
    }

    /// The names of the servers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// The file reduced to one server; `None` if no server has this name.
    pub(crate) fn only(&self, name: &str) -> Option<Self> {
        let entry = self.entries.iter().find(|entry| entry.name == name)?;
        Some(Self { source: self.source.clone(), entries: vec![entry.clone()] })
    }

    /// The servers in the form that an agent receives.
    pub(crate) fn servers(&self, around: ProgramSearch<'_>) -> Result<Vec<McpServer>, ConfigError> {
        self.entries.iter().map(|entry| self.server(entry, around)).collect()
    }

    fn server(&self, entry: &McpEntry, around: ProgramSearch<'_>) -> Result<McpServer, ConfigError> {
        let transport = match &entry.transport {
            EntryTransport::Stdio { command, args, env } => {
                let not_found = || ConfigError::NoCommand {
                    file: self.source.clone(),
                    server: entry.name.clone(),
                    command: command.clone(),
                };
                let command = find_program(command, around).ok_or_else(not_found)?;
                McpTransport::Stdio { command, args: args.clone(), env: env.clone() }
            }
            EntryTransport::Http { url, headers } => {
                McpTransport::Http { url: url.clone(), headers: headers.clone() }
            }
            EntryTransport::Sse { url, headers } => {
                McpTransport::Sse { url: url.clone(), headers: headers.clone() }
            }
        };
        Ok(McpServer::new(entry.name.clone(), transport))
    }
}

/// Parses a list of servers. The protocol uses a list, so a map is rejected.
pub(super) fn entries(node: &Node<'_>) -> Result<Vec<McpEntry>, ConfigError> {
    let mut entries: Vec<McpEntry> = Vec::new();
    for node in node.array()? {
        let members = node.object("an object")?;
        let name = members.needed("name", "a non-empty string")?;
        let entry = McpEntry { name: name.word()?, transport: transport(&members)? };
        // Names must be unique, because later requests identify a server by its name.
        if entries.iter().any(|other| other.name == entry.name) {
            return Err(name.wrong("a name that no other server has"));
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn transport(members: &ConfigObject<'_>) -> Result<EntryTransport, ConfigError> {
    const KINDS: &str = "\"stdio\", \"http\" or \"sse\"";
    let kind = match members.get("type") {
        Some(node) => node.text().map_err(|_| node.wrong(KINDS))?,
        None => "stdio".to_owned(),
    };
    let url = || members.needed("url", "a non-empty string")?.word();
    match kind.as_str() {
        "stdio" => {
            let command = members.needed("command", "a non-empty string")?.word()?;
            let args = match members.get("args") {
                Some(node) => node.array()?.iter().map(Node::text).collect::<Result<_, _>>()?,
                None => Vec::new(),
            };
            Ok(EntryTransport::Stdio { command, args, env: named_values(members, "env")? })
        }
        "http" => Ok(EntryTransport::Http { url: url()?, headers: named_values(members, "headers")? }),
        "sse" => Ok(EntryTransport::Sse { url: url()?, headers: named_values(members, "headers")? }),
        _ => Err(members.needed("type", KINDS)?.wrong(KINDS)),
    }
}

fn named_values(members: &ConfigObject<'_>, key: &str) -> Result<Vec<NamedValue>, ConfigError> {
    let Some(node) = members.get(key) else { return Ok(Vec::new()) };
    let value = |node: &Node<'_>| {
        let members = node.object("an object with name and value")?;
        let name = members.needed("name", "a non-empty string")?.word()?;
        let value = members.needed("value", "a string")?.text()?;
        Ok(NamedValue { name, value })
    };
    node.array()?.iter().map(value).collect()
}

/// The program as an absolute path: a name is searched in PATH, a path is relative to the directory.
pub(crate) fn find_program(command: &str, around: ProgramSearch<'_>) -> Option<AbsolutePath> {
    let candidates: Vec<PathBuf> = if command.contains('/') {
        vec![around.cwd.join(command)]
    } else {
        let directories = std::env::split_paths(around.path?);
        directories.map(|directory| around.cwd.join(directory).join(command)).collect()
    };
    let found = candidates.into_iter().find(|candidate| is_executable(candidate).unwrap_or(false))?;
    AbsolutePath::from_path(&found).ok()
}

fn is_executable(path: &Path) -> io::Result<bool> {
    let metadata = path.metadata()?;
    Ok(metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
