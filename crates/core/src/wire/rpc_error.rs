//! JSON-RPC errors: written strictly, read leniently.
//!
//! An error of a peer answers a waiting request, so no shape of it may be unreadable: missing parts are filled in, and
//! unknown ones are kept as data.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::encode::{json_string, one_line};
use super::json::scan;

/// An error as JSON-RPC carries it.
#[derive(Debug, Clone, Serialize, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct RpcError {
    /// The error code; the constants of this type name the usual ones.
    pub code: i64,
    /// The message for people.
    pub message: String,
    /// Additional data, as raw JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

impl RpcError {
    /// The peer could not read the JSON.
    pub(crate) const PARSE_ERROR: i64 = -32700;
    /// JSON, but not a request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The peer does not know the method.
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit the method.
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    /// An internal error.
    pub const INTERNAL: i64 = -32603;
    /// The request was cancelled by `$/cancel_request`.
    pub(crate) const REQUEST_CANCELLED: i64 = -32800;
    /// The agent requires a login first.
    pub const AUTH_REQUIRED: i64 = -32000;
    /// A session, file or other resource does not exist.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// Agent and client have no protocol version in common.
    pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The JSON could not be read.
    pub fn parse_error(problem: impl Into<String>) -> Self {
        Self::new(Self::PARSE_ERROR, problem)
    }

    /// JSON, but not a valid request at this point.
    pub fn invalid_request(problem: impl Into<String>) -> Self {
        Self::new(Self::INVALID_REQUEST, problem)
    }

    /// We do not know the method.
    pub(crate) fn method_not_found(method: &str) -> Self {
        Self::new(Self::METHOD_NOT_FOUND, format!("method not found: {method}"))
            .with_data(&format!(r#"{{"method":{}}}"#, json_string(method)))
    }

    /// The parameters do not fit the method.
    pub fn invalid_params(problem: impl Into<String>) -> Self {
        Self::new(Self::INVALID_PARAMS, problem)
    }

    /// An internal error on our side.
    pub fn internal(problem: impl Into<String>) -> Self {
        Self::new(Self::INTERNAL, problem)
    }

    /// The request was cancelled.
    pub(crate) fn request_cancelled() -> Self {
        Self::new(Self::REQUEST_CANCELLED, "request cancelled")
    }

    /// Adds data. Text that is not JSON is added as a string.
    #[must_use]
    pub fn with_data(mut self, json: &str) -> Self {
        let raw = RawValue::from_string(json.trim_ascii().to_owned())
            .or_else(|_| RawValue::from_string(json_string(json)));
        self.data = raw.ok();
        self
    }

    /// Parses an error of a peer. Never fails: see the module comment.
    pub fn read(json: &str) -> Self {
        let Some(found) = scan(json, &["code", "message", "data"]) else {
            return Self::internal("the error is not an object").with_data(json);
        };
        let member = |index: usize| found.values[index].filter(|_| !found.repeated[index]);
        let message = match member(1) {
            Some(text) => serde_json::from_str(text).unwrap_or_else(|_| text.to_owned()),
            None => "no message given".to_owned(),
        };
        let code = member(0).and_then(read_code).unwrap_or(Self::INTERNAL);
        let error = Self::new(code, message);
        match member(2) {
            Some(data) => error.with_data(data),
            None => error,
        }
    }

    /// The error as JSON on one line.
    pub(super) fn to_json(&self) -> String {
        one_line(serde_json::to_string(self).expect("a number, a string and raw JSON can be written"))
    }
}

impl PartialEq for RpcError {
    fn eq(&self, other: &Self) -> bool {
        let data = |error: &Self| error.data.as_deref().map(|raw| raw.get().to_owned());
        self.code == other.code && self.message == other.message && data(self) == data(other)
    }
}

impl<'de> Deserialize<'de> for RpcError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self::read(raw.get()))
    }
}

/// Some peers write the code as a float or as a string with a number in it.
fn read_code(json: &str) -> Option<i64> {
    let text = json.trim_matches('"');
    text.parse().ok().or_else(|| text.strip_suffix(".0").and_then(|whole| whole.parse().ok()))
}

#[cfg(test)]
mod tests;
