//! The environment of an agent. It may contain secrets, so values are never printed.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::model::{Secrets, is_secret_name, token_of_variable};

/// The complete environment an agent is started with, except for the [`Tag`](super::Tag). Nothing is inherited, and
/// `Debug` prints only names.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Environment {
    variables: Vec<(OsString, OsString)>,
    /// Variables that the user marked as secrets.
    marked: Vec<OsString>,
    /// Variables that are not secrets although their names look like it.
    plain: Vec<OsString>,
}

impl Environment {
    /// The value of a variable, the last one if there are several.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
    }

    /// Sets a variable, replacing those of its name.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.set(name.into(), value.into());
        self
    }

    /// Sets these variables, replacing those of their names.
    #[must_use]
    pub fn with_all(mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        variables.into_iter().for_each(|(name, value)| self.set(name, value));
        self
    }

    /// Marks these variables as secrets, regardless of their names.
    #[must_use]
    pub fn with_secrets(mut self, names: impl IntoIterator<Item = OsString>) -> Self {
        self.marked.extend(names);
        self
    }

    /// All variables: name and value.
    pub fn variables(&self) -> &[(OsString, OsString)] {
        &self.variables
    }

    /// Whether a variable is a secret: the user marked it, or its name suggests it.
    pub(crate) fn is_secret(&self, name: &OsStr) -> bool {
        let is_in = |names: &[OsString]| names.iter().any(|known| known == name);
        is_in(&self.marked) || (!is_in(&self.plain) && name.to_str().is_some_and(is_secret_name))
    }

    /// The values of the secret variables, to mask them in texts.
    pub fn secrets(&self) -> Secrets {
        let variables = self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
        Secrets::default().with_variables(variables, |name| self.is_secret(name))
    }

    /// Variables that are secrets only by name and whose values are absolute paths, with those paths. The caller must
    /// check that the paths exist, because a key may look like a path.
    pub(crate) fn secret_paths(&self) -> Vec<(&OsStr, Vec<PathBuf>)> {
        let is_by_name = |name: &OsStr| {
            let is_credential = name.to_str().is_some_and(|name| token_of_variable(name).is_some());
            self.is_secret(name) && !is_credential && !self.marked.iter().any(|known| known == name)
        };
        let names = self.variables.iter().map(|(name, _)| name.as_os_str()).filter(|name| is_by_name(name));
        names.filter_map(|name| Some((name, self.paths_of(name)?))).collect()
    }

    /// The values of a variable as paths, if all of them are absolute.
    fn paths_of(&self, name: &OsStr) -> Option<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for (_, value) in self.variables.iter().filter(|(known, _)| known == name) {
            paths.extend(std::env::split_paths(value));
        }
        (!paths.is_empty() && paths.iter().all(|path| path.is_absolute())).then_some(paths)
    }

    /// Marks these variables as no secrets, although their names look like it.
    #[must_use]
    pub(crate) fn with_plain(mut self, names: Vec<OsString>) -> Self {
        self.plain = names;
        self
    }

    fn set(&mut self, name: OsString, value: OsString) {
        self.variables.retain(|(known, _)| *known != name);
        self.variables.push((name, value));
    }
}

impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(variables: I) -> Self {
        Self { variables: variables.into_iter().collect(), ..Self::default() }
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.variables.iter().map(|(name, _)| name)).finish()
    }
}
