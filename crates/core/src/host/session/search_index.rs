//! Removes deleted sessions from the search index at once.

use crate::host::Host;
use crate::index::{IndexError, SearchIndex};
use crate::model::Record;

/// The ids of a record in the index: its own, and those of its sessions.
pub(super) fn ids_of(record: &Record) -> Vec<String> {
    let sessions = record.lineage.rows().iter().map(|row| row.session.to_string());
    sessions.chain([record.id.to_string()]).collect()
}

/// Removes sessions by their ids, if there is an index. An error is only logged: the next update of the index removes
/// the transcripts of deleted records, and searches and lists leave deleted sessions out.
pub(super) async fn forget(host: &Host, sessions: Vec<String>) {
    if sessions.is_empty() {
        return;
    }
    let Some(path) = host.importer.as_ref().map(|importer| importer.index.clone()) else { return };
    let forgotten = tokio::task::spawn_blocking(move || -> Result<(), IndexError> {
        let Some(mut index) = SearchIndex::open_existing(&path)? else { return Ok(()) };
        let sessions: Vec<&str> = sessions.iter().map(String::as_str).collect();
        index.forget(&sessions)
    });
    if let Ok(Err(error)) = forgotten.await {
        tracing::warn!(error = error.to_string(), "deleted session not removed from the search index");
    }
}
