//! Native transcripts in `session/list`.
//!
//! They come from the search index, so a transcript is listed once the index has it. Loading one makes a record of it.

use std::collections::HashSet;
use std::path::Path;

use crate::acp::agent::{CallError, Meta, SessionSummary};
use crate::host::connection::Connection;
use crate::host::session::native::may_adopt;
use crate::index::{IndexError, IndexedSession, SearchIndex, TranscriptFilter};
use crate::model::{AbsolutePath, AcpSessionId, AgentSpec};
use crate::protocol::rpc_error;

/// How many transcripts are listed, the last used first.
const MOST_LISTED: usize = 200;

/// The transcripts of an agent that are no records, of one directory or of all. An index that cannot be read has none.
pub(super) async fn rows(
    client: &Connection,
    agent: &AgentSpec,
    cwd: Option<&AbsolutePath>,
) -> Result<Vec<SessionSummary>, CallError> {
    let (Some(importer), Some(name)) = (&client.host.importer, &agent.name) else { return Ok(Vec::new()) };
    if !may_adopt(client) {
        return Ok(Vec::new());
    }
    let real_directory = match cwd {
        // If the disk does not respond, the path is used as written.
        Some(cwd) => {
            let real = client.host.engine.disk().real(cwd).await;
            Some(real.unwrap_or_else(|_| cwd.clone()).as_path().to_owned())
        }
        None => None,
    };
    let filter = TranscriptFilter { agent: Some(name.clone()), real_directory };
    let index = importer.index.clone();
    let read = tokio::task::spawn_blocking(move || indexed(&index, &filter)).await;
    let found = match read {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => {
            tracing::warn!(error = error.to_string(), "transcripts not listed");
            return Ok(Vec::new());
        }
        Err(_) => return Ok(Vec::new()),
    };
    let ids = found.iter().filter_map(|session| AcpSessionId::new(session.session.as_str()).ok()).collect();
    let owners = client.host.store.owners(agent.clone(), ids).await.map_err(rpc_error::not_kept)?;
    let owned: HashSet<&str> = owners.iter().map(|owner| owner.session.as_str()).collect();
    Ok(found.into_iter().filter(|session| !owned.contains(&*session.session)).filter_map(row).collect())
}

fn indexed(index: &Path, filter: &TranscriptFilter) -> Result<Vec<IndexedSession>, IndexError> {
    let Some(index) = SearchIndex::open_existing(index)? else { return Ok(Vec::new()) };
    index.transcripts(filter, MOST_LISTED)
}

/// A transcript whose directory is known, unless the user has archived it.
fn row(session: IndexedSession) -> Option<SessionSummary> {
    let IndexedSession { session, directory, title, updated_at, is_archived, .. } = session;
    let cwd = AbsolutePath::new(directory.filter(|_| !is_archived)?).ok()?;
    Some(SessionSummary {
        session: AcpSessionId::new(session).ok()?,
        cwd,
        additional_directories: Vec::new(),
        title,
        updated_at,
        meta: Meta::new(),
        forwarded: None,
    })
}
