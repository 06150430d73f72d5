//! Requests as typed calls. A call that exists has passed every check; a handler never sees a bad one.

use super::error::CallError;
use super::offer::{Feature, Offer};
use super::params::{Field, Fields, ParamProblem};
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
    /// The servers to connect to; only transports that are offered.
    pub mcp_servers: Vec<McpServer>,
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
}

impl Call {
    /// Reads a request, or says why it cannot be one of an agent with this offer.
    pub(super) fn read(method: &str, params: Option<&str>, offer: &Offer) -> Result<Self, CallError> {
        let read = Self::reader(method, offer).ok_or_else(|| CallError::UnknownMethod(method.into()))?;
        let fields = Fields::of_params(params)?;
        Ok(read(&fields, offer)?)
    }

    fn reader(method: &str, offer: &Offer) -> Option<Reader> {
        let (feature, read): (Option<Feature>, Reader) = match method {
            "session/new" => (None, |fields, offer| Ok(Self::New(new_session(fields, offer)?))),
            "session/prompt" => (None, |fields, offer| Ok(Self::Prompt(prompt(fields, offer)?))),
            "session/load" => (Some(Feature::Load), |fields, offer| {
                let servers = fields.required("mcpServers")?;
                Ok(Self::Load(restore_session(fields, Some(&servers), offer)?))
            }),
            "session/resume" => (Some(Feature::Resume), |fields, offer| {
                let servers = fields.optional("mcpServers");
                Ok(Self::Resume(restore_session(fields, servers.as_ref(), offer)?))
            }),
            "session/list" => (Some(Feature::List), |fields, _| Ok(Self::List(list_sessions(fields)?))),
            "session/close" => (Some(Feature::Close), |fields, _| Ok(Self::Close(session_id(fields)?))),
            "session/delete" => (Some(Feature::Delete), |fields, _| Ok(Self::Delete(session_id(fields)?))),
            "session/set_mode" => (Some(Feature::Modes), |fields, _| Ok(Self::SetMode(set_mode(fields)?))),
            _ => return None,
        };
        feature.is_none_or(|feature| offer.has(feature)).then_some(read)
    }
}

type Reader = fn(&Fields<'_>, &Offer) -> Result<Call, ParamProblem>;

/// Checks the params of `initialize`. Only the version must be there; the rest is tolerated in any shape.
pub(super) fn check_initialize(params: Option<&str>) -> Result<(), ParamProblem> {
    Fields::of_params(params)?.required("protocolVersion")?.version().map(drop)
}

/// The session that `session/cancel` names.
pub(super) fn cancelled_session(params: Option<&str>) -> Result<AcpSessionId, ParamProblem> {
    session_id(&Fields::of_params(params)?)
}

/// The request that `$/cancel_request` names. A notification that cannot be read tells nothing.
pub(super) fn withdrawn_request(params: Option<&str>) -> Option<RpcId> {
    RpcId::from_raw(Fields::of_params(params).ok()?.required("requestId").ok()?.json())
}

fn new_session(fields: &Fields<'_>, offer: &Offer) -> Result<NewCall, ParamProblem> {
    let cwd = fields.required("cwd")?.absolute_path()?;
    let mcp_servers = mcp_servers(&fields.required("mcpServers")?, offer)?;
    let additional_directories = additional_directories(fields, offer)?;
    Ok(NewCall { cwd, additional_directories, mcp_servers, meta: fields.meta() })
}

fn restore_session(
    fields: &Fields<'_>,
    servers: Option<&Field<'_>>,
    offer: &Offer,
) -> Result<RestoreCall, ParamProblem> {
    Ok(RestoreCall {
        session: session_id(fields)?,
        cwd: fields.required("cwd")?.absolute_path()?,
        additional_directories: additional_directories(fields, offer)?,
        mcp_servers: servers.map(|servers| mcp_servers(servers, offer)).transpose()?.unwrap_or_default(),
        meta: fields.meta(),
    })
}

fn list_sessions(fields: &Fields<'_>) -> Result<ListCall, ParamProblem> {
    let cwd = fields.optional("cwd").map(|cwd| cwd.absolute_path()).transpose()?;
    let cursor = fields.optional("cursor").map(|cursor| cursor.string()).transpose()?;
    Ok(ListCall { cwd, cursor, meta: fields.meta() })
}

fn set_mode(fields: &Fields<'_>) -> Result<SetModeCall, ParamProblem> {
    Ok(SetModeCall {
        session: session_id(fields)?,
        mode: fields.required("modeId")?.string()?,
        meta: fields.meta(),
    })
}

fn prompt(fields: &Fields<'_>, offer: &Offer) -> Result<PromptCall, ParamProblem> {
    let session = session_id(fields)?;
    let mut texts = Vec::new();
    let mut blocks = Vec::new();
    for block in fields.required("prompt")?.items()? {
        texts.extend(block_text(&block, offer)?);
        blocks.push(block.json().into());
    }
    Ok(PromptCall { session, blocks, text: texts.join("\n"), meta: fields.meta() })
}

fn session_id(fields: &Fields<'_>) -> Result<AcpSessionId, ParamProblem> {
    let field = fields.required("sessionId")?;
    AcpSessionId::new(field.string()?).map_err(|_| field.problem("must not be empty"))
}

/// Extra roots that were not offered are refused: dropping them would silently narrow what the user chose.
fn additional_directories(fields: &Fields<'_>, offer: &Offer) -> Result<Vec<AbsolutePath>, ParamProblem> {
    let Some(field) = fields.optional("additionalDirectories") else { return Ok(Vec::new()) };
    let directories = field.items()?;
    if !directories.is_empty() && !offer.has(Feature::AdditionalDirectories) {
        return Err(field.problem(not_offered("is given", Feature::AdditionalDirectories)));
    }
    directories.iter().map(Field::absolute_path).collect()
}

fn mcp_servers(field: &Field<'_>, offer: &Offer) -> Result<Vec<McpServer>, ParamProblem> {
    field.items()?.iter().map(|server| mcp_server(server, offer)).collect()
}

/// In version 1 a server without a `type` is a program to start.
fn mcp_server(field: &Field<'_>, offer: &Offer) -> Result<McpServer, ParamProblem> {
    let fields = field.members()?;
    let name = fields.required("name")?.string()?;
    let Some(kind) = fields.optional("type") else {
        return Ok(McpServer { name, transport: stdio(&fields)? });
    };
    let feature = match kind.string()?.as_str() {
        "stdio" => return Ok(McpServer { name, transport: stdio(&fields)? }),
        "http" => Feature::McpHttp,
        "sse" => Feature::McpSse,
        other => return Err(kind.problem(format!("is {other:?}, which is no transport of ACP v1"))),
    };
    if !offer.has(feature) {
        let given = format!("is {} for the server {name:?}", kind.json());
        return Err(kind.problem(not_offered(&given, feature)));
    }
    let url = fields.required("url")?.string()?;
    let headers = named_values(&fields.required("headers")?)?;
    let transport = match feature {
        Feature::McpHttp => McpTransport::Http { url, headers },
        _ => McpTransport::Sse { url, headers },
    };
    Ok(McpServer { name, transport })
}

/// `args` and `env` are required by the schema, and the protocol's own page shows servers without `env`: an
/// absent list is an empty one.
fn stdio(fields: &Fields<'_>) -> Result<McpTransport, ParamProblem> {
    let command = fields.required("command")?.absolute_path()?;
    let args = match fields.optional("args") {
        Some(args) => args.items()?.iter().map(Field::string).collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let env = fields.optional("env").map(|env| named_values(&env)).transpose()?.unwrap_or_default();
    Ok(McpTransport::Stdio { command, args, env })
}

fn named_values(field: &Field<'_>) -> Result<Vec<NamedValue>, ParamProblem> {
    let pair = |item: &Field<'_>| {
        let fields = item.members()?;
        Ok(NamedValue {
            name: fields.required("name")?.string()?,
            value: fields.required("value")?.string()?,
        })
    };
    field.items()?.iter().map(pair).collect()
}

/// Checks a content block; the text of a text block is what comes back.
fn block_text(block: &Field<'_>, offer: &Offer) -> Result<Option<String>, ParamProblem> {
    let fields = block.members()?;
    let kind = fields.required("type")?;
    let offered = |feature| {
        if offer.has(feature) {
            return Ok(());
        }
        Err(kind.problem(not_offered(&format!("is {}", kind.json()), feature)))
    };
    let strings =
        |names: &[&str]| names.iter().try_for_each(|name| fields.required(name)?.string().map(drop));
    match kind.string()?.as_str() {
        "text" => return Ok(Some(fields.required("text")?.string()?)),
        "resource_link" => strings(&["name", "uri"])?,
        "image" => offered(Feature::Image).and_then(|()| strings(&["data", "mimeType"]))?,
        "audio" => offered(Feature::Audio).and_then(|()| strings(&["data", "mimeType"]))?,
        "resource" => offered(Feature::EmbeddedContext).and_then(|()| embedded(&fields))?,
        other => return Err(kind.problem(format!("is {other:?}, which is no content type of ACP v1"))),
    }
    Ok(None)
}

fn embedded(fields: &Fields<'_>) -> Result<(), ParamProblem> {
    let resource = fields.required("resource")?;
    let members = resource.members()?;
    members.required("uri")?.string()?;
    match members.optional("text").or_else(|| members.optional("blob")) {
        Some(content) => content.string().map(drop),
        None => Err(resource.problem("must have a text or a blob")),
    }
}

fn not_offered(given: &str, feature: Feature) -> String {
    format!("{given}, and this agent does not advertise {}", feature.capability())
}

#[cfg(test)]
mod tests;
