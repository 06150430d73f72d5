//! Reduces an agent's error to one line and the parameter it is about. Agents put the reason into the message or the
//! data, and name a wrong parameter in the formats of their libraries: zod, serde and pydantic.

use std::borrow::Cow;

use serde_json::Value;

use crate::wire::RpcError;

/// A readable form of an agent's error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Description {
    /// The error in one line.
    pub(super) text: String,
    /// The wrong parameter, if the error names one.
    pub(super) field: Option<Box<str>>,
}

/// The members of an error's data that contain its reason as text.
const REASONS: [&str; 4] = ["details", "message", "error", "reason"];
/// Parameters of the setup requests, as agents name them in the data of an error: `{"cwd": "not a directory"}`.
const PARAMETERS: [&str; 5] = ["cwd", "mcpServers", "additionalDirectories", "sessionId", "session_id"];
/// Maximum number of named parameters.
const MAX_NAMED: usize = 4;
/// Maximum length of a description, in characters.
const MAX_CHARS: usize = 500;

/// An agent's error in one line.
pub(in crate::acp) fn described(error: &RpcError) -> String {
    let data = error.data.as_deref().and_then(|data| serde_json::from_str(data.get()).ok());
    describe(&error.message, &data.unwrap_or_default()).text
}

pub(super) fn describe(message: &str, data: &Value) -> Description {
    let reason = data.as_str().or_else(|| REASONS.iter().find_map(|key| data.get(key)?.as_str()));
    // Some agents send a validation tree as text, and some as the message itself.
    let nested = [reason, Some(message)].into_iter().flatten().find_map(tree_in_text);
    let mut wrong = wrong_parameters(data);
    if wrong.is_empty() {
        wrong = nested.as_ref().map(|(_, tree)| wrong_parameters(tree)).unwrap_or_default();
    }
    let message = match &nested {
        Some((text, _)) if !wrong.is_empty() && *text == message => "Invalid params",
        _ => message,
    };
    let named = wrong.iter().map(InvalidParam::to_string).collect::<Vec<_>>().join("; ");
    let reason = if wrong.is_empty() { reason.map(Cow::Borrowed) } else { Some(Cow::Owned(named)) };
    let field = wrong.into_iter().find_map(|wrong| Some(wrong.path).filter(|path| !path.is_empty()));
    let field = field.map(String::into_boxed_str);
    let field = field.or_else(|| serde_field(reason.as_deref().unwrap_or(message)).map(Into::into));
    let text = match reason {
        Some(reason) if !message.contains(&*reason) => format!("{message}: {reason}"),
        _ => message.to_owned(),
    };
    let text = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_CHARS).collect();
    Description { text, field }
}

/// A wrong parameter: its path, which may be empty, and the reason.
struct InvalidParam {
    path: String,
    reason: String,
}

impl std::fmt::Display for InvalidParam {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, reason } = self;
        if path.is_empty() { f.write_str(reason) } else { write!(f, "{path}: {reason}") }
    }
}

/// Parses a text that is a JSON array or object.
fn tree_in_text(text: &str) -> Option<(&str, Value)> {
    let begins = text.trim_start().starts_with(['[', '{']);
    begins.then(|| serde_json::from_str(text).ok()).flatten().map(|tree| (text, tree))
}

/// The parameter in a serde message: "missing field `cwd`".
fn serde_field(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("field `")?;
    let (field, _) = rest.split_once('`')?;
    Some(field).filter(|field| !field.is_empty())
}

/// The wrong parameters and the reasons, from any of the known formats.
fn wrong_parameters(data: &Value) -> Vec<InvalidParam> {
    let list =
        data.as_array().or_else(|| ["errors", "issues"].iter().find_map(|key| data.get(key)?.as_array()));
    let mut found = Vec::new();
    match list {
        Some(list) => found.extend(list.iter().filter_map(listed).take(MAX_NAMED)),
        None => gather(data, "", &mut found),
    }
    if found.is_empty() {
        let text = |name: &&'static str| Some((*name, data.get(*name)?.as_str()?));
        // A requested session id is not a reason.
        let parameter = PARAMETERS.iter().filter_map(text).find(|(_, text)| text.contains(' '));
        found.extend(
            parameter.map(|(name, text)| InvalidParam { path: name.to_owned(), reason: text.to_owned() }),
        );
    }
    found
}

/// One row of a list: zod has `path` and `message`, pydantic `loc` and `msg`.
fn listed(row: &Value) -> Option<InvalidParam> {
    let either = |one: &str, other: &str| row.get(one).or_else(|| row.get(other));
    let reason = either("message", "msg")?.as_str()?.to_owned();
    let step = |step: &Value| step.as_str().map_or_else(|| step.to_string(), str::to_owned);
    let path: Vec<String> =
        either("path", "loc").and_then(Value::as_array).into_iter().flatten().map(step).collect();
    Some(InvalidParam { path: path.join("."), reason })
}

/// Collects from the tree of zod's `format()`: parameter names, each with its `_errors`.
fn gather(tree: &Value, path: &str, found: &mut Vec<InvalidParam>) {
    let Some(members) = tree.as_object() else { return };
    let errors = members.get("_errors").and_then(Value::as_array).into_iter().flatten();
    for reason in errors.filter_map(Value::as_str) {
        if found.len() < MAX_NAMED {
            found.push(InvalidParam { path: path.to_owned(), reason: reason.to_owned() });
        }
    }
    for (name, below) in members {
        if found.len() < MAX_NAMED && below.is_object() {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            gather(below, &path, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(message: &str, data: &str) -> (String, Option<String>) {
        let Description { text, field } = describe(message, &serde_json::from_str(data).unwrap());
        (text, field.map(String::from))
    }

    #[test]
    fn a_validation_error_is_reduced_to_field_and_reason() {
        let zod_tree = r#"{"_errors":[],"mcpServers":{"_errors":["expected array"],"0":{"name":{"_errors":["expected string"]}}}}"#;
        let zod_list = r#"[{"code":"invalid_type","path":["mcpServers",0,"name"],"message":"Required"},{"path":[],"message":"no object"},7]"#;
        let pydantic = r#"[{"type":"missing","loc":["mcpServers"],"msg":"Field required","input":{}}]"#;
        let serde = r#"{"error":"missing field `cwd`","json":{},"phase":"deserialization"}"#;
        let cases = [
            (
                zod_tree.to_owned(),
                "mcpServers: expected array; mcpServers.0.name: expected string",
                Some("mcpServers"),
            ),
            (r#"{"_errors":["no object"]}"#.to_owned(), "no object", None),
            (zod_list.to_owned(), "mcpServers.0.name: Required; no object", Some("mcpServers.0.name")),
            (pydantic.to_owned(), "mcpServers: Field required", Some("mcpServers")),
            (format!(r#"{{"errors":{pydantic}}}"#), "mcpServers: Field required", Some("mcpServers")),
            (serde.to_owned(), "missing field `cwd`", Some("cwd")),
            (r#""missing field `cwd`""#.to_owned(), "missing field `cwd`", Some("cwd")),
            (
                r#"{"cwd":"/gone is not a directory"}"#.to_owned(),
                "cwd: /gone is not a directory",
                Some("cwd"),
            ),
            (
                format!("{{\"details\":{}}}", Value::from(zod_list)),
                "mcpServers.0.name: Required; no object",
                Some("mcpServers.0.name"),
            ),
        ];
        for (data, reason, field) in cases {
            let expected = (format!("Invalid params: {reason}"), field.map(str::to_owned));
            assert_eq!(described("Invalid params", &data), expected, "{data}");
        }
        // Gemini sends the list as the message of an internal error.
        let expected =
            ("Invalid params: mcpServers: Field required".to_owned(), Some("mcpServers".to_owned()));
        assert_eq!(described(pydantic, "null"), expected);
    }

    #[test]
    fn an_error_without_a_wrong_parameter_keeps_its_own_text() {
        let plain = |text: &str| (text.to_owned(), None);
        for data in [
            r#"{"_errors":[],"cwd":{"_errors":[7]}}"#,
            "[]",
            r#"{"authMethods":[{"id":"key","message":"Key"}]}"#,
            r#"{"sessionId":"s-1"}"#,
        ] {
            assert_eq!(described("Invalid params", data), plain("Invalid params"), "{data}");
        }
        let details = r#"{"details":"no rollout found"}"#;
        assert_eq!(described("Internal error", details), plain("Internal error: no rollout found"));
        assert_eq!(described("a\nb", "null"), plain("a b"));
    }
}
