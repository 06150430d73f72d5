//! An agent's capabilities, read from its reply to `initialize`.
//!
//! The protocol marks old capabilities with booleans and new ones with objects. One rule reads both: an object (even
//! `{}`) or `true` means advertised, anything else means not advertised. Unreadable capabilities never cause a failure.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use super::agent::Feature;
use crate::model::{Advertised, ProtocolVersion};

/// The capabilities an agent advertised.
#[expect(clippy::struct_excessive_bools, reason = "one flag for each capability of the protocol")]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// `session/new`.
    pub new: bool,
    /// `session/load`, `resume`, `list`, `close` and `delete`.
    pub sessions: Advertised,
    /// `session/fork`.
    pub fork: bool,
    /// `logout`.
    pub logout: bool,
    /// Directories in addition to a session's working directory.
    pub additional_directories: bool,
    /// MCP servers over stdio.
    pub mcp_stdio: bool,
    /// MCP servers over HTTP.
    pub mcp_http: bool,
    /// MCP servers over server-sent events.
    pub mcp_sse: bool,
    /// Prompt content other than text and links.
    pub prompt: PromptContent,
}

/// Prompt content that not every agent accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PromptContent {
    /// Images.
    pub image: bool,
    /// Sounds.
    pub audio: bool,
    /// Resources with their content.
    pub embedded_context: bool,
}

/// A content block that an agent does not accept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnsupportedBlock {
    /// Its index in the prompt, from 0.
    pub index: usize,
    /// Its type.
    pub kind: String,
    /// The feature that it requires.
    pub feature: Feature,
}

impl PromptContent {
    /// The first unaccepted content block; `blocks` is a JSON array. Every agent accepts text and links; unknown types
    /// are left to the agent.
    pub(crate) fn untaken(self, blocks: &str) -> Result<Option<UnsupportedBlock>, serde_json::Error> {
        #[derive(Deserialize)]
        struct Block<'a> {
            #[serde(borrow, rename = "type")]
            kind: Cow<'a, str>,
        }
        let blocks: Vec<Block<'_>> = serde_json::from_str(blocks)?;
        let untaken = |(index, Block { kind })| {
            let (feature, is_offered) = match &*kind {
                "image" => (Feature::Image, self.image),
                "audio" => (Feature::Audio, self.audio),
                "resource" => (Feature::EmbeddedContext, self.embedded_context),
                _ => return None,
            };
            (!is_offered).then(|| UnsupportedBlock { index, kind: kind.into_owned(), feature })
        };
        Ok(blocks.into_iter().enumerate().find_map(untaken))
    }
}

impl Capabilities {
    /// Reads the result of `initialize` in this protocol version.
    pub(crate) fn read(version: ProtocolVersion, result: &Value) -> Self {
        match version {
            ProtocolVersion::V1 => Self::read_v1(result),
            ProtocolVersion::V2 => Self::read_v2(result),
        }
    }

    /// Reads the result of `initialize`, in the protocol version that it names.
    pub fn of_answer(answer: &str) -> Self {
        let result: Value = serde_json::from_str(answer).unwrap_or_default();
        let number = result["protocolVersion"].as_u64().and_then(|number| u16::try_from(number).ok());
        Self::read(number.and_then(ProtocolVersion::from_number).unwrap_or_default(), &result)
    }

    fn read_v1(result: &Value) -> Self {
        let at = |path: &str| result.pointer(path).is_some_and(advertised);
        let session = |name: &str| at(&format!("/agentCapabilities/sessionCapabilities/{name}"));
        Self {
            new: true,
            sessions: Advertised {
                load: at("/agentCapabilities/loadSession"),
                replay: false,
                resume: session("resume"),
                list: session("list"),
                close: session("close"),
                delete: session("delete"),
            },
            fork: session("fork"),
            additional_directories: session("additionalDirectories"),
            logout: at("/agentCapabilities/auth/logout"),
            mcp_stdio: true,
            mcp_http: at("/agentCapabilities/mcpCapabilities/http"),
            mcp_sse: at("/agentCapabilities/mcpCapabilities/sse"),
            prompt: PromptContent {
                image: at("/agentCapabilities/promptCapabilities/image"),
                audio: at("/agentCapabilities/promptCapabilities/audio"),
                embedded_context: at("/agentCapabilities/promptCapabilities/embeddedContext"),
            },
        }
    }

    /// In version 2 one `session` marker, even an empty one, advertises all basic session methods.
    fn read_v2(result: &Value) -> Self {
        let at = |path: &str| result.pointer(path).is_some_and(advertised);
        let session = |name: &str| at(&format!("/capabilities/session/{name}"));
        let all = at("/capabilities/session");
        Self {
            new: all,
            sessions: Advertised {
                load: false,
                replay: all,
                resume: all,
                list: all,
                close: all,
                delete: session("delete"),
            },
            fork: session("fork"),
            additional_directories: session("additionalDirectories"),
            // An agent with a login has a logout.
            logout: result["authMethods"].as_array().is_some_and(|ways| !ways.is_empty()),
            mcp_stdio: session("mcp/stdio"),
            mcp_http: session("mcp/http"),
            mcp_sse: false,
            prompt: PromptContent {
                image: session("prompt/image"),
                audio: session("prompt/audio"),
                embedded_context: session("prompt/embeddedContext"),
            },
        }
    }
}

/// Whether a marker advertises a capability.
pub(super) fn advertised(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Bool(true))
}

/// An agent's name and version, as it reports them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentInfo {
    /// Its programmatic name.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
}

impl AgentInfo {
    /// Reads the result of `initialize`, of either protocol version.
    pub(crate) fn of_answer(answer: &str) -> Self {
        let result: Value = serde_json::from_str(answer).unwrap_or_default();
        let info = ["agentInfo", "info"].iter().find_map(|name| result.get(name)?.as_object());
        let text =
            |name: &str| Some(info?.get(name)?.as_str()?.trim().to_owned()).filter(|text| !text.is_empty());
        Self { name: text("name"), version: text("version") }
    }
}

#[cfg(test)]
mod agent_info_tests {
    use super::*;

    #[test]
    fn agent_info_is_read_in_both_versions_and_may_be_missing() {
        let read = |answer: &str| {
            let AgentInfo { name, version } = AgentInfo::of_answer(answer);
            (name.unwrap_or_default(), version.unwrap_or_default())
        };
        let expected = ("a".to_owned(), "1.2".to_owned());
        assert_eq!(read(r#"{"agentInfo":{"name":" a ","version":"1.2"}}"#), expected);
        assert_eq!(read(r#"{"protocolVersion":2,"info":{"name":"a","version":"1.2"}}"#), expected);
        for nothing in ["", "null", r#"{"agentInfo":null}"#, r#"{"agentInfo":{"name":7,"version":""}}"#] {
            assert_eq!(AgentInfo::of_answer(nothing), AgentInfo::default(), "{nothing}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_or_true_is_advertised_and_nothing_else_is() {
        let read = |marker: Value| {
            let result = json!({"agentCapabilities": {"loadSession": marker, "sessionCapabilities": {"resume": marker}}});
            let sessions = Capabilities::read(ProtocolVersion::V1, &result).sessions;
            assert_eq!(sessions.load, sessions.resume);
            sessions.load
        };
        assert!([json!({}), json!({"x": 1}), json!(true)].into_iter().all(read));
        assert!(![json!(null), json!(false), json!(0), json!("yes"), json!([])].into_iter().any(read));
    }

    #[test]
    fn an_answer_without_capabilities_advertises_nothing() {
        for result in [json!(null), json!({}), json!([]), json!({"agentCapabilities": 7})] {
            let nothing = Capabilities::default();
            let first = Capabilities { new: true, mcp_stdio: true, ..nothing.clone() };
            assert_eq!(Capabilities::read(ProtocolVersion::V1, &result), first);
            assert_eq!(Capabilities::read(ProtocolVersion::V2, &result), nothing);
        }
    }

    #[test]
    fn every_capability_is_read_from_its_own_place() {
        let result = json!({
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": true,
                "mcpCapabilities": {"http": true, "sse": false},
                "promptCapabilities": {"image": true, "audio": false},
                "auth": {"logout": {}},
                "sessionCapabilities": {"list": {}, "delete": {}, "fork": {}, "additionalDirectories": {}, "resume": null, "close": {"_meta": {}}},
            },
        });
        let expected = Capabilities {
            new: true,
            sessions: Advertised {
                load: true,
                replay: false,
                resume: false,
                list: true,
                close: true,
                delete: true,
            },
            fork: true,
            additional_directories: true,
            logout: true,
            mcp_stdio: true,
            mcp_http: true,
            mcp_sse: false,
            prompt: PromptContent { image: true, audio: false, embedded_context: false },
        };
        assert_eq!(Capabilities::read(ProtocolVersion::V1, &result), expected);
    }

    #[test]
    fn one_marker_of_version_2_stands_for_all_that_a_session_needs() {
        let read = |session: Value| {
            Capabilities::read(
                ProtocolVersion::V2,
                &json!({"protocolVersion": 2, "capabilities": {"session": session}}),
            )
        };
        let all =
            Advertised { load: false, replay: true, resume: true, list: true, close: true, delete: false };
        let least = Capabilities { new: true, sessions: all, ..Capabilities::default() };
        assert_eq!(read(json!({})), least);
        assert_eq!(read(json!(null)), Capabilities::default());
        let most = json!({"delete": {}, "fork": {}, "mcp": {"stdio": {}, "http": {}}, "prompt": {"image": {}, "audio": {}, "embeddedContext": {}}});
        let expected = Capabilities {
            new: true,
            sessions: Advertised { delete: true, ..all },
            fork: true,
            additional_directories: false,
            logout: false,
            mcp_stdio: true,
            mcp_http: true,
            mcp_sse: false,
            prompt: PromptContent { image: true, audio: true, embedded_context: true },
        };
        assert_eq!(read(most), expected);
    }
}
