//! The environment that the configuration gives one agent: `env` sets variables, and `secretEnv` names variables whose
//! values are secrets although their names do not show it.
//!
//! Any value may be a secret, so errors and `Debug` contain none. Other agents never receive these values.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

use acpx_core::model::{JsonNode, WrongMember};

/// Variables by name, and the names of secret ones, whether set here or inherited.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct AgentVariables {
    values: BTreeMap<String, String>,
    secrets: Vec<String>,
}

impl fmt::Debug for AgentVariables {
    /// Shows only the names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values.keys()).finish()
    }
}

impl AgentVariables {
    /// Reads `env`, an object of strings, and `secretEnv`, an array of names.
    pub(super) fn of(
        env: Option<&JsonNode<'_>>,
        secret_env: Option<&JsonNode<'_>>,
    ) -> Result<Self, WrongMember> {
        let values = env.map(values).transpose()?.unwrap_or_default();
        let secrets = secret_env.map(names).transpose()?.unwrap_or_default();
        Ok(Self { values, secrets })
    }

    /// Whether it sets and marks nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.secrets.is_empty()
    }

    /// Names of the variables that are marked as secrets.
    pub(crate) fn secrets(&self) -> Vec<OsString> {
        self.secrets.iter().map(OsString::from).collect()
    }

    /// Whether it sets this variable.
    pub(crate) fn has(&self, name: &OsStr) -> bool {
        name.to_str().is_some_and(|name| self.values.contains_key(name))
    }

    /// Sets these variables in an environment, replacing those of the same name.
    pub(crate) fn over(&self, mut environment: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
        environment.retain(|(name, _)| !self.has(name));
        environment.extend(self.values.iter().map(|(name, value)| (name.into(), value.into())));
        environment
    }
}

fn values(node: &JsonNode<'_>) -> Result<BTreeMap<String, String>, WrongMember> {
    let members = node.object("an object of strings")?;
    let mut values = BTreeMap::new();
    for (name, value) in members.all() {
        if !is_name(name) {
            return Err(value.wrong_content("under a name that a variable can have, without \"=\""));
        }
        let text = value.text()?;
        if text.contains('\0') {
            return Err(value.wrong_content("a string without a NUL"));
        }
        values.insert(name.to_owned(), text);
    }
    Ok(values)
}

fn names(node: &JsonNode<'_>) -> Result<Vec<String>, WrongMember> {
    let items = node.array().map_err(|_| node.wrong("an array of names of variables"))?;
    let name = |item: &JsonNode<'_>| {
        let expected = "a name that a variable can have, without \"=\"";
        item.parsed(expected, |name| is_name(name).then(|| name.to_owned()))
    };
    items.iter().map(name).collect()
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}
