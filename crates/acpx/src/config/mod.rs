//! Reads `config.json` in the home, the user's settings for all commands.
//!
//! A missing file means defaults. A wrong file is an error that names the file and the key, but never a value, because
//! any value may be a secret. A wrong agent entry affects only that agent. Unknown keys are reported and otherwise
//! ignored, because other versions and npm acpx share the file.

mod agents;
pub(crate) mod credentials;
mod error;
mod mcp;
mod node;
mod variables;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acpx_core::model::{
    AgentProfile, LoginPolicy, PermissionMode, ProtocolVersion, ToolPolicy, UnattendedPolicy,
};
use acpx_core::protocol::ConfiguredAgent;
use acpx_core::store::open_regular_file;

pub(crate) use self::error::{ConfigError, WrongValue};
pub(crate) use self::mcp::{McpEntry, McpFile, ProgramSearch, find_program};
pub(crate) use self::variables::AgentVariables;

use self::agents::{AgentEntry, Agents};
use self::credentials::Credentials;
use self::node::Node;
use crate::cli::{Format, is_verb, seconds_to_idle_time, seconds_to_limit};

/// The validated content of the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Config {
    /// The file's path, whether the file exists or not.
    pub(crate) file: PathBuf,
    /// The agent for command lines that name none.
    pub(crate) default_agent: Option<String>,
    /// What agents may do without a permission request.
    pub(crate) mode: Option<PermissionMode>,
    /// What happens to a permission request that no client can answer.
    pub(crate) unasked: Option<UnattendedPolicy>,
    /// Rules for single tools.
    pub(crate) tool_policy: Option<ToolPolicy>,
    /// How long an agent may be idle; zero means forever.
    pub(crate) ttl: Option<Duration>,
    /// Time limit of a command.
    pub(crate) timeout: Option<Duration>,
    /// How long an agent may be silent in a turn.
    pub(crate) idle_timeout: Option<Duration>,
    /// The output format.
    pub(crate) format: Option<Format>,
    /// Whether `exec` is forbidden.
    pub(crate) disable_exec: bool,
    /// Programs that outlive the agent that started them.
    pub(crate) keep_programs: Vec<String>,
    /// The MCP servers for every session.
    pub(crate) mcp_servers: Vec<McpEntry>,
    /// What to do when an agent offers logins and no credential is configured.
    pub(crate) login: Option<LoginPolicy>,
    /// The credentials for logins.
    pub(crate) credentials: Credentials,
    agents: Agents,
    /// Unknown top-level keys.
    unknown: Vec<String>,
}

/// All known keys, including `queueMaxDepth`, which only npm acpx uses.
const KEYS: [&str; 15] = [
    "defaultAgent",
    "defaultPermissions",
    "nonInteractivePermissions",
    "permissionPolicy",
    "ttl",
    "timeout",
    "idleTimeout",
    "format",
    "disableExec",
    "keepPrograms",
    "mcpServers",
    "authPolicy",
    "auth",
    "agents",
    "queueMaxDepth",
];

/// Maximum size of a configuration file, far above any real one.
const LARGEST: u64 = 16 * 1024 * 1024;

impl Config {
    /// Reads the file of this home.
    pub(crate) fn load(home: &Path) -> Result<Self, ConfigError> {
        let file = home.join("config.json");
        // Opening a named pipe would block every command.
        match open_regular_file(&file).and_then(text_of) {
            Ok(text) => Self::parse(&file, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self { file, ..Self::default() }),
            Err(source) => Err(ConfigError::Unreadable { file, source }),
        }
    }

    /// Parses the content of the file.
    pub(crate) fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let value = node::json(file, text)?;
        let root = Node::root(file, &value);
        let members = root.object("an object")?;
        let config = Self {
            default_agent: members
                .get("defaultAgent")
                .map(|node| node.word().map(|name| crate::agents::canonical(&name)))
                .transpose()?,
            mode: members.get("defaultPermissions").map(|node| mode(&node)).transpose()?,
            unasked: members.get("nonInteractivePermissions").map(|node| unasked(&node)).transpose()?,
            tool_policy: members.get("permissionPolicy").map(|node| node.tool_policy()).transpose()?,
            ttl: members.get("ttl").map(|node| ttl(&node)).transpose()?,
            timeout: members.get("timeout").map(|node| timeout(&node)).transpose()?.flatten(),
            idle_timeout: members.get("idleTimeout").map(|node| timeout(&node)).transpose()?.flatten(),
            format: members.get("format").map(|node| format(&node)).transpose()?,
            disable_exec: members.get("disableExec").map(|node| node.boolean()).transpose()?.unwrap_or(false),
            keep_programs: members
                .get("keepPrograms")
                .map(|node| words(&node))
                .transpose()?
                .unwrap_or_default(),
            mcp_servers: members
                .get("mcpServers")
                .map(|node| mcp::entries(&node))
                .transpose()?
                .unwrap_or_default(),
            login: members.get("authPolicy").map(|node| login(&node)).transpose()?,
            credentials: members.get("auth").map(|node| credentials(&node)).transpose()?.unwrap_or_default(),
            agents: members.get("agents").map(|node| agents::agents(&node)).transpose()?.unwrap_or_default(),
            unknown: members.others(&KEYS).collect(),
            file: file.to_owned(),
        };
        check_the_rest(&members)?;
        Ok(config)
    }

    /// The configured command of an agent, unless its entry is wrong.
    pub(crate) fn agent(&self, name: &str) -> Result<Option<&[String]>, WrongValue> {
        match self.agents.get(name) {
            None => Ok(None),
            Some(Ok(entry)) => Ok(entry.argv.as_deref()),
            Some(Err(wrong)) => Err(wrong.clone()),
        }
    }

    /// The configured protocol version of an agent.
    pub(crate) fn protocol(&self, name: &str) -> Option<ProtocolVersion> {
        self.entry(name)?.protocol
    }

    /// The configured profile of an agent.
    pub(crate) fn profile(&self, name: &str) -> Option<Arc<AgentProfile>> {
        self.entry(name)?.profile.clone()
    }

    /// The configured environment of each agent whose entry is right.
    pub(crate) fn variables(&self) -> BTreeMap<String, AgentVariables> {
        let named = |(name, entry): (&String, &Result<AgentEntry, _>)| {
            Some((name.clone(), entry.as_ref().ok()?.variables.clone()))
        };
        self.agents.iter().filter_map(named).collect()
    }

    /// The names of all configured agents, including those with wrong entries.
    pub(crate) fn agent_names(&self) -> Vec<String> {
        let is_one =
            |entry: &Result<AgentEntry, _>| entry.as_ref().map_or(true, |entry| entry.argv.is_some());
        self.agents.iter().filter(|(_, entry)| is_one(entry)).map(|(name, _)| name.clone()).collect()
    }

    /// The agents with a configured command.
    pub(crate) fn configured_agents(&self) -> Vec<ConfiguredAgent> {
        let configured = |(name, entry): (&String, &Result<AgentEntry, _>)| {
            let argv = entry.as_ref().ok()?.argv.clone()?;
            Some(ConfiguredAgent { name: name.clone(), argv })
        };
        self.agents.iter().filter_map(configured).collect()
    }

    /// The errors of wrong agent entries, by the agent's name.
    pub(crate) fn wrong_agents(&self) -> impl Iterator<Item = (&str, &WrongValue)> {
        self.agents.iter().filter_map(|(name, entry)| Some((name.as_str(), entry.as_ref().err()?)))
    }

    /// Agents that share their name with a command, which makes them unreachable.
    pub(crate) fn unreachable_agents(&self) -> impl Iterator<Item = &str> {
        self.agents.keys().map(String::as_str).filter(|name| is_verb(name))
    }

    /// Unknown keys: top-level ones, and those of one agent or of all.
    pub(crate) fn unknown_keys(&self, agent: Option<&str>) -> Vec<&str> {
        let is_meant = |name: &str| agent.is_none_or(|agent| agent == name);
        let entries = self
            .agents
            .iter()
            .filter(|(name, _)| is_meant(name))
            .filter_map(|(_, entry)| entry.as_ref().ok());
        self.unknown.iter().chain(entries.flat_map(|entry| &entry.unknown)).map(String::as_str).collect()
    }

    fn entry(&self, name: &str) -> Option<&AgentEntry> {
        self.agents.get(name)?.as_ref().ok()
    }
}

/// Reads a file as text, up to the maximum size.
fn read(file: &Path) -> io::Result<String> {
    text_of(File::open(file)?)
}

fn text_of(file: File) -> io::Result<String> {
    let mut text = String::new();
    let size = file.take(LARGEST + 1).read_to_string(&mut text)?;
    if size as u64 > LARGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 16 MiB"));
    }
    Ok(text)
}

/// Validates keys that only npm acpx uses.
fn check_the_rest(members: &node::ConfigObject<'_>) -> Result<(), ConfigError> {
    if let Some(node) = members.get("queueMaxDepth") {
        node.count()?;
    }
    Ok(())
}

fn unasked(node: &Node<'_>) -> Result<UnattendedPolicy, ConfigError> {
    let expected = "\"deny\", \"fail\" or \"wait\"";
    let name = node.text().map_err(|_| node.wrong(expected))?;
    UnattendedPolicy::parse(&name).ok_or_else(|| node.wrong(expected))
}

/// Reads tool rules from a separate file.
pub(crate) fn tool_policy(file: &Path) -> Result<ToolPolicy, ConfigError> {
    let text = read(file).map_err(|source| ConfigError::Unreadable { file: file.to_owned(), source })?;
    Node::root(file, &node::json(file, &text)?).tool_policy()
}

fn mode(node: &Node<'_>) -> Result<PermissionMode, ConfigError> {
    let expected = "\"approve-all\", \"approve-reads\" or \"deny-all\"";
    let name = node.text().map_err(|_| node.wrong(expected))?;
    let typed = PermissionMode::parse(&name).filter(|mode| *mode != PermissionMode::Ask);
    typed.ok_or_else(|| node.wrong(expected))
}

fn login(node: &Node<'_>) -> Result<LoginPolicy, ConfigError> {
    node.one_of(&["skip", "fail"])?;
    Ok(LoginPolicy::parse(&node.text()?).unwrap_or_default())
}

fn credentials(node: &Node<'_>) -> Result<Credentials, ConfigError> {
    let members = node.object("an object of strings")?;
    members.names().zip(members.all()).map(|(id, value)| Ok((id.to_owned(), value.text()?))).collect()
}

fn format(node: &Node<'_>) -> Result<Format, ConfigError> {
    let expected = "\"text\", \"json\" or \"quiet\"";
    let name = node.text().map_err(|_| node.wrong(expected))?;
    Format::parse(&name).ok_or_else(|| node.wrong(expected))
}

fn ttl(node: &Node<'_>) -> Result<Duration, ConfigError> {
    let expected = "a number of seconds, 0 or more";
    node.number().and_then(seconds_to_idle_time).ok_or_else(|| node.wrong(expected))
}

fn words(node: &Node<'_>) -> Result<Vec<String>, ConfigError> {
    node.array()?.iter().map(Node::word).collect()
}

/// `null` means no limit.
fn timeout(node: &Node<'_>) -> Result<Option<Duration>, ConfigError> {
    if node.is_null() {
        return Ok(None);
    }
    let expected = "a number of seconds above 0, or null";
    node.number().and_then(seconds_to_limit).map(Some).ok_or_else(|| node.wrong(expected))
}

#[cfg(test)]
mod tests;
