//! The settings of all commands: `config.json` in the home, and over it what holds of the project's `.acpxrc.json`.
//!
//! A missing file means defaults. A wrong file is an error that names the file and the key, but never a value, because
//! any value may be a secret. A wrong agent entry affects only that agent. Unknown keys are reported and otherwise
//! ignored, because other versions and npm acpx share the file.

mod agents;
pub(crate) mod credentials;
pub(crate) mod environment;
mod error;
pub(crate) mod index;
pub(crate) mod layers;
mod mcp;
pub(crate) mod notify;
pub(crate) mod private;
pub(crate) mod project;
pub(crate) mod trust;
mod unique_keys;
mod variables;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use acpx_core::model::{
    AgentProfile, Budget, JsonNode, LoginPolicy, Money, PermissionMode, ProtocolVersion, SpendingLimits,
    ToolPolicy, UnattendedPolicy, WrongMember,
};
use acpx_core::protocol::ConfiguredAgent;
use acpx_core::store::open_regular_file;
use serde_json::{Map, Number, Value};

pub(crate) use self::error::{ConfigError, WrongValue};
pub(crate) use self::mcp::{McpFile, McpSettings, ProgramSearch, find_program};
pub(crate) use self::variables::AgentVariables;

use self::agents::{AgentEntry, Agents};
use self::credentials::Credentials;
use self::index::IndexSettings;
use self::layers::{Layer, Layers};
use self::notify::NotifySettings;
use self::project::{FileOwner, ProjectFile};
use self::trust::TrustedFiles;
use crate::cli::{
    CURRENCY_LETTERS, DEFAULT_CURRENCY, Format, is_verb, nearest, seconds_to_idle_time, seconds_to_limit,
};

/// The validated content of the files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Config {
    /// The files, whether they exist or not, and which of them has which key.
    pub(crate) layers: Layers,
    /// The project's file, if there is one.
    pub(crate) project: Option<ProjectFile>,
    /// The agent for command lines that name none.
    pub(crate) default_agent: Option<String>,
    /// What agents may do without a permission request.
    pub(crate) mode: Option<PermissionMode>,
    /// What happens to a permission request that no client can answer.
    pub(crate) unattended: Option<UnattendedPolicy>,
    /// Rules for single tools.
    pub(crate) tool_policy: Option<ToolPolicy>,
    /// How long an agent may be idle; zero means forever.
    pub(crate) ttl: Option<Duration>,
    /// Time limit of a command.
    pub(crate) timeout: Option<Duration>,
    /// How long an agent may be silent in a turn.
    pub(crate) idle_timeout: Option<Duration>,
    /// What a turn and its session may use.
    pub(crate) spending: SpendingLimits,
    /// The output format.
    pub(crate) format: Option<Format>,
    /// Whether `exec` is forbidden.
    pub(crate) disable_exec: bool,
    /// What only the file of the home sets.
    pub(crate) home: HomeSettings,
    /// The MCP servers for every session.
    pub(crate) mcp: McpSettings,
    /// What to do when an agent offers logins and no credential is configured.
    pub(crate) login: Option<LoginPolicy>,
    /// The credentials for logins.
    pub(crate) credentials: Credentials,
    /// How many prompts may wait behind the running one.
    pub(crate) queue_depth: Option<usize>,
    agents: Agents,
    /// Unknown top-level keys.
    unknown: Vec<String>,
}

/// Settings that a project's file cannot change: one host and one index serve all projects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct HomeSettings {
    /// Programs that outlive the agent that started them.
    pub(crate) keep_programs: Vec<String>,
    /// The search index.
    pub(crate) index: IndexSettings,
    /// Where events of sessions are reported.
    pub(crate) notify: NotifySettings,
}

/// All known keys.
const KEYS: [&str; 20] = [
    "defaultAgent",
    "defaultPermissions",
    "nonInteractivePermissions",
    "permissionPolicy",
    "ttl",
    "timeout",
    "idleTimeout",
    "maxCost",
    "maxTokens",
    "format",
    "disableExec",
    "keepPrograms",
    "mcpServers",
    "recall",
    "authPolicy",
    "auth",
    "agents",
    "queueMaxDepth",
    "index",
    "notify",
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
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let global = Layer { file, ..Layer::default() };
                Ok(Self { layers: Layers { global, project: None }, ..Self::default() })
            }
            Err(source) => Err(ConfigError::unread(file, source)),
        }
    }

    /// Reads the file of this home, and the project's file for this directory.
    pub(crate) fn load_for(home: &Path, cwd: &Path) -> Result<Self, ConfigError> {
        let global = Self::load(home)?;
        match project::find(cwd) {
            None => Ok(global),
            Some(file) => global.with_project(file, &TrustedFiles::of(home), FileOwner::of_process()),
        }
    }

    /// Parses the content of the home's file.
    pub(crate) fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let value = parse_json(file, text)?;
        let config = Self::read(&JsonNode::root(&value, THE_FILE)).map_err(wrong_in(file))?;
        let global = Layer { file: file.to_owned(), is_loaded: true, members: members_of(value) };
        Ok(Self { layers: Layers { global, project: None }, ..config })
    }

    fn read(root: &JsonNode<'_>) -> Result<Self, WrongMember> {
        let members = root.object("an object")?;
        let canonical = |node: &JsonNode<'_>| node.word().map(|name| crate::agents::canonical(&name));
        Ok(Self {
            default_agent: members.read("defaultAgent", canonical)?,
            mode: members.read("defaultPermissions", mode)?,
            unattended: members.read("nonInteractivePermissions", unattended)?,
            tool_policy: members.read("permissionPolicy", ToolPolicy::read)?,
            ttl: members.read("ttl", ttl)?,
            timeout: members.read("timeout", timeout)?.flatten(),
            idle_timeout: members.read("idleTimeout", timeout)?.flatten(),
            spending: members
                .read("maxCost", max_cost)?
                .unwrap_or_default()
                .or(&members.read("maxTokens", max_tokens)?.unwrap_or_default()),
            format: members.read("format", format)?,
            disable_exec: members.read("disableExec", JsonNode::boolean)?.unwrap_or(false),
            home: HomeSettings {
                keep_programs: members.read("keepPrograms", JsonNode::words)?.unwrap_or_default(),
                index: members.read("index", IndexSettings::read)?.unwrap_or_default(),
                notify: members.read("notify", NotifySettings::read)?.unwrap_or_default(),
            },
            mcp: McpSettings {
                servers: members.read("mcpServers", mcp::entries)?.unwrap_or_default(),
                recall: members.read("recall", JsonNode::boolean)?.unwrap_or(false),
            },
            login: members.read("authPolicy", login)?,
            credentials: members.read("auth", credentials)?.unwrap_or_default(),
            agents: members.read("agents", agents::agents)?.unwrap_or_default(),
            unknown: members.others(&KEYS),
            layers: Layers::default(),
            project: None,
            queue_depth: members.read("queueMaxDepth", depth)?,
        })
    }

    /// The configured command of an agent, unless its entry is wrong.
    pub(crate) fn agent(&self, name: &str) -> Result<Option<&[String]>, WrongValue> {
        match self.agents.get(name) {
            None => Ok(None),
            Some(Ok(entry)) => Ok(entry.argv.as_deref()),
            Some(Err(wrong)) => Err(self.wrong(name, wrong)),
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

    /// The project's file, if only it defines this agent and it is not trusted.
    pub(crate) fn untrusted_file_of(&self, agent: &str) -> Option<&Path> {
        let project = self.project.as_ref().filter(|project| project.withholds_agent(agent))?;
        (!self.agent_names().iter().any(|name| name == agent)).then_some(&*project.path)
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
    pub(crate) fn wrong_agents(&self) -> impl Iterator<Item = (&str, WrongValue)> {
        self.agents
            .iter()
            .filter_map(|(name, entry)| Some((name.as_str(), self.wrong(name, entry.as_ref().err()?))))
    }

    /// Agents that share their name with a command, which makes them unreachable.
    pub(crate) fn unreachable_agents(&self) -> impl Iterator<Item = &str> {
        self.agents.keys().map(String::as_str).filter(|name| is_verb(name))
    }

    /// Unknown keys with their files: top-level ones, and those of one agent or of all.
    pub(crate) fn unknown_keys(&self, agent: Option<&str>) -> Vec<(&Path, &str)> {
        let is_meant = |name: &str| agent.is_none_or(|agent| agent == name);
        let entries = self.agents.iter().filter(|(name, _)| is_meant(name)).flat_map(|(name, entry)| {
            let file = self.layers.file_of(&format!("agents.{name}"));
            entry.iter().flat_map(|entry| &entry.unknown).map(move |key| (file, key.as_str()))
        });
        let global = self.unknown.iter().map(|key| (self.layers.global.file.as_path(), key.as_str()));
        let of_project = self
            .project
            .iter()
            .flat_map(|project| project.unknown.iter().map(|key| (project.path.as_path(), key.as_str())));
        global.chain(of_project).chain(entries).collect()
    }

    /// The known key that an unknown one may be meant to be.
    pub(crate) fn similar_key(unknown: &str) -> Option<String> {
        let key = unknown.rsplit('.').next().unwrap_or(unknown);
        if key == unknown { nearest(key, KEYS.into_iter()) } else { nearest(key, agents::keys()) }
    }

    fn wrong(&self, agent: &str, wrong: &WrongMember) -> WrongValue {
        let file = self.layers.file_of(&format!("agents.{agent}")).to_owned();
        WrongValue { file, wrong: wrong.clone() }
    }

    fn entry(&self, name: &str) -> Option<&AgentEntry> {
        self.agents.get(name)?.as_ref().ok()
    }
}

/// Reads a file as text, up to the maximum size.
fn text_of(file: File) -> io::Result<String> {
    let mut text = String::new();
    let size = file.take(LARGEST + 1).read_to_string(&mut text)?;
    if size as u64 > LARGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 16 MiB"));
    }
    Ok(text)
}

/// The name that an error gives the top of a file.
const THE_FILE: &str = "the file";

/// Reads a file that must exist.
fn read(file: &Path) -> Result<String, ConfigError> {
    let text = File::open(file).and_then(text_of);
    text.map_err(|source| ConfigError::unread(file.to_owned(), source))
}

fn parse_json(file: &Path, text: &str) -> Result<Value, ConfigError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let bad = |problem: String| ConfigError::NotJson { file: file.to_owned(), problem };
    if text.trim().is_empty() {
        return Err(bad("it is empty".to_owned()));
    }
    serde_json::from_str(text).map_err(|error| bad(error.to_string()))
}

/// The members of a file that was checked.
fn members_of(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Adds the file to an error.
fn wrong_in(file: &Path) -> impl FnOnce(WrongMember) -> ConfigError + '_ {
    |wrong| WrongValue { file: file.to_owned(), wrong }.into()
}

/// Reads tool rules from a separate file.
pub(crate) fn tool_policy(file: &Path) -> Result<ToolPolicy, ConfigError> {
    let text = read(file).map_err(ConfigError::of_flag)?;
    ToolPolicy::of(&parse_json(file, &text)?).map_err(wrong_in(file))
}

fn depth(node: &JsonNode<'_>) -> Result<usize, WrongMember> {
    Ok(usize::try_from(positive_integer(node)?).unwrap_or(usize::MAX))
}

fn positive_integer(node: &JsonNode<'_>) -> Result<u64, WrongMember> {
    node.number("a whole number above 0", |number| number.as_u64().filter(|count| *count > 0))
}

fn unattended(node: &JsonNode<'_>) -> Result<UnattendedPolicy, WrongMember> {
    node.parsed("\"deny\", \"fail\" or \"wait\"", UnattendedPolicy::parse)
}

fn mode(node: &JsonNode<'_>) -> Result<PermissionMode, WrongMember> {
    let parse = |name: &str| PermissionMode::parse(name).filter(|mode| *mode != PermissionMode::Ask);
    node.parsed("\"approve-all\", \"approve-reads\" or \"deny-all\"", parse)
}

fn login(node: &JsonNode<'_>) -> Result<LoginPolicy, WrongMember> {
    node.parsed("\"skip\" or \"fail\"", LoginPolicy::parse)
}

fn credentials(node: &JsonNode<'_>) -> Result<Credentials, WrongMember> {
    let members = node.object("an object of strings")?;
    members.all().map(|(id, value)| Ok((id.to_owned(), value.text()?))).collect()
}

fn format(node: &JsonNode<'_>) -> Result<Format, WrongMember> {
    node.parsed("\"text\", \"json\" or \"quiet\"", Format::parse)
}

fn ttl(node: &JsonNode<'_>) -> Result<Duration, WrongMember> {
    node.number("a number of seconds, 0 or more", |number| number.as_f64().and_then(seconds_to_idle_time))
}

/// Limits of cost: amounts for the turn and the session, and their currency.
fn max_cost(node: &JsonNode<'_>) -> Result<SpendingLimits, WrongMember> {
    let members = node.object("an object with turn, session and currency")?;
    let currency = members.read("currency", |node| {
        let code = node.word()?;
        let is_code = code.len() == CURRENCY_LETTERS && code.bytes().all(|byte| byte.is_ascii_alphabetic());
        if is_code {
            Ok(code.to_uppercase())
        } else {
            Err(node.wrong_content("a code of three letters, such as EUR"))
        }
    })?;
    let currency = currency.unwrap_or_else(|| DEFAULT_CURRENCY.to_owned());
    let budget = |scope| {
        let cost = members.read(scope, |node| {
            node.number("an amount above 0", |number| {
                Money::of(number.as_f64()?, currency.as_str()).filter(|cost| cost.nanos > 0)
            })
        })?;
        Ok(Budget { cost, tokens: None })
    };
    Ok(SpendingLimits { turn: budget("turn")?, session: budget("session")? })
}

/// Limits of tokens, for the turn and the session.
fn max_tokens(node: &JsonNode<'_>) -> Result<SpendingLimits, WrongMember> {
    let members = node.object("an object with turn and session")?;
    let budget = |scope| Ok(Budget { cost: None, tokens: members.read(scope, positive_integer)? });
    Ok(SpendingLimits { turn: budget("turn")?, session: budget("session")? })
}

/// `null` means no limit.
fn timeout(node: &JsonNode<'_>) -> Result<Option<Duration>, WrongMember> {
    if node.value().is_null() {
        return Ok(None);
    }
    let limit = |number: &Number| number.as_f64().and_then(seconds_to_limit).map(Some);
    node.number("a number of seconds above 0, or null", limit)
}

#[cfg(test)]
mod tests;
