//! What an agent offers in its answer to `initialize`. A method that is not offered cannot be called.

use std::collections::BTreeSet;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1 as acp;

use super::setup::Meta;

/// Something an agent may offer beyond what every agent must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// `session/load`.
    Load,
    /// `session/resume`.
    Resume,
    /// `session/close`.
    Close,
    /// `session/list`.
    List,
    /// `session/delete`.
    Delete,
    /// `session/set_mode`; clients learn of it from the modes in a setup answer.
    Modes,
    /// Roots beside the working directory.
    AdditionalDirectories,
    /// MCP servers over HTTP.
    McpHttp,
    /// MCP servers over server-sent events.
    McpSse,
    /// Images in prompts.
    Image,
    /// Audio in prompts.
    Audio,
    /// Embedded resources in prompts.
    EmbeddedContext,
}

impl Feature {
    /// The capability that says it, as the protocol names it.
    pub fn capability(self) -> &'static str {
        match self {
            Self::Load => "loadSession",
            Self::Resume => "sessionCapabilities.resume",
            Self::Close => "sessionCapabilities.close",
            Self::List => "sessionCapabilities.list",
            Self::Delete => "sessionCapabilities.delete",
            Self::Modes => "modes",
            Self::AdditionalDirectories => "sessionCapabilities.additionalDirectories",
            Self::McpHttp => "mcpCapabilities.http",
            Self::McpSse => "mcpCapabilities.sse",
            Self::Image => "promptCapabilities.image",
            Self::Audio => "promptCapabilities.audio",
            Self::EmbeddedContext => "promptCapabilities.embeddedContext",
        }
    }
}

/// Who the agent is and what it offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    name: String,
    version: String,
    features: BTreeSet<Feature>,
    meta: Meta,
}

impl Offer {
    /// An agent that offers these features.
    pub fn new(
        name: impl Into<String>,
        version: impl Into<String>,
        features: impl IntoIterator<Item = Feature>,
    ) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            features: features.into_iter().collect(),
            meta: Meta::new(),
        }
    }

    /// The same offer with more to say in the answer's `_meta`.
    #[must_use]
    pub fn with_meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }

    /// Whether the feature is offered.
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// The answer to `initialize`: version 1, whatever was asked, because it is the latest spoken here.
    pub(super) fn answer(&self) -> acp::InitializeResponse {
        let prompt = acp::PromptCapabilities::new()
            .image(self.has(Feature::Image))
            .audio(self.has(Feature::Audio))
            .embedded_context(self.has(Feature::EmbeddedContext));
        let mcp = acp::McpCapabilities::new().http(self.has(Feature::McpHttp)).sse(self.has(Feature::McpSse));
        let session = acp::SessionCapabilities::new()
            .resume(self.has(Feature::Resume).then(acp::SessionResumeCapabilities::new))
            .close(self.has(Feature::Close).then(acp::SessionCloseCapabilities::new))
            .list(self.has(Feature::List).then(acp::SessionListCapabilities::new))
            .delete(self.has(Feature::Delete).then(acp::SessionDeleteCapabilities::new))
            .additional_directories(
                self.has(Feature::AdditionalDirectories)
                    .then(acp::SessionAdditionalDirectoriesCapabilities::new),
            );
        let capabilities = acp::AgentCapabilities::new()
            .load_session(self.has(Feature::Load))
            .prompt_capabilities(prompt)
            .mcp_capabilities(mcp)
            .session_capabilities(session);
        acp::InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(capabilities)
            .agent_info(acp::Implementation::new(self.name.clone(), self.version.clone()))
            .meta((!self.meta.is_empty()).then(|| self.meta.clone()))
    }
}
