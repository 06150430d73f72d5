//! Adds the capabilities of an agent behind this one to the offer for a client.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::client::TerminalLogin;
use super::{Feature, Offer};
use crate::acp::capabilities::{Capabilities, advertised};
use crate::acp::translate::{initialize_answer_to_v1, initialize_answer_to_v2};
use crate::model::ProtocolVersion;
use crate::wire::json::{self, RawObject};

const NOTHING: &str = "{}";
/// The members of prompt capabilities.
const PROMPT_FEATURES: [(&str, Feature); 3] =
    [("image", Feature::Image), ("audio", Feature::Audio), ("embeddedContext", Feature::EmbeddedContext)];
/// The members of MCP capabilities. Version 1 always has stdio.
const MCP_FEATURES: [(&str, Feature); 3] =
    [("stdio", Feature::McpStdio), ("http", Feature::McpHttp), ("sse", Feature::McpSse)];

/// How many unknown members of a reply are forwarded, those of its `_meta` included. Agents have a few.
const MAX_UNKNOWN_MEMBERS: usize = 256;

/// The forwarded members of an agent's reply to `initialize`, in either version.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AgentInitializeResult<'a> {
    #[serde(borrow, alias = "info", rename = "agentInfo")]
    info: Option<&'a RawValue>,
    #[serde(borrow, rename = "authMethods")]
    auth_methods: Option<&'a RawValue>,
    #[serde(borrow, rename = "agentCapabilities")]
    v1: Option<AgentCapabilitiesV1<'a>>,
    #[serde(borrow, rename = "capabilities")]
    v2: Option<AgentCapabilitiesV2<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AgentCapabilitiesV1<'a> {
    #[serde(borrow)]
    prompt_capabilities: Option<&'a RawValue>,
    #[serde(borrow)]
    mcp_capabilities: Option<&'a RawValue>,
    auth: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AgentCapabilitiesV2<'a> {
    #[serde(borrow)]
    session: Option<AgentSessionCapabilities<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AgentSessionCapabilities<'a> {
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    mcp: Option<&'a RawValue>,
}

impl Offer {
    /// Adds what the agent behind this one replied to `initialize`: its name, accepted prompt content and MCP servers,
    /// and its logins. `version` is the client's version; a reply in the other version is translated. An unreadable
    /// reply changes nothing.
    #[must_use]
    pub(crate) fn on_behalf_of(self, answer: &str, version: ProtocolVersion) -> Self {
        let is_open = is_v2(answer) && version == ProtocolVersion::V2;
        let translated = match (is_v2(answer), version) {
            (true, ProtocolVersion::V1) => initialize_answer_to_v1(answer),
            (false, ProtocolVersion::V2) => initialize_answer_to_v2(answer),
            _ => None,
        };
        let answer = translated.as_deref().unwrap_or(answer);
        let Ok(behind) = serde_json::from_str::<AgentInitializeResult<'_>>(answer) else { return self };
        let v1 = behind.v1.unwrap_or_default();
        let session = behind.v2.unwrap_or_default().session.unwrap_or_default();
        let prompt = object(v1.prompt_capabilities.or(session.prompt)).unwrap_or(NOTHING);
        let mcp = object(v1.mcp_capabilities.or(session.mcp)).unwrap_or(NOTHING);
        let mut offer = self;
        offer.set_features(prompt, &PROMPT_FEATURES);
        offer.set_features(mcp, &MCP_FEATURES);
        offer.forwarded.prompt = Some(prompt.into());
        offer.forwarded.mcp = Some(mcp.into());
        if version == ProtocolVersion::V1 {
            // In version 1 every agent accepts servers over stdio.
            offer.features.insert(Feature::McpStdio);
        }
        if v1.auth.get("logout").is_some_and(advertised) {
            offer.features.insert(Feature::Logout);
        }
        offer.forwarded.is_open = is_open;
        offer.forwarded.unknown_members = unknown_members(answer);
        let value: Value = serde_json::from_str(answer).unwrap_or_default();
        let capabilities = Capabilities::read(version, &value);
        if capabilities.fork {
            offer.features.insert(Feature::Fork);
        }
        if capabilities.additional_directories {
            offer.features.insert(Feature::AdditionalDirectories);
        } else {
            offer.features.remove(&Feature::AdditionalDirectories);
        }
        if let Some(info) = object(behind.info) {
            offer.forwarded.info = Some(info.into());
        }
        let methods = behind.auth_methods.map(RawValue::get).filter(|methods| methods.starts_with('['));
        if let Some(methods) = methods {
            offer.forwarded.auth_methods = Some(for_client(methods, offer.forwarded.terminal_login));
        }
        offer
    }

    fn set_features(&mut self, capabilities: &str, features: &[(&str, Feature)]) {
        let value: Value = serde_json::from_str(capabilities).unwrap_or_default();
        for (name, feature) in features {
            self.features.remove(feature);
            if value.get(name).is_some_and(advertised) {
                self.features.insert(*feature);
            }
        }
    }
}

/// The login methods that a client can use. The client runs a terminal login with the command that starts its agent,
/// which is acpx. `acpx AGENT acp --login METHOD` then runs the agent's own login.
fn for_client(methods: &str, terminal: TerminalLogin) -> Box<str> {
    #[derive(Deserialize)]
    struct Method<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<Cow<'a, str>>,
        #[serde(borrow, alias = "methodId")]
        id: Option<Cow<'a, str>>,
    }
    let all: Vec<&RawValue> = serde_json::from_str(methods).unwrap_or_default();
    let mut is_changed = false;
    let mut left = Vec::with_capacity(all.len());
    for raw in all.iter().map(|method| method.get()) {
        let read = serde_json::from_str::<Method<'_>>(raw).ok();
        let Some(id) = read.filter(|read| read.kind.as_deref() == Some("terminal")).map(|read| read.id)
        else {
            left.push(Cow::Borrowed(raw));
            continue;
        };
        is_changed = true;
        let has_command = || json::get(raw, &["_meta", "terminal-auth"]).is_some();
        let can_go = match terminal {
            TerminalLogin::No => false,
            TerminalLogin::WholeCommand => has_command(),
            TerminalLogin::Any => true,
        };
        let args = json!(["--login", id.unwrap_or_default()]).to_string();
        let bare = json::remove(raw, &["env"]);
        let method = json::set(bare.as_deref().unwrap_or(raw), &["args"], &args);
        left.extend(method.filter(|_| can_go).map(Cow::Owned));
    }
    if is_changed { format!("[{}]", left.join(",")).into() } else { methods.into() }
}

/// The reply's members that the offer has no field for, each object with its path: unknown members at the root, and
/// every `_meta`. Unknown capabilities are dropped because acpx does not serve them. Prompt and server kinds are the
/// exception: they are forwarded if both sides use version 2.
fn unknown_members(answer: &str) -> Vec<(&'static [&'static str], Box<str>)> {
    const KNOWN: [&str; 7] =
        ["protocolVersion", "agentCapabilities", "capabilities", "agentInfo", "info", "authMethods", "_meta"];
    const PATHS: [&[&str]; 7] = [
        &[],
        &["_meta"],
        &["agentCapabilities", "_meta"],
        &["agentCapabilities", "sessionCapabilities", "_meta"],
        &["agentCapabilities", "auth", "_meta"],
        &["capabilities", "_meta"],
        &["capabilities", "session", "_meta"],
    ];
    let mut left = MAX_UNKNOWN_MEMBERS;
    let mut found = Vec::new();
    for path in PATHS {
        let known: &[&str] = match path {
            [] => &KNOWN,
            // Our own member is added to theirs.
            ["_meta"] => &["acpx"],
            _ => &[],
        };
        let mut object = json::get(answer, path).and_then(RawObject::parse).unwrap_or_default();
        object.retain(|name, _| {
            let is_carried = left > 0 && !known.contains(&name);
            left -= usize::from(is_carried);
            is_carried
        });
        if !object.is_empty() {
            found.push((path, object.to_string().into()));
        }
    }
    found
}

fn object(given: Option<&RawValue>) -> Option<&str> {
    given.map(RawValue::get).filter(|json| json.starts_with('{'))
}

fn is_v2(answer: &str) -> bool {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    answer["protocolVersion"] == 2
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn offered(answer: &str, version: ProtocolVersion) -> Value {
        let features = [Feature::Load, Feature::Image, Feature::McpHttp];
        let offer = Offer::new("acpx", "1", features).on_behalf_of(answer, version);
        serde_json::from_str(&offer.answer(version)).unwrap()
    }

    #[test]
    fn terminal_logins_are_offered_to_clients_that_run_them_with_our_arguments() {
        let methods = json!([
            { "id": "key", "name": "Key", "_meta": { "terminal-auth": { "command": "c" } } },
            { "id": "tui", "name": "T", "type": "terminal", "args": ["login"], "env": { "A": "b" } },
            { "id": "zed", "name": "Z", "type": "terminal", "_meta": { "terminal-auth": { "command": "c" } } },
        ]);
        let ours = |index: usize, id: &str| {
            let mut method = methods[index].clone();
            method["args"] = json!(["--login", id]);
            method.as_object_mut().unwrap().remove("env");
            method
        };
        let answer = json!({ "protocolVersion": 1, "authMethods": methods }).to_string();
        let table = [
            (TerminalLogin::No, json!([methods[0]])),
            (TerminalLogin::WholeCommand, json!([methods[0], ours(2, "zed")])),
            (TerminalLogin::Any, json!([methods[0], ours(1, "tui"), ours(2, "zed")])),
        ];
        for (terminal, expected) in table {
            let offer = Offer::new("acpx", "1", []).with_terminal_login(terminal);
            let offer = offer.on_behalf_of(&answer, ProtocolVersion::V1);
            let told: Value = serde_json::from_str(&offer.answer(ProtocolVersion::V1)).unwrap();
            assert_eq!(told["authMethods"], expected, "{terminal:?}");
        }
    }

    #[test]
    fn proxied_capabilities_replace_ours() {
        let answer = r#"{"protocolVersion":1,"agentInfo":{"name":"a","version":"2"},
            "agentCapabilities":{"loadSession":false,"promptCapabilities":{"audio":true},"auth":{"logout":{}}},
            "authMethods":[{"id":"m","name":"M"}]}"#;
        let expected = json!({
            "protocolVersion": 1,
            "agentInfo": { "name": "a", "version": "2" },
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": { "audio": true },
                "mcpCapabilities": {},
                "sessionCapabilities": {},
                "auth": { "logout": {} },
            },
            "authMethods": [{ "id": "m", "name": "M" }],
        });
        assert_eq!(offered(answer, ProtocolVersion::V1), expected);
        let ours = offered("7", ProtocolVersion::V1);
        assert_eq!(ours["agentInfo"], json!({ "name": "acpx", "version": "1" }));
        assert_eq!(ours["agentCapabilities"]["promptCapabilities"]["image"], true);
    }

    #[test]
    fn proxied_meta_is_forwarded_and_unserved_capabilities_are_not() {
        let answer = r#"{"protocolVersion":1,"models":[1.0],"_meta":{"im":1,"acpx":{"theirs":1}},
            "agentCapabilities":{"_meta":{"cap":1},"futureCap":{},"sessionCapabilities":{"future":{},"_meta":{"s":1}},
            "auth":{"_meta":{"a":1}}}}"#;
        let expected = json!({
            "protocolVersion": 1,
            "models": [1.0],
            "agentInfo": { "name": "acpx", "version": "1" },
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {},
                "mcpCapabilities": {},
                "sessionCapabilities": { "_meta": { "s": 1 } },
                "auth": { "_meta": { "a": 1 } },
                "_meta": { "cap": 1 },
            },
            "authMethods": [],
            "_meta": { "im": 1 },
        });
        assert_eq!(offered(answer, ProtocolVersion::V1), expected);
        let new = r#"{"protocolVersion":2,"info":{"name":"n","version":"1"},"authMethods":[],"x":1,
            "capabilities":{"_meta":{"c":1},"future":{},"session":{"_meta":{"s":1},"later":{}}}}"#;
        let told = offered(new, ProtocolVersion::V2);
        let capabilities =
            json!({ "_meta": { "c": 1 }, "session": { "_meta": { "s": 1 }, "prompt": {}, "mcp": {} } });
        assert_eq!((&told["capabilities"], &told["x"]), (&capabilities, &json!(1)));
    }

    #[test]
    fn an_answer_in_the_other_version_is_translated() {
        let old = r#"{"protocolVersion":1,"agentCapabilities":{"promptCapabilities":{"image":true},"mcpCapabilities":{"http":true}}}"#;
        let told = offered(old, ProtocolVersion::V2);
        let session = &told["capabilities"]["session"];
        assert_eq!(session["prompt"]["image"], json!({}), "{told}");
        assert!(session["mcp"]["http"].is_object() && session["mcp"]["stdio"].is_object(), "{told}");
        let new = r#"{"protocolVersion":2,"info":{"name":"n","version":"1"},"capabilities":{"session":{"prompt":{"image":{}},"mcp":{"stdio":{}}}},"authMethods":[]}"#;
        let told = offered(new, ProtocolVersion::V1);
        assert_eq!(told["agentCapabilities"]["promptCapabilities"]["image"], true, "{told}");
        assert_eq!(told["agentInfo"]["name"], "n");
    }

    #[test]
    fn unknown_v2_content_kinds_are_offered_to_v2_clients() {
        let answer = r#"{"protocolVersion":2,"info":{"name":"a","version":"2"},"_vend":{},"capabilities":{"_vend":{},
            "session":{"prompt":{"image":{},"_x":{"n":1.0}},"mcp":{"stdio":{},"_y":{},"_no":false},"_z":{}}}}"#;
        let session = &offered(answer, ProtocolVersion::V2)["capabilities"]["session"];
        assert_eq!(session["prompt"], json!({ "image": {}, "_x": { "n": 1.0 } }));
        assert_eq!(session["mcp"], json!({ "stdio": {}, "_y": {}, "_no": false }));
        assert_eq!(session.get("_z"), None);
        let offer = Offer::new("acpx", "1", []).on_behalf_of(answer, ProtocolVersion::V2);
        let takes = |offer: &Offer| {
            let kinds = ["_x", "_y", "_no", "image", "_meta"];
            (kinds.map(|kind| offer.takes_content(kind)), kinds.map(|kind| offer.takes_servers(kind)))
        };
        let expected = ([true, false, false, false, false], [false, true, false, false, false]);
        assert_eq!(takes(&offer), expected);
        // A client that may not use unknown kinds is not offered them.
        assert_eq!(takes(&offer.of_known_kinds()), ([false; 5], [false; 5]));
        let first = offered(answer, ProtocolVersion::V1);
        assert_eq!(first["agentCapabilities"]["promptCapabilities"], json!({ "image": true }));
    }

    #[test]
    fn initialize_result_with_very_many_unknown_members_is_forwarded_in_part() {
        let many = (0..20_000).map(|n| format!(r#""m{n}":{n}"#)).collect::<Vec<_>>().join(",");
        let v1 = format!(
            r#"{{"protocolVersion":1,{many},"_meta":{{{many}}},
            "agentCapabilities":{{"promptCapabilities":{{"image":true,{many}}}}}}}"#
        );
        let started = std::time::Instant::now();
        let offer = offered(&v1, ProtocolVersion::V1);
        assert!(started.elapsed() < std::time::Duration::from_secs(10), "{:?}", started.elapsed());
        let carried = |object: &Value| {
            object.as_object().map_or(0, |object| object.keys().filter(|name| name.starts_with('m')).count())
        };
        assert_eq!(carried(&offer) + carried(&offer["_meta"]), MAX_UNKNOWN_MEMBERS);
        assert_eq!(offer["agentCapabilities"]["promptCapabilities"], json!({ "image": true }));
    }
}
