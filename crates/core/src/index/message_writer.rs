//! Writes messages with keys in the order of their times.
//!
//! The full-text index returns matches in the order of their keys, so the newest matches of a common word are found
//! without a look at the others.

use rusqlite::{Connection, params};

use super::messages::IndexedMessage;

/// A key begins with the time in seconds; so many bits after it number the messages of a second. More messages than
/// these take the keys of the next seconds.
const NUMBER_BITS: u32 = 12;
/// The last second that has keys.
const LAST_SECOND: i64 = i64::MAX >> (NUMBER_BITS + 1);

/// The lowest key of a message that was written at this time, in milliseconds, or later.
pub(super) fn first_key(millis: i64) -> i64 {
    (millis / 1000).clamp(0, LAST_SECOND) << NUMBER_BITS
}

/// Writes the messages of a session.
pub(super) struct MessageWriter {
    /// How many bytes of text were written.
    pub(super) bytes: usize,
    /// The time of messages without one, in milliseconds. No message is newer.
    latest: i64,
    /// The first key of the second of the last message, and the last key.
    second: i64,
    last: i64,
}

impl MessageWriter {
    /// Writes messages of a session that was last written at this time, in milliseconds.
    pub(super) fn new(latest: i64) -> Self {
        Self { bytes: 0, latest, second: -1, last: -1 }
    }

    /// Writes a message, in several rows if it is long.
    pub(super) fn write(
        &mut self,
        connection: &Connection,
        session: i64,
        message: &IndexedMessage,
    ) -> Result<(), rusqlite::Error> {
        let mut insert = connection.prepare_cached(
            "INSERT INTO messages (key, session, event, id, at, role, tool, text, parts)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?;
        for (text, parts) in message.rows() {
            self.bytes += text.len();
            insert.execute(params![
                self.free_key(connection, message.at)?,
                session,
                message.event.cast_signed(),
                message.id,
                message.at,
                message.role.number(),
                message.tool,
                text,
                parts,
            ])?;
        }
        Ok(())
    }

    /// The next key of a time that no message has.
    fn free_key(&mut self, connection: &Connection, at: Option<i64>) -> Result<i64, rusqlite::Error> {
        let second = first_key(at.unwrap_or(self.latest).min(self.latest));
        let mut key = if second == self.second { self.last + 1 } else { second };
        let mut taken =
            connection.prepare_cached("SELECT max(key) FROM messages WHERE key BETWEEN ?1 AND ?1 + ?2")?;
        let range = (1_i64 << NUMBER_BITS) - 1;
        while let Some(last) = taken.query_row([key, range], |row| row.get::<_, Option<i64>>(0))? {
            key = last + 1;
        }
        (self.second, self.last) = (second, key);
        Ok(key)
    }
}
