//! How a shell finds a record: by its agent and the name its user gave it, in its working directory. Two open
//! records of one directory never have the same scope.
//!
//! The directory is not part of [`Scope`]: it is the record's `real_cwd`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The key of an agent: its name, or else its whole command line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentKey(Box<str>);

impl AgentKey {
    /// A key from its text; [`AgentSpec::key`](super::AgentSpec::key) makes one.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The key as text: a name, or a JSON array of strings.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name a user gave a session: not blank, trimmed, and on one line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionName(Box<str>);

/// A text that cannot name a session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSessionName {
    /// It is blank.
    #[error("the session name is empty")]
    Empty,
    /// It contains a control character, which a terminal would interpret.
    #[error("the session name {0:?} has a control character")]
    ControlCharacter(String),
}

impl SessionName {
    /// Trims and checks a name.
    pub fn new(text: &str) -> Result<Self, InvalidSessionName> {
        let name = text.trim();
        if name.is_empty() {
            return Err(InvalidSessionName::Empty);
        }
        if name.contains(char::is_control) {
            return Err(InvalidSessionName::ControlCharacter(name.to_owned()));
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for SessionName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SessionName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new(&text).map_err(serde::de::Error::custom)
    }
}

/// The key that a shell finds a record by, together with its directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    /// The agent it is with.
    pub agent: AgentKey,
    /// Its name; `None` for a directory's unnamed session.
    pub name: Option<SessionName>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::AgentSpec;

    #[test]
    fn agent_key_is_its_name_or_its_whole_command_line() {
        let spec = AgentSpec::new("npx", ["-y", "an \"agent\""]);
        assert_eq!(spec.key().as_str(), r#"["npx","-y","an \"agent\""]"#);
        assert_eq!(spec.named("claude").key(), AgentKey::new("claude"));
    }

    #[test]
    fn session_name_is_trimmed_and_never_blank_or_a_control_sequence() {
        assert_eq!(SessionName::new(" zwölf boxer\t").unwrap().as_str(), "zwölf boxer");
        for blank in ["", " ", "\t\n"] {
            assert_eq!(SessionName::new(blank), Err(InvalidSessionName::Empty));
        }
        for name in ["a\nb", "a\u{1b}[2J", "\u{7f}", "a\u{85}b"] {
            assert_eq!(SessionName::new(name), Err(InvalidSessionName::ControlCharacter(name.to_owned())));
        }
    }
}
