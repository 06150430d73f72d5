//! Parses a client's `initialize` request and negotiates the protocol version.
//!
//! The negotiated version alone decides how the other members are read. A capability is advertised by an object or by
//! `true`. Unreadable capabilities count as absent and never cause a refusal.

use serde_json::Value;

use super::error::CallError;
use super::params::{ParamField, ParamMember, ParamProblem};
use crate::acp::ExtraParams;
use crate::acp::capabilities::advertised;
use crate::model::ProtocolVersion;

/// Pointer, inside a client's capabilities, to its request for `data.acpx` in errors.
const ERROR_DATA: &str = "/_meta/acpx/errorData";
/// The capabilities that acpx answers for itself and does not forward to an agent.
const OURS: [&str; 6] = ["fs", "terminal", "session", "auth", "elicitation", "_meta"];
/// Maximum size of forwarded capabilities, in bytes.
const MAX_PASSED: usize = 64 << 10;

/// What a client reported in `initialize`.
#[expect(clippy::struct_excessive_bools, reason = "one flag for each capability of the protocol")]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientFacts {
    /// The negotiated protocol version.
    pub protocol: ProtocolVersion,
    /// Its name, if given.
    pub name: Option<String>,
    /// Its version, if given.
    pub version: Option<String>,
    /// It renders notices. Every version 2 client does.
    pub notices: bool,
    /// It renders compactions of the conversation. Every version 2 client does.
    pub compaction: bool,
    /// It renders boolean options. Every version 2 client does.
    pub boolean_options: bool,
    /// The kinds of elicitation it supports.
    pub elicitation: Elicitation,
    /// The file operations it performs for an agent.
    pub fs: FileAccess,
    /// It runs commands for an agent.
    pub terminal: bool,
    /// The terminal logins it can run.
    pub terminal_login: TerminalLogin,
    /// It wants the full `data.acpx` in errors.
    pub error_data: bool,
    /// It renders the agent's own terminals, whose output arrives in `_meta` of tool calls.
    pub terminal_output: bool,
    /// It renders sessions of sub-agents. Every version 2 client does.
    pub subagents: bool,
    /// The capabilities to forward to the agent: their `_meta` and the unknown ones.
    pub capabilities: Option<ExtraParams>,
    /// The `_meta` object of its `initialize`, as received.
    pub meta: Option<Box<str>>,
    /// The login methods offered to it, as a JSON list.
    pub logins: Option<Box<str>>,
    /// Hint for its user if a login is missing.
    pub login_hint: Option<Box<str>>,
}

/// Which logins a client can run in a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TerminalLogin {
    /// None.
    #[default]
    No,
    /// Logins with a whole command in `_meta["terminal-auth"]`, which Zed used before the protocol had terminal logins.
    WholeCommand,
    /// All: it runs the agent's command with the arguments of the login.
    Any,
}

/// The kinds of elicitation a client supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Elicitation {
    /// Forms.
    pub form: bool,
    /// URLs that the user opens.
    pub url: bool,
}

/// The file operations a client performs for an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileAccess {
    /// It reads them.
    pub read: bool,
    /// It writes them.
    pub write: bool,
}

/// The version to use with a client that requests `requested`, if `latest` is the latest we offer.
pub(super) fn negotiate(requested: u16, latest: ProtocolVersion) -> Result<ProtocolVersion, CallError> {
    let negotiated = requested.min(latest.number());
    match ProtocolVersion::from_number(negotiated) {
        Some(version) => Ok(version),
        // An agent that supports only version 1 replies with version 1 to any request.
        None if latest == ProtocolVersion::V1 => Ok(latest),
        None => Err(CallError::UnsupportedVersion { requested, latest }),
    }
}

impl ClientFacts {
    /// Parses the params of `initialize`. Only the version is required, and in version 2 the client's name and version.
    /// A client that requests a newer version may have renamed those, so it may omit them.
    pub(super) fn read(params: Option<&str>, latest: ProtocolVersion) -> Result<Self, CallError> {
        let params = ParamField::params(params);
        let [version, meta] = params.members(["protocolVersion", "_meta"])?;
        let requested = version.required()?.version()?;
        let protocol = negotiate(requested, latest)?;
        let facts = Self { protocol, meta: meta.object(), ..Self::default() };
        match protocol {
            ProtocolVersion::V1 => Ok(facts.read_v1(&params)?),
            ProtocolVersion::V2 => {
                let is_exact = requested == protocol.number();
                Ok(facts.read_v2(&params, is_exact)?)
            }
        }
    }

    fn read_v1(self, params: &ParamField<'_>) -> Result<Self, ParamProblem> {
        let [info, capabilities] = params.members(["clientInfo", "clientCapabilities"])?;
        let passed = passed(&capabilities, ProtocolVersion::V1);
        let capabilities = value(&capabilities);
        let at = |path: &str| capabilities.pointer(path).is_some_and(advertised);
        Ok(Self {
            notices: at("/session/notices"),
            compaction: at("/session/compaction"),
            boolean_options: at("/session/configOptions/boolean"),
            fs: FileAccess { read: at("/fs/readTextFile"), write: at("/fs/writeTextFile") },
            terminal: at("/terminal"),
            error_data: at(ERROR_DATA),
            terminal_output: at("/_meta/terminal_output") || at("/_meta/terminal_output_delta"),
            subagents: at("/subagents"),
            capabilities: passed,
            terminal_login: terminal_login(&capabilities),
            elicitation: elicitation(&capabilities),
            ..self.named(&value(&info))
        })
    }

    fn read_v2(self, params: &ParamField<'_>, is_exact: bool) -> Result<Self, ParamProblem> {
        let [info, capabilities] = params.members(["info", "capabilities"])?;
        if is_exact {
            let info = info.required()?;
            let [name, version] = info.members(["name", "version"])?;
            name.required()?.string()?;
            version.required()?.string()?;
        }
        let values = value(&capabilities);
        let shows_all = Self {
            notices: true,
            compaction: true,
            boolean_options: true,
            subagents: true,
            elicitation: elicitation(&values),
            error_data: values.pointer(ERROR_DATA).is_some_and(advertised),
            capabilities: passed(&capabilities, ProtocolVersion::V2),
            terminal_login: terminal_login(&values),
            ..self
        };
        Ok(shows_all.named(&value(&info)))
    }

    fn named(self, info: &Value) -> Self {
        let text = |name: &str| info[name].as_str().map(str::to_owned);
        Self { name: text("name"), version: text("version"), ..self }
    }
}

/// A member's value; null if it is missing or unreadable.
fn value(member: &ParamMember<'_>) -> Value {
    member.optional().and_then(|field| serde_json::from_str(field.json()).ok()).unwrap_or_default()
}

/// The capabilities to forward to an agent: all except those that acpx answers for itself.
fn passed(capabilities: &ParamMember<'_>, version: ProtocolVersion) -> Option<ExtraParams> {
    let field = capabilities.optional().filter(|field| field.json().len() <= MAX_PASSED)?;
    // The agent may not be able to read what is unreadable here.
    if !value(capabilities).is_object() {
        return None;
    }
    let [meta] = field.members(["_meta"]).ok()?;
    ExtraParams::of(version, meta.object().as_deref(), field.others(&OURS).as_deref())
}

fn terminal_login(capabilities: &Value) -> TerminalLogin {
    let at = |path: &str| capabilities.pointer(path).is_some_and(advertised);
    match (at("/auth/terminal"), at("/_meta/terminal-auth")) {
        (true, _) => TerminalLogin::Any,
        (false, true) => TerminalLogin::WholeCommand,
        (false, false) => TerminalLogin::No,
    }
}

fn elicitation(capabilities: &Value) -> Elicitation {
    let at = |path: &str| capabilities.pointer(path).is_some_and(advertised);
    Elicitation { form: at("/elicitation/form"), url: at("/elicitation/url") }
}

#[cfg(test)]
mod tests;
