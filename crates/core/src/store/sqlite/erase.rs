//! Erases a record's conversation: its events and turns, and the long texts that no other record refers to.
//!
//! The writing connection overwrites deleted content with zeros, so none of the text is left in the file, except as
//! listed in `docs/internals/store-format.md`.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};

use super::fault::SqliteFault;
use super::rows::RecordKey;

/// The hashes of the long texts of a record.
pub(super) const BLOBS: &str = "SELECT blob FROM events WHERE key BETWEEN ?1 AND ?2 AND blob IS NOT NULL \
     UNION SELECT prompt_blob FROM turns WHERE record = ?3 AND prompt_blob IS NOT NULL";

/// Deletes a blob unless another record has the same text.
pub(super) const DELETE_BLOB: &str = "DELETE FROM blobs WHERE hash = ?1 \
     AND NOT EXISTS (SELECT 1 FROM events WHERE blob = ?1) \
     AND NOT EXISTS (SELECT 1 FROM turns WHERE prompt_blob = ?1)";

/// Erases a record's conversation.
pub(super) fn erase(connection: &Connection, key: RecordKey) -> Result<(), SqliteFault> {
    let (first, last) = (key.first_event(), key.last_event());
    let mut select = connection.prepare_cached(BLOBS)?;
    let hashes = select.query_map(params![first, last, key.0], |row| row.get(0))?;
    let hashes: BTreeSet<Vec<u8>> = hashes.collect::<Result<_, _>>()?;
    connection.prepare_cached("DELETE FROM events WHERE key BETWEEN ?1 AND ?2")?.execute([first, last])?;
    connection.prepare_cached("DELETE FROM turns WHERE record = ?1")?.execute([key.0])?;
    let mut delete = connection.prepare_cached(DELETE_BLOB)?;
    for hash in hashes {
        delete.execute([hash])?;
    }
    Ok(())
}
