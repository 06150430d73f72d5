//! The environment of an agent. It may hold secrets, so nothing here shows a value.

use std::ffi::{OsStr, OsString};

/// The environment an agent is started with, whole but for the [`Tag`](super::Tag). Nothing is inherited, and
/// nobody prints it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    /// The value of a variable, the last one if there are several.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
    }

    /// The same with a variable, in the place of those of its name.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.into(), value.into()));
        self
    }

    /// Its variables: name and value.
    pub fn variables(&self) -> &[(OsString, OsString)] {
        &self.0
    }
}

impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}
