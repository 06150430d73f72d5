//! Reads the MCP servers of a record from their source file.
//!
//! A client chooses the file's path, which may lead to a pipe or a dead disk. Reading it must not block other sessions.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use crate::engine::Servers;
use crate::model::{AbsolutePath, McpServer, McpServerRef};
use crate::store::file_system;

use crate::host::{Around, Host};

/// The largest file that is read.
const LARGEST: u64 = 16 << 20;

/// The record's servers, read from their source file; those that the program itself provides need none. Servers that are
/// not in the file are left out; if it cannot be read, all of them are, and the reason is stored. `None` if there is
/// neither a file nor a server of the program.
pub(crate) async fn recover_servers(
    host: &Host,
    stored: Vec<McpServerRef>,
    cwd: &AbsolutePath,
    path: Option<&OsStr>,
) -> Option<Servers> {
    let own = if stored.is_empty() { Vec::new() } else { (host.configuration.own_servers)(cwd) };
    let source = stored.iter().find_map(|server| server.source.clone());
    let has_own = stored.iter().any(|server| own.iter().any(|own| own.name == server.name));
    let mut servers = Servers { source: source.clone(), ..Servers::default() };
    let available = match &source {
        None if has_own => Vec::new(),
        None => return None,
        Some(source) => read_servers(host, source, cwd, path).await.unwrap_or_else(|why| {
            servers.unread = Some(why);
            Vec::new()
        }),
    };
    for McpServerRef { name, source: from } in stored {
        let in_file = available.iter().find(|server| server.name == name && from == source);
        match in_file.or_else(|| own.iter().find(|server| server.name == name)) {
            Some(server) => servers.list.push(server.clone()),
            None => servers.left_out.push(name),
        }
    }
    Some(servers)
}

/// The servers that a file configures for a new session. If it cannot be read, there are none, and the reason is stored.
pub(crate) async fn configured_servers(
    host: &Host,
    source: AbsolutePath,
    cwd: &AbsolutePath,
    path: Option<&OsStr>,
) -> Servers {
    let (list, unread) = match read_servers(host, &source, cwd, path).await {
        Ok(list) => (list, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    Servers { list, source: Some(source), unread, ..Servers::default() }
}

/// The servers of a file.
async fn read_servers(
    host: &Host,
    source: &AbsolutePath,
    cwd: &AbsolutePath,
    path: Option<&OsStr>,
) -> Result<Vec<McpServer>, String> {
    let (file, server_file) = (source.clone(), Arc::clone(&host.configuration.server_file));
    let (cwd, path) = (cwd.clone(), path.map(OsStr::to_owned));
    // Resolving the servers' programs accesses disks too.
    let read = move || {
        let text = read(file.as_path()).map_err(|why| format!("cannot read {file}: {why}"))?;
        server_file(file.as_path(), &text, Around { cwd: cwd.as_path(), path: path.as_deref() })
    };
    let result = host.engine.disk().ask(source.as_path(), read).await;
    result.unwrap_or_else(|no_answer| Err(format!("cannot read {source}: {no_answer}")))
}

/// The text of a regular file.
fn read(path: &Path) -> Result<String, String> {
    let bytes = file_system::read(path, LARGEST).map_err(|error| error.to_string())?;
    let bytes = bytes.ok_or_else(|| format!("it has more than {LARGEST} bytes"))?;
    String::from_utf8(bytes).map_err(|_| "it is not text".to_owned())
}
