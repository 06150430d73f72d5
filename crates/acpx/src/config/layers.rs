//! The layers of the configuration: the global file, and what is in force of a project's file, which overrides it.
//!
//! The layers are merged as JSON before the result is parsed, so a value means the same in both files. Every key has
//! one origin, and an error names the file that the value comes from.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::agents::canonical;

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfigOrigin {
    /// A flag of the command.
    Flag,
    /// An environment variable.
    Environment,
    /// The project's file.
    Project,
    /// The file in the home.
    Global,
    /// acpx itself.
    BuiltIn,
}

impl ConfigOrigin {
    /// Its name in JSON.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::Project => "project",
            Self::Global => "global",
            Self::BuiltIn => "built-in",
        }
    }
}

/// The members of one file.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Layer {
    /// The file's path.
    pub(crate) file: PathBuf,
    /// Whether the file exists and was read.
    pub(crate) is_loaded: bool,
    /// The members that are in force.
    pub(super) members: Map<String, Value>,
}

impl fmt::Debug for Layer {
    /// Shows only the keys: any value may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layer")
            .field("file", &self.file)
            .field("keys", &self.members.keys())
            .finish_non_exhaustive()
    }
}

/// The files of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Layers {
    /// `config.json` of the home.
    pub(crate) global: Layer,
    /// The project's file, with the members that are in force.
    pub(crate) project: Option<Layer>,
}

/// Keys whose values are merged member by member.
const MERGED: [&str; 2] = ["agents", "auth"];

impl Layers {
    /// The origin of a key: a top-level key, or a member of `agents` or `auth` as `agents.NAME`.
    pub(crate) fn origin(&self, key: &str) -> ConfigOrigin {
        if self.project.as_ref().is_some_and(|layer| layer.has(key)) {
            ConfigOrigin::Project
        } else if self.global.has(key) {
            ConfigOrigin::Global
        } else {
            ConfigOrigin::BuiltIn
        }
    }

    /// The file of a key; the global one if neither has it.
    pub(crate) fn file_of(&self, key: &str) -> &Path {
        let project = self.project.as_ref().filter(|layer| layer.has(key));
        &project.unwrap_or(&self.global).file
    }

    /// The members of both files, those of the project first.
    pub(crate) fn merged(&self) -> Map<String, Value> {
        let mut merged = self.global.members.clone();
        for (key, value) in self.project.iter().flat_map(|layer| &layer.members) {
            match (merged.get_mut(key), value) {
                (Some(Value::Object(below)), Value::Object(over)) if MERGED.contains(&key.as_str()) => {
                    below.retain(|name, _| !over.keys().any(|other| is_same(key, name, other)));
                    below.extend(over.clone());
                }
                _ => drop(merged.insert(key.clone(), value.clone())),
            }
        }
        merged
    }
}

impl Layer {
    /// Whether it sets a key.
    fn has(&self, key: &str) -> bool {
        match key.split_once('.') {
            Some((key, name)) => {
                let names = self.members.get(key).and_then(Value::as_object).into_iter().flat_map(Map::keys);
                names.into_iter().any(|other| is_same(key, name, other))
            }
            None => self.members.contains_key(key),
        }
    }
}

/// Whether two names below a key mean the same: agents are found by their canonical names.
fn is_same(key: &str, name: &str, other: &str) -> bool {
    if key == "agents" { canonical(name) == canonical(other) } else { name == other }
}
