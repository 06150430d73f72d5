//! A JSON value with its file and key, so that errors can name both.

use std::path::Path;

use acpx_core::model::{AgentProfile, ProfileError, ToolPolicy};
use serde_json::{Map, Value};

use super::ConfigError;
use super::error::WrongValue;

/// A value and its full key.
#[derive(Debug, Clone)]
pub(super) struct Node<'a> {
    file: &'a Path,
    value: &'a Value,
    key: String,
}

/// The members of an object.
#[derive(Debug)]
pub(super) struct ConfigObject<'a> {
    file: &'a Path,
    map: &'a Map<String, Value>,
    key: String,
}

/// Parses a text as JSON.
pub(super) fn json(file: &Path, text: &str) -> Result<Value, ConfigError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let bad = |problem: String| ConfigError::NotJson { file: file.to_owned(), problem };
    if text.trim().is_empty() {
        return Err(bad("it is empty".to_owned()));
    }
    serde_json::from_str(text).map_err(|error| bad(error.to_string()))
}

impl<'a> Node<'a> {
    pub(super) fn root(file: &'a Path, value: &'a Value) -> Self {
        Self { file, value, key: String::new() }
    }

    /// The error for a value of the wrong kind.
    pub(super) fn wrong(&self, expected: &str) -> ConfigError {
        let key = if self.key.is_empty() { "the file".to_owned() } else { self.key.clone() };
        WrongValue { file: self.file.to_owned(), key, expected: expected.to_owned() }.into()
    }

    /// Parses tool rules. An error names the wrong member.
    pub(super) fn tool_policy(&self) -> Result<ToolPolicy, ConfigError> {
        ToolPolicy::of(self.value).map_err(|problem| {
            let keys = [self.key.as_str(), &problem.member];
            let key = keys.into_iter().filter(|key| !key.is_empty()).collect::<Vec<_>>().join(": ");
            WrongValue { file: self.file.to_owned(), key, expected: problem.expected.to_owned() }.into()
        })
    }

    pub(super) fn is_null(&self) -> bool {
        self.value.is_null()
    }

    pub(super) fn text(&self) -> Result<String, ConfigError> {
        self.value.as_str().map(str::to_owned).ok_or_else(|| self.wrong("a string"))
    }

    /// A non-blank string.
    pub(super) fn word(&self) -> Result<String, ConfigError> {
        let text = self.value.as_str().filter(|text| !text.trim().is_empty());
        text.map(str::to_owned).ok_or_else(|| self.wrong("a non-empty string"))
    }

    pub(super) fn boolean(&self) -> Result<bool, ConfigError> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    pub(super) fn number(&self) -> Option<f64> {
        self.value.as_f64()
    }

    /// A positive integer.
    pub(super) fn count(&self) -> Result<u64, ConfigError> {
        let count = self.value.as_u64().filter(|count| *count > 0);
        count.ok_or_else(|| self.wrong("a whole number above 0"))
    }

    pub(super) fn one_of(&self, words: &[&str]) -> Result<(), ConfigError> {
        let known = self.value.as_str().is_some_and(|text| words.contains(&text));
        let expected = || words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" or ");
        if known { Ok(()) } else { Err(self.wrong(&expected())) }
    }

    /// Parses an agent profile.
    pub(super) fn profile(&self) -> Result<AgentProfile, ConfigError> {
        AgentProfile::parse(self.value).map_err(|ProfileError { member, expected }| {
            let dot = if member.is_empty() { "" } else { "." };
            let key = format!("{}{dot}{member}", self.key);
            WrongValue { file: self.file.to_owned(), key, expected: expected.to_owned() }.into()
        })
    }

    /// Unknown members of a profile, by their full keys.
    pub(super) fn unknown_of_profile(&self) -> impl Iterator<Item = String> + '_ {
        AgentProfile::unknown_members(self.value).into_iter().map(|member| format!("{}.{member}", self.key))
    }

    pub(super) fn array(&self) -> Result<Vec<Node<'a>>, ConfigError> {
        let items = self.value.as_array().ok_or_else(|| self.wrong("an array"))?;
        let node = |(index, value)| Self { file: self.file, value, key: format!("{}[{index}]", self.key) };
        Ok(items.iter().enumerate().map(node).collect())
    }

    pub(super) fn object(&self, expected: &str) -> Result<ConfigObject<'a>, ConfigError> {
        let map = self.value.as_object().ok_or_else(|| self.wrong(expected))?;
        Ok(ConfigObject { file: self.file, map, key: self.key.clone() })
    }
}

impl<'a> ConfigObject<'a> {
    pub(super) fn get(&self, name: &str) -> Option<Node<'a>> {
        self.map.get(name).map(|value| self.node(name, value))
    }

    /// A required member; an error if it is missing.
    pub(super) fn needed(&self, name: &str, expected: &str) -> Result<Node<'a>, ConfigError> {
        static NOTHING: Value = Value::Null;
        self.get(name)
            .ok_or_else(|| Node { file: self.file, value: &NOTHING, key: self.key_of(name) }.wrong(expected))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Node<'a>> + '_ {
        self.map.iter().map(|(name, value)| self.node(name, value))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.map.keys().map(String::as_str)
    }

    /// Members with other names than these, by their full keys.
    pub(super) fn others<'s>(&'s self, known: &'s [&str]) -> impl Iterator<Item = String> + 's {
        self.names().filter(|name| !known.contains(name)).map(|name| self.key_of(name))
    }

    fn node(&self, name: &str, value: &'a Value) -> Node<'a> {
        Node { file: self.file, value, key: self.key_of(name) }
    }

    fn key_of(&self, name: &str) -> String {
        if self.key.is_empty() { name.to_owned() } else { format!("{}.{name}", self.key) }
    }
}
