//! The lists in which requests carry named values. Every value given to an MCP server is a secret; in a terminal's
//! environment, only those whose names mark them.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{PLACEHOLDER, is_secret_name};

/// A value within a line.
pub(super) struct Value<'a> {
    raw: &'a str,
    pub(super) is_secret: bool,
}

impl Value<'_> {
    /// The unescaped value.
    pub(super) fn text(&self) -> Cow<'_, str> {
        serde_json::from_str(self.raw).unwrap_or(Cow::Borrowed(self.raw))
    }
}

#[derive(Deserialize)]
struct SetupSecretLists<'a> {
    #[serde(borrow, default, rename = "mcpServers")]
    servers: Option<Vec<ServerSecretLists<'a>>>,
}

#[derive(Deserialize)]
struct ServerSecretLists<'a> {
    #[serde(borrow, default)]
    env: Option<Vec<SecretListEntry<'a>>>,
    #[serde(borrow, default)]
    headers: Option<Vec<SecretListEntry<'a>>>,
}

#[derive(Deserialize)]
struct TerminalSecretLists<'a> {
    #[serde(borrow, default)]
    env: Option<Vec<SecretListEntry<'a>>>,
}

#[derive(Deserialize)]
struct SecretListEntry<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    value: &'a RawValue,
}

impl SecretListEntry<'_> {
    /// Whether its name marks a secret. A value without a name counts as one.
    fn is_secret(&self) -> bool {
        let name = self.name.and_then(|name| serde_json::from_str::<Cow<'_, str>>(name.get()).ok());
        name.is_none_or(|name| is_secret_name(&name))
    }
}

/// The values in the params of a request; `None` if the params do not have the expected shape.
pub(super) fn values<'a>(method: &str, params: &'a str) -> Option<Vec<Value<'a>>> {
    match method {
        "session/new" | "session/load" | "session/resume" | "session/fork" => {
            let setup: Option<SetupSecretLists<'a>> = serde_json::from_str(params).ok()?;
            let servers = setup.and_then(|setup| setup.servers).unwrap_or_default();
            let lists = servers.into_iter().flat_map(|server| [server.env, server.headers]);
            let value = |named: SecretListEntry<'a>| Value { raw: named.value.get(), is_secret: true };
            Some(lists.flatten().flatten().map(value).collect())
        }
        "terminal/create" => {
            let terminal: Option<TerminalSecretLists<'a>> = serde_json::from_str(params).ok()?;
            let env = terminal.and_then(|terminal| terminal.env).unwrap_or_default();
            let value =
                |named: SecretListEntry<'a>| Value { raw: named.value.get(), is_secret: named.is_secret() };
            Some(env.into_iter().map(value).collect())
        }
        _ => Some(Vec::new()),
    }
}

/// The line with each secret of these values replaced; `None` if one of them is not a part of it.
pub(super) fn replace(line: &str, values: &[Value<'_>]) -> Option<String> {
    let secrets = values.iter().filter(|value| value.is_secret);
    let mut places: Vec<Range<usize>> =
        secrets.map(|value| range_within(line, value.raw)).collect::<Option<_>>()?;
    places.sort_by_key(|place| place.start);
    let mut text = String::with_capacity(line.len());
    let mut done = 0;
    for place in places {
        text.push_str(line.get(done..place.start)?);
        text.extend(["\"", PLACEHOLDER, "\""]);
        done = place.end;
    }
    text.push_str(line.get(done..)?);
    Some(text)
}

/// The range of a part that was borrowed from a line.
fn range_within(line: &str, part: &str) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(line.as_ptr().addr())?;
    let range = start..start.checked_add(part.len())?;
    (line.get(range.clone())? == part).then_some(range)
}
