//! Confirms an export to a file and an import.

use std::io::{self, Write as _};
use std::path::Path;

use acpx_core::model::{AbsolutePath, SessionIdentity};
use acpx_core::protocol::ArchiveMeta;
use serde::Serialize;

use super::sanitize::on_one_line;
use super::{Console, json_line};
use crate::cli::Format;

#[derive(Serialize)]
struct ExportedObject<'a> {
    action: &'static str,
    #[serde(flatten)]
    identity: &'a SessionIdentity,
    output: &'a str,
}

#[derive(Serialize)]
struct ImportedObject<'a> {
    action: &'static str,
    #[serde(flatten)]
    session: &'a ArchiveMeta,
    cwd: &'a AbsolutePath,
}

/// Writes where a session was exported to.
pub(crate) fn exported(identity: &SessionIdentity, path: &Path, console: &mut Console<'_>) -> io::Result<()> {
    let output = &*path.to_string_lossy();
    let out = &mut console.out;
    match console.mode.format {
        Format::Json => json_line(&ExportedObject { action: "session_exported", identity, output }, out)?,
        Format::Quiet => writeln!(out, "{output}")?,
        Format::Text => writeln!(out, "exported session to {output}")?,
    }
    console.flush()
}

/// Writes the session that was imported.
pub(crate) fn imported(
    session: &ArchiveMeta,
    cwd: &AbsolutePath,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let record = &session.identity.record;
    let out = &mut console.out;
    match console.mode.format {
        Format::Json => json_line(&ImportedObject { action: "session_imported", session, cwd }, out)?,
        Format::Quiet => writeln!(out, "{record}")?,
        Format::Text => writeln!(out, "imported session {record} at {}", on_one_line(cwd.as_str()))?,
    }
    console.flush()?;
    if console.mode.format != Format::Json {
        session.notes.iter().for_each(|note| console.banner(note));
    }
    Ok(())
}
