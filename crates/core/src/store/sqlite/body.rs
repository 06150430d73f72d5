//! Stores texts of any size: up to 64 KiB in their row, longer ones once in `blobs` under their hash. A blob is
//! verified against its hash when it is read.

use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};

use super::fault::SqliteFault;

/// Longer texts go to `blobs`.
const INLINE_BYTES: usize = 64 * 1024;

/// A reference from a row to a text, in one of two columns.
pub(super) enum Reference<'a> {
    Text(&'a str),
    Blob([u8; 32]),
}

impl Reference<'_> {
    /// The value of the text column.
    pub(super) fn text(&self) -> ValueRef<'_> {
        match self {
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(_) => ValueRef::Null,
        }
    }

    /// The value of the hash column.
    pub(super) fn blob(&self) -> ValueRef<'_> {
        match self {
            Self::Text(_) => ValueRef::Null,
            Self::Blob(hash) => ValueRef::Blob(hash),
        }
    }
}

/// Stores a text if necessary, and returns the reference to it.
pub(super) fn keep<'a>(connection: &Connection, text: &'a str) -> Result<Reference<'a>, SqliteFault> {
    if text.len() <= INLINE_BYTES {
        return Ok(Reference::Text(text));
    }
    let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    connection
        .prepare_cached("INSERT INTO blobs (hash, bytes) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
        .execute(params![hash, text.as_bytes()])?;
    Ok(Reference::Blob(hash))
}

/// The size of a text in bytes, from its two columns. A blob is not read for this.
pub(super) fn size(
    connection: &Connection,
    text: ValueRef<'_>,
    blob: ValueRef<'_>,
) -> Result<usize, SqliteFault> {
    match (text, blob) {
        (ValueRef::Text(bytes), ValueRef::Null) => Ok(bytes.len()),
        (ValueRef::Null, ValueRef::Blob(hash)) => {
            let mut statement =
                connection.prepare_cached("SELECT length(bytes) FROM blobs WHERE hash = ?1")?;
            let size: Option<i64> = statement.query_row([hash], |row| row.get(0)).optional()?;
            Ok(usize::try_from(size.ok_or_else(missing_blob)?)?)
        }
        _ => Err(neither()),
    }
}

/// Reads a text from its two columns.
pub(super) fn read(
    connection: &Connection,
    text: ValueRef<'_>,
    blob: ValueRef<'_>,
) -> Result<Arc<str>, SqliteFault> {
    match (text, blob) {
        (ValueRef::Text(bytes), ValueRef::Null) => unicode(bytes),
        (ValueRef::Null, ValueRef::Blob(hash)) => read_blob(connection, hash),
        _ => Err(neither()),
    }
}

fn read_blob(connection: &Connection, hash: &[u8]) -> Result<Arc<str>, SqliteFault> {
    let mut statement = connection.prepare_cached("SELECT bytes FROM blobs WHERE hash = ?1")?;
    let body = statement.query_row([hash], |row| {
        let bytes = row.get_ref(0)?.as_blob()?;
        Ok((Sha256::digest(bytes).as_slice() == hash).then(|| unicode(bytes)))
    });
    match body.optional()? {
        Some(Some(body)) => body,
        Some(None) => Err(SqliteFault::Damaged("a blob is not what its hash says".to_owned())),
        None => Err(missing_blob()),
    }
}

fn neither() -> SqliteFault {
    SqliteFault::Damaged("a body is neither in its row nor in a blob".to_owned())
}

fn missing_blob() -> SqliteFault {
    SqliteFault::Damaged("a blob is missing".to_owned())
}

fn unicode(bytes: &[u8]) -> Result<Arc<str>, SqliteFault> {
    let text = std::str::from_utf8(bytes);
    text.map(Arc::from).map_err(|_| SqliteFault::Damaged("a body is not Unicode".to_owned()))
}
