//! Finds messages by their words: ranked, with the matches marked.
//!
//! The full-text index scores all matches; only the best of them are looked up, to filter and weight them. If the words
//! of a query are common, only its matches in scope are counted and scored. If these are many too, the newest are its
//! hits.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use rusqlite::types::Value;
use rusqlite::{OptionalExtension, params, params_from_iter};

use super::message_writer::first_key;
use super::words::{self, Term};
use super::{IndexError, MessageRole, SearchIndex, SessionOrigin};
use crate::model::Timestamp;

/// How many matches are ranked.
const RANKED: u16 = 5_000;
/// How many scored matches are looked up at a time.
const BATCH: usize = 256;
/// The highest [`weight`].
const HIGHEST_WEIGHT: f64 = 1.5;
/// Around each match so many characters are shown.
const CONTEXT: usize = 120;
/// Marks the beginning and the end of a match. No text contains them: they are control characters.
const MARKS: [char; 2] = ['\u{2}', '\u{3}'];

/// What is searched for.
#[derive(Debug, Clone, Default)]
pub struct SearchQuery {
    /// Words, `"phrases"` and `beginnings*`; a message contains all of them.
    pub words: String,
    /// Where.
    pub scope: SearchScope,
    /// How many hits are wanted.
    pub limit: usize,
}

/// Which messages are searched.
#[derive(Debug, Clone, Default)]
pub struct SearchScope {
    /// Of one agent.
    pub agent: Option<String>,
    /// Of sessions in this directory or below it, by its real path.
    pub project: Option<PathBuf>,
    /// Written at this time or later.
    pub since: Option<Timestamp>,
    /// Of these roles; of all if empty.
    pub roles: Vec<MessageRole>,
    /// Calls of a tool, by its name or its kind.
    pub tool: Option<String>,
    /// Of one session.
    pub session: Option<String>,
    /// Not of these sessions.
    pub excluded: HashSet<String>,
}

/// A message that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    /// Whether its session is a record or a transcript.
    pub origin: SessionOrigin,
    /// The agent's name.
    pub agent: String,
    /// The session.
    pub session: String,
    /// The session that started it as a sub-agent.
    pub parent: Option<String>,
    /// The file of a transcript.
    pub path: PathBuf,
    /// The session's directory.
    pub directory: Option<String>,
    /// The session's title.
    pub title: Option<String>,
    /// The first event of the message in the record or the transcript.
    pub event: u64,
    /// The message's id.
    pub message: Option<String>,
    /// When it was written; when its session was used last, if that is unknown.
    pub at: Option<Timestamp>,
    /// Whose it is.
    pub role: MessageRole,
    /// The kind and the name of a tool.
    pub tool: Option<String>,
    /// The text around the first match.
    pub excerpt: String,
    /// The matches in the excerpt, as ranges of bytes.
    pub matches: Vec<(usize, usize)>,
}

/// A match in scope.
struct WeightedMatch {
    key: i64,
    /// The lower, the better.
    score: f64,
    at: Option<i64>,
}

/// Sorts matches, the best and then the newest first, and keeps so many.
fn keep_best(matches: &mut Vec<WeightedMatch>, limit: usize) {
    matches.sort_by(|one, other| {
        let later = other.at.cmp(&one.at);
        one.score.total_cmp(&other.score).then(later).then(other.key.cmp(&one.key))
    });
    matches.truncate(limit);
}

/// The weight of a role. A prompt is what its author remembers, and a tool's output repeats much.
fn weight(role: MessageRole) -> f64 {
    match role {
        MessageRole::User => HIGHEST_WEIGHT,
        MessageRole::Agent => 1.2,
        MessageRole::Thought => 1.0,
        MessageRole::Tool => 0.7,
    }
}

impl SearchIndex {
    /// Finds messages, the best first. A query without words finds none.
    pub fn search(&self, query: &SearchQuery) -> Result<Vec<SearchHit>, IndexError> {
        let terms = words::terms(&query.words);
        let Some(expression) = words::expression(&terms) else { return Ok(Vec::new()) };
        let keys = self.ranked(&expression, query)?;
        let mut hits = Vec::with_capacity(keys.len());
        for key in keys {
            hits.extend(self.hit(key, &expression, &terms)?);
        }
        Ok(hits)
    }

    /// The keys of the best messages.
    fn ranked(&self, expression: &str, query: &SearchQuery) -> Result<Vec<i64>, IndexError> {
        let Some(scored) = self.scored(expression)? else { return self.ranked_in_scope(expression, query) };
        let mut best: Vec<WeightedMatch> = Vec::new();
        for batch in scored.chunks(BATCH) {
            // No match of this batch or a later one can be better than the last of those that are wanted.
            let bound = batch.first().map_or(0.0, |(_, score)| score * HIGHEST_WEIGHT);
            if best.len() >= query.limit && best.last().is_some_and(|last| last.score <= bound) {
                break;
            }
            best.extend(self.weighted(batch, &query.scope)?);
            keep_best(&mut best, query.limit);
        }
        Ok(best.into_iter().map(|found| found.key).collect())
    }

    /// The keys of the best messages in scope; of the newest ones if they are too many to rank.
    fn ranked_in_scope(&self, expression: &str, query: &SearchQuery) -> Result<Vec<i64>, IndexError> {
        let mut newest = self.newest(expression, &query.scope)?;
        if newest.len() > usize::from(RANKED) {
            newest.truncate(query.limit);
            return Ok(newest);
        }
        let (Some(last), Some(first)) = (newest.first(), newest.last()) else { return Ok(newest) };
        let mut matches = self.scored_between(expression, &query.scope, [*first, *last])?;
        keep_best(&mut matches, query.limit);
        Ok(matches.into_iter().map(|found| found.key).collect())
    }

    /// The keys of all matches with their scores, the best and lowest first; `None` if they are too many to rank.
    fn scored(&self, expression: &str) -> Result<Option<Vec<(i64, f64)>>, IndexError> {
        self.run(|connection| {
            let mut count = connection.prepare_cached(
                "SELECT count(*) FROM (SELECT 1 FROM texts WHERE texts MATCH ?1 LIMIT ?2 + 1)",
            )?;
            let count: u32 = count.query_row(params![expression, RANKED], |row| row.get(0))?;
            if count > u32::from(RANKED) {
                return Ok(None);
            }
            let mut select = connection.prepare_cached(
                "SELECT rowid, bm25(texts, 1.0, 0.5) AS score FROM texts WHERE texts MATCH ?1 ORDER BY score",
            )?;
            let rows = select.query_map([expression], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<Result<_, _>>().map(Some)
        })
    }

    /// The keys of the matches in scope, the newest first: one more than can be ranked, if there are as many.
    fn newest(&self, expression: &str, within: &SearchScope) -> Result<Vec<i64>, IndexError> {
        let (filter, filter_values) = within.filter();
        let since = within.since.map_or(0, |since| first_key(since.as_millis()));
        let values = [Value::from(expression.to_owned()), since.into()].into_iter().chain(filter_values);
        let statement = format!(
            "SELECT texts.rowid FROM texts CROSS JOIN messages ON messages.key = texts.rowid
             CROSS JOIN sessions ON sessions.key = messages.session
             WHERE texts MATCH ? AND texts.rowid >= ? {filter} ORDER BY texts.rowid DESC LIMIT {}",
            u32::from(RANKED) + 1
        );
        self.run(|connection| {
            let mut select = connection.prepare_cached(&statement)?;
            select.query_map(params_from_iter(values), |row| row.get(0))?.collect()
        })
    }

    /// The matches in scope with keys between two, with their weighted scores.
    fn scored_between(
        &self,
        expression: &str,
        within: &SearchScope,
        keys: [i64; 2],
    ) -> Result<Vec<WeightedMatch>, IndexError> {
        let (filter, filter_values) = within.filter();
        let own = [Value::from(expression.to_owned()), keys[0].into(), keys[1].into()];
        let statement = format!(
            "SELECT texts.rowid, role, at, bm25(texts, 1.0, 0.5) FROM texts
             CROSS JOIN messages ON messages.key = texts.rowid
             CROSS JOIN sessions ON sessions.key = messages.session
             WHERE texts MATCH ? AND texts.rowid BETWEEN ? AND ? {filter}"
        );
        self.run(|connection| {
            let mut select = connection.prepare_cached(&statement)?;
            let rows = select.query_map(params_from_iter(own.into_iter().chain(filter_values)), |row| {
                let weight = weight(MessageRole::of_number(row.get(1)?));
                let score = row.get::<_, f64>(3)? * weight;
                Ok(WeightedMatch { key: row.get(0)?, score, at: row.get(2)? })
            })?;
            rows.collect()
        })
    }

    /// Those of some matches that are in scope, with scores weighted by their roles.
    fn weighted(&self, batch: &[(i64, f64)], within: &SearchScope) -> Result<Vec<WeightedMatch>, IndexError> {
        let scores: HashMap<i64, f64> = batch.iter().copied().collect();
        let (filter, filter_values) = within.filter();
        let keys: serde_json::Value = batch.iter().map(|(key, _)| *key).collect();
        let values = std::iter::once(Value::from(keys.to_string())).chain(filter_values);
        let statement = format!(
            "SELECT messages.key, role, at FROM (SELECT value FROM json_each(?)) AS wanted
             CROSS JOIN messages ON messages.key = wanted.value
             CROSS JOIN sessions ON sessions.key = messages.session WHERE TRUE {filter}"
        );
        self.run(|connection| {
            let mut select = connection.prepare_cached(&statement)?;
            let rows = select.query_map(params_from_iter(values), |row| {
                let key = row.get(0)?;
                let weight = weight(MessageRole::of_number(row.get(1)?));
                let score = scores.get(&key).copied().unwrap_or_default() * weight;
                Ok(WeightedMatch { key, score, at: row.get(2)? })
            })?;
            rows.collect()
        })
    }

    fn hit(&self, key: i64, expression: &str, terms: &[Term]) -> Result<Option<SearchHit>, IndexError> {
        self.run(|connection| {
            let marked: Option<String> = connection
                .prepare_cached(
                    "SELECT highlight(texts, 0, char(2), char(3)) FROM texts WHERE texts MATCH ?1 AND rowid = ?2",
                )?
                .query_row(params![expression, key], |row| row.get(0))
                .optional()?;
            let Some(marked) = marked else { return Ok(None) };
            let (excerpt, matches) = excerpt(&marked, terms);
            connection
                .prepare_cached(
                    // A message that a transcript has in addition to its record belongs to the end of the record.
                    "SELECT shown.origin, shown.agent, shown.session, shown.parent, shown.directory, shown.title,
                     shown.first_prompt, iif(shown.key = own.key, event, shown.size), id,
                     coalesce(at, own.updated_at), role, tool, shown.path
                     FROM messages JOIN sessions AS own ON own.key = messages.session
                     JOIN sessions AS shown ON shown.key = coalesce(
                         (SELECT record.key FROM lineage JOIN sessions AS record ON record.key = lineage.session
                          WHERE own.origin = 1 AND own.parent IS NULL AND acp_session = own.session
                          ORDER BY record.last_event_at DESC LIMIT 1), own.key)
                     WHERE messages.key = ?1",
                )?
                .query_row([key], |row| {
                    let first: Option<String> = row.get(6)?;
                    let at: Option<i64> = row.get(9)?;
                    Ok(SearchHit {
                        origin: SessionOrigin::of_number(row.get(0)?),
                        agent: row.get(1)?,
                        session: row.get(2)?,
                        parent: row.get(3)?,
                        path: PathBuf::from(row.get::<_, String>(12)?),
                        directory: row.get(4)?,
                        title: row
                            .get::<_, Option<String>>(5)?
                            .or_else(|| first.and_then(|prompt| crate::model::title_of(&prompt))),
                        event: row.get::<_, i64>(7)?.cast_unsigned(),
                        message: row.get(8)?,
                        at: at.and_then(|millis| Timestamp::from_millis(millis).ok()),
                        role: MessageRole::of_number(row.get(10)?),
                        tool: row.get(11)?,
                        excerpt,
                        matches,
                    })
                })
                .optional()
        })
    }
}

impl SearchScope {
    /// The conditions of SQL and their values. Of a transcript that a record continues, only messages later than the
    /// record are found: the user has added them in the agent's own program.
    fn filter(&self) -> (String, Vec<Value>) {
        let mut filter = String::from(
            " AND (origin = 0 OR parent IS NOT NULL OR NOT EXISTS (SELECT 1 FROM lineage JOIN sessions AS record
             ON record.key = lineage.session WHERE acp_session = sessions.session
             AND coalesce(messages.at, 0) <= coalesce(record.last_event_at, 0)))",
        );
        let mut values: Vec<Value> = Vec::new();
        let mut add = |condition: &str, value: Value| {
            filter.push_str(condition);
            values.push(value);
        };
        if let Some(agent) = &self.agent {
            add(" AND sessions.agent = ?", agent.clone().into());
        }
        if let Some(project) = &self.project {
            let project = project.to_string_lossy().into_owned();
            let below = format!("{}/", project.trim_end_matches('/'));
            add(" AND (real_directory = ?", project.into());
            add(" OR substr(real_directory, 1, length(?)) = ", below.clone().into());
            add("?)", below.into());
        }
        if let Some(since) = self.since {
            add(" AND coalesce(messages.at, sessions.updated_at) >= ?", since.as_millis().into());
        }
        if let Some(tool) = &self.tool {
            add(" AND (' ' || lower(tool) || ' ') LIKE ('% ' || lower(?) || ' %')", tool.clone().into());
        }
        if let Some(session) = &self.session {
            add(" AND (sessions.session = ?", session.clone().into());
            add(" OR parent = ?)", session.clone().into());
        }
        if !self.roles.is_empty() {
            let roles: Vec<String> = self.roles.iter().map(|role| role.number().to_string()).collect();
            filter.push_str(" AND role IN (");
            filter.push_str(&roles.join(","));
            filter.push(')');
        }
        if !self.excluded.is_empty() {
            // One value for any number of sessions: an expression of SQL has a limited depth.
            let excluded: serde_json::Value = self.excluded.iter().cloned().collect();
            let excluded = excluded.to_string();
            filter.push_str(
                " AND sessions.session NOT IN (SELECT value FROM json_each(?))
                 AND coalesce(parent, '') NOT IN (SELECT value FROM json_each(?))",
            );
            values.extend([Value::from(excluded.clone()), excluded.into()]);
        }
        (filter, values)
    }
}

/// The text around the first match on one line, and the matches in it. A match of parts is searched for in the text.
fn excerpt(marked: &str, terms: &[Term]) -> (String, Vec<(usize, usize)>) {
    let (mut text, mut matches, mut begin) = (String::with_capacity(marked.len()), Vec::new(), 0);
    for letter in marked.chars() {
        match letter {
            mark if mark == MARKS[0] => begin = text.len(),
            mark if mark == MARKS[1] => matches.push((begin, text.len())),
            letter => text.push(letter),
        }
    }
    if matches.is_empty() {
        let lower = text.to_lowercase();
        // Lower case changes the length of few letters; a place that is then no boundary is left out.
        let found = terms.iter().filter_map(|term| {
            let begin = lower.find(&term.text.to_lowercase())?;
            Some((begin, begin + term.text.len()))
        });
        matches = found.filter(|(begin, end)| text.get(*begin..*end).is_some()).collect();
        matches.sort_unstable();
    }
    let first = matches.first().map_or(0, |(begin, _)| *begin);
    cut(&text, first, &matches)
}

/// Cuts a text around a position, joins its lines, and moves the matches with it.
fn cut(text: &str, around: usize, matches: &[(usize, usize)]) -> (String, Vec<(usize, usize)>) {
    let begin = text[..around].char_indices().rev().nth(CONTEXT / 2 - 1).map_or(0, |(index, _)| index);
    let end = text[around..].char_indices().nth(CONTEXT * 2).map_or(text.len(), |(index, _)| around + index);
    let mut excerpt = String::from(if begin > 0 { "…" } else { "" });
    let shift = excerpt.len();
    excerpt.extend(text[begin..end].chars().map(|letter| if letter.is_whitespace() { ' ' } else { letter }));
    // White space of several bytes would move the matches; it is kept as it is then.
    if excerpt.len() - shift != end - begin {
        excerpt.truncate(shift);
        excerpt.push_str(&text[begin..end]);
    }
    let inside = matches.iter().filter(|(from, to)| *from >= begin && *to <= end);
    let matches = inside.map(|(from, to)| (from - begin + shift, to - begin + shift)).collect();
    if end < text.len() {
        excerpt.push('…');
    }
    (excerpt, matches)
}
