//! Encodes messages: pure functions from their parts to one line, without its line end.
//!
//! Params, results and error data are raw JSON and are inserted unchanged, except for line breaks between tokens: a
//! message must stay on one line, and inside a JSON string a line break is always escaped.

use super::{RpcError, RpcId};

/// The method that cancels a request.
pub(crate) const CANCEL_REQUEST: &str = "$/cancel_request";

const HEAD: &str = r#"{"jsonrpc":"2.0""#;

/// A request. Empty `params` are omitted.
pub fn request(id: &RpcId, method: &str, params: &str) -> String {
    let mut line = with_id(id, method.len() + params.len());
    push_method(&mut line, method, params);
    line
}

/// A notification. Empty `params` are omitted.
pub fn notification(method: &str, params: &str) -> String {
    let mut line = String::with_capacity(HEAD.len() + method.len() + params.len() + 32);
    line.push_str(HEAD);
    push_method(&mut line, method, params);
    line
}

/// A response with a result.
pub fn response(id: &RpcId, result: &str) -> String {
    let mut line = with_id(id, result.len());
    push_member(&mut line, "result", result);
    line.push('}');
    line
}

/// A response with an error.
pub fn error_response(id: &RpcId, error: &RpcError) -> String {
    let error = error.to_json();
    let mut line = with_id(id, error.len());
    push_member(&mut line, "error", &error);
    line.push('}');
    line
}

/// The cancellation of a request.
pub(crate) fn cancel_request(id: &RpcId) -> String {
    notification(CANCEL_REQUEST, &format!(r#"{{"requestId":{id}}}"#))
}

/// A string as JSON.
pub fn json_string(text: &str) -> String {
    serde_json::to_string(text).expect("a string is always JSON")
}

/// The text without line breaks. They can only occur between tokens, where a space is equivalent.
pub(super) fn one_line(mut text: String) -> String {
    if memchr::memchr2(b'\n', b'\r', text.as_bytes()).is_some() {
        text = text.replace(['\n', '\r'], " ");
    }
    text
}

fn with_id(id: &RpcId, room: usize) -> String {
    let mut line = String::with_capacity(HEAD.len() + id.as_str().len() + room + 48);
    line.push_str(HEAD);
    push_member(&mut line, "id", id.as_str());
    line
}

fn push_method(line: &mut String, method: &str, params: &str) {
    line.push_str(r#","method":"#);
    line.push_str(&json_string(method));
    if !params.is_empty() {
        push_member(line, "params", params);
    }
    line.push('}');
}

fn push_member(line: &mut String, name: &str, json: &str) {
    line.push_str(",\"");
    line.push_str(name);
    line.push_str("\":");
    let mut rest = json;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', rest.as_bytes()) {
        line.push_str(&rest[..at]);
        line.push(' ');
        rest = &rest[at + 1..];
    }
    line.push_str(rest);
}

#[cfg(test)]
mod tests;
