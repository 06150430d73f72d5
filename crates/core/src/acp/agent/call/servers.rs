//! Parses the MCP servers and additional roots of a session.

use super::{NegotiatedOffer, optional};
use crate::acp::agent::offer::Feature;
use crate::acp::agent::params::{ParamField, ParamMember, ParamProblem};
use crate::model::{AbsolutePath, McpServer, McpTransport, NamedValue};

/// Refuses additional roots that are not offered: dropping them would silently narrow the user's choice.
pub(super) fn additional_directories(
    member: &ParamMember<'_>,
    terms: NegotiatedOffer<'_>,
) -> Result<Vec<AbsolutePath>, ParamProblem> {
    let Some(field) = member.optional() else { return Ok(Vec::new()) };
    field.items(|directory| {
        if !terms.offer.has(Feature::AdditionalDirectories) {
            return Err(field.problem(terms.not_offered("is given", Feature::AdditionalDirectories)));
        }
        directory.absolute_path()
    })
}

/// The servers; `None` if the member is missing.
pub(super) fn list(
    member: &ParamMember<'_>,
    terms: NegotiatedOffer<'_>,
) -> Result<Option<Vec<McpServer>>, ParamProblem> {
    optional(member, |field| field.items(|server| mcp_server(&server, terms)))
}

fn mcp_server(field: &ParamField<'_>, terms: NegotiatedOffer<'_>) -> Result<McpServer, ParamProblem> {
    let [name] = field.members(["name"])?;
    let name = name.required()?.string()?;
    let transport = transport(field, &name, terms)?;
    Ok(McpServer::new(name, transport).with_client_json(terms.version, field.json()))
}

/// In version 1 a server without a `type` uses stdio.
fn transport(
    field: &ParamField<'_>,
    name: &str,
    terms: NegotiatedOffer<'_>,
) -> Result<McpTransport, ParamProblem> {
    let [kind] = field.members(["type"])?;
    let kind = if terms.is_v2() { Some(kind.required()?) } else { kind.optional() };
    let Some(kind) = kind else { return stdio(field) };
    let feature = match (kind.string()?.as_str(), terms.is_v2()) {
        ("stdio", false) => return stdio(field),
        ("stdio", true) => Feature::McpStdio,
        ("http", _) => Feature::McpHttp,
        ("sse", false) => Feature::McpSse,
        (other, true) if terms.offer.takes_servers(other) => {
            return Ok(McpTransport::Other { kind: other.to_owned() });
        }
        (other, _) => {
            let version = terms.version.number();
            return Err(kind.problem(format!("is {other:?}, which is no transport of ACP v{version}")));
        }
    };
    if !terms.offer.has(feature) {
        let given = format!("is {} for the server {name:?}", kind.json());
        return Err(kind.problem(terms.not_offered(&given, feature)));
    }
    match feature {
        Feature::McpStdio => stdio(field),
        Feature::McpHttp => {
            let (url, headers) = address(field)?;
            Ok(McpTransport::Http { url, headers })
        }
        _ => {
            let (url, headers) = address(field)?;
            Ok(McpTransport::Sse { url, headers })
        }
    }
}

/// Only the version 1 schema requires `headers`, `args` and `env`. A missing list counts as empty.
fn address(field: &ParamField<'_>) -> Result<(String, Vec<NamedValue>), ParamProblem> {
    let [url, headers] = field.members(["url", "headers"])?;
    Ok((url.required()?.string()?, optional(&headers, named_values)?.unwrap_or_default()))
}

/// The protocol's own documentation shows version 1 servers without `env`.
fn stdio(field: &ParamField<'_>) -> Result<McpTransport, ParamProblem> {
    let [command, args, env] = field.members(["command", "args", "env"])?;
    let command = command.required()?.absolute_path()?;
    let args = optional(&args, |args| args.items(|arg| arg.string()))?.unwrap_or_default();
    let env = optional(&env, named_values)?.unwrap_or_default();
    Ok(McpTransport::Stdio { command, args, env })
}

fn named_values(field: &ParamField<'_>) -> Result<Vec<NamedValue>, ParamProblem> {
    field.items(|item| {
        let [name, value] = item.members(["name", "value"])?;
        Ok(NamedValue { name: name.required()?.string()?, value: value.required()?.string()? })
    })
}
