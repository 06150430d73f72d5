//! Writes a native transcript as an archive of a session, which is then imported like any other.

use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::{TranscriptEvents, TranscriptReader, TranscriptSource, TranscriptSummary};
use crate::model::{AbsolutePath, LineageReason, Secrets, Timestamp, title_of};
use crate::store::archive::{FORMAT_VERSION, event_row};

/// How many bytes of rows are in memory. More are in a file without a name.
const ROWS_IN_MEMORY: usize = 4 * 1024 * 1024;

/// The archive of a transcript.
pub struct TranscriptArchive {
    /// The archive; it is removed when this is dropped.
    pub file: NamedTempFile,
    /// The directory that the transcript names, or else the one that was given.
    pub cwd: AbsolutePath,
}

/// Writes the whole transcript as an archive in a temporary file of this directory. The session is in `cwd`, unless the
/// transcript names a directory. This blocks.
pub fn archive_file(
    reader: &dyn TranscriptReader,
    source: &TranscriptSource,
    secrets: Arc<Secrets>,
    cwd: &AbsolutePath,
    directory: &Path,
) -> io::Result<TranscriptArchive> {
    let events = TranscriptEvents::open(reader, source, secrets)?;
    let mut out = BufWriter::new(tempfile::Builder::new().prefix(".transcript-").tempfile_in(directory)?);
    let summary = write_archive(source, events, cwd.as_str(), &mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    let named = summary.directory.and_then(|directory| AbsolutePath::new(directory).ok());
    Ok(TranscriptArchive { file, cwd: named.unwrap_or_else(|| cwd.clone()) })
}

fn write_archive(
    source: &TranscriptSource,
    mut events: TranscriptEvents,
    cwd: &str,
    out: &mut dyn Write,
) -> io::Result<TranscriptSummary> {
    let mut rows = tempfile::SpooledTempFile::new(ROWS_IN_MEMORY);
    let mut comma = "";
    write!(out, "{{\"format_version\":{FORMAT_VERSION},\"exported_by\":\"acpx\",\n\"history\":[")?;
    while let Some(batch) = events.next_batch()? {
        for event in batch {
            write!(out, "{comma}\n{}", event.body)?;
            write!(rows, "{comma}\n{}", event_row(&event))?;
            comma = ",";
        }
    }
    let summary = events.summary().clone();
    let cwd = summary.directory.as_deref().unwrap_or(cwd);
    let session = json!({
        "agent": source.agent, "agent_name": source.agent, "cwd_relative": cwd, "cwd_original": cwd, "state": {},
    });
    let record = record(source, &summary);
    write!(
        out,
        "],\n\"session\":{session},\n\"acpx\":{{\"version\":1,\"record\":{record},\"turns\":[],\"events\":["
    )?;
    rows.seek(SeekFrom::Start(0))?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match rows.read(&mut buffer)? {
            0 => break,
            count => out.write_all(&buffer[..count])?,
        }
    }
    writeln!(out, "]}}}}")?;
    Ok(summary)
}

/// The record of an archive of ours: a session that the agent had before acpx knew of it.
fn record(source: &TranscriptSource, summary: &TranscriptSummary) -> Value {
    let modified = Timestamp::from_millis(source.stamp.modified / 1_000_000).ok();
    let created_at = summary.created_at.or(modified);
    let title = summary.title.clone().or_else(|| summary.first_prompt.as_deref().and_then(title_of));
    let row = json!({
        "acpxSessionId": source.session, "from": created_at, "reason": LineageReason::Adopted.as_str(),
    });
    let mut record = json!({
        "createdAt": created_at, "updatedAt": summary.updated_at.or(modified), "lineage": [row],
    });
    if let Some(title) = title {
        record["title"] = title.into();
    }
    record
}
