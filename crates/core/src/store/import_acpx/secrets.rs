//! Secret values out of journal lines before they are kept. npm acpx writes the values of its MCP servers'
//! environments and headers into its journals; ours never has them.
//!
//! Every byte that is no secret stays as it was. A line whose secrets cannot be told from the rest is not kept
//! at all.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// What stands in the store where a secret stood in the journal.
const PLACEHOLDER: &str = r#""[secret]""#;

/// What is kept of a line whose secrets cannot be found.
const NOT_KEPT: &str = r#"{"acpx":"a line with secret values of an unreadable shape was not kept"}"#;

/// Values this short occur everywhere, so a later line is not searched for them.
const COMMON: usize = 5;

/// The secret values a journal has told so far: they may come back in answers.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    /// As they stand in JSON, without the quotes; the longest first, so that none is hidden by a part of it.
    known: Vec<Box<str>>,
}

#[derive(Deserialize)]
struct Setup<'a> {
    #[serde(borrow, default, rename = "mcpServers")]
    servers: Option<Vec<Server<'a>>>,
}

#[derive(Deserialize)]
struct Server<'a> {
    #[serde(borrow, default)]
    env: Option<Vec<NamedValue<'a>>>,
    #[serde(borrow, default)]
    headers: Option<Vec<NamedValue<'a>>>,
}

#[derive(Deserialize)]
struct Terminal<'a> {
    #[serde(borrow, default)]
    env: Option<Vec<NamedValue<'a>>>,
}

#[derive(Deserialize)]
struct NamedValue<'a> {
    #[serde(borrow)]
    value: &'a RawValue,
}

impl Secrets {
    /// The line as it may be kept.
    pub(super) fn remove(&mut self, line: &str, method: &str, params: Option<&RawValue>) -> Arc<str> {
        let params = params.map_or("null", RawValue::get);
        let values = match method {
            "session/new" | "session/load" | "session/resume" | "session/fork" => setup_values(params),
            "terminal/create" => terminal_values(params),
            _ => Some(Vec::new()),
        };
        let Some(values) = values else { return NOT_KEPT.into() };
        let Some(text) = replace(line, &values) else { return NOT_KEPT.into() };
        for value in values {
            self.learn(value.get());
        }
        self.known.iter().fold(text, |text, secret| without(text, secret))
    }

    fn learn(&mut self, value: &str) {
        let bare = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value);
        if bare.len() > COMMON && !self.known.iter().any(|known| **known == *bare) {
            self.known.push(bare.into());
            self.known.sort_by_key(|known| Reverse(known.len()));
        }
    }
}

/// The line without a secret. A value that ends an escape of the line is not cut out of it.
fn without(line: Arc<str>, secret: &str) -> Arc<str> {
    if !line.contains(secret) {
        return line;
    }
    let text = line.replace(secret, "[secret]");
    let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
    if is_json { text.into() } else { NOT_KEPT.into() }
}

fn setup_values(params: &str) -> Option<Vec<&RawValue>> {
    let setup: Option<Setup<'_>> = serde_json::from_str(params).ok()?;
    let servers = setup.and_then(|setup| setup.servers).unwrap_or_default();
    let lists = servers.into_iter().flat_map(|server| [server.env, server.headers]).flatten();
    Some(lists.flatten().map(|named| named.value).collect())
}

fn terminal_values(params: &str) -> Option<Vec<&RawValue>> {
    let terminal: Option<Terminal<'_>> = serde_json::from_str(params).ok()?;
    let env = terminal.and_then(|terminal| terminal.env).unwrap_or_default();
    Some(env.into_iter().map(|named| named.value).collect())
}

/// The line with these parts of it replaced.
fn replace(line: &str, values: &[&RawValue]) -> Option<Arc<str>> {
    if values.is_empty() {
        return Some(line.into());
    }
    let mut ranges: Vec<Range<usize>> =
        values.iter().map(|value| range_within(line, value.get())).collect::<Option<_>>()?;
    ranges.sort_by_key(|range| range.start);
    let mut text = String::with_capacity(line.len());
    let mut end = 0;
    for range in ranges {
        text.push_str(line.get(end..range.start)?);
        text.push_str(PLACEHOLDER);
        end = range.end;
    }
    text.push_str(line.get(end..)?);
    Some(text.into())
}

/// Where a part that was borrowed from a line stands in it.
fn range_within(line: &str, part: &str) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(line.as_ptr().addr())?;
    let range = start..start.checked_add(part.len())?;
    (line.get(range.clone())? == part).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::super::journal::{JournalLine, JournalMessage, string};
    use super::*;

    fn kept(secrets: &mut Secrets, line: &str) -> String {
        match JournalLine::read(line) {
            Some(JournalLine::Message(JournalMessage::Request { method, params, .. })) => {
                secrets.remove(line, &string(method.get()).unwrap(), params).to_string()
            }
            _ => secrets.remove(line, "", None).to_string(),
        }
    }

    #[test]
    fn values_of_servers_and_terminals_are_replaced_and_no_other_byte() {
        let setup = |env: &str, header: &str| {
            format!(
                r#"{{"id":1, "method":"session/load","params":{{"mcpServers":[{{"name":"a","env":[{{"name":"T","value":{env}}}]}}, {{"headers":[{{"value":{header},"name":"A"}}]}}],"n":1e3}}}}"#
            )
        };
        let mut secrets = Secrets::default();
        assert_eq!(
            kept(&mut secrets, &setup(r#""s3cret \" }""#, r#""Bearer x-y-z""#)),
            setup(r#""[secret]""#, r#""[secret]""#)
        );
        let create = |value: &str| {
            format!(
                r#"{{"id":1,"method":"terminal/create","params":{{"env":[{{"name":"T","value":{value}}}]}}}}"#
            )
        };
        assert_eq!(kept(&mut secrets, &create(r#""abc""#)), create(r#""[secret]""#));
        // An agent that repeats what it was given does not give it away; a short value occurs everywhere.
        let answer = |value: &str| format!(r#"{{"id":1,"error":{{"message":"bad header {value}, abc"}}}}"#);
        assert_eq!(kept(&mut secrets, &answer("Bearer x-y-z")), answer("[secret]"));
    }

    #[test]
    fn a_line_without_secrets_is_kept_byte_for_byte() {
        for line in [
            r#"{"id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#,
            r#"{"id":1,"method":"session/new","params":{"mcpServers":[{"name":"a","env":null}]}}"#,
            r#"{"id":1,"method":"session/resume"}"#,
            r#"{"id":1,"method":"session/prompt","params":{"mcpServers":"is only a word here"}}"#,
        ] {
            assert_eq!(kept(&mut Secrets::default(), line), line);
        }
    }

    #[test]
    fn a_line_whose_secrets_cannot_be_found_is_not_kept() {
        for line in [
            r#"{"id":1,"method":"session/new","params":{"mcpServers":{"a":{"env":{"T":"s3cret"}}}}}"#,
            r#"{"id":1,"method":"session/new","params":{"mcpServers":[{"env":{"T":"s3cret"}}]}}"#,
            r#"{"id":1,"method":"session/new","params":{"mcpServers":[{"env":[],"env":[{"value":"s3cret"}]}]}}"#,
            r#"{"id":1,"method":"session/new","params":{"mcpServers":[{"env":["T=s3cret"]}]}}"#,
            r#"{"id":1,"method":"session/new","params":["s3cret"]}"#,
        ] {
            assert_eq!(kept(&mut Secrets::default(), line), NOT_KEPT, "{line}");
        }
    }
}
