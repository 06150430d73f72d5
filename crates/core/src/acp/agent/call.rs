//! Requests as typed calls. A call that exists has passed every check; a handler never sees a bad one.

use super::error::CallError;
use super::offer::{Feature, Offer};
use super::params::{Field, Member, ParamProblem};
use crate::model::{AbsolutePath, AcpSessionId, McpServer, McpTransport, NamedValue};
use crate::wire::RpcId;

/// `session/new`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCall {
    /// Where the session works.
    pub cwd: AbsolutePath,
    /// Further roots; only where offered.
    pub additional_directories: Vec<AbsolutePath>,
    /// The servers to connect to; only transports that are offered.
    pub mcp_servers: Vec<McpServer>,
    /// The request's `_meta` object, as received.
    pub meta: Option<Box<str>>,
}

/// `session/load` or `session/resume`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreCall {
    /// The session to bring back.
    pub session: AcpSessionId,
    /// Where the session works.
    pub cwd: AbsolutePath,
    /// Further roots; only where offered.
    pub additional_directories: Vec<AbsolutePath>,
    /// The servers to connect to; only transports that are offered. A resume need not say.
    pub mcp_servers: Option<Vec<McpServer>>,
    /// The request's `_meta` object, as received.
    pub meta: Option<Box<str>>,
}

/// `session/list`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListCall {
    /// Only sessions of this directory.
    pub cwd: Option<AbsolutePath>,
    /// Where the last page ended.
    pub cursor: Option<String>,
    /// The request's `_meta` object, as received.
    pub meta: Option<Box<str>>,
}

/// `session/set_mode`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetModeCall {
    /// Whose mode.
    pub session: AcpSessionId,
    /// The mode wanted.
    pub mode: String,
    /// The request's `_meta` object, as received.
    pub meta: Option<Box<str>>,
}

/// `session/prompt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptCall {
    /// The session it goes to.
    pub session: AcpSessionId,
    /// Its content blocks, each as received; only kinds that are offered.
    pub blocks: Vec<Box<str>>,
    /// The text of its text blocks, one after another, a line each.
    pub text: String,
    /// The request's `_meta` object, as received.
    pub meta: Option<Box<str>>,
}

/// A method of the service's own: its name begins with an underscore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionCall {
    /// Its name.
    pub method: String,
    /// Its params, as received. Nobody has checked them.
    pub params: Option<Box<str>>,
}

/// Any request but `initialize`, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call {
    New(NewCall),
    Load(RestoreCall),
    Resume(RestoreCall),
    List(ListCall),
    Close(AcpSessionId),
    Delete(AcpSessionId),
    SetMode(SetModeCall),
    Prompt(PromptCall),
    Extension(ExtensionCall),
}

impl Call {
    /// Reads a request, or says why it cannot be one of an agent with this offer.
    pub(super) fn read(method: &str, params: Option<&str>, offer: &Offer) -> Result<Self, CallError> {
        if method.starts_with('_') {
            return Ok(Self::Extension(ExtensionCall {
                method: method.into(),
                params: params.map(Into::into),
            }));
        }
        let read = Self::reader(method, offer).ok_or_else(|| CallError::UnknownMethod(method.into()))?;
        Ok(read(&Field::params(params), offer)?)
    }

    fn reader(method: &str, offer: &Offer) -> Option<Reader> {
        let (feature, read): (Option<Feature>, Reader) = match method {
            "session/new" => (None, |params, offer| Ok(Self::New(new(params, offer)?))),
            "session/prompt" => (None, |params, offer| Ok(Self::Prompt(prompt(params, offer)?))),
            "session/load" => (Some(Feature::Load), |params, offer| Ok(Self::Load(load(params, offer)?))),
            "session/resume" => {
                (Some(Feature::Resume), |params, offer| Ok(Self::Resume(resume(params, offer)?)))
            }
            "session/list" => (Some(Feature::List), |params, _| Ok(Self::List(list(params)?))),
            "session/close" => (Some(Feature::Close), |params, _| Ok(Self::Close(only_session(params)?))),
            "session/delete" => (Some(Feature::Delete), |params, _| Ok(Self::Delete(only_session(params)?))),
            "session/set_mode" => (Some(Feature::Modes), |params, _| Ok(Self::SetMode(set_mode(params)?))),
            _ => return None,
        };
        feature.is_none_or(|feature| offer.has(feature)).then_some(read)
    }
}

type Reader = fn(&Field<'_>, &Offer) -> Result<Call, ParamProblem>;

/// Checks the params of `initialize`. Only the version must be there; the rest is tolerated in any shape.
pub(super) fn check_initialize(params: Option<&str>) -> Result<(), ParamProblem> {
    let params = Field::params(params);
    let [version] = params.members(["protocolVersion"])?;
    version.required()?.version().map(drop)
}

/// The session that `session/cancel` names.
pub(super) fn cancelled_session(params: Option<&str>) -> Result<AcpSessionId, ParamProblem> {
    only_session(&Field::params(params))
}

/// The request that `$/cancel_request` names. A notification that cannot be read tells nothing.
pub(super) fn withdrawn_request(params: Option<&str>) -> Option<RpcId> {
    let params = Field::params(params);
    let [request] = params.members(["requestId"]).ok()?;
    RpcId::from_raw(request.required().ok()?.json())
}

fn new(params: &Field<'_>, offer: &Offer) -> Result<NewCall, ParamProblem> {
    let [cwd, servers, directories, meta] =
        params.members(["cwd", "mcpServers", "additionalDirectories", "_meta"])?;
    let cwd = cwd.required()?.absolute_path()?;
    let mcp_servers = mcp_servers(&servers.required()?, offer)?;
    let additional_directories = additional_directories(&directories, offer)?;
    Ok(NewCall { cwd, additional_directories, mcp_servers, meta: meta.object() })
}

/// Unlike `session/resume`, a load must say which servers there are.
fn load(params: &Field<'_>, offer: &Offer) -> Result<RestoreCall, ParamProblem> {
    let [servers] = params.members(["mcpServers"])?;
    servers.required()?;
    resume(params, offer)
}

fn resume(params: &Field<'_>, offer: &Offer) -> Result<RestoreCall, ParamProblem> {
    let [session, cwd, servers, directories, meta] =
        params.members(["sessionId", "cwd", "mcpServers", "additionalDirectories", "_meta"])?;
    Ok(RestoreCall {
        session: session_id(&session)?,
        cwd: cwd.required()?.absolute_path()?,
        additional_directories: additional_directories(&directories, offer)?,
        mcp_servers: optional(&servers, |servers| mcp_servers(servers, offer))?,
        meta: meta.object(),
    })
}

fn list(params: &Field<'_>) -> Result<ListCall, ParamProblem> {
    let [cwd, cursor, meta] = params.members(["cwd", "cursor", "_meta"])?;
    let cwd = optional(&cwd, Field::absolute_path)?;
    Ok(ListCall { cwd, cursor: optional(&cursor, Field::string)?, meta: meta.object() })
}

fn set_mode(params: &Field<'_>) -> Result<SetModeCall, ParamProblem> {
    let [session, mode, meta] = params.members(["sessionId", "modeId", "_meta"])?;
    let session = session_id(&session)?;
    Ok(SetModeCall { session, mode: mode.required()?.string()?, meta: meta.object() })
}

fn prompt(params: &Field<'_>, offer: &Offer) -> Result<PromptCall, ParamProblem> {
    let [session, prompt, meta] = params.members(["sessionId", "prompt", "_meta"])?;
    let session = session_id(&session)?;
    let mut texts = Vec::new();
    let blocks = prompt.required()?.items(|block| {
        texts.extend(block_text(&block, offer)?);
        Ok(block.json().into())
    })?;
    Ok(PromptCall { session, blocks, text: texts.join("\n"), meta: meta.object() })
}

fn only_session(params: &Field<'_>) -> Result<AcpSessionId, ParamProblem> {
    let [session] = params.members(["sessionId"])?;
    session_id(&session)
}

fn session_id(member: &Member<'_>) -> Result<AcpSessionId, ParamProblem> {
    let field = member.required()?;
    AcpSessionId::new(field.string()?).map_err(|_| field.problem("must not be empty"))
}

fn optional<'a, T>(
    member: &Member<'a>,
    read: impl FnOnce(&Field<'a>) -> Result<T, ParamProblem>,
) -> Result<Option<T>, ParamProblem> {
    member.optional().map(|field| read(&field)).transpose()
}

/// Extra roots that were not offered are refused: dropping them would silently narrow what the user chose.
fn additional_directories(member: &Member<'_>, offer: &Offer) -> Result<Vec<AbsolutePath>, ParamProblem> {
    let Some(field) = member.optional() else { return Ok(Vec::new()) };
    field.items(|directory| {
        if !offer.has(Feature::AdditionalDirectories) {
            return Err(field.problem(not_offered("is given", Feature::AdditionalDirectories)));
        }
        directory.absolute_path()
    })
}

fn mcp_servers(field: &Field<'_>, offer: &Offer) -> Result<Vec<McpServer>, ParamProblem> {
    field.items(|server| mcp_server(&server, offer))
}

/// In version 1 a server without a `type` is a program to start.
fn mcp_server(field: &Field<'_>, offer: &Offer) -> Result<McpServer, ParamProblem> {
    let [name, kind] = field.members(["name", "type"])?;
    let name = name.required()?.string()?;
    let Some(kind) = kind.optional() else {
        return Ok(McpServer { name, transport: stdio(field)? });
    };
    let feature = match kind.string()?.as_str() {
        "stdio" => return Ok(McpServer { name, transport: stdio(field)? }),
        "http" => Feature::McpHttp,
        "sse" => Feature::McpSse,
        other => return Err(kind.problem(format!("is {other:?}, which is no transport of ACP v1"))),
    };
    if !offer.has(feature) {
        let given = format!("is {} for the server {name:?}", kind.json());
        return Err(kind.problem(not_offered(&given, feature)));
    }
    let [url, headers] = field.members(["url", "headers"])?;
    let url = url.required()?.string()?;
    let headers = named_values(&headers.required()?)?;
    let transport = match feature {
        Feature::McpHttp => McpTransport::Http { url, headers },
        _ => McpTransport::Sse { url, headers },
    };
    Ok(McpServer { name, transport })
}

/// `args` and `env` are required by the schema, and the protocol's own page shows servers without `env`: an
/// absent list is an empty one.
fn stdio(field: &Field<'_>) -> Result<McpTransport, ParamProblem> {
    let [command, args, env] = field.members(["command", "args", "env"])?;
    let command = command.required()?.absolute_path()?;
    let args = optional(&args, |args| args.items(|arg| arg.string()))?.unwrap_or_default();
    let env = optional(&env, named_values)?.unwrap_or_default();
    Ok(McpTransport::Stdio { command, args, env })
}

fn named_values(field: &Field<'_>) -> Result<Vec<NamedValue>, ParamProblem> {
    field.items(|item| {
        let [name, value] = item.members(["name", "value"])?;
        Ok(NamedValue { name: name.required()?.string()?, value: value.required()?.string()? })
    })
}

/// Checks a content block; the text of a text block is what comes back.
fn block_text(block: &Field<'_>, offer: &Offer) -> Result<Option<String>, ParamProblem> {
    let [kind] = block.members(["type"])?;
    let kind = kind.required()?;
    let offered = |feature| {
        if offer.has(feature) {
            return Ok(());
        }
        Err(kind.problem(not_offered(&format!("is {}", kind.json()), feature)))
    };
    match kind.string()?.as_str() {
        "text" => {
            let [text] = block.members(["text"])?;
            return Ok(Some(text.required()?.string()?));
        }
        "resource_link" => strings(block, ["name", "uri"])?,
        "image" => offered(Feature::Image).and_then(|()| strings(block, ["data", "mimeType"]))?,
        "audio" => offered(Feature::Audio).and_then(|()| strings(block, ["data", "mimeType"]))?,
        "resource" => offered(Feature::EmbeddedContext).and_then(|()| embedded(block))?,
        other => return Err(kind.problem(format!("is {other:?}, which is no content type of ACP v1"))),
    }
    Ok(None)
}

fn strings(object: &Field<'_>, names: [&'static str; 2]) -> Result<(), ParamProblem> {
    let members = object.members(names)?;
    members.iter().try_for_each(|member| member.required()?.string().map(drop))
}

fn embedded(block: &Field<'_>) -> Result<(), ParamProblem> {
    let [resource] = block.members(["resource"])?;
    let resource = resource.required()?;
    let [uri, text, blob] = resource.members(["uri", "text", "blob"])?;
    uri.required()?.string()?;
    match text.optional().or_else(|| blob.optional()) {
        Some(content) => content.string().map(drop),
        None => Err(resource.problem("must have a text or a blob")),
    }
}

fn not_offered(given: &str, feature: Feature) -> String {
    format!("{given}, and this agent does not advertise {}", feature.capability())
}

#[cfg(test)]
mod tests;
