//! The MCP servers of a session: those a client names, or those of a record, read again from their source file.
//!
//! A client chooses the file's path, which may lead to a pipe or a dead disk. Reading it must not block other sessions.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use crate::acp::agent::CallError;
use crate::engine::Servers;
use crate::model::{AbsolutePath, McpServer, McpServerRef};
use crate::store::regular_file;

use crate::host::connection::Connection;
use crate::host::{Around, Host};
use crate::protocol::acpx_meta::problem;
use crate::protocol::meta::StartMeta;

/// The largest file that is read.
const LARGEST: u64 = 16 << 20;

impl Connection {
    /// The servers that this client names, restricted to what it may set, with their source file.
    pub(crate) fn servers(&self, list: Vec<McpServer>, start: &StartMeta) -> Result<Servers, CallError> {
        let source = start.mcp_source.as_deref().map(AbsolutePath::new).transpose();
        let source = source.map_err(|error| problem("_meta.acpx.mcpSource", error.to_string()))?;
        let list =
            if self.may_say_besides() { list } else { list.into_iter().map(McpServer::only_known).collect() };
        Ok(Servers { source, ..list.into() })
    }
}

impl Host {
    /// The record's servers, read from their source file. Servers that are not in the file are left out; if it cannot
    /// be read, all are, and the reason is stored. `None` if there is no file.
    pub(crate) async fn recovered(
        &self,
        kept: Vec<McpServerRef>,
        cwd: &AbsolutePath,
        path: Option<&OsStr>,
    ) -> Option<Servers> {
        let source = kept.iter().find_map(|server| server.source.clone())?;
        let (file, server_file) = (source.clone(), Arc::clone(&self.server_file));
        let (cwd, path) = (cwd.clone(), path.map(OsStr::to_owned));
        // Resolving the servers' programs accesses disks too.
        let read = move || {
            let text = read(file.as_path()).map_err(|why| format!("cannot read {file}: {why}"))?;
            server_file(file.as_path(), &text, Around { cwd: cwd.as_path(), path: path.as_deref() })
        };
        let asked = self.engine.disk().ask(source.as_path(), read).await;
        let there = asked.unwrap_or_else(|no_answer| Err(format!("cannot read {source}: {no_answer}")));
        let mut servers = Servers { source: Some(source.clone()), ..Servers::default() };
        let there = there.unwrap_or_else(|why| {
            servers.unread = Some(why);
            Vec::new()
        });
        for McpServerRef { name, source: from } in kept {
            let value = there.iter().find(|server| server.name == name && from.as_ref() == Some(&source));
            match value {
                Some(server) => servers.list.push(server.clone()),
                None => servers.left_out.push(name),
            }
        }
        Some(servers)
    }
}

/// The text of a regular file.
fn read(path: &Path) -> Result<String, String> {
    let bytes = regular_file::read(path, LARGEST).map_err(|error| error.to_string())?;
    let bytes = bytes.ok_or_else(|| format!("it has more than {LARGEST} bytes"))?;
    String::from_utf8(bytes).map_err(|_| "it is not text".to_owned())
}
