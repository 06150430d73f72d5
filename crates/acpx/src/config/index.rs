//! The key `index`: what the search index leaves out, and whether the host keeps it up to date.

use std::path::{Path, PathBuf};

use acpx_core::index::IndexExclusions;
use acpx_core::model::{JsonNode, WrongMember};

use crate::agents;

/// The validated value of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexSettings {
    /// Whether the host updates the index in the background.
    pub(crate) is_enabled: bool,
    /// Directories, absolute or below `~`.
    exclude: Vec<PathBuf>,
    /// Agents by their canonical names.
    exclude_agents: Vec<String>,
}

impl Default for IndexSettings {
    fn default() -> Self {
        Self { is_enabled: true, exclude: Vec::new(), exclude_agents: Vec::new() }
    }
}

impl IndexSettings {
    pub(super) fn read(node: &JsonNode<'_>) -> Result<Self, WrongMember> {
        let members = node.object("an object with exclude, excludeAgents and enabled")?;
        let names = members.read("excludeAgents", JsonNode::words)?.unwrap_or_default();
        Ok(Self {
            is_enabled: members.read("enabled", JsonNode::boolean)?.unwrap_or(true),
            exclude: members.read("exclude", directories)?.unwrap_or_default(),
            exclude_agents: names.iter().map(|name| agents::canonical(name)).collect(),
        })
    }

    /// What is left out, for a user with this home directory. A directory is excluded under its written and its real
    /// path.
    pub(crate) fn exclusions(&self, home: Option<&Path>) -> IndexExclusions {
        let mut paths = Vec::new();
        for written in &self.exclude {
            let path = match (written.strip_prefix("~"), home) {
                (Ok(below), Some(home)) => home.join(below),
                _ => written.clone(),
            };
            paths.extend(path.canonicalize().ok().filter(|real| *real != path));
            paths.push(path);
        }
        IndexExclusions { agents: self.exclude_agents.iter().cloned().collect(), paths }
    }
}

fn directories(node: &JsonNode<'_>) -> Result<Vec<PathBuf>, WrongMember> {
    let paths: Vec<PathBuf> = node.words()?.into_iter().map(PathBuf::from).collect();
    let is_place = |path: &PathBuf| path.is_absolute() || path.starts_with("~");
    if paths.iter().all(is_place) {
        Ok(paths)
    } else {
        Err(node.wrong("absolute paths, or paths that begin with ~/"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: &Value) -> Result<IndexSettings, WrongMember> {
        IndexSettings::read(&JsonNode::root(value, "index"))
    }

    #[test]
    fn index_exclusions_are_paths_below_the_home_and_canonical_agents() {
        let settings =
            read(&json!({ "exclude": ["~/secret", "/srv/x", "~"], "excludeAgents": ["factory-droid"] }))
                .unwrap();
        let IndexExclusions { agents, paths } = settings.exclusions(Some(Path::new("/no/home")));
        assert_eq!(paths, ["/no/home/secret", "/srv/x", "/no/home/"].map(PathBuf::from));
        assert_eq!(agents.into_iter().collect::<Vec<_>>(), ["droid"]);
        assert!(settings.is_enabled);
    }

    #[test]
    fn wrong_index_settings_are_refused() {
        for wrong in
            [json!([]), json!({ "exclude": ["x"] }), json!({ "exclude": "/" }), json!({ "enabled": 1 })]
        {
            assert!(read(&wrong).is_err(), "{wrong}");
        }
        assert_eq!(read(&json!({})).unwrap(), IndexSettings::default());
    }
}
