//! The MCP servers a record had, from the file they came from.
//!
//! The path is a client's, and what lies there may be anything: a pipe that nobody writes to, or a disk that does not
//! answer. Neither keeps the host from its other sessions.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::engine::Servers;
use crate::model::{AbsolutePath, KeptServer};

use super::{Around, Host};

/// The largest file that is read.
const LARGEST: u64 = 16 << 20;

impl Host {
    /// The servers a record had, from the file they came from. One that the file no longer has, or that a client had
    /// told, is left out; so are all if it cannot be read, and why is said. `None` if there is no file.
    pub(super) async fn recovered(
        &self,
        kept: Vec<KeptServer>,
        cwd: &AbsolutePath,
        path: Option<&OsStr>,
    ) -> Option<Servers> {
        let source = kept.iter().find_map(|server| server.source.clone())?;
        let (file, server_file) = (source.clone(), Arc::clone(&self.server_file));
        let (cwd, path) = (cwd.clone(), path.map(OsStr::to_owned));
        // Where its programs are is looked for on disks, too.
        let read = move || {
            let text = read_regular(file.as_path())?;
            server_file(file.as_path(), &text, Around { cwd: cwd.as_path(), path: path.as_deref() })
        };
        let there = self.engine.disk().ask(read).await;
        let there = there.unwrap_or_else(|| Err("its disk does not answer".to_owned()));
        let mut servers = Servers { source: Some(source.clone()), ..Servers::default() };
        let there = there.unwrap_or_else(|why| {
            servers.unread = Some(format!("cannot read {source}: {why}"));
            Vec::new()
        });
        for KeptServer { name, source: from } in kept {
            let value = there.iter().find(|server| server.name == name && from.as_ref() == Some(&source));
            match value {
                Some(server) => servers.list.push(server.clone()),
                None => servers.left_out.push(name),
            }
        }
        Some(servers)
    }
}

/// The text of a regular file. What is none is not waited for.
fn read_regular(path: &Path) -> Result<String, String> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let open = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = open.map_err(|error| error.to_string())?;
    let facts = file.metadata().map_err(|error| error.to_string())?;
    if !facts.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if facts.len() > LARGEST {
        return Err(format!("it has more than {LARGEST} bytes"));
    }
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok(text)
}
