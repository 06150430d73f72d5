//! The capabilities that acpx advertises in its reply to `initialize`. Methods that are not offered cannot be called.
//!
//! An agent that fronts another one forwards that agent's own capabilities, unchanged, as far as they are served here.
//! Allowed requests are derived from the same values, so the advertised and the accepted features agree.

use std::collections::BTreeSet;

use serde_json::Value;
use serde_json::value::RawValue;

use self::answer::is_known_kind;

use super::client::TerminalLogin;
use super::setup::Meta;
use crate::acp::capabilities::advertised;
use crate::model::ProtocolVersion;

mod answer;
mod proxied;

/// An optional feature of an agent.
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
    /// `session/set_mode`; clients learn of it from the modes in a setup reply. In version 2 modes are an option.
    Modes,
    /// `session/set_model`; clients learn of it from the models in a setup reply. In version 2 models are an option.
    Models,
    /// `session/set_config_option`; clients learn of it from the options in a setup reply.
    ConfigOptions,
    /// `session/fork`.
    Fork,
    /// `logout`. In version 2 every agent with a login has it.
    Logout,
    /// Roots in addition to the working directory.
    AdditionalDirectories,
    /// MCP servers over stdio. In version 1 every agent accepts them.
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
    /// The name of its capability in this protocol version.
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

/// The agent's name, version and features.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    name: String,
    version: String,
    features: BTreeSet<Feature>,
    meta: Meta,
    latest: ProtocolVersion,
    sends_states: bool,
    tells_program_servers: bool,
    forwarded: ForwardedOffer,
}

/// The capabilities of another agent that this one fronts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct ForwardedOffer {
    info: Option<Box<str>>,
    prompt: Option<Box<str>>,
    mcp: Option<Box<str>>,
    auth_methods: Option<Box<str>>,
    /// Which logins the client can run in a terminal.
    terminal_login: TerminalLogin,
    /// Hint for the client's user if a login is missing.
    login_hint: Option<Box<str>>,
    /// Whether both the agent and the client use version 2, whose lists of content and server kinds are open. Then
    /// kinds unknown to acpx are offered too.
    is_open: bool,
    /// The objects of its reply that have unknown members, with these alone, each with its path.
    unknown_members: Vec<(&'static [&'static str], Box<str>)>,
}

impl Offer {
    /// An agent that speaks version 1 and offers these features and MCP servers over stdio.
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
            sends_states: false,
            tells_program_servers: true,
            forwarded: ForwardedOffer::default(),
        }
    }

    /// Sets the `_meta` of the reply.
    #[must_use]
    pub(crate) fn with_meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }

    /// Sets the latest protocol version. A version set in [`AgentService::offer`](super::AgentService::offer) has no
    /// effect: the version is negotiated before that.
    #[must_use]
    pub fn up_to(mut self, latest: ProtocolVersion) -> Self {
        self.latest = latest;
        self
    }

    /// Marks a service that queues prompts itself and sends user messages and session states to version 2 clients. The
    /// dispatcher only replies to its prompts. It delivers the next prompt as soon as the previous one is
    /// [queued](super::TurnLink::queued) or [inserted](super::TurnLink::inserted).
    #[must_use]
    pub(crate) fn sends_states(mut self) -> Self {
        self.sends_states = true;
        self
    }

    /// Marks a service that refuses every MCP server over stdio with a reason. They are not advertised to a version 2
    /// client, but a request that names one still reaches the service.
    #[must_use]
    pub(crate) fn without_advertised_stdio(mut self) -> Self {
        self.tells_program_servers = false;
        self
    }

    /// Sets which terminal logins the client can run; the agent's other terminal logins are left out.
    #[must_use]
    pub(crate) fn with_terminal_login(mut self, terminal_login: TerminalLogin) -> Self {
        self.forwarded.terminal_login = terminal_login;
        self
    }

    /// Sets the hint for the client's user if a login is missing.
    #[must_use]
    pub(crate) fn with_login_hint(mut self, hint: Option<&str>) -> Self {
        self.forwarded.login_hint = hint.map(Into::into);
        self
    }

    /// The hint for the client's user if a login is missing.
    pub(crate) fn login_hint(&self) -> Option<&str> {
        self.forwarded.login_hint.as_deref()
    }

    /// The advertised login methods, as a JSON list.
    pub(crate) fn login_methods(&self) -> Option<&str> {
        self.forwarded.auth_methods.as_deref()
    }

    /// Whether the feature is offered.
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// The same offer without kinds that only the agent behind this one knows.
    #[must_use]
    pub(crate) fn of_known_kinds(mut self) -> Self {
        self.forwarded.is_open = false;
        self
    }

    /// Whether a prompt may contain content of this kind, which acpx does not know.
    pub(super) fn takes_content(&self, kind: &str) -> bool {
        self.takes(self.forwarded.prompt.as_deref(), kind)
    }

    /// Whether MCP servers may use this transport, which acpx does not know.
    pub(super) fn takes_servers(&self, kind: &str) -> bool {
        self.takes(self.forwarded.mcp.as_deref(), kind)
    }

    fn takes(&self, capabilities: Option<&str>, kind: &str) -> bool {
        let advertised_json =
            capabilities.filter(|_| self.forwarded.is_open && kind != "_meta" && !is_known_kind(kind));
        let advertised_json: Value = advertised_json
            .and_then(|advertised_json| serde_json::from_str(advertised_json).ok())
            .unwrap_or_default();
        advertised_json.get(kind).is_some_and(advertised)
    }

    /// Whether there is a login method.
    pub(crate) fn has_login(&self) -> bool {
        let methods = self.forwarded.auth_methods.as_deref();
        let methods = methods.and_then(|methods| serde_json::from_str::<Vec<&RawValue>>(methods).ok());
        methods.is_some_and(|methods| !methods.is_empty())
    }

    /// The latest supported protocol version.
    pub(crate) fn latest(&self) -> ProtocolVersion {
        self.latest
    }

    /// Whether the service sends states itself.
    pub(super) fn service_sends_states(&self) -> bool {
        self.sends_states
    }
}
