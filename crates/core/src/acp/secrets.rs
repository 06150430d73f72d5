//! Secret values out of lines before they are kept. A value that is not stored cannot leak from the store.
//!
//! Values of environment variables and headers are secrets wherever they occur. Lines of ours are built a
//! second time without them (see `client::call`); this file is for the lines of agents.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::wire::Message;
use crate::wire::splice::{Splice, Step, elements, locate};

/// What stands in the store where a secret stood on the wire.
pub(super) const PLACEHOLDER: &str = "[secret]";

/// Messages of agents that carry secret values, and the list of `{name, value}` they carry them in.
const LISTS: &[(&str, &str)] = &[("terminal/create", "env")];

/// A line whose secrets cannot be told from the rest is not kept at all.
const NOT_KEPT: &str = r#"{"acpx":"a line with secret values of an unreadable shape was not kept"}"#;

/// Values this short occur everywhere; they are looked for only as whole strings, in answers to what we sent.
const COMMON: usize = 5;

/// The line as it may be kept: without the values of environments, and without any of `secrets`.
pub(super) fn without_secrets(message: &Message, secrets: &[String]) -> Arc<str> {
    let list = LISTS.iter().find(|(method, _)| message.method() == Some(method));
    let line = match list.zip(message.params_range()) {
        Some(((_, list), params)) => {
            replace_values(message.line(), params.start, list).unwrap_or_else(|| NOT_KEPT.into())
        }
        None => message.line().clone(),
    };
    let is_answer = message.method().is_none();
    secrets.iter().fold(line, |line, secret| replace_secret(line, secret, is_answer))
}

/// Replaces a value wherever it stands in a JSON text.
fn replace_secret(line: Arc<str>, secret: &str, is_answer: bool) -> Arc<str> {
    let quoted = serde_json::Value::from(secret).to_string();
    let bare = quoted.trim_matches('"');
    if secret.len() > COMMON {
        if line.contains(bare) { line.replace(bare, PLACEHOLDER).into() } else { line }
    } else if is_answer && !secret.is_empty() && line.contains(&quoted) {
        line.replace(&quoted, &format!("\"{PLACEHOLDER}\"")).into()
    } else {
        line
    }
}

fn replace_values(line: &str, params_start: usize, list: &str) -> Option<Arc<str>> {
    let params = first_value(line.get(params_start..)?)?;
    // Names are compared as they read, however they are escaped, so that absent is really absent.
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(params).ok()?;
    match members.get(list) {
        None => return Some(line.into()),
        Some(value) if value.get() == "null" => return Some(line.into()),
        Some(_) => {}
    }
    let found = locate(params, &[Step::Key(list)])?;
    let items = params.get(found.clone())?;
    let mut splice = Splice::new(line);
    for item in elements(items)? {
        let value = locate(items.get(item.clone())?, &[Step::Key("value")])?;
        let start = params_start + found.start + item.start;
        splice.replace(start + value.start..start + value.end, &format!("\"{PLACEHOLDER}\"")).ok()?;
    }
    Some(splice.finish().into())
}

/// The JSON value a text begins with.
fn first_value(text: &str) -> Option<&str> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    values.next()?.ok().map(RawValue::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(line: &str) -> String {
        without_secrets(&Message::parse(line).unwrap(), &[]).to_string()
    }

    #[test]
    fn only_the_values_of_a_terminals_environment_are_replaced() {
        let line = |value: &str| {
            format!(
                r#"{{"id":1, "method":"terminal/create","params":{{"command":"c","env":[{{"name":"A","value":{value}}},{{"value":{value},"name":"B"}}],"x":1}},"y":2}}"#
            )
        };
        assert_eq!(kept(&line(r#""s3cret \" }""#)), line(r#""[secret]""#));
    }

    #[test]
    fn a_line_without_secrets_is_kept_byte_for_byte() {
        for line in [
            r#"{"id":1,"method":"terminal/create","params":{"command":"c"}}"#,
            r#"{"id":1,"method":"terminal/create","params":{"command":"c","env":null}}"#,
            r#"{"method":"session/update","params":{"env":[{"name":"A","value":"not ours to judge"}]}}"#,
        ] {
            assert_eq!(kept(line), line);
        }
    }

    #[test]
    fn a_line_whose_secrets_cannot_be_found_is_not_kept() {
        for line in [
            r#"{"id":1,"method":"terminal/create","params":{"env":{"A":"s3cret"}}}"#,
            r#"{"id":1,"method":"terminal/create","params":{"env":[{"value":"s3cret","value":"s3cret"}]}}"#,
            r#"{"id":1,"method":"terminal/create","params":{"env":[],"env":[{"name":"A","value":"s3cret"}]}}"#,
            r#"{"id":1,"method":"terminal/create","params":{"env":[],"env":[{"name":"A","valu\u0065":"s3cret"}]}}"#,
            r#"{"id":1,"method":"terminal/create","params":{"\u0065nv":[{"name":"A","valu\u0065":"s3cret"}]}}"#,
            r#"{"method":"terminal/create","params":{"env":[{"name":"A","value":"s3cret"}]}}"#,
        ] {
            assert!(!kept(line).contains("s3cret"), "{line}");
        }
    }

    #[test]
    fn what_we_sent_in_confidence_is_not_kept_when_it_comes_back() {
        let secrets = ["quo\"ted-secret".to_owned(), "abc".to_owned()];
        let kept = |line: &str| without_secrets(&Message::parse(line).unwrap(), &secrets).to_string();
        let answer = |long: &str, short: &str| {
            format!(
                r#"{{"id":1,"error":{{"code":-32602,"message":"x","data":{{"json":["{long}","{short}","abcd"]}}}}}}"#
            )
        };
        assert_eq!(kept(&answer(r#"quo\"ted-secret"#, "abc")), answer("[secret]", "[secret]"));
        let update =
            |long: &str| format!(r#"{{"method":"session/update","params":{{"text":"{long} abc"}}}}"#);
        assert_eq!(kept(&update(r#"quo\"ted-secret"#)), update("[secret]"));
    }
}
