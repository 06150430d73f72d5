//! What an agent can do, read from its answer to `initialize`.
//!
//! The protocol marks capabilities in two ways, old groups with booleans and new ones with objects. Here one
//! rule reads both: an object (even `{}`) or `true` means advertised; `false`, `null`, absent and anything
//! else mean not. Whatever cannot be read is not advertised, and is never a reason to fail.

use serde_json::Value;

use crate::machine::Advertised;

/// What an agent advertised.
#[expect(clippy::struct_excessive_bools, reason = "one flag for each capability of the protocol")]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// `session/load`, `resume`, `list`, `close` and `delete`.
    pub sessions: Advertised,
    /// `session/fork`.
    pub fork: bool,
    /// `logout`.
    pub logout: bool,
    /// MCP servers over HTTP.
    pub mcp_http: bool,
    /// MCP servers over server-sent events.
    pub mcp_sse: bool,
    /// What a prompt may hold besides text and links.
    pub prompt: PromptContent,
}

/// Content of a prompt that not every agent takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PromptContent {
    /// Images.
    pub image: bool,
    /// Sounds.
    pub audio: bool,
    /// Resources with their content.
    pub embedded_context: bool,
}

impl Capabilities {
    /// Reads the result of `initialize`.
    pub fn read(result: &Value) -> Self {
        let at = |path: &str| result.pointer(path).is_some_and(advertised);
        let session = |name: &str| at(&format!("/agentCapabilities/sessionCapabilities/{name}"));
        Self {
            sessions: Advertised {
                load: at("/agentCapabilities/loadSession"),
                resume: session("resume"),
                list: session("list"),
                close: session("close"),
                delete: session("delete"),
            },
            fork: session("fork"),
            logout: at("/agentCapabilities/auth/logout"),
            mcp_http: at("/agentCapabilities/mcpCapabilities/http"),
            mcp_sse: at("/agentCapabilities/mcpCapabilities/sse"),
            prompt: PromptContent {
                image: at("/agentCapabilities/promptCapabilities/image"),
                audio: at("/agentCapabilities/promptCapabilities/audio"),
                embedded_context: at("/agentCapabilities/promptCapabilities/embeddedContext"),
            },
        }
    }
}

/// Whether a marker means that something is advertised.
pub(super) fn advertised(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_or_true_is_advertised_and_nothing_else_is() {
        let read = |marker: Value| {
            let result = json!({"agentCapabilities": {"loadSession": marker, "sessionCapabilities": {"resume": marker}}});
            let sessions = Capabilities::read(&result).sessions;
            assert_eq!(sessions.load, sessions.resume);
            sessions.load
        };
        assert!([json!({}), json!({"x": 1}), json!(true)].into_iter().all(read));
        assert!(![json!(null), json!(false), json!(0), json!("yes"), json!([])].into_iter().any(read));
    }

    #[test]
    fn an_answer_without_capabilities_advertises_nothing() {
        for result in [json!(null), json!({}), json!([]), json!({"agentCapabilities": 7})] {
            assert_eq!(Capabilities::read(&result), Capabilities::default());
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
                "sessionCapabilities": {"list": {}, "delete": {}, "fork": {}, "resume": null, "close": {"_meta": {}}},
            },
        });
        let expected = Capabilities {
            sessions: Advertised { load: true, resume: false, list: true, close: true, delete: true },
            fork: true,
            logout: true,
            mcp_http: true,
            mcp_sse: false,
            prompt: PromptContent { image: true, audio: false, embedded_context: false },
        };
        assert_eq!(Capabilities::read(&result), expected);
    }
}
