//! The project's configuration, `.acpxrc.json`: where it is found, whether it may be read, and which of its keys hold.
//!
//! A cloned repository brings this file, so its author is not the user. Keys that cannot harm hold at once; every other
//! key, also one that a later version adds, holds only while `acpx trust` has pinned exactly these bytes. The bytes that
//! are checked are the bytes that are parsed: the file is opened once.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use acpx_core::model::{JsonNode, UnattendedPolicy, is_secret_name};
use acpx_core::store::open_regular_file;
use serde_json::{Map, Value};

use super::layers::{Layer, Layers};
use super::trust::{PROJECT_FILE, TrustState, TrustedFiles};
use super::{Config, ConfigError, KEYS, THE_FILE, members_of, parse_json, unique_keys, wrong_in};
use crate::agents;

/// Maximum size of the file, far above any real one.
const LARGEST: u64 = 1 << 20;
/// Keys that only the home can have: one host and one index serve all projects, and a sink sends data away.
const OF_HOME: [&str; 3] = ["keepPrograms", "index", "notify"];

/// The user and group that this process acts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileOwner {
    user: u32,
    group: u32,
}

impl FileOwner {
    /// Those of this process.
    pub(crate) fn of_process() -> Self {
        Self { user: rustix::process::geteuid().as_raw(), group: rustix::process::getegid().as_raw() }
    }
}

/// A project's file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProjectFile {
    /// The file in its real directory.
    pub(crate) path: PathBuf,
    /// What is used of it.
    pub(crate) state: ProjectState,
    /// Keys that mean nothing there.
    pub(super) unknown: Vec<String>,
    /// The agents that it defines.
    agents: Vec<String>,
}

/// What is used of a project's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProjectState {
    /// Nothing: it is not safe to read.
    Refused(String),
    /// Everything.
    InForce,
    /// Everything but these keys, which need trust.
    Withheld {
        /// The keys.
        keys: Vec<String>,
        /// Whether the file was trusted with another content.
        has_changed: bool,
    },
}

/// The content of a project's file, before anything is decided about it.
#[derive(Debug)]
pub(crate) struct ProjectContent {
    /// The file in its real directory.
    pub(crate) path: PathBuf,
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
    /// Its members, checked.
    pub(crate) members: Map<String, Value>,
    /// The agents that it defines.
    agents: Vec<String>,
}

impl ProjectFile {
    /// Whether it defines this agent, but is not trusted.
    pub(super) fn withholds_agent(&self, name: &str) -> bool {
        let ProjectState::Withheld { keys, .. } = &self.state else { return false };
        let has = |words: &[String], word: &str| words.iter().any(|known| known == word);
        has(keys, "agents") && has(&self.agents, name)
    }

    /// What a person must know about the file, if anything.
    pub(crate) fn notice(&self) -> Option<String> {
        let file = self.path.display();
        match &self.state {
            ProjectState::InForce => None,
            ProjectState::Refused(reason) => Some(format!("{file} is not read: {reason}")),
            ProjectState::Withheld { keys, has_changed } => {
                let why = if *has_changed { "has changed since it was trusted" } else { "is not trusted" };
                Some(format!(
                    "{file} {why}; not in force: {}; to review and allow it: acpx trust",
                    keys.join(", ")
                ))
            }
        }
    }
}

/// Finds the file for a directory: the nearest one up to the root of the repository, or outside a repository the one in
/// the directory itself.
pub(crate) fn find(cwd: &Path) -> Option<PathBuf> {
    let start = cwd.canonicalize().ok()?;
    let mut nearest = None;
    for directory in start.ancestors() {
        if nearest.is_none() {
            let file = directory.join(PROJECT_FILE);
            nearest = file.symlink_metadata().is_ok().then_some(file);
        }
        let is_here = nearest.as_ref().and_then(|file| file.parent()) == Some(&*start);
        if is_here || directory.join(".git").exists() {
            return nearest;
        }
    }
    None
}

/// Reads the file if this user, or also this user's own group, decides what is in it; otherwise says why not. The group
/// may write, because a umask of 002 makes every file of a clone so. The file is opened once, so what is checked is what
/// is read.
pub(crate) fn read(path: &Path, own: FileOwner) -> Result<Vec<u8>, String> {
    let words = |error: io::Error| error.to_string();
    let owned = |owner: u32, what: &str| match owner {
        owner if owner == own.user => Ok(()),
        owner => Err(format!("{what} belongs to another user (uid {owner})")),
    };
    owned(path.symlink_metadata().map_err(words)?.uid(), "it")?;
    let file = open_regular_file(path).map_err(words)?;
    let metadata = file.metadata().map_err(words)?;
    owned(metadata.uid(), "the file it leads to")?;
    let of_others = if metadata.gid() == own.group { 0o002 } else { 0o022 };
    if metadata.mode() & of_others != 0 {
        return Err(format!("other users can write to it; to change that: chmod go-w {}", quoted(path)));
    }
    let directory = path.parent().unwrap_or(path);
    let mode = directory.metadata().map_err(words)?.mode();
    if mode & 0o002 != 0 && mode & 0o1000 == 0 {
        return Err("every user can replace it: its directory is writable for all".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(words)?;
    if bytes.len() as u64 > LARGEST {
        return Err("it is larger than 1 MiB".to_owned());
    }
    Ok(bytes)
}

fn quoted(path: &Path) -> String {
    agents::quote(&path.to_string_lossy())
}

/// Reads and checks the file. A file that is not safe to read gives the reason.
pub(crate) fn content(path: PathBuf, own: FileOwner) -> Result<Result<ProjectContent, String>, ConfigError> {
    let bytes = match read(&path, own) {
        Ok(bytes) => bytes,
        Err(reason) => return Ok(Err(reason)),
    };
    let not_text = |_| ConfigError::NotJson { file: path.clone(), problem: "it is not UTF-8".to_owned() };
    let text = std::str::from_utf8(&bytes).map_err(not_text)?;
    let value = parse_json(&path, text)?;
    unique_keys::check(&path, text)?;
    let agents = Config::read(&JsonNode::root(&value, THE_FILE)).map_err(wrong_in(&path))?.agent_names();
    let members = members_of(value);
    Ok(Ok(ProjectContent { path, bytes, members, agents }))
}

impl Config {
    /// This global configuration with what holds of the project's file at this path.
    pub(super) fn with_project(
        self,
        path: PathBuf,
        trusted: &TrustedFiles,
        own: FileOwner,
    ) -> Result<Self, ConfigError> {
        let content = match content(path.clone(), own)? {
            Ok(content) => content,
            Err(reason) => {
                let state = ProjectState::Refused(reason);
                let (unknown, agents) = (Vec::new(), Vec::new());
                return Ok(Self { project: Some(ProjectFile { path, state, unknown, agents }), ..self });
            }
        };
        let (members, state) = content.in_force(&self, || trusted.state(&content.path, &content.bytes));
        let unknown = content.members.keys().filter(|key| !is_known(key)).cloned().collect();
        let project =
            Some(ProjectFile { path: content.path.clone(), state, unknown, agents: content.agents });
        let layer = Layer { file: content.path, is_loaded: true, members };
        let layers = Layers { project: Some(layer), ..self.layers };
        let merged = Value::Object(layers.merged());
        let file = layers.global.file.clone();
        // Both files were checked on their own, so their merge is right too.
        let config = Self::read(&JsonNode::root(&merged, THE_FILE)).map_err(wrong_in(&file))?;
        Ok(Self { layers, project, ..config })
    }
}

impl ProjectContent {
    /// The members that hold over a global configuration, and what is used of the file. Trust is looked up only for a
    /// file that needs it.
    pub(super) fn in_force(
        &self,
        global: &Config,
        trust: impl FnOnce() -> TrustState,
    ) -> (Map<String, Value>, ProjectState) {
        let known = self.members.iter().filter(|(key, _)| is_known(key));
        let (harmless, guarded): (Vec<_>, Vec<_>) =
            known.partition(|(key, value)| is_harmless(key, value, global));
        let owned = |members: &[(&String, &Value)]| -> Map<String, Value> {
            members.iter().map(|(key, value)| ((*key).clone(), (*value).clone())).collect()
        };
        let mut members = owned(&harmless);
        if guarded.is_empty() {
            return (members, ProjectState::InForce);
        }
        match trust() {
            TrustState::Trusted => {
                members.extend(owned(&guarded));
                (members, ProjectState::InForce)
            }
            state => {
                let mut keys: Vec<String> = guarded.iter().map(|(key, _)| (*key).clone()).collect();
                keys.sort();
                (members, ProjectState::Withheld { keys, has_changed: state == TrustState::Changed })
            }
        }
    }
}

fn is_known(key: &str) -> bool {
    KEYS.contains(&key) && !OF_HOME.contains(&key)
}

/// Whether a value of a project's file can hold without trust: it starts no program, grants nothing, gives no secret
/// away and takes no protection from the user. Everything that is not listed needs trust, `format` too: JSON and quiet
/// output leave out questions and what they are about.
fn is_harmless(key: &str, value: &Value, global: &Config) -> bool {
    match key {
        "ttl" | "timeout" | "idleTimeout" | "queueMaxDepth" => true,
        "disableExec" => value == &Value::Bool(true),
        "recall" => value == &Value::Bool(false),
        "defaultAgent" => value.as_str().is_some_and(|name| {
            agents::is_built_in(name) || global.agent_names().contains(&agents::canonical(name))
        }),
        "nonInteractivePermissions" => {
            let wanted = value.as_str().and_then(UnattendedPolicy::parse).map(strictness);
            wanted >= Some(global.unattended.map_or(strictness(UnattendedPolicy::Deny), strictness))
        }
        "agents" | "auth" => value.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// How little a policy leaves to the agent: it goes on after a denial, and not after a failure.
fn strictness(policy: UnattendedPolicy) -> u8 {
    match policy {
        UnattendedPolicy::Wait => 0,
        UnattendedPolicy::Deny => 1,
        UnattendedPolicy::Fail => 2,
    }
}

/// What a file sets, by the path of each value, and which of its keys are ignored. Everything that can change what runs
/// is shown whole, also a password in a URL. Only credentials, headers and variables whose names mark a secret are hidden;
/// the file's own `secretEnv` hides nothing.
///
/// No two values have one path, because [`segment`] quotes every key that is no plain word.
pub(crate) fn listing(members: &Map<String, Value>) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    for (key, value) in members {
        let path = segment(key);
        match key.as_str() {
            home if OF_HOME.contains(&home) => {
                drop(rows.insert(path, "(ignored: it belongs to the home)".to_owned()));
            }
            unknown if !is_known(unknown) => drop(rows.insert(path, "(unknown, ignored)".to_owned())),
            "auth" => list_named(&path, value, |_| true, &mut rows),
            _ => list(&path, value, 0, &mut rows),
        }
    }
    rows
}

/// A key as a part of a path: a plain word as it is, everything else as JSON has it, in quotes.
fn segment(key: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    let is_word = !key.is_empty() && key.chars().all(is_plain);
    if is_word { key.to_owned() } else { Value::from(key).to_string() }
}

/// The depth of the members of agents and servers. Other names at any depth are those that the file's author has chosen,
/// and hide nothing.
const ENTRY_DEPTH: usize = 1;

fn list(path: &str, value: &Value, depth: usize, rows: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, value) in members {
                let path = format!("{path}.{}", segment(name));
                match name.as_str() {
                    "env" if depth == ENTRY_DEPTH => list_named(&path, value, is_secret_name, rows),
                    "headers" if depth == ENTRY_DEPTH => list_named(&path, value, |_| true, rows),
                    _ => list(&path, value, depth + 1, rows),
                }
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (index, value) in items.iter().enumerate() {
                list(&format!("{path}[{index}]"), value, depth + 1, rows);
            }
        }
        value => drop(rows.insert(path.to_owned(), value.to_string())),
    }
}

/// Adds named values, which are the members of an object, or objects with a name and a value. Secret ones are hidden.
fn list_named(
    path: &str,
    value: &Value,
    is_secret: impl Fn(&str) -> bool,
    rows: &mut BTreeMap<String, String>,
) {
    let mut add = |name: &str, value: Option<&Value>| {
        let shown = match value {
            Some(value) if !is_secret(name) => value.to_string(),
            _ => HIDDEN.to_owned(),
        };
        rows.insert(format!("{path}.{}", segment(name)), shown);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| add(name, Some(value))),
        Value::Array(items) => {
            let named =
                items.iter().filter_map(|item| Some((item.get("name")?.as_str()?, item.get("value"))));
            named.for_each(|(name, value)| add(name, value));
        }
        _ => {}
    }
}

/// Shown in place of a value that may be a secret.
pub(crate) const HIDDEN: &str = "(not shown)";

#[cfg(test)]
mod tests;
