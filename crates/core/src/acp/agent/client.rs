//! Who the client is, as it said in `initialize`, and which version of the protocol is spoken with it.
//!
//! Only the version decides how the rest is read. Capabilities are read as an agent's are: an object or `true`
//! is one, anything else is none, and whatever cannot be read is never a reason to refuse.

use serde_json::Value;

use super::error::CallError;
use super::params::{ParamField, ParamMember, ParamProblem};
use crate::acp::ExtraParams;
use crate::acp::capabilities::advertised;
use crate::model::ProtocolVersion;

/// Where a client's capabilities say that it wants `data.acpx` in errors.
const ERROR_DATA: &str = "/_meta/acpx/errorData";
/// The capabilities that acpx answers for itself, towards an agent.
const OURS: [&str; 6] = ["fs", "terminal", "session", "auth", "elicitation", "_meta"];
/// How long capabilities may be that are passed on.
const MAX_PASSED: usize = 64 << 10;

/// What a client said of itself.
#[expect(clippy::struct_excessive_bools, reason = "one flag for each capability of the protocol")]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientFacts {
    /// The version of the protocol that is spoken with it.
    pub protocol: ProtocolVersion,
    /// Its name, if it said one.
    pub name: Option<String>,
    /// Its version, if it said one.
    pub version: Option<String>,
    /// It shows notices. In version 2 every client does.
    pub notices: bool,
    /// It shows that a conversation was compacted. In version 2 every client does.
    pub compaction: bool,
    /// It shows options that are on or off. In version 2 every client does.
    pub boolean_options: bool,
    /// How it lets its user be asked for more than a permission.
    pub elicitation: Elicitation,
    /// What it does to files for an agent.
    pub fs: FileAccess,
    /// It runs commands for an agent.
    pub terminal: bool,
    /// Which logins it runs in a terminal.
    pub terminal_login: TerminalLogin,
    /// It wants all that is known of an error, in `data.acpx`.
    pub error_data: bool,
    /// It shows terminals of an agent's own, whose output comes in `_meta` of tool calls.
    pub terminal_output: bool,
    /// It shows the sessions of sub-agents. In version 2 every client does.
    pub subagents: bool,
    /// What its capabilities say that only an agent understands: their `_meta`, and those that are not known here.
    pub capabilities: Option<ExtraParams>,
    /// The `_meta` object of its `initialize`, as received.
    pub meta: Option<Box<str>>,
    /// The ways to log in that it was offered, a list of JSON.
    pub logins: Option<Box<str>>,
    /// What its user can do where a login is missing.
    pub login_hint: Option<Box<str>>,
}

/// Which logins a client runs in a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TerminalLogin {
    /// None.
    #[default]
    No,
    /// Those that tell their whole command in `_meta["terminal-auth"]`, as Zed did before the protocol had them.
    WholeCommand,
    /// All: it runs the agent's command with the arguments of the login.
    Any,
}

/// How a client lets its user be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Elicitation {
    /// By a form.
    pub form: bool,
    /// By sending the user to an address.
    pub url: bool,
}

/// What a client does to files for an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileAccess {
    /// It reads them.
    pub read: bool,
    /// It writes them.
    pub write: bool,
}

/// The version to speak with a client that asks for this one, if `latest` is the latest we offer.
pub(super) fn negotiate(asked: u16, latest: ProtocolVersion) -> Result<ProtocolVersion, CallError> {
    let spoken = asked.min(latest.number());
    match ProtocolVersion::from_number(spoken) {
        Some(version) => Ok(version),
        // Whoever speaks version 1 alone answers with that, whatever it was asked for.
        None if latest == ProtocolVersion::V1 => Ok(latest),
        None => Err(CallError::UnsupportedVersion { requested: asked, latest }),
    }
}

impl ClientFacts {
    /// Reads the params of `initialize`. Only the version must be there, and in version 2 the client's name;
    /// one that asks for more than we offer may have put it elsewhere, and goes unnamed.
    pub(super) fn read(params: Option<&str>, latest: ProtocolVersion) -> Result<Self, CallError> {
        let params = ParamField::params(params);
        let [version, meta] = params.members(["protocolVersion", "_meta"])?;
        let asked = version.required()?.version()?;
        let protocol = negotiate(asked, latest)?;
        let facts = Self { protocol, meta: meta.object(), ..Self::default() };
        match protocol {
            ProtocolVersion::V1 => Ok(facts.read_v1(&params)?),
            ProtocolVersion::V2 => {
                let is_exact = asked == protocol.number();
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

/// A member's value; null if there is none that can be read.
fn value(member: &ParamMember<'_>) -> Value {
    member.optional().and_then(|field| serde_json::from_str(field.json()).ok()).unwrap_or_default()
}

/// What an agent is told of a client's capabilities: all but those that acpx answers for itself.
fn passed(capabilities: &ParamMember<'_>, version: ProtocolVersion) -> Option<ExtraParams> {
    let field = capabilities.optional().filter(|field| field.json().len() <= MAX_PASSED)?;
    // What cannot be read here may not be readable to the agent either.
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
