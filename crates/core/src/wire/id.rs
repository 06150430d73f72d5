//! Request ids as raw JSON. `92` and `"92"` are two different ids and are never converted into each other.

use std::fmt;
use std::sync::Arc;

/// The id of a request, kept as its raw JSON text. Two ids are equal when their texts are.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RpcId(Arc<str>);

impl RpcId {
    /// An integer id.
    pub fn from_number(number: u64) -> Self {
        Self(number.to_string().into())
    }

    /// A string id; `text` is the string itself, not its JSON.
    pub fn from_string(text: &str) -> Self {
        Self(super::encode::json_string(text).into())
    }

    /// Takes the JSON text of a number or a string; `None` for anything else.
    pub fn from_raw(json: &str) -> Option<Self> {
        let text = json.trim_ascii();
        serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
        Self::from_valid(text)
    }

    /// The id of an error response whose request could not be read.
    pub fn null() -> Self {
        Self("null".into())
    }

    /// Takes a JSON value that is already validated.
    pub(super) fn from_valid(json: &str) -> Option<Self> {
        matches!(json.as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9')).then(|| Self(json.into()))
    }

    /// The raw JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RpcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RpcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RpcId({})", self.0)
    }
}
