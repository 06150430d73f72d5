//! A JSON value with its path, for files and options that people write: an error names the member, and never contains
//! a value, because any value may be a secret.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

/// A value and its path from the top of the document.
#[derive(Debug, Clone)]
pub struct JsonNode<'a> {
    value: &'a Value,
    path: String,
    document: &'static str,
}

/// The members of an object.
#[derive(Debug)]
pub struct JsonMembers<'a> {
    object: JsonNode<'a>,
    members: &'a Map<String, Value>,
}

/// A wrong value of a member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} must be {expected}{}", .found.map(|found| format!("; found {found}")).unwrap_or_default())]
pub struct WrongMember {
    /// The path, or the name of the document.
    pub path: String,
    /// The expected kind, or the possible values.
    pub expected: String,
    /// The kind of the value, if that is what is wrong with it.
    pub found: Option<&'static str>,
}

impl<'a> JsonNode<'a> {
    /// The top of a document, with the name that an error gives it.
    pub fn root(value: &'a Value, document: &'static str) -> Self {
        Self { value, path: String::new(), document }
    }

    /// The value itself.
    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// The error for a value of the wrong kind.
    pub fn wrong(&self, expected: &str) -> WrongMember {
        WrongMember { found: Some(kind(self.value)), ..self.wrong_content(expected) }
    }

    /// The error for a value of the right kind that is not among the possible ones.
    pub fn wrong_content(&self, expected: &str) -> WrongMember {
        let path = if self.path.is_empty() { self.document } else { &self.path };
        WrongMember { path: path.to_owned(), expected: expected.to_owned(), found: None }
    }

    /// A string.
    pub fn text(&self) -> Result<String, WrongMember> {
        self.value.as_str().map(str::to_owned).ok_or_else(|| self.wrong("a string"))
    }

    /// A non-blank string.
    pub fn word(&self) -> Result<String, WrongMember> {
        let text = self.value.as_str().filter(|text| !text.trim().is_empty());
        text.map(str::to_owned).ok_or_else(|| self.wrong("a non-empty string"))
    }

    /// A list of non-blank strings.
    pub fn words(&self) -> Result<Vec<String>, WrongMember> {
        self.array()?.iter().map(Self::word).collect()
    }

    /// A boolean.
    pub fn boolean(&self) -> Result<bool, WrongMember> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    /// A string that `parse` accepts.
    pub fn parsed<T>(&self, expected: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, WrongMember> {
        let text = self.value.as_str().ok_or_else(|| self.wrong(expected))?;
        parse(text).ok_or_else(|| self.wrong_content(expected))
    }

    /// A number that `read` accepts.
    pub fn number<T>(
        &self,
        expected: &str,
        read: impl FnOnce(&Number) -> Option<T>,
    ) -> Result<T, WrongMember> {
        let Value::Number(number) = self.value else { return Err(self.wrong(expected)) };
        read(number).ok_or_else(|| self.wrong_content(expected))
    }

    /// The elements of an array.
    pub fn array(&self) -> Result<Vec<JsonNode<'a>>, WrongMember> {
        let items = self.value.as_array().ok_or_else(|| self.wrong("an array"))?;
        let node = |(index, value)| self.child(value, format!("{}[{index}]", self.path));
        Ok(items.iter().enumerate().map(node).collect())
    }

    /// The members of an object.
    pub fn object(&self, expected: &str) -> Result<JsonMembers<'a>, WrongMember> {
        let members = self.value.as_object().ok_or_else(|| self.wrong(expected))?;
        Ok(JsonMembers { object: self.clone(), members })
    }

    fn child(&self, value: &'a Value, path: String) -> Self {
        Self { value, path, document: self.document }
    }
}

impl<'a> JsonMembers<'a> {
    /// A member, if present.
    pub fn get(&self, name: &str) -> Option<JsonNode<'a>> {
        self.members.get(name).map(|value| self.node(name, value))
    }

    /// A required member. A missing one has the value `null`, which no reader accepts.
    pub fn needed(&self, name: &str) -> JsonNode<'a> {
        self.node(name, self.members.get(name).unwrap_or(&Value::Null))
    }

    /// Reads a member, if present.
    pub fn read<T, E>(
        &self,
        name: &str,
        read: impl FnOnce(&JsonNode<'a>) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        self.get(name).map(|node| read(&node)).transpose()
    }

    /// All members with their names.
    pub fn all(&self) -> impl Iterator<Item = (&'a str, JsonNode<'a>)> + '_ {
        self.members.iter().map(|(name, value)| (name.as_str(), self.node(name, value)))
    }

    /// The paths of members with other names than these.
    pub fn others(&self, known: &[&str]) -> Vec<String> {
        self.all().filter(|(name, _)| !known.contains(name)).map(|(_, node)| node.path).collect()
    }

    fn node(&self, name: &str, value: &'a Value) -> JsonNode<'a> {
        let dot = if self.object.path.is_empty() { "" } else { "." };
        self.object.child(value, format!("{}{dot}{name}", self.object.path))
    }
}

/// The kind of a value. A missing member reads as `null`.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(text) if text.trim().is_empty() => "an empty string",
        Value::String(_) => "a string",
        Value::Array(items) if items.is_empty() => "an empty array",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// For `deserialize_with`: an absent member is `None`; `null` is a value like any other.
pub(crate) fn even_null<'de, T, D>(source: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(source).map(Some)
}
