//! Serializes the reply to `initialize`, in the shape of either version.

use agent_client_protocol_schema::v1 as acp;
use agent_client_protocol_schema::v2;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{Feature, Offer};
use crate::acp::agent::setup::{Meta, to_json};
use crate::model::ProtocolVersion;
use crate::wire::json::RawObject;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResultV1<'a> {
    protocol_version: u16,
    agent_capabilities: OfferCapabilitiesV1,
    auth_methods: Box<RawValue>,
    agent_info: Box<RawValue>,
    #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    meta: &'a Meta,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfferCapabilitiesV1 {
    load_session: bool,
    prompt_capabilities: Box<RawValue>,
    mcp_capabilities: Box<RawValue>,
    session_capabilities: acp::SessionCapabilities,
    auth: acp::AgentAuthCapabilities,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResultV2<'a> {
    protocol_version: u16,
    info: Box<RawValue>,
    capabilities: OfferCapabilitiesV2,
    auth_methods: Box<RawValue>,
    #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    meta: &'a Meta,
}

#[derive(Serialize)]
struct OfferCapabilitiesV2 {
    session: OfferSessionCapabilities,
}

/// Its presence commits to new, list, resume, close, prompt and cancel.
#[derive(Serialize)]
struct OfferSessionCapabilities {
    prompt: Box<RawValue>,
    mcp: Box<RawValue>,
    #[serde(flatten)]
    rest: v2::SessionCapabilities,
}

impl Offer {
    /// The reply to `initialize`, in this version.
    pub(in crate::acp::agent) fn answer(&self, version: ProtocolVersion) -> String {
        let answer = match version {
            ProtocolVersion::V1 => to_json(&self.answer_v1()),
            ProtocolVersion::V2 => to_json(&self.answer_v2()),
        };
        let Some(mut reply) = RawObject::parse(&answer) else { return answer };
        for (path, members) in &self.forwarded.unknown_members {
            reply.merge_path(path, &RawObject::parse(members).unwrap_or_default());
        }
        reply.to_string()
    }

    fn answer_v1(&self) -> InitializeResultV1<'_> {
        let has = |feature| self.has(feature);
        let prompt = || {
            acp::PromptCapabilities::new()
                .image(has(Feature::Image))
                .audio(has(Feature::Audio))
                .embedded_context(has(Feature::EmbeddedContext))
        };
        let mcp = || acp::McpCapabilities::new().http(has(Feature::McpHttp)).sse(has(Feature::McpSse));
        let session = acp::SessionCapabilities::new()
            .resume(has(Feature::Resume).then(acp::SessionResumeCapabilities::new))
            .close(has(Feature::Close).then(acp::SessionCloseCapabilities::new))
            .list(has(Feature::List).then(acp::SessionListCapabilities::new))
            .delete(has(Feature::Delete).then(acp::SessionDeleteCapabilities::new))
            .fork(has(Feature::Fork).then(acp::SessionForkCapabilities::new))
            .additional_directories(
                has(Feature::AdditionalDirectories).then(acp::SessionAdditionalDirectoriesCapabilities::new),
            );
        let logout = has(Feature::Logout).then(acp::LogoutCapabilities::new);
        InitializeResultV1 {
            protocol_version: ProtocolVersion::V1.number(),
            agent_capabilities: OfferCapabilitiesV1 {
                load_session: has(Feature::Load),
                prompt_capabilities: self.served(self.forwarded.prompt.as_deref(), &CONTENT, prompt),
                mcp_capabilities: self.served(self.forwarded.mcp.as_deref(), &["http", "sse"], mcp),
                session_capabilities: session,
                auth: acp::AgentAuthCapabilities::new().logout(logout),
            },
            auth_methods: self.auth_methods(),
            agent_info: self.info(),
            meta: &self.meta,
        }
    }

    fn answer_v2(&self) -> InitializeResultV2<'_> {
        let has = |feature| self.has(feature);
        let prompt = || {
            v2::PromptCapabilities::new()
                .image(has(Feature::Image).then(v2::PromptImageCapabilities::new))
                .audio(has(Feature::Audio).then(v2::PromptAudioCapabilities::new))
                .embedded_context(
                    has(Feature::EmbeddedContext).then(v2::PromptEmbeddedContextCapabilities::new),
                )
        };
        let tells_stdio = has(Feature::McpStdio) && self.tells_program_servers;
        let servers: &[&str] = if self.tells_program_servers { &["stdio", "http"] } else { &["http"] };
        let mcp = || {
            v2::McpCapabilities::new()
                .stdio(tells_stdio.then(v2::McpStdioCapabilities::new))
                .http(has(Feature::McpHttp).then(v2::McpHttpCapabilities::new))
        };
        let rest = v2::SessionCapabilities::new()
            .delete(has(Feature::Delete).then(v2::SessionDeleteCapabilities::new))
            .fork(has(Feature::Fork).then(v2::SessionForkCapabilities::new))
            .additional_directories(
                has(Feature::AdditionalDirectories).then(v2::SessionAdditionalDirectoriesCapabilities::new),
            );
        InitializeResultV2 {
            protocol_version: ProtocolVersion::V2.number(),
            info: self.info(),
            capabilities: OfferCapabilitiesV2 {
                session: OfferSessionCapabilities {
                    prompt: self.served(self.forwarded.prompt.as_deref(), &CONTENT, prompt),
                    mcp: self.served(self.forwarded.mcp.as_deref(), servers, mcp),
                    rest,
                },
            },
            auth_methods: self.auth_methods(),
            meta: &self.meta,
        }
    }

    /// The object is the same in both versions.
    fn info(&self) -> Box<RawValue> {
        let own = || acp::Implementation::new(self.name.clone(), self.version.clone());
        forwarded(self.forwarded.info.as_deref(), own)
    }

    /// The other agent's capabilities of these kinds, unchanged, or our own. Unknown kinds stay only if the offer
    /// forwards them.
    fn served<T: Serialize>(
        &self,
        given: Option<&str>,
        kinds: &[&str],
        own: impl FnOnce() -> T,
    ) -> Box<RawValue> {
        let given = given.and_then(RawObject::parse).map(|mut given| {
            given.retain(|name, _| {
                let is_open = self.forwarded.is_open && !is_known_kind(name);
                name == "_meta" || kinds.contains(&name) || is_open
            });
            given.to_string()
        });
        forwarded(given.as_deref(), own)
    }

    fn auth_methods(&self) -> Box<RawValue> {
        forwarded(self.forwarded.auth_methods.as_deref(), || [(); 0])
    }
}

/// The known kinds of prompt content, except text and links, in both versions.
const CONTENT: [&str; 3] = ["image", "audio", "embeddedContext"];

/// The known transports of MCP servers.
const TRANSPORTS: [&str; 3] = ["stdio", "http", "sse"];

/// Whether acpx knows this content kind or transport, and so decides itself whether it is offered.
pub(super) fn is_known_kind(name: &str) -> bool {
    CONTENT.contains(&name) || TRANSPORTS.contains(&name)
}

/// The other agent's value, or our own.
fn forwarded<T: Serialize>(given: Option<&str>, own: impl FnOnce() -> T) -> Box<RawValue> {
    let given = given.and_then(|json| RawValue::from_string(json.to_owned()).ok());
    given.unwrap_or_else(|| to_raw_value(&own()).expect("what is offered has only text, flags and lists"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(offer: &Offer, version: ProtocolVersion) -> Value {
        serde_json::from_str(&offer.answer(version)).unwrap()
    }

    #[test]
    fn v2_initialize_reply_uses_objects_and_fits_the_schema() {
        let features = [Feature::Delete, Feature::Fork, Feature::Image, Feature::McpHttp, Feature::McpSse];
        let offer = Offer::new("toy", "0.1", features);
        let expected = json!({
            "protocolVersion": 2,
            "info": { "name": "toy", "version": "0.1" },
            "capabilities": { "session": {
                "prompt": { "image": {} },
                "mcp": { "stdio": {}, "http": {} },
                "delete": {},
                "fork": {},
            }},
            "authMethods": [],
        });
        assert_eq!(answer(&offer, ProtocolVersion::V2), expected);
        let read: v2::InitializeResponse = serde_json::from_value(expected).unwrap();
        assert!(read.capabilities.session.unwrap().prompt.unwrap().image.is_some());
    }

    #[test]
    fn proxied_capabilities_are_forwarded_byte_for_byte_if_served() {
        let offer = |version, answer: &str| {
            let features = [Feature::Image, Feature::McpSse, Feature::Logout];
            Offer::new("toy", "0.1", features).on_behalf_of(answer, version).of_known_kinds()
        };
        let old = offer(
            ProtocolVersion::V1,
            r#"{"protocolVersion":1,"agentInfo":{"name":"x","n":1.0e2},"authMethods":[{"id":"a" }],"agentCapabilities":{"promptCapabilities":{"image":false,"audio":true,"_x": 1,"_meta":{"m": 1}},"mcpCapabilities":{"acp":true,"http":true,"_x":{}}}}"#,
        );
        let expected = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":false,"promptCapabilities":{"image":false,"audio":true,"_meta":{"m": 1}},"mcpCapabilities":{"http":true},"sessionCapabilities":{},"auth":{"logout":{}}},"authMethods":[{"id":"a" }],"agentInfo":{"name":"x","n":1.0e2}}"#;
        assert_eq!(old.answer(ProtocolVersion::V1), expected);
        let has = [Feature::Image, Feature::Audio, Feature::McpHttp, Feature::McpSse].map(|f| old.has(f));
        assert_eq!((has, old.has_login()), ([false, true, true, false], true));
        let new = offer(
            ProtocolVersion::V2,
            r#"{"protocolVersion":2,"info":{"name":"x","n":1.0e2},"authMethods":[{"id":"a" }],"capabilities":{"session":{"prompt":{"image":{},"_x":{}},"mcp":{"http":{ },"sse":{},"_x":{}}}}}"#,
        );
        let expected = r#"{"protocolVersion":2,"info":{"name":"x","n":1.0e2},"capabilities":{"session":{"prompt":{"image":{}},"mcp":{"http":{ }}}},"authMethods":[{"id":"a" }]}"#;
        assert_eq!(new.answer(ProtocolVersion::V2), expected);
        let has = [Feature::Image, Feature::Audio, Feature::McpHttp, Feature::McpStdio].map(|f| new.has(f));
        assert_eq!(has, [true, false, true, false]);
        let no_login = offer(ProtocolVersion::V1, r#"{"protocolVersion":1,"authMethods":[]}"#);
        assert!(!no_login.has_login());
    }
}
