//! MCP servers, from `mcpServers` of the configuration or from the file of `--mcp-config`.
//!
//! Parsing checks only the form. The program of a stdio server is resolved when a session receives the server, because
//! that depends on the directory and on PATH.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use acpx_core::model::{
    AbsolutePath, JsonMembers, JsonNode, McpServer, McpTransport, NamedValue, WrongMember,
};

use super::trust::TrustedFiles;
use super::{Config, ConfigError, THE_FILE, parse_json, read, wrong_in};

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

/// The MCP servers that every new session gets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct McpSettings {
    /// The configured ones.
    pub(crate) servers: Vec<McpEntry>,
    /// Whether the server of `acpx mcp` is one of them.
    pub(crate) recall: bool,
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
        let text = read(&file).map_err(ConfigError::of_flag)?;
        Self::parse(file, &text)
    }

    /// Parses the text of such a file.
    pub(crate) fn parse(file: PathBuf, text: &str) -> Result<Self, ConfigError> {
        let value = parse_json(&file, text)?;
        let root = JsonNode::root(&value, THE_FILE);
        let servers = root.object("an object with mcpServers").map(|members| members.needed("mcpServers"));
        let entries = servers.and_then(|servers| entries(&servers)).map_err(wrong_in(&file))?;
        Ok(Self { source: file, entries })
    }

    /// Reloads a file that had servers when a session began. It may have none by now, or not be trusted any more.
    pub(crate) fn reload(file: PathBuf, trusted: &TrustedFiles) -> Result<Self, ConfigError> {
        let text = read(&file)?;
        trusted.check(&file, text.as_bytes())?;
        let value = parse_json(&file, &text)?;
        let members = JsonNode::root(&value, THE_FILE).object("an object");
        let entries =
            members.and_then(|members| members.read("mcpServers", entries)).map_err(wrong_in(&file))?;
        Ok(Self { source: file, entries: entries.unwrap_or_default() })
    }

    /// The servers that the configuration defines for every session.
    pub(crate) fn of(config: &Config) -> Self {
        Self { source: config.layers.file_of("mcpServers").to_owned(), entries: config.mcp.servers.clone() }
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
pub(super) fn entries(node: &JsonNode<'_>) -> Result<Vec<McpEntry>, WrongMember> {
    let mut entries: Vec<McpEntry> = Vec::new();
    for node in node.array()? {
        let members = node.object("an object")?;
        let name = members.needed("name");
        let entry = McpEntry { name: name.word()?, transport: transport(&members)? };
        // Names must be unique, because later requests identify a server by its name.
        if entries.iter().any(|other| other.name == entry.name) {
            return Err(name.wrong_content("a name that no other server has"));
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn transport(members: &JsonMembers<'_>) -> Result<EntryTransport, WrongMember> {
    const KINDS: &str = "\"stdio\", \"http\" or \"sse\"";
    let kind = members.read("type", |node| node.parsed(KINDS, |kind| Some(kind.to_owned())))?;
    let url = || members.needed("url").word();
    match kind.as_deref().unwrap_or("stdio") {
        "stdio" => {
            let command = members.needed("command").word()?;
            let texts = |node: &JsonNode<'_>| node.array()?.iter().map(JsonNode::text).collect();
            let args = members.read("args", texts)?.unwrap_or_default();
            Ok(EntryTransport::Stdio { command, args, env: variables(members)? })
        }
        "http" => Ok(EntryTransport::Http { url: url()?, headers: named_values(members, "headers")? }),
        "sse" => Ok(EntryTransport::Sse { url: url()?, headers: named_values(members, "headers")? }),
        _ => Err(members.needed("type").wrong_content(KINDS)),
    }
}

/// The variables of a server, each with a name of its own: a second value would replace the one that a reader sees first.
fn variables(members: &JsonMembers<'_>) -> Result<Vec<NamedValue>, WrongMember> {
    let variables = named_values(members, "env")?;
    let repeated = variables
        .iter()
        .enumerate()
        .any(|(index, variable)| variables[..index].iter().any(|earlier| earlier.name == variable.name));
    if repeated {
        return Err(members.needed("env").wrong_content("variables with different names"));
    }
    Ok(variables)
}

fn named_values(members: &JsonMembers<'_>, key: &str) -> Result<Vec<NamedValue>, WrongMember> {
    let Some(node) = members.get(key) else { return Ok(Vec::new()) };
    let value = |node: &JsonNode<'_>| {
        let members = node.object("an object with name and value")?;
        let name = members.needed("name").word()?;
        let value = members.needed("value").text()?;
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
