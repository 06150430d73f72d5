//! Parses client requests into typed calls. A call that exists has passed every check, so handlers never see a bad one.

use super::error::CallError;
use super::offer::{Feature, Offer};
use super::params::{ParamField, ParamMember, ParamProblem};
use crate::model::{AbsolutePath, AcpSessionId, McpServer, ProtocolVersion};
use crate::wire::RpcId;

mod blocks;
mod servers;

/// Params of `session/new`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCall {
    /// The working directory.
    pub cwd: AbsolutePath,
    /// Additional roots; only if the feature is offered.
    pub additional_directories: Vec<AbsolutePath>,
    /// The MCP servers to connect to; only offered transports.
    pub mcp_servers: Vec<McpServer>,
    /// The request's `_meta` object, as received.
    pub meta: Option<Box<str>>,
    /// Unknown members of the params, as received and without the braces; a service may forward them.
    pub unknown: Option<Box<str>>,
}

/// Params of `session/load` or `session/resume`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreCall {
    /// The session to restore.
    pub session: AcpSessionId,
    /// The working directory.
    pub cwd: AbsolutePath,
    /// Additional roots; only if the feature is offered.
    pub additional_directories: Vec<AbsolutePath>,
    /// The MCP servers to connect to; only offered transports. A version 1 resume may omit them.
    pub mcp_servers: Option<Vec<McpServer>>,
    /// Where a resume starts its replay: an object with a `type`, as received. Only version 2 has it, and the service
    /// interprets it.
    /// Without it nothing is replayed.
    pub replay_from: Option<Box<str>>,
    /// The request's `_meta` object, as received.
    pub meta: Option<Box<str>>,
    /// Unknown members of the params, as received and without the braces; a service may forward them.
    pub unknown: Option<Box<str>>,
}

/// Params of `session/list`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListCall {
    /// Only sessions of this directory.
    pub cwd: Option<AbsolutePath>,
    /// Where the last page ended.
    pub cursor: Option<String>,
    /// The request's `_meta` object, as received.
    pub meta: Option<Box<str>>,
}

/// Params of `session/set_mode`, `session/set_model` or `session/set_config_option`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetCall {
    /// The session.
    pub session: AcpSessionId,
    /// The setting and its requested value.
    pub choice: SetChoice,
    /// The whole params, as received; a service may forward them.
    pub params: Box<str>,
}

/// A setting and its requested value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetChoice {
    /// This mode.
    Mode(String),
    /// This model; version 1 only.
    Model(String),
    /// A config option.
    Option {
        /// Its id.
        id: String,
        /// Its requested value.
        value: OptionValue,
    },
}

/// A requested option value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionValue {
    /// The choice with this id.
    Id(String),
    /// On or off.
    Boolean(bool),
    /// A value of an unknown type; the params contain it.
    Other,
}

/// Params of `authenticate`, or of `auth/login` in version 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginCall {
    /// The id of the login method.
    pub method: String,
    /// Its `_meta` and unknown members.
    pub extras: CallExtras,
}

/// Params of `session/fork`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkCall {
    /// The session to fork.
    pub session: AcpSessionId,
    /// The new session.
    pub new: NewCall,
}

/// The `_meta` and unknown members of a message that has no other typed params than its session or login method.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallExtras {
    /// The protocol version of the message.
    pub version: ProtocolVersion,
    /// Its `_meta` object, as received.
    pub meta: Option<Box<str>>,
    /// Unknown members of the params, as received and without the braces; a service may forward them.
    pub unknown: Option<Box<str>>,
}

/// Params of `session/prompt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptCall {
    /// The session.
    pub session: AcpSessionId,
    /// Its content blocks, each as received; only offered kinds.
    pub blocks: Vec<Box<str>>,
    /// The text of its text blocks, joined with newlines.
    pub text: String,
    /// The request's `_meta` object, as received.
    pub meta: Option<Box<str>>,
    /// Unknown members of the params, as received and without the braces; a service may forward them.
    pub unknown: Option<Box<str>>,
}

/// Params of `tool_call/cancel` or `terminal/cancel`; version 2 only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopCall {
    /// The session in which it runs.
    pub session: AcpSessionId,
    /// The method.
    pub method: &'static str,
    /// The id of the tool call or the terminal.
    pub target: String,
    /// The whole params, as received.
    pub params: Box<str>,
}

/// An extension method of the service; its name begins with an underscore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionCall {
    /// Its name.
    pub method: String,
    /// Its params, as received and unchecked.
    pub params: Option<Box<str>>,
}

/// Restores a session and replays it; version 1 only.
pub(super) const LOAD: &str = "session/load";
/// The members that the protocol defines for session setup requests.
const SETUP_MEMBERS: [&str; 6] =
    ["sessionId", "cwd", "mcpServers", "additionalDirectories", "replayFrom", "_meta"];

/// Any checked request except `initialize`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ClientCall {
    New(NewCall),
    /// A load or resume, by its method.
    Restore(&'static str, RestoreCall),
    Fork(ForkCall),
    List(ListCall),
    Close(AcpSessionId),
    Delete(AcpSessionId, CallExtras),
    Set(SetCall),
    Stop(StopCall),
    Prompt(PromptCall),
    Login(LoginCall),
    Logout(CallExtras),
    Extension(ExtensionCall),
}

/// The offer and the protocol version negotiated with the client.
#[derive(Debug, Clone, Copy)]
pub(super) struct NegotiatedOffer<'a> {
    pub(super) offer: &'a Offer,
    pub(super) version: ProtocolVersion,
}

type CallParser = fn(&ParamField<'_>, NegotiatedOffer<'_>) -> Result<ClientCall, ParamProblem>;

impl SetCall {
    /// The method of the request.
    pub(super) fn method(&self) -> &'static str {
        match self.choice {
            SetChoice::Mode(_) => "session/set_mode",
            SetChoice::Model(_) => "session/set_model",
            SetChoice::Option { .. } => "session/set_config_option",
        }
    }

    /// The error of a service without this setting.
    pub fn unknown_setting(self) -> CallError {
        match self.choice {
            SetChoice::Mode(_) | SetChoice::Model(_) => CallError::UnknownSession(self.session),
            SetChoice::Option { id, .. } => {
                ParamProblem::new("configId", format!("is {id:?}, which this session does not have")).into()
            }
        }
    }
}

impl NegotiatedOffer<'_> {
    fn is_v2(self) -> bool {
        self.version == ProtocolVersion::V2
    }

    /// Describes a value whose feature is not offered.
    fn not_offered(self, given: &str, feature: Feature) -> String {
        format!("{given}, and this agent does not advertise {}", feature.capability(self.version))
    }
}

impl ClientCall {
    /// Parses a request, or returns why these terms do not allow it.
    pub(super) fn read(
        method: &str,
        params: Option<&str>,
        terms: NegotiatedOffer<'_>,
    ) -> Result<Self, CallError> {
        if method.starts_with('_') {
            return Ok(Self::Extension(ExtensionCall {
                method: method.into(),
                params: params.map(Into::into),
            }));
        }
        let read = Self::reader(method, terms).ok_or_else(|| CallError::UnknownMethod(method.into()))?;
        Ok(read(&ParamField::params(params), terms)?)
    }

    fn reader(method: &str, terms: NegotiatedOffer<'_>) -> Option<CallParser> {
        match terms.version {
            ProtocolVersion::V1 => Self::reader_v1(method, terms.offer),
            ProtocolVersion::V2 => Self::reader_v2(method, terms.offer),
        }
    }

    fn reader_v1(method: &str, offer: &Offer) -> Option<CallParser> {
        let (is_offered, read): (bool, CallParser) = match method {
            LOAD => (offer.has(Feature::Load), read_load),
            "session/resume" => (offer.has(Feature::Resume), read_resume),
            "session/list" => (offer.has(Feature::List), read_list),
            "session/close" => (offer.has(Feature::Close), read_close),
            "session/set_mode" => (offer.has(Feature::Modes), read_set_mode),
            "session/set_model" => (offer.has(Feature::Models), read_set_model),
            "session/set_config_option" => (offer.has(Feature::ConfigOptions), read_set_option),
            "authenticate" => (offer.has_login(), read_login),
            "logout" => (offer.has(Feature::Logout), |params, terms| Ok(Self::Logout(logout(params, terms)))),
            _ => return Self::reader_of_both(method, offer),
        };
        is_offered.then_some(read)
    }

    /// Version 2 has no flags for resume, list and close: an agent with sessions always offers them.
    fn reader_v2(method: &str, offer: &Offer) -> Option<CallParser> {
        let has_options = offer.has(Feature::ConfigOptions) || offer.has(Feature::Modes);
        let (is_offered, read): (bool, CallParser) = match method {
            "session/resume" => (true, read_resume),
            "session/list" => (true, read_list),
            "session/close" => (true, read_close),
            "session/set_config_option" => (has_options, read_set_option),
            "tool_call/cancel" => (true, |params, _| stop(params, "tool_call/cancel", "toolCallId")),
            "terminal/cancel" => (true, |params, _| stop(params, "terminal/cancel", "terminalId")),
            "auth/login" => (offer.has_login(), read_login),
            "auth/logout" => (offer.has_login(), |params, terms| Ok(Self::Logout(logout(params, terms)))),
            _ => return Self::reader_of_both(method, offer),
        };
        is_offered.then_some(read)
    }

    fn reader_of_both(method: &str, offer: &Offer) -> Option<CallParser> {
        let (is_offered, read): (bool, CallParser) = match method {
            "session/new" => (true, |params, terms| Ok(Self::New(new(params, terms)?))),
            "session/prompt" => (true, |params, terms| Ok(Self::Prompt(prompt(params, terms)?))),
            "session/delete" => (offer.has(Feature::Delete), read_delete),
            "session/fork" => {
                (offer.has(Feature::Fork), |params, terms| Ok(Self::Fork(fork(params, terms)?)))
            }
            _ => return None,
        };
        is_offered.then_some(read)
    }
}

fn read_resume(params: &ParamField<'_>, terms: NegotiatedOffer<'_>) -> Result<ClientCall, ParamProblem> {
    Ok(ClientCall::Restore("session/resume", resume(params, terms)?))
}

fn read_list(params: &ParamField<'_>, _: NegotiatedOffer<'_>) -> Result<ClientCall, ParamProblem> {
    list(params).map(ClientCall::List)
}

fn read_close(params: &ParamField<'_>, _: NegotiatedOffer<'_>) -> Result<ClientCall, ParamProblem> {
    only_session(params).map(ClientCall::Close)
}

fn read_delete(params: &ParamField<'_>, terms: NegotiatedOffer<'_>) -> Result<ClientCall, ParamProblem> {
    Ok(ClientCall::Delete(only_session(params)?, extras(params, terms.version)?))
}

/// Invalid params do not prevent a logout.
fn logout(params: &ParamField<'_>, terms: NegotiatedOffer<'_>) -> CallExtras {
    extras(params, terms.version).unwrap_or_default()
}

fn extras(params: &ParamField<'_>, version: ProtocolVersion) -> Result<CallExtras, ParamProblem> {
    let [meta] = params.members(["_meta"])?;
    Ok(CallExtras { version, meta: meta.object(), unknown: params.others(&["sessionId", "_meta"]) })
}

fn read_login(params: &ParamField<'_>, terms: NegotiatedOffer<'_>) -> Result<ClientCall, ParamProblem> {
    let [method, meta] = params.members(["methodId", "_meta"])?;
    let unknown = params.others(&["methodId", "_meta"]);
    let extras = CallExtras { version: terms.version, meta: meta.object(), unknown };
    Ok(ClientCall::Login(LoginCall { method: method.required()?.string()?, extras }))
}

fn stop(
    params: &ParamField<'_>,
    method: &'static str,
    name: &'static str,
) -> Result<ClientCall, ParamProblem> {
    let [session, target] = params.members(["sessionId", name])?;
    let (session, target) = (session_id(&session)?, target.required()?.string()?);
    Ok(ClientCall::Stop(StopCall { session, method, target, params: params.json().into() }))
}

/// The session that `session/cancel` names, with its `_meta` and unknown members.
pub(super) fn cancelled_session(
    params: Option<&str>,
    version: ProtocolVersion,
) -> Result<(AcpSessionId, CallExtras), ParamProblem> {
    let params = ParamField::params(params);
    Ok((only_session(&params)?, extras(&params, version)?))
}

/// The request that `$/cancel_request` names; `None` if the notification is invalid.
pub(super) fn withdrawn_request(params: Option<&str>) -> Option<RpcId> {
    let params = ParamField::params(params);
    let [request] = params.members(["requestId"]).ok()?;
    RpcId::from_raw(request.required().ok()?.json())
}

/// Version 1 requires the list of servers, even if it is empty.
fn new(params: &ParamField<'_>, terms: NegotiatedOffer<'_>) -> Result<NewCall, ParamProblem> {
    let [cwd, servers, directories, meta] =
        params.members(["cwd", "mcpServers", "additionalDirectories", "_meta"])?;
    let cwd = cwd.required()?.absolute_path()?;
    if !terms.is_v2() {
        servers.required()?.array()?;
    }
    Ok(NewCall {
        cwd,
        mcp_servers: servers::list(&servers, terms)?.unwrap_or_default(),
        additional_directories: servers::additional_directories(&directories, terms)?,
        meta: meta.object(),
        unknown: params.others(&SETUP_MEMBERS),
    })
}

/// Unlike `session/resume`, a load requires the list of servers.
fn read_load(params: &ParamField<'_>, terms: NegotiatedOffer<'_>) -> Result<ClientCall, ParamProblem> {
    let [servers] = params.members(["mcpServers"])?;
    servers.required()?.array()?;
    Ok(ClientCall::Restore(LOAD, resume(params, terms)?))
}

/// In version 2 a missing list of servers is an empty one.
fn resume(params: &ParamField<'_>, terms: NegotiatedOffer<'_>) -> Result<RestoreCall, ParamProblem> {
    let [session, cwd, servers, directories, meta] =
        params.members(["sessionId", "cwd", "mcpServers", "additionalDirectories", "_meta"])?;
    Ok(RestoreCall {
        session: session_id(&session)?,
        cwd: cwd.required()?.absolute_path()?,
        additional_directories: servers::additional_directories(&directories, terms)?,
        mcp_servers: servers::list(&servers, terms)?.or_else(|| terms.is_v2().then(Vec::new)),
        replay_from: if terms.is_v2() { replay_from(params)? } else { None },
        meta: meta.object(),
        unknown: params.others(&SETUP_MEMBERS),
    })
}

fn replay_from(params: &ParamField<'_>) -> Result<Option<Box<str>>, ParamProblem> {
    let [cursor] = params.members(["replayFrom"])?;
    optional(&cursor, |cursor| {
        let [kind] = cursor.members(["type"])?;
        kind.required()?.string()?;
        Ok(cursor.json().into())
    })
}

fn fork(params: &ParamField<'_>, terms: NegotiatedOffer<'_>) -> Result<ForkCall, ParamProblem> {
    let resumed = resume(params, terms)?;
    let RestoreCall { session, cwd, additional_directories, mcp_servers, meta, unknown, .. } = resumed;
    let mcp_servers = mcp_servers.unwrap_or_default();
    Ok(ForkCall { session, new: NewCall { cwd, additional_directories, mcp_servers, meta, unknown } })
}

fn list(params: &ParamField<'_>) -> Result<ListCall, ParamProblem> {
    let [cwd, cursor, meta] = params.members(["cwd", "cursor", "_meta"])?;
    let cwd = optional(&cwd, ParamField::absolute_path)?;
    Ok(ListCall { cwd, cursor: optional(&cursor, ParamField::string)?, meta: meta.object() })
}

fn read_set_mode(params: &ParamField<'_>, _: NegotiatedOffer<'_>) -> Result<ClientCall, ParamProblem> {
    let [session, mode] = params.members(["sessionId", "modeId"])?;
    let session = session_id(&session)?;
    Ok(set_call(params, session, SetChoice::Mode(mode.required()?.string()?)))
}

fn read_set_model(params: &ParamField<'_>, _: NegotiatedOffer<'_>) -> Result<ClientCall, ParamProblem> {
    let [session, model] = params.members(["sessionId", "modelId"])?;
    let session = session_id(&session)?;
    Ok(set_call(params, session, SetChoice::Model(model.required()?.string()?)))
}

/// In version 1 a value without a type is the id of a choice.
fn read_set_option(params: &ParamField<'_>, terms: NegotiatedOffer<'_>) -> Result<ClientCall, ParamProblem> {
    let [session, option, kind, value] = params.members(["sessionId", "configId", "type", "value"])?;
    let session = session_id(&session)?;
    let id = option.required()?.string()?;
    let kind = if terms.is_v2() { Some(kind.required()?) } else { kind.optional() };
    let kind = kind.map(|kind| kind.string()).transpose()?;
    let value = value.required()?;
    let value = match kind.as_deref() {
        None | Some("id") => OptionValue::Id(value.string()?),
        Some("boolean") => OptionValue::Boolean(value.boolean()?),
        Some(_) => OptionValue::Other,
    };
    Ok(set_call(params, session, SetChoice::Option { id, value }))
}

fn set_call(params: &ParamField<'_>, session: AcpSessionId, choice: SetChoice) -> ClientCall {
    ClientCall::Set(SetCall { session, choice, params: params.json().into() })
}

/// Version 2 requires at least one content block.
fn prompt(params: &ParamField<'_>, terms: NegotiatedOffer<'_>) -> Result<PromptCall, ParamProblem> {
    let [session, prompt, meta] = params.members(["sessionId", "prompt", "_meta"])?;
    let session = session_id(&session)?;
    let prompt = prompt.required()?;
    let mut texts = Vec::new();
    let blocks = prompt.items(|block| {
        texts.extend(blocks::text(&block, terms)?);
        Ok(block.json().into())
    })?;
    if terms.is_v2() && blocks.is_empty() {
        return Err(prompt.problem("must not be empty"));
    }
    let unknown = params.others(&["sessionId", "prompt", "_meta"]);
    Ok(PromptCall { session, blocks, text: texts.join("\n"), meta: meta.object(), unknown })
}

fn only_session(params: &ParamField<'_>) -> Result<AcpSessionId, ParamProblem> {
    let [session] = params.members(["sessionId"])?;
    session_id(&session)
}

fn session_id(member: &ParamMember<'_>) -> Result<AcpSessionId, ParamProblem> {
    let field = member.required()?;
    AcpSessionId::new(field.string()?).map_err(|_| field.problem("must not be empty"))
}

fn optional<'a, T>(
    member: &ParamMember<'a>,
    read: impl FnOnce(&ParamField<'a>) -> Result<T, ParamProblem>,
) -> Result<Option<T>, ParamProblem> {
    member.optional().map(|field| read(&field)).transpose()
}

#[cfg(test)]
mod tests;
