//! The sessions of the index: transcripts for a list, one transcript by its id, and the state of the index itself.

use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Row, params_from_iter};

use super::{IndexError, SearchIndex};
use crate::model::Timestamp;

/// Where a session of the index comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionOrigin {
    /// A record of the store.
    Record,
    /// A transcript that the agent keeps itself.
    Transcript,
}

impl SessionOrigin {
    pub(super) fn of_number(number: i64) -> Self {
        if number == 0 { Self::Record } else { Self::Transcript }
    }
}

/// A session of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedSession {
    /// Where it comes from.
    pub origin: SessionOrigin,
    /// Its agent's name.
    pub agent: String,
    /// The record's id, or the id that the agent gave it.
    pub session: String,
    /// The file of a transcript.
    pub path: PathBuf,
    /// The directory that it worked in last.
    pub directory: Option<String>,
    /// The same with its links resolved.
    pub real_directory: Option<PathBuf>,
    /// The agent's title, or else the first prompt.
    pub title: Option<String>,
    /// When it began.
    pub created_at: Option<Timestamp>,
    /// When it was used last.
    pub updated_at: Option<Timestamp>,
    /// How many prompts it has.
    pub prompts: u64,
    /// How many tokens it used, if the agent says so.
    pub tokens: Option<u64>,
    /// Whether it was archived in the agent's own program.
    pub is_archived: bool,
    /// Whether it was read to its end.
    pub is_read: bool,
    /// How many lines could not be read.
    pub unread: u64,
}

/// A session of the index with its directory and the sessions that it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPlace {
    /// The session.
    pub session: IndexedSession,
    /// The session that started it as a sub-agent.
    pub parent: Option<String>,
    /// The session that it is a copy of.
    pub fork_of: Option<String>,
    /// Whether a record continues this transcript.
    pub is_continued: bool,
}

/// Which transcripts are wanted.
#[derive(Debug, Clone, Default)]
pub struct TranscriptFilter {
    /// Of one agent.
    pub agent: Option<String>,
    /// Of one directory, by its real path.
    pub real_directory: Option<PathBuf>,
}

/// The state of the index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexStatus {
    /// How many records it has.
    pub records: u64,
    /// How many transcripts it has, with those of sub-agents.
    pub transcripts: u64,
    /// How many of them were not read to their end.
    pub pending: u64,
    /// How many messages can be found.
    pub messages: u64,
    /// The size of its file in bytes.
    pub bytes: u64,
    /// The transcripts of each agent: its name, how many, and how many lines could not be read.
    pub agents: Vec<(String, u64, u64)>,
}

/// The fewest characters of an abbreviated id. A shorter one could soon fit another id.
const SHORTEST_ID: usize = 8;

const COLUMNS: &str =
    "origin, agent, session, path, directory, title, first_prompt, created_at, updated_at, prompts,
    tokens, archived, size, unread + torn, real_directory";

/// Transcripts that are shown on their own: not those of sub-agents, without a message, or that a record continues.
const SHOWN: &str = "origin = 1 AND parent IS NULL
    AND (size < 0 OR prompts > 0 OR EXISTS (SELECT 1 FROM messages WHERE messages.session = sessions.key))
    AND NOT EXISTS (SELECT 1 FROM lineage WHERE acp_session = sessions.session)
    AND NOT EXISTS (SELECT 1 FROM sessions AS record WHERE record.origin = 0 AND record.session = sessions.session)";

impl SearchIndex {
    /// Up to `limit` transcripts that no record continues, most recently used first.
    pub fn transcripts(
        &self,
        filter: &TranscriptFilter,
        limit: usize,
    ) -> Result<Vec<IndexedSession>, IndexError> {
        let mut statement = format!("SELECT {COLUMNS} FROM sessions WHERE {SHOWN}");
        let mut values: Vec<Value> = Vec::new();
        if let Some(agent) = &filter.agent {
            statement.push_str(" AND agent = ?");
            values.push(agent.clone().into());
        }
        if let Some(directory) = &filter.real_directory {
            statement.push_str(" AND real_directory = ?");
            values.push(directory.to_string_lossy().into_owned().into());
        }
        statement.push_str(" ORDER BY updated_at DESC, session DESC LIMIT ?");
        values.push(i64::try_from(limit).unwrap_or(i64::MAX).into());
        self.select(&statement, values)
    }

    /// Transcripts whose id begins with a text, of this agent or of any; the last used first.
    pub fn transcripts_by_prefix(
        &self,
        prefix: &str,
        agent: Option<&str>,
        limit: usize,
    ) -> Result<Vec<IndexedSession>, IndexError> {
        let mut statement = format!(
            "SELECT {COLUMNS} FROM sessions WHERE origin = 1 AND parent IS NULL
             AND substr(session, 1, length(?1)) = ?1"
        );
        let mut values: Vec<Value> = vec![prefix.to_owned().into()];
        if let Some(agent) = agent {
            statement.push_str(" AND agent = ?");
            values.push(agent.to_owned().into());
        }
        statement.push_str(" ORDER BY updated_at DESC LIMIT ?");
        values.push(i64::try_from(limit).unwrap_or(i64::MAX).into());
        self.select(&statement, values)
    }

    /// The shortest beginning of each id that no other session of the index has, of at least eight characters.
    pub fn short_ids(&self, ids: &[&str]) -> Result<Vec<String>, IndexError> {
        self.run(|connection| {
            // In order, an id shares the longest beginning with a neighbour.
            let mut neighbours = connection.prepare_cached(
                "SELECT (SELECT max(session) FROM sessions WHERE session < ?1),
                 (SELECT min(session) FROM sessions WHERE session > ?1)",
            )?;
            let mut short = |id: &&str| {
                let shared =
                    |other: &String| id.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
                neighbours.query_row([id], |row| {
                    let neighbours: [Option<String>; 2] = [row.get(0)?, row.get(1)?];
                    let longest = neighbours.iter().flatten().map(shared).max();
                    Ok(id.get(..SHORTEST_ID.max(longest.unwrap_or(0) + 1)).unwrap_or(id).to_owned())
                })
            };
            ids.iter().map(&mut short).collect()
        })
    }

    /// How many prompts the whole conversation of a record has, and how many tokens its transcripts report.
    pub fn conversation_size(&self, record: &str) -> Result<Option<(u64, Option<u64>)>, IndexError> {
        self.run(|connection| {
            connection
                .prepare_cached(
                    "SELECT prompts, (SELECT sum(tokens) FROM sessions
                         WHERE origin = 1 AND agent = record.agent AND parent IS NULL
                         AND session IN (SELECT acp_session FROM lineage WHERE lineage.session = record.key))
                     FROM sessions AS record WHERE origin = 0 AND session = ?1",
                )?
                .query_row([record], |row| {
                    let tokens = row.get::<_, Option<i64>>(1)?.map(i64::cast_unsigned);
                    Ok((row.get::<_, i64>(0)?.cast_unsigned(), tokens))
                })
                .optional()
        })
    }

    /// Every session, the last used first, with those of sub-agents and those that a record continues.
    pub fn places(&self) -> Result<Vec<SessionPlace>, IndexError> {
        let statement = format!(
            "SELECT {COLUMNS}, parent, fork_of, origin = 1 AND
             (EXISTS (SELECT 1 FROM lineage WHERE acp_session = sessions.session)
              OR EXISTS (SELECT 1 FROM sessions AS record WHERE record.origin = 0 AND record.session = sessions.session))
             FROM sessions ORDER BY updated_at DESC, session DESC"
        );
        self.run(|connection| {
            let mut select = connection.prepare_cached(&statement)?;
            let rows = select.query_map([], |row| {
                Ok(SessionPlace {
                    session: session(row)?,
                    parent: row.get(15)?,
                    fork_of: row.get(16)?,
                    is_continued: row.get(17)?,
                })
            })?;
            rows.collect()
        })
    }

    fn select(&self, statement: &str, values: Vec<Value>) -> Result<Vec<IndexedSession>, IndexError> {
        self.run(|connection| {
            let mut select = connection.prepare_cached(statement)?;
            select.query_map(params_from_iter(values), session)?.collect()
        })
    }

    /// The state of the index.
    pub fn status(&self) -> Result<IndexStatus, IndexError> {
        let mut status = self.run(|connection| {
            let count = |statement: &str| {
                connection.query_row(statement, [], |row| row.get::<_, i64>(0)).map(i64::cast_unsigned)
            };
            let mut select = connection.prepare(
                "SELECT agent, count(*), sum(unread + torn) FROM sessions WHERE origin = 1 GROUP BY agent ORDER BY agent",
            )?;
            let agents = select.query_map([], |row| {
                let number = |index| row.get::<_, i64>(index).map(i64::cast_unsigned);
                Ok((row.get(0)?, number(1)?, number(2)?))
            })?;
            Ok(IndexStatus {
                records: count("SELECT count(*) FROM sessions WHERE origin = 0")?,
                transcripts: count("SELECT count(*) FROM sessions WHERE origin = 1")?,
                pending: count("SELECT count(*) FROM sessions WHERE size < 0")?,
                messages: count("SELECT count(*) FROM messages")?,
                bytes: 0,
                agents: agents.collect::<Result<_, _>>()?,
            })
        })?;
        status.bytes = ["", "-wal"].iter().map(|end| file_size(&self.path, end)).sum();
        Ok(status)
    }
}

fn file_size(path: &Path, end: &str) -> u64 {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    std::fs::metadata(name).map_or(0, |file| file.len())
}

fn session(row: &Row<'_>) -> Result<IndexedSession, rusqlite::Error> {
    let time = |index| row.get::<_, Option<i64>>(index).map(|millis| Timestamp::from_millis(millis?).ok());
    let title: Option<String> = row.get(5)?;
    let first_prompt: Option<String> = row.get(6)?;
    Ok(IndexedSession {
        origin: SessionOrigin::of_number(row.get(0)?),
        agent: row.get(1)?,
        session: row.get(2)?,
        path: PathBuf::from(row.get::<_, String>(3)?),
        directory: row.get(4)?,
        title: title.or_else(|| first_prompt.and_then(|prompt| crate::model::title_of(&prompt))),
        created_at: time(7)?,
        updated_at: time(8)?,
        prompts: row.get::<_, i64>(9)?.cast_unsigned(),
        tokens: row.get::<_, Option<i64>>(10)?.map(i64::cast_unsigned),
        is_archived: row.get(11)?,
        is_read: row.get::<_, i64>(12)? >= 0,
        unread: row.get::<_, i64>(13)?.cast_unsigned(),
        real_directory: row.get::<_, Option<String>>(14)?.map(PathBuf::from),
    })
}
