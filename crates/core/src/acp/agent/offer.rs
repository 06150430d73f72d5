//! What an agent offers in its answer to `initialize`. A method that is not offered cannot be called.
//!
//! An agent that speaks for another passes on what that one says of itself, as it says it, as far as it is served here;
//! what may be sent is then read from those values, so that what is told and what is allowed are the same.

use std::collections::BTreeSet;

use serde_json::Value;
use serde_json::value::RawValue;

use self::answer::is_known_kind;

use super::client::TerminalLogin;
use super::setup::Meta;
use crate::acp::capabilities::advertised;
use crate::model::ProtocolVersion;

mod answer;
mod behind;

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
    /// `session/set_mode`; clients learn of it from the modes in a setup answer. In version 2 modes are an option.
    Modes,
    /// `session/set_model`; clients learn of it from the models in a setup answer. In version 2 models are an option.
    Models,
    /// `session/set_config_option`; clients learn of it from the options in a setup answer.
    ConfigOptions,
    /// `session/fork`.
    Fork,
    /// `logout`. In version 2 whoever lets its user log in lets it log out.
    Logout,
    /// Roots beside the working directory.
    AdditionalDirectories,
    /// MCP servers that are programs. In version 1 every agent takes them.
    McpStdio,
    /// MCP servers over HTTP.
    McpHttp,
    /// MCP servers over server-sent events. Version 2 has none.
    McpSse,
    /// Images in prompts.
    Image,
    /// Audio in prompts.
    Audio,
    /// Embedded resources in prompts.
    EmbeddedContext,
}

impl Feature {
    /// The capability that says it, as this version of the protocol names it.
    pub fn capability(self, version: ProtocolVersion) -> &'static str {
        match version {
            ProtocolVersion::V1 => self.capability_v1(),
            ProtocolVersion::V2 => self.capability_v2(),
        }
    }

    fn capability_v1(self) -> &'static str {
        match self {
            Self::Load => "loadSession",
            Self::Resume => "sessionCapabilities.resume",
            Self::Close => "sessionCapabilities.close",
            Self::List => "sessionCapabilities.list",
            Self::Delete => "sessionCapabilities.delete",
            Self::Modes => "modes",
            Self::Models => "models",
            Self::ConfigOptions => "configOptions",
            Self::Fork => "sessionCapabilities.fork",
            Self::Logout => "auth.logout",
            Self::AdditionalDirectories => "sessionCapabilities.additionalDirectories",
            Self::McpStdio => "mcpCapabilities",
            Self::McpHttp => "mcpCapabilities.http",
            Self::McpSse => "mcpCapabilities.sse",
            Self::Image => "promptCapabilities.image",
            Self::Audio => "promptCapabilities.audio",
            Self::EmbeddedContext => "promptCapabilities.embeddedContext",
        }
    }

    fn capability_v2(self) -> &'static str {
        match self {
            Self::Load | Self::Resume | Self::Close | Self::List => "session",
            Self::Delete => "session.delete",
            Self::Modes | Self::Models | Self::ConfigOptions => "configOptions",
            Self::Fork => "session.fork",
            Self::Logout => "authMethods",
            Self::AdditionalDirectories => "session.additionalDirectories",
            Self::McpStdio => "session.mcp.stdio",
            Self::McpHttp => "session.mcp.http",
            Self::McpSse => "session.mcp.sse",
            Self::Image => "session.prompt.image",
            Self::Audio => "session.prompt.audio",
            Self::EmbeddedContext => "session.prompt.embeddedContext",
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
    latest: ProtocolVersion,
    tells_states: bool,
    tells_program_servers: bool,
    passed_on: ForwardedOffer,
}

/// What another agent says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct ForwardedOffer {
    info: Option<Box<str>>,
    prompt: Option<Box<str>>,
    mcp: Option<Box<str>>,
    auth_methods: Option<Box<str>>,
    /// Which logins the client runs in a terminal.
    terminal_login: TerminalLogin,
    /// What the client's user can do where a login is missing.
    login_hint: Option<Box<str>>,
    /// Whether it and the client speak version 2, whose lists of content and of servers are open: what it takes of kinds
    /// that nobody here knows is offered too.
    is_open: bool,
    /// What its answer says beside what we know, by the path it is said at.
    besides: Vec<(Vec<Box<str>>, Box<str>)>,
}

impl Offer {
    /// An agent that speaks version 1 and offers these features, and MCP servers that are programs.
    pub fn new(
        name: impl Into<String>,
        version: impl Into<String>,
        features: impl IntoIterator<Item = Feature>,
    ) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            features: features.into_iter().chain([Feature::McpStdio]).collect(),
            meta: Meta::new(),
            latest: ProtocolVersion::V1,
            tells_states: false,
            tells_program_servers: true,
            passed_on: ForwardedOffer::default(),
        }
    }

    /// The same offer with more to say in the answer's `_meta`.
    #[must_use]
    pub fn with_meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }

    /// The same offer up to this version of the protocol. What is said of a client's version in
    /// [`AgentService::offer`](super::AgentService::offer) comes too late: it is agreed on by then.
    #[must_use]
    pub fn up_to(mut self, latest: ProtocolVersion) -> Self {
        self.latest = latest;
        self
    }

    /// The same offer by a service that queues prompts itself and tells its clients of version 2 what they say
    /// and which state a session is in. Its prompts come one after the other, each as soon as the one before is
    /// [queued](super::TurnLink::queued) or [inserted](super::TurnLink::inserted), and the dispatcher only answers
    /// them.
    #[must_use]
    pub fn tells_states(mut self) -> Self {
        self.tells_states = true;
        self
    }

    /// The same offer by a service that refuses MCP servers that are programs, each with its reason: none are offered to
    /// a client of version 2, and a request that names one reaches the service all the same.
    #[must_use]
    pub fn without_telling_program_servers(mut self) -> Self {
        self.tells_program_servers = false;
        self
    }

    /// The same offer with the name and version of an agent behind this one: the object `agentInfo` (version 1)
    /// or `info` (version 2), as that one gave it.
    #[must_use]
    pub fn with_info(mut self, info: &RawValue) -> Self {
        self.passed_on.info = Some(info.get().into());
        self
    }

    /// The same offer with what an agent behind this one takes in prompts: the object `promptCapabilities`
    /// (version 1) or `capabilities.session.prompt` (version 2).
    #[must_use]
    pub fn with_prompt_capabilities(mut self, capabilities: &RawValue) -> Self {
        self.read(
            capabilities,
            &[
                ("image", Feature::Image),
                ("audio", Feature::Audio),
                ("embeddedContext", Feature::EmbeddedContext),
            ],
        );
        self.passed_on.prompt = Some(capabilities.get().into());
        self
    }

    /// The same offer with the MCP servers that an agent behind this one takes: the object `mcpCapabilities`
    /// (version 1, where programs are always taken) or `capabilities.session.mcp` (version 2).
    #[must_use]
    pub fn with_mcp_capabilities(mut self, capabilities: &RawValue) -> Self {
        self.read(
            capabilities,
            &[("stdio", Feature::McpStdio), ("http", Feature::McpHttp), ("sse", Feature::McpSse)],
        );
        self.passed_on.mcp = Some(capabilities.get().into());
        self
    }

    /// The same offer with ways to log in: the list `authMethods`, as an agent behind this one gave it. One
    /// that is not empty offers `authenticate` (version 1), or `auth/login` and `auth/logout` (version 2).
    #[must_use]
    pub fn with_auth_methods(mut self, methods: &RawValue) -> Self {
        self.passed_on.auth_methods = Some(methods.get().into());
        self
    }

    /// The same offer to a client that runs such logins in a terminal; the agent's other ways in a terminal are left out.
    #[must_use]
    pub fn with_terminal_login(mut self, terminal_login: TerminalLogin) -> Self {
        self.passed_on.terminal_login = terminal_login;
        self
    }

    /// The same offer with what the client's user can do where a login is missing.
    #[must_use]
    pub fn with_login_hint(mut self, hint: Option<&str>) -> Self {
        self.passed_on.login_hint = hint.map(Into::into);
        self
    }

    /// What the client's user can do where a login is missing.
    pub fn login_hint(&self) -> Option<&str> {
        self.passed_on.login_hint.as_deref()
    }

    /// The ways to log in, as they are told: a list of JSON.
    pub fn login_methods(&self) -> Option<&str> {
        self.passed_on.auth_methods.as_deref()
    }

    /// Whether the feature is offered.
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// The same offer without what only the agent behind this one understands.
    #[must_use]
    pub fn of_known_kinds(mut self) -> Self {
        self.passed_on.is_open = false;
        self
    }

    /// Whether content of a kind that is not known here may stand in a prompt.
    pub(super) fn takes_content(&self, kind: &str) -> bool {
        self.takes(self.passed_on.prompt.as_deref(), kind)
    }

    /// Whether MCP servers may be reached in a way that is not known here.
    pub(super) fn takes_servers(&self, kind: &str) -> bool {
        self.takes(self.passed_on.mcp.as_deref(), kind)
    }

    fn takes(&self, capabilities: Option<&str>, kind: &str) -> bool {
        let told = capabilities.filter(|_| self.passed_on.is_open && kind != "_meta" && !is_known_kind(kind));
        let told: Value = told.and_then(|told| serde_json::from_str(told).ok()).unwrap_or_default();
        told.get(kind).is_some_and(advertised)
    }

    /// Whether there is a way to log in.
    pub fn has_login(&self) -> bool {
        let methods = self.passed_on.auth_methods.as_deref();
        let methods = methods.and_then(|methods| serde_json::from_str::<Vec<&RawValue>>(methods).ok());
        methods.is_some_and(|methods| !methods.is_empty())
    }

    /// The latest version of the protocol that is spoken.
    pub fn latest(&self) -> ProtocolVersion {
        self.latest
    }

    /// Whether the service tells states itself.
    pub(super) fn service_tells_states(&self) -> bool {
        self.tells_states
    }

    fn read(&mut self, capabilities: &RawValue, places: &[(&str, Feature)]) {
        let value: Value = serde_json::from_str(capabilities.get()).unwrap_or_default();
        for (name, feature) in places {
            self.features.remove(feature);
            if value.get(name).is_some_and(advertised) {
                self.features.insert(*feature);
            }
        }
    }
}
