//! Reads the MCP servers of a record again from their source file.
//!
//! A client chooses the file's path, which may lead to a pipe or a dead disk. Reading it must not block other sessions.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use crate::engine::Servers;
use crate::model::{AbsolutePath, McpServerRef};
use crate::store::file_system;

use crate::host::{Around, Host};

/// The largest file that is read.
const LARGEST: u64 = 16 << 20;

/// The record's servers, read from their source file. Servers that are not in the file are left out; if it cannot be
/// read, all are, and the reason is stored. `None` if there is no file.
pub(crate) async fn recover_servers(
    host: &Host,
    stored: Vec<McpServerRef>,
    cwd: &AbsolutePath,
    path: Option<&OsStr>,
) -> Option<Servers> {
    let source = stored.iter().find_map(|server| server.source.clone())?;
    let (file, server_file) = (source.clone(), Arc::clone(&host.configuration.server_file));
    let (cwd, path) = (cwd.clone(), path.map(OsStr::to_owned));
    // Resolving the servers' programs accesses disks too.
    let read = move || {
        let text = read(file.as_path()).map_err(|why| format!("cannot read {file}: {why}"))?;
        server_file(file.as_path(), &text, Around { cwd: cwd.as_path(), path: path.as_deref() })
    };
    let result = host.engine.disk().ask(source.as_path(), read).await;
    let available = result.unwrap_or_else(|no_answer| Err(format!("cannot read {source}: {no_answer}")));
    let mut servers = Servers { source: Some(source.clone()), ..Servers::default() };
    let available = available.unwrap_or_else(|why| {
        servers.unread = Some(why);
        Vec::new()
    });
    for McpServerRef { name, source: from } in stored {
        let value = available.iter().find(|server| server.name == name && from.as_ref() == Some(&source));
        match value {
            Some(server) => servers.list.push(server.clone()),
            None => servers.left_out.push(name),
        }
    }
    Some(servers)
}

/// The text of a regular file.
fn read(path: &Path) -> Result<String, String> {
    let bytes = file_system::read(path, LARGEST).map_err(|error| error.to_string())?;
    let bytes = bytes.ok_or_else(|| format!("it has more than {LARGEST} bytes"))?;
    String::from_utf8(bytes).map_err(|_| "it is not text".to_owned())
}
