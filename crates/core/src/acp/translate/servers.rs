//! MCP servers of a session. Version 2 tags every transport and no longer has server-sent events; version 1 wants
//! every list to be there.

use std::borrow::Cow;

use super::error::Untranslatable;
use super::members::{Members, items, list};

/// A list of servers for an agent of version 2.
pub fn servers_to_v2(servers: &str) -> Result<String, Untranslatable> {
    each(servers, |mut server| {
        match server.text("type").as_deref() {
            None => server.set_text("type", "stdio"),
            Some("sse") => return Err(unsupported(&server, "sse")),
            Some(_) => {}
        }
        Ok(server.to_string())
    })
}

/// A list of servers for an agent of version 1.
pub fn servers_to_v1(servers: &str) -> Result<String, Untranslatable> {
    each(servers, |mut server| {
        let kind = server.text("type").unwrap_or_default();
        let lists: &[&str] = match &*kind {
            "stdio" => {
                server.take("type");
                &["args", "env"]
            }
            "http" => &["headers"],
            kind => return Err(unsupported(&server, kind)),
        };
        for name in lists {
            if server.told(name).is_none() {
                server.set(name, "[]");
            }
        }
        Ok(server.to_string())
    })
}

fn unsupported(server: &Members<'_>, transport: &str) -> Untranslatable {
    let server = server.text("name").unwrap_or_default();
    Untranslatable::Server { server: (&*server).into(), transport: transport.into() }
}

fn each(
    servers: &str,
    translated: impl Fn(Members<'_>) -> Result<String, Untranslatable>,
) -> Result<String, Untranslatable> {
    let wrong = || Untranslatable::shape("mcpServers");
    let servers = items(servers).ok_or_else(wrong)?;
    let server = |server| translated(Members::parse(server).ok_or_else(wrong)?);
    Ok(list(servers.into_iter().map(server).collect::<Result<Vec<_>, _>>()?))
}

/// The servers of a request's params, with what is absent for those that want a list.
pub(super) fn in_params<'a>(
    params: &mut Members<'a>,
    translated: impl Fn(&str) -> Result<String, Untranslatable>,
    wants_list: bool,
) -> Result<(), Untranslatable> {
    let servers: Cow<'a, str> = match params.told("mcpServers") {
        Some(servers) => translated(servers)?.into(),
        None if wants_list => "[]".into(),
        None => {
            params.take("mcpServers");
            return Ok(());
        }
    };
    params.set("mcpServers", servers);
    Ok(())
}
