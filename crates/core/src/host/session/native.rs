//! Adopts a session from the transcript that its agent keeps.
//!
//! The record then has the whole conversation, also what came before a compaction, and the agent restores it like any
//! other session. This is done only for a client that acts for the user, and only in the directory that the transcript
//! names.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::NamedTempFile;

use crate::acp::agent::{CallError, RestoreCall};
use crate::host::connection::Connection;
use crate::host::connection::access::UserAction;
use crate::model::{AbsolutePath, AcpSessionId, AgentSpec};
use crate::protocol::acpx_meta::record_of;
use crate::protocol::import_params::ArchiveParams;
use crate::protocol::meta::RestoreMeta;
use crate::protocol::rpc_error;
use crate::tools::Environment;
use crate::transcripts::{TranscriptHome, archive_file, transcript_reader};

/// Makes a record of the transcript of a session that is none yet; returns whether there is one now. A transcript that
/// cannot be read or imported is logged, and left to the agent.
pub(super) async fn adopt_transcript(
    client: &Connection,
    agent: &AgentSpec,
    call: &RestoreCall,
) -> Result<bool, CallError> {
    let Some(importer) = &client.host.importer else { return Ok(false) };
    let Some(name) = agent.name.clone().filter(|_| may_adopt(client)) else { return Ok(false) };
    let mut meta: RestoreMeta = client.access.authorized_meta(call.meta.as_deref())?;
    client.defaults.complete(&mut meta.start);
    let search = TranscriptSearch {
        agent: name.clone(),
        session: call.session.clone(),
        cwd: call.cwd.clone(),
        environment: meta.start.take_environment(agent),
        directory: importer.home.clone(),
    };
    let archive = match tokio::task::spawn_blocking(move || search.archive()).await {
        Ok(Ok(Some(archive))) => archive,
        Ok(Ok(None)) | Err(_) => return Ok(false),
        Ok(Err(error)) => {
            tracing::warn!(agent = &*name, error = error.to_string(), "transcript not read");
            return Ok(false);
        }
    };
    let params = ArchiveParams {
        archive: archive.path().to_owned(),
        agent: Some(name.clone()),
        argv: agent.command(),
        cwd: call.cwd.clone(),
        name: None,
        native_session_id: Some(call.session.to_string()),
    };
    if let Err(error) = importer.import_file(params).await {
        tracing::warn!(agent = &*name, error = error.to_string(), "transcript not imported");
    }
    // Another client may have adopted it in between.
    let stored = client.host.store.record(record_of(&call.session)).await.map_err(rpc_error::not_kept)?;
    Ok(stored.is_some_and(|record| !record.lifecycle.is_deleted()))
}

/// Whether a client may make records of transcripts: not if it acts for an agent.
pub(super) fn may_adopt(client: &Connection) -> bool {
    client.access.check(UserAction::ImportDirectory).is_ok()
}

/// Where a transcript is looked for.
struct TranscriptSearch {
    agent: String,
    session: AcpSessionId,
    cwd: AbsolutePath,
    environment: Environment,
    /// For the archive.
    directory: PathBuf,
}

impl TranscriptSearch {
    /// The conversation as an archive; `None` without a transcript of this directory. This blocks.
    fn archive(&self) -> io::Result<Option<NamedTempFile>> {
        let variable = |name: &str| self.environment.get(name).map(ToOwned::to_owned);
        let Some(home) = variable("HOME").map(PathBuf::from) else { return Ok(None) };
        let place = TranscriptHome { home: &home, variable: &variable };
        let Some(reader) = transcript_reader(&self.agent, &place) else { return Ok(None) };
        let found = reader.find(self.session.as_str()).into_iter();
        let found = found.filter(|source| !source.is_empty() && source.parent.is_none());
        let Some(source) = found.max_by_key(|source| source.stamp.modified) else { return Ok(None) };
        let secrets = Arc::new(self.environment.secrets());
        let archive = archive_file(&*reader, &source, secrets, &self.cwd, &self.directory)?;
        Ok((real(archive.cwd.as_path()) == real(self.cwd.as_path())).then_some(archive.file))
    }
}

/// A path with its links resolved, or as written if it does not exist.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
