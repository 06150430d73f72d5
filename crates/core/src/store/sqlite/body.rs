//! How a text of any size is kept: in its row up to 64 KiB, else once in `blobs` under its hash. What is read
//! is checked against its hash or its row's checksum, because SQLite itself would not notice a changed byte.

use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};

use super::fault::Fault;
use crate::model::Event;

/// Longer texts go to `blobs`.
const INLINE_BYTES: usize = 64 * 1024;

/// A text as a row refers to it: one of the two columns is set.
pub(super) struct Reference<'a> {
    pub(super) text: Option<&'a str>,
    pub(super) blob: Option<[u8; 32]>,
}

/// Makes sure a text is kept, and says how to refer to it.
pub(super) fn keep<'a>(connection: &Connection, text: &'a str) -> Result<Reference<'a>, Fault> {
    if text.len() <= INLINE_BYTES {
        return Ok(Reference { text: Some(text), blob: None });
    }
    let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    connection
        .prepare_cached("INSERT INTO blobs (hash, bytes) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
        .execute(params![hash, text.as_bytes()])?;
    Ok(Reference { text: None, blob: Some(hash) })
}

/// Reads a text back from the two columns that refer to it.
pub(super) fn read(
    connection: &Connection,
    text: ValueRef<'_>,
    blob: ValueRef<'_>,
) -> Result<Arc<str>, Fault> {
    match (text, blob) {
        (ValueRef::Text(bytes), ValueRef::Null) => unicode(bytes),
        (ValueRef::Null, ValueRef::Blob(hash)) => read_blob(connection, hash),
        _ => Err(Fault::Damaged("a body is neither in its row nor in a blob".to_owned())),
    }
}

fn read_blob(connection: &Connection, hash: &[u8]) -> Result<Arc<str>, Fault> {
    let mut statement = connection.prepare_cached("SELECT bytes FROM blobs WHERE hash = ?1")?;
    let body = statement.query_row([hash], |row| {
        let bytes = row.get_ref(0)?.as_blob()?;
        Ok((Sha256::digest(bytes).as_slice() == hash).then(|| unicode(bytes)))
    });
    match body.optional()? {
        Some(Some(body)) => body,
        Some(None) => Err(Fault::Damaged("a blob is not what its hash says".to_owned())),
        None => Err(Fault::Damaged("a blob is missing".to_owned())),
    }
}

fn unicode(bytes: &[u8]) -> Result<Arc<str>, Fault> {
    let text = std::str::from_utf8(bytes);
    text.map(Arc::from).map_err(|_| Fault::Damaged("a body is not Unicode".to_owned()))
}

/// A sum over everything an event says, to be kept beside it. It is there to notice damage, not malice.
pub(super) fn checksum(key: i64, event: &Event) -> i64 {
    let mut sum = Sum(0);
    sum.add(key.cast_unsigned());
    sum.add(event.at.as_millis().cast_unsigned());
    sum.add(event.turn.map_or(0, |turn| turn.0.wrapping_add(1)));
    sum.add(event.lineage.0);
    sum.add(u64::from(event.protocol));
    sum.add(super::rows::direction_number(event.direction).cast_unsigned());
    sum.add(super::rows::kind_number(event.kind).cast_unsigned());
    sum.add(event.body.len() as u64);
    let (words, rest) = event.body.as_bytes().as_chunks::<8>();
    for word in words {
        sum.add(u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    sum.add(u64::from_le_bytes(last));
    sum.folded()
}

/// Multiply and rotate, a word at a time: each step can be undone, so two texts that differ in one word never
/// have the same 64 bits.
struct Sum(u64);

impl Sum {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    /// 32 of the bits, which cost a row half as much and miss one damage in four thousand million.
    fn folded(&self) -> i64 {
        ((self.0 >> 32) ^ (self.0 & 0xFFFF_FFFF)).cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Direction, EventKind, LineageIndex, Seq, Timestamp, TurnId};

    #[test]
    fn a_checksum_is_the_same_in_every_version_and_differs_with_every_field() {
        let event = Event {
            seq: Seq(7),
            at: Timestamp::from_millis(1_700_000_000_000).unwrap(),
            turn: Some(TurnId(2)),
            lineage: LineageIndex(1),
            protocol: 1,
            direction: Direction::FromAgent,
            kind: EventKind::Update,
            body: "{\"jsonrpc\":\"2.0\"}".into(),
        };
        let sum = checksum(7, &event);
        assert_eq!(sum, 331_007_916);
        let others = [
            checksum(8, &event),
            checksum(7, &Event { at: Timestamp::from_millis(1_700_000_000_001).unwrap(), ..event.clone() }),
            checksum(7, &Event { turn: None, ..event.clone() }),
            checksum(7, &Event { lineage: LineageIndex(2), ..event.clone() }),
            checksum(7, &Event { protocol: 2, ..event.clone() }),
            checksum(7, &Event { direction: Direction::ToAgent, ..event.clone() }),
            checksum(7, &Event { kind: EventKind::Fact, ..event.clone() }),
            checksum(7, &Event { body: "{\"jsonrpc\":\"2.1\"}".into(), ..event.clone() }),
            checksum(7, &Event { body: "{\"jsonrpc\":\"2.0\"}\0".into(), ..event }),
        ];
        assert!(!others.contains(&sum));
    }
}
