//! Secret values out of lines before they are kept. A value that is not stored cannot leak from the store.
//!
//! Values of environment variables and headers are secrets wherever they occur. Lines of ours are built a
//! second time without them (see `client::call`); this file is for the lines of agents.

use std::sync::Arc;

use crate::wire::Message;
use crate::wire::splice::{Splice, Step, elements, locate};

/// What stands in the store where a secret stood on the wire.
pub(super) const PLACEHOLDER: &str = "[secret]";

/// Requests of agents that carry secret values, and the list of `{name, value}` they carry them in.
const LISTS: &[(&str, &str)] = &[("terminal/create", "env")];

/// The line as it may be kept.
pub(super) fn without_secrets(message: &Message) -> Arc<str> {
    let line = message.line();
    let list = LISTS.iter().find(|(method, _)| message.method() == Some(method));
    let Some((list, params)) = list.map(|(_, list)| list).zip(message.params_range()) else {
        return line.clone();
    };
    replace_values(line, params.start, list).unwrap_or_else(|| PLACEHOLDER_LINE.into())
}

/// A line whose secrets cannot be told from the rest is not kept at all.
const PLACEHOLDER_LINE: &str =
    r#"{"acpx":"a request with secret values of an unreadable shape was not kept"}"#;

fn replace_values(line: &str, params_start: usize, list: &str) -> Option<Arc<str>> {
    let params = line.get(params_start..)?;
    let params = first_value(params)?;
    let Some(found) = locate(params, &[Step::Key(list)]) else {
        return (!params.contains("\"value\"")).then(|| line.into());
    };
    let items = params.get(found.clone())?;
    if items == "null" {
        return Some(line.into());
    }
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
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&serde_json::value::RawValue>();
    values.next()?.ok().map(serde_json::value::RawValue::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(line: &str) -> String {
        without_secrets(&Message::parse(line).unwrap()).to_string()
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
        ] {
            assert!(!kept(line).contains("s3cret"), "{line}");
        }
    }
}
