//! The environment of an agent. It may hold secrets, so nothing here shows a value.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The environment an agent is started with, whole but for the [`Tag`](super::Tag). Nothing is inherited, and
/// nobody prints it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Environment {
    variables: Vec<(OsString, OsString)>,
    /// The names of those whose values are secrets, whatever they are called.
    confidential: Vec<OsString>,
}

impl Environment {
    /// The value of a variable, the last one if there are several.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
    }

    /// The same with a variable, in the place of those of its name.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.set(name.into(), value.into());
        self
    }

    /// The same with variables whose values are secrets, in the place of those of their names.
    #[must_use]
    pub fn with_confidential(mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        for (name, value) in variables {
            self.confidential.push(name.clone());
            self.set(name, value);
        }
        self
    }

    /// Its variables: name and value.
    pub fn variables(&self) -> &[(OsString, OsString)] {
        &self.variables
    }

    /// Whether the values of a variable are secrets, whatever it is called.
    pub fn is_confidential(&self, name: &OsStr) -> bool {
        self.confidential.iter().any(|known| known == name)
    }

    /// The paths that the values of a variable are, if they are absolute ones and nothing else. Each has to be looked for
    /// before it is believed: a key may begin like one.
    pub(crate) fn paths_of(&self, name: &OsStr) -> Option<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for (_, value) in self.variables.iter().filter(|(known, _)| known == name) {
            paths.extend(std::env::split_paths(value));
        }
        (!paths.is_empty() && paths.iter().all(|path| path.is_absolute())).then_some(paths)
    }

    /// The names of those whose values are secrets, whatever they are called.
    pub(crate) fn confidential(&self) -> &[OsString] {
        &self.confidential
    }

    /// The same, where the values of these variables are no secrets.
    #[must_use]
    pub(crate) fn telling(mut self, names: &[OsString]) -> Self {
        self.confidential.retain(|name| !names.contains(name));
        self
    }

    fn set(&mut self, name: OsString, value: OsString) {
        self.variables.retain(|(known, _)| *known != name);
        self.variables.push((name, value));
    }
}

impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(variables: I) -> Self {
        Self { variables: variables.into_iter().collect(), confidential: Vec::new() }
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.variables.iter().map(|(name, _)| name)).finish()
    }
}
