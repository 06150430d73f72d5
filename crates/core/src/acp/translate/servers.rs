//! MCP servers of a session. Version 2 tags every transport and has no server-sent events; version 1 requires every
//! list to be present.

use std::borrow::Cow;

use crate::model::ProtocolVersion;

use super::error::TranslationError;
use crate::wire::json::{RawObject, array, items};

/// The lists that version 1 requires of a stdio server, and of a server with a URL.
const OF_PROGRAM: [&str; 2] = ["args", "env"];
const OF_ADDRESS: [&str; 1] = ["headers"];

/// Translates a list of servers for a version 2 agent.
pub(crate) fn servers_to_v2(servers: &str) -> Result<String, TranslationError> {
    each(servers, to_v2)
}

/// Translates a list of servers for a version 1 agent.
pub(crate) fn servers_to_v1(servers: &str) -> Result<String, TranslationError> {
    each(servers, to_v1)
}

/// A server given in one version, for an agent of either version. If the versions are the same, it stays unchanged,
/// except that version 1 gets the lists that its schema requires and its documentation omits.
pub(crate) fn server_between(
    said_in: ProtocolVersion,
    server: &str,
    agent: ProtocolVersion,
) -> Result<Cow<'_, str>, TranslationError> {
    let mut members = RawObject::parse(server).ok_or_else(|| TranslationError::shape("mcpServers"))?;
    match (said_in, agent) {
        (ProtocolVersion::V2, ProtocolVersion::V2) => Ok(server.into()),
        (ProtocolVersion::V1, ProtocolVersion::V2) => to_v2(members).map(Cow::Owned),
        (ProtocolVersion::V2, ProtocolVersion::V1) => to_v1(members).map(Cow::Owned),
        (ProtocolVersion::V1, ProtocolVersion::V1) => {
            let is_program = matches!(members.text("type").as_deref(), None | Some("stdio"));
            let lists: &[&str] = if is_program { &OF_PROGRAM } else { &OF_ADDRESS };
            let is_whole = lists.iter().all(|name| members.get_non_null(name).is_some());
            with_lists(&mut members, lists);
            Ok(if is_whole { server.into() } else { members.to_string().into() })
        }
    }
}

fn to_v2(mut server: RawObject<'_>) -> Result<String, TranslationError> {
    match server.text("type").as_deref() {
        None => server.set_text("type", "stdio"),
        Some("sse") => return Err(unsupported(&server, "sse")),
        Some(_) => {}
    }
    Ok(server.to_string())
}

fn to_v1(mut server: RawObject<'_>) -> Result<String, TranslationError> {
    let kind = server.text("type").unwrap_or_default();
    let lists: &[&str] = match &*kind {
        "stdio" => {
            server.remove("type");
            &OF_PROGRAM
        }
        "http" => &OF_ADDRESS,
        kind => return Err(unsupported(&server, kind)),
    };
    with_lists(&mut server, lists);
    Ok(server.to_string())
}

fn with_lists<'a>(server: &mut RawObject<'a>, lists: &[&'a str]) {
    for name in lists {
        if server.get_non_null(name).is_none() {
            server.set(name, "[]");
        }
    }
}

fn unsupported(server: &RawObject<'_>, transport: &str) -> TranslationError {
    let server = server.text("name").unwrap_or_default();
    TranslationError::Server { server: (&*server).into(), transport: transport.into() }
}

fn each(
    servers: &str,
    translated: impl Fn(RawObject<'_>) -> Result<String, TranslationError>,
) -> Result<String, TranslationError> {
    let wrong = || TranslationError::shape("mcpServers");
    let servers = items(servers).ok_or_else(wrong)?;
    let server = |server| translated(RawObject::parse(server).ok_or_else(wrong)?);
    Ok(array(servers.into_iter().map(server).collect::<Result<Vec<_>, _>>()?))
}

/// Translates the servers in a request's params; an absent list is added if the agent requires one.
pub(super) fn in_params<'a>(
    params: &mut RawObject<'a>,
    translated: impl Fn(&str) -> Result<String, TranslationError>,
    wants_list: bool,
) -> Result<(), TranslationError> {
    let servers: Cow<'a, str> = match params.get_non_null("mcpServers") {
        Some(servers) => translated(servers)?.into(),
        None if wants_list => "[]".into(),
        None => {
            params.remove("mcpServers");
            return Ok(());
        }
    };
    params.set("mcpServers", servers);
    Ok(())
}
