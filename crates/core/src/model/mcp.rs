//! MCP servers as a client hands them over. Their values are secrets: held in memory, sent to the agent, never
//! stored.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::{ProtocolVersion, is_secret_name};

/// One server for the agent to connect to. Equality compares the content, not the JSON it was written in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Its name; its values are never stored.
    pub name: String,
    /// How it is reached.
    pub transport: McpTransport,
    /// The client's own JSON, for an agent that may understand more of it than we do.
    client_json: ClientServerJson,
}

impl McpServer {
    /// A server without the client's JSON.
    pub fn new(name: impl Into<String>, transport: McpTransport) -> Self {
        Self { name: name.into(), transport, client_json: ClientServerJson::default() }
    }

    /// The same server with the client's JSON object in this version of the protocol.
    #[must_use]
    pub(crate) fn with_client_json(self, version: ProtocolVersion, json: &str) -> Self {
        let unknown_members = unknown_members(json, &self.transport);
        Self { client_json: ClientServerJson { json: Some((version, json.into())), unknown_members }, ..self }
    }

    /// The same server, reduced to the members we understand.
    #[must_use]
    pub(crate) fn only_known(self) -> Self {
        Self::new(self.name, self.transport)
    }

    /// The client's JSON, unchanged, and the protocol version it is in.
    pub(crate) fn client_json(&self) -> Option<(ProtocolVersion, &str)> {
        self.client_json.json.as_ref().map(|(version, json)| (*version, &**json))
    }

    /// All secret values: environment, headers, secret parts of arguments and URLs, and every text in members that we
    /// do not understand.
    pub fn secrets(&self) -> Vec<&str> {
        let given: &[NamedValue] = match &self.transport {
            McpTransport::Stdio { env: given, .. }
            | McpTransport::Http { headers: given, .. }
            | McpTransport::Sse { headers: given, .. } => given,
            McpTransport::Other { .. } => &[],
        };
        let mut secrets: Vec<&str> = given.iter().map(|value| &*value.value).collect();
        match &self.transport {
            McpTransport::Stdio { args, .. } => secrets.extend(secrets_of_args(args)),
            McpTransport::Http { url, .. } | McpTransport::Sse { url, .. } => {
                secrets.extend(secrets_of_url(url));
            }
            McpTransport::Other { .. } => {}
        }
        let mut unread: Vec<&Value> = self.client_json.unknown_members.iter().collect();
        while let Some(value) = unread.pop() {
            match value {
                Value::String(text) => secrets.push(text),
                Value::Array(items) => unread.extend(items),
                Value::Object(members) => unread.extend(members.values()),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        secrets
    }
}

/// The values of a command line whose names mark a secret: `--token=VALUE`, `--token VALUE`, `TOKEN=VALUE` and
/// `Authorization: VALUE`; and those of its URLs.
fn secrets_of_args(args: &[String]) -> Vec<&str> {
    // Names and values in a URL are read by `secrets_of_url`.
    let is_secret = |name: &str| !name.contains("://") && is_secret_name(name.trim_start_matches('-'));
    let mut secrets: Vec<&str> = args.iter().flat_map(|arg| secrets_of_url(arg)).collect();
    for arg in args {
        let named = arg.split_once('=').or_else(|| arg.split_once(": "));
        secrets.extend(named.filter(|(name, _)| is_secret(name)).map(|(_, value)| value));
    }
    for (name, value) in args.iter().zip(args.iter().skip(1)) {
        if name.starts_with('-') && !value.starts_with('-') && !name.contains('=') && is_secret(name) {
            secrets.push(value);
        }
    }
    secrets
}

/// The values in the query of a URL whose names mark a secret, and its password.
fn secrets_of_url(url: &str) -> Vec<&str> {
    let Some((_, rest)) = url.split_once("://") else { return Vec::new() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').and_then(|(user, _)| user.split_once(':'));
    let query = rest.split_once('?').map_or("", |(_, query)| query.split('#').next().unwrap_or_default());
    let named = query.split('&').filter_map(|pair| pair.split_once('='));
    let marked = named.filter(|(name, _)| is_secret_name(name)).map(|(_, value)| value);
    user.map(|(_, password)| password).into_iter().chain(marked).collect()
}

/// The client's JSON of a server. It may hold secrets, so `Debug` prints none of it.
#[derive(Clone, Default)]
struct ClientServerJson {
    json: Option<(ProtocolVersion, Arc<str>)>,
    /// The members that we do not understand.
    unknown_members: Option<Value>,
}

impl PartialEq for ClientServerJson {
    fn eq(&self, other: &Self) -> bool {
        self.unknown_members == other.unknown_members
    }
}

impl Eq for ClientServerJson {}

impl fmt::Debug for ClientServerJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaidServer").finish_non_exhaustive()
    }
}

/// The members other than the name and the known transport members; `None` if there are none.
fn unknown_members(json: &str, transport: &McpTransport) -> Option<Value> {
    let Ok(Value::Object(mut client_json)) = serde_json::from_str(json) else {
        // JSON that is nested too deep to parse is compared as text.
        return Some(Value::from(json));
    };
    let (known, list): (&[&str], _) = match transport {
        McpTransport::Stdio { .. } => (&["name", "type", "command", "args"], "env"),
        McpTransport::Http { .. } | McpTransport::Sse { .. } => (&["name", "type", "url"], "headers"),
        // Any member may belong to the transport.
        McpTransport::Other { .. } => return other_members(client_json),
    };
    for entry in client_json.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(entry) = entry.as_object_mut() {
            entry.retain(|name, _| name != "name" && name != "value");
        }
    }
    let says_more = |value: &Value| {
        value.as_array().is_some_and(|list| list.iter().any(|entry| entry != &serde_json::json!({})))
    };
    client_json.retain(|name, value| !known.contains(&&**name) && (name != list || says_more(value)));
    (!client_json.is_empty()).then_some(Value::Object(client_json))
}

/// The members of a server that only its agent can connect to.
fn other_members(mut client_json: serde_json::Map<String, Value>) -> Option<Value> {
    client_json.retain(|name, _| name != "name" && name != "type");
    (!client_json.is_empty()).then_some(Value::Object(client_json))
}

/// A server as it is stored: its name and where to read its values again, but none of the values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct McpServerRef {
    /// Its name.
    pub name: String,
    /// The configuration file its values came from; `None` if a client sent them.
    pub source: Option<super::AbsolutePath>,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// A program that the agent starts. Every agent can.
    Stdio {
        /// Absolute path of the program.
        command: super::AbsolutePath,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment.
        env: Vec<NamedValue>,
    },
    /// Streamable HTTP, where the agent advertises it.
    Http {
        /// Where it listens.
        url: String,
        /// Sent with every request.
        headers: Vec<NamedValue>,
    },
    /// Server-sent events, where the agent advertises it.
    Sse {
        /// Where it listens.
        url: String,
        /// Sent with every request.
        headers: Vec<NamedValue>,
    },
    /// A transport that only the agent knows and advertises (version 2). Its parameters are in the client's JSON.
    Other {
        /// The transport's type name.
        kind: String,
    },
}

/// A name and a secret value. `Debug` prints only the name.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedValue {
    /// The variable's or header's name.
    pub name: String,
    /// Its secret value.
    pub value: String,
}

impl fmt::Debug for NamedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedValue").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::AbsolutePath;

    #[test]
    fn a_secret_value_is_not_printed() {
        let value = NamedValue { name: "TOKEN".into(), value: "s3cret".into() };
        assert_eq!(format!("{value:?}"), "NamedValue { name: \"TOKEN\", .. }");
        let client_json = server(r#"{"name":"a","token":"s3cret"}"#);
        assert!(!format!("{client_json:?}").contains("s3cret"), "{client_json:?}");
    }

    fn server(json: &str) -> McpServer {
        let transport = McpTransport::Http { url: "u".into(), headers: Vec::new() };
        McpServer::new("a", transport).with_client_json(ProtocolVersion::V1, json)
    }

    #[test]
    fn mcp_server_values_and_unknown_text_are_secrets() {
        let headers = vec![NamedValue { name: "h".into(), value: "given".into() }];
        let transport = McpTransport::Http { url: "u".into(), headers };
        let json = r#"{"name":"a","type":"http","url":"u","headers":[{"name":"h","value":"given","more":"m"}],
            "env":[{"name":"n","value":"v"}],"auth":{"tokens":["s3cret",7,null,true]}}"#;
        let mut told = McpServer::new("a", transport).with_client_json(ProtocolVersion::V1, json);
        let sorted = |server: &McpServer| {
            let mut secrets: Vec<String> = server.secrets().into_iter().map(str::to_owned).collect();
            secrets.sort();
            secrets
        };
        assert_eq!(sorted(&told), ["given", "m", "n", "s3cret", "v"]);
        told = told.only_known();
        assert_eq!(sorted(&told), ["given"]);
    }

    #[test]
    fn mcp_servers_are_compared_with_their_unknown_members() {
        let plain = r#"{"name":"a","type":"http","url":"u","headers":[]}"#;
        let more = r#"{"name":"a","type":"http","url":"u","headers":[],"_meta":{"x":1}}"#;
        let spaced = r#"{"_meta" : {"x": 1}, "name":"a","type":"http","url":"u"}"#;
        let entry = r#"{"name":"a","type":"http","url":"u","headers":[{"name":"h","value":"v","_meta":{}}]}"#;
        let named = r#"{"name":"a","type":"http","url":"u","headers":[{"name":"h","value":"v"}]}"#;
        assert_eq!(server(plain), server(plain).only_known());
        assert_eq!(server(named), server(plain).only_known(), "its values are compared where they are read");
        assert_eq!(server(more), server(spaced));
        for (one, other) in [(plain, more), (plain, entry), (more, entry)] {
            assert_ne!(server(one), server(other), "{one} {other}");
        }
        // Members of another transport are unknown here.
        let foreign = r#"{"name":"a","type":"http","url":"u","env":[{"name":"n","value":"v"}],"args":["x"]}"#;
        assert_ne!(server(plain), server(foreign));
        assert_eq!(server(more).client_json(), Some((ProtocolVersion::V1, more)));
        assert_eq!(server(more).only_known().client_json(), None);
    }

    #[test]
    fn secret_named_values_in_mcp_args_and_urls_are_secrets() {
        let args = [
            "--api-key=key-in-one",
            "--token",
            "key-in-two",
            "--header",
            "Authorization: Bearer three",
            "--verbose",
            "plain-value",
            "https://me:pass-word@h/x?access_token=in-a-url&page=plain-page#f",
        ];
        let command = AbsolutePath::new("/bin/m").unwrap();
        let args = args.map(str::to_owned).into();
        let stdio = McpServer::new("a", McpTransport::Stdio { command, args, env: Vec::new() });
        let expected = ["pass-word", "in-a-url", "key-in-one", "Bearer three", "key-in-two"];
        assert_eq!(stdio.secrets(), expected);
        let url = "https://h/mcp?apiKey=key-in-url&user=plain-user".to_owned();
        let http = McpServer::new("b", McpTransport::Http { url, headers: Vec::new() });
        assert_eq!(http.secrets(), ["key-in-url"]);
    }

    #[test]
    fn all_text_of_an_unknown_mcp_transport_is_secret() {
        let json = r#"{"name":"a","type":"_y","url":"u","env":[{"name":"n","value":"v"}],"q":1}"#;
        let server = McpServer::new("a", McpTransport::Other { kind: "_y".into() });
        let server = server.with_client_json(ProtocolVersion::V2, json);
        let mut secrets = server.secrets();
        secrets.sort_unstable();
        assert_eq!(secrets, ["n", "u", "v"]);
    }
}
