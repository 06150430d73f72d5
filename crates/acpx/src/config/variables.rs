//! What a configuration file sets in the environment of one agent.
//!
//! A value may be a secret, so none is ever shown, whatever it is called, also where the agent repeats it, unless it turns
//! out to be the path of something that is there; and it is for its agent alone, so no other gets it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

use super::ConfigError;
use super::node::Node;

/// Variables by their names.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct AgentVariables(BTreeMap<String, String>);

impl fmt::Debug for AgentVariables {
    /// The names alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl AgentVariables {
    /// Reads an object of strings.
    pub(super) fn of(node: &Node<'_>) -> Result<Self, ConfigError> {
        let members = node.object("an object of strings")?;
        let mut variables = BTreeMap::new();
        for (name, value) in members.names().zip(members.all()) {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(value.wrong("under a name that a variable can have, without \"=\""));
            }
            let text = value.text()?;
            if text.contains('\0') {
                return Err(value.wrong("a string without a NUL"));
            }
            variables.insert(name.to_owned(), text);
        }
        Ok(Self(variables))
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is one of this name.
    pub(crate) fn has(&self, name: &OsStr) -> bool {
        name.to_str().is_some_and(|name| self.0.contains_key(name))
    }

    /// An environment with these in it, in the place of what it has under their names.
    pub(crate) fn over(&self, mut environment: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
        environment.retain(|(name, _)| !self.has(name));
        environment.extend(self.0.iter().map(|(name, value)| (name.into(), value.into())));
        environment
    }
}
