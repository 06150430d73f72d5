//! Brings the index up to date: transcripts that have changed, newest first, and records that have changed.
//!
//! Reading stops at a deadline and goes on there the next time. A file that has only grown is read from where it ended.
//! One process updates at a time; another one skips the update.

use std::cell::LazyCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::message_writer::MessageWriter;
use super::messages::IndexedMessage;
use super::{IndexError, MessageRole, SearchIndex};
use crate::acp;
use crate::model::{
    AcpSessionId, AgentSpec, Content, Conversation, MessageKind, Record, RecordId, Secrets, Seq, Timestamp,
    Update,
};
use crate::store::{RecordFilter, Store, open_regular_file};
use crate::transcripts::{
    SourceStamp, TranscriptItems, TranscriptProblem, TranscriptReader, TranscriptSource, TranscriptSummary,
    Unread,
};

/// A transaction ends with the message that makes it this large.
const COMMIT_BYTES: usize = 4 * 1024 * 1024;
/// How many records are compared at a time.
const RECORD_PAGE: usize = 64;
/// How many events of a record are read at a time.
const EVENT_PAGE: usize = 2048;
/// How many messages before a result its call is looked for.
const CALLS_BACK: i64 = 1024;
/// After how many entries a conversation is written.
const ENTRIES: usize = 256;

/// What the user excludes from the index.
#[derive(Debug, Clone, Default)]
pub struct IndexExclusions {
    /// Agents by name.
    pub agents: HashSet<String>,
    /// Directories: of transcripts, and of projects with everything below them.
    pub paths: Vec<PathBuf>,
}

impl IndexExclusions {
    /// Whether a path is excluded.
    pub fn excludes(&self, path: &Path) -> bool {
        self.paths.iter().any(|excluded| path.starts_with(excluded))
    }

    /// Whether a record is excluded.
    pub fn excludes_record(&self, record: &Record) -> bool {
        self.excludes(record.real_cwd.as_path())
            || record.agent.name.as_ref().is_some_and(|name| self.agents.contains(&**name))
    }

    /// Changes with the exclusions. It is kept in the header of the file.
    fn digest(&self) -> i32 {
        let mut agents: Vec<&String> = self.agents.iter().collect();
        agents.sort_unstable();
        let mut paths: Vec<&PathBuf> = self.paths.iter().collect();
        paths.sort_unstable();
        let mut hasher = DefaultHasher::new();
        (agents, paths).hash(&mut hasher);
        // The upper half is as good as the whole.
        i32::try_from(hasher.finish() >> 33).unwrap_or_default()
    }
}

/// The transcripts that exist, and what could not be listed.
#[derive(Debug, Default)]
pub struct TranscriptScan {
    /// Every transcript.
    pub sources: Vec<TranscriptSource>,
    /// What could not be read.
    pub problems: Vec<TranscriptProblem>,
}

impl TranscriptScan {
    /// The sessions that belong to deleted records and to no other ones.
    async fn deleted(&self, store: &dyn Store) -> Result<HashSet<AcpSessionId>, IndexError> {
        let mut by_agent: BTreeMap<&str, Vec<AcpSessionId>> = BTreeMap::new();
        for source in &self.sources {
            by_agent.entry(source.agent).or_default().push(owner_of(source).clone());
        }
        let (mut deleted, mut kept) = (HashSet::new(), HashSet::new());
        for (agent, sessions) in by_agent {
            for owner in store.owners(AgentSpec::new(agent, [""; 0]).named(agent), sessions).await? {
                (if owner.is_deleted { &mut deleted } else { &mut kept }).insert(owner.session);
            }
        }
        deleted.retain(|session| !kept.contains(session));
        Ok(deleted)
    }

    /// Changes with the transcripts, their stamps, what could not be listed, the exclusions and the number of deleted
    /// records.
    fn digest(&self, exclusions: &IndexExclusions, deletions: u64) -> i64 {
        let mut hasher = DefaultHasher::new();
        (exclusions.digest(), deletions).hash(&mut hasher);
        for TranscriptSource { agent, session, path, stamp, parent, is_archived } in &self.sources {
            let parent = parent.as_ref().map(AcpSessionId::as_str);
            // A path as bytes is hashed faster than by its components.
            let path = path.as_os_str();
            (agent, session.as_str(), path, stamp, parent, is_archived).hash(&mut hasher);
        }
        for problem in &self.problems {
            problem.path.as_os_str().hash(&mut hasher);
        }
        hasher.finish().cast_signed()
    }
}

/// The session that decides whether a transcript is kept: a sub-agent's belongs to the session that started it.
fn owner_of(source: &TranscriptSource) -> &AcpSessionId {
    source.parent.as_ref().unwrap_or(&source.session)
}

/// A path as it is written, and as readers name what is in it: with the links of its directory resolved.
fn names_of(path: PathBuf) -> Vec<PathBuf> {
    let in_real_directory = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    let resolved = [path.canonicalize().ok(), in_real_directory()];
    let mut names: Vec<PathBuf> = resolved.into_iter().flatten().collect();
    names.push(path);
    names
}

async fn deleted_records(store: Option<&dyn Store>) -> Result<u64, IndexError> {
    match store {
        Some(store) => Ok(store.deleted_records().await?),
        None => Ok(0),
    }
}

/// How far the index is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexProgress {
    /// How many transcripts and records were read.
    pub read: u64,
    /// How many have changed and were not read to their end.
    pub missing: u64,
    /// How many bytes of transcripts that is.
    pub missing_bytes: u64,
    /// Whether another process is updating the index.
    pub is_busy: bool,
    /// Transcripts that could not be read.
    pub problems: Vec<TranscriptProblem>,
}

/// A transcript of the index.
struct KnownTranscript {
    key: i64,
    stamp: SourceStamp,
    position: Option<u64>,
    fingerprint: i64,
    /// The time of the last read that did not reach the end, of a format without positions.
    unfinished: Duration,
}

/// A transcript that differs from its row in the index, or has none.
type ChangedTranscript<'a> = (&'a TranscriptSource, Option<KnownTranscript>);

/// Where a read of a record ended.
#[derive(Default)]
struct RecordEnd {
    /// The last event, and its time.
    last: Option<Seq>,
    last_at: Option<Timestamp>,
    /// Where the read began and how long it took, if the deadline stopped it.
    stopped: Option<(Seq, Duration)>,
}

/// The row of a transcript while it is read.
struct TranscriptRow {
    key: i64,
    events: u64,
    summary: TranscriptSummary,
    unread: u64,
}

impl SearchIndex {
    /// Lists the transcripts of all agents. One that the index has, and that has not changed, is not opened for that.
    pub fn scan(
        &self,
        readers: &[Box<dyn TranscriptReader>],
        exclusions: &IndexExclusions,
    ) -> TranscriptScan {
        let mut scan = TranscriptScan::default();
        for reader in readers.iter().filter(|reader| !exclusions.agents.contains(reader.agent())) {
            // Most readers need nothing of it. An index that cannot be read has no transcripts; the update reports why.
            let indexed = LazyCell::new(|| self.indexed_sources(reader.agent()).unwrap_or_default());
            let known = |path: &Path, stamp| indexed.get(path).filter(|known| known.stamp == stamp).cloned();
            let problems = reader.list_changed(&known, &mut |source| {
                if !exclusions.excludes(&source.path) {
                    scan.sources.push(source);
                }
            });
            scan.problems.extend(problems);
        }
        scan
    }

    /// The transcripts of an agent that were read to their end, by their files.
    fn indexed_sources(&self, agent: &'static str) -> Result<HashMap<PathBuf, TranscriptSource>, IndexError> {
        self.run(|connection| {
            let mut select = connection.prepare_cached(
                "SELECT path, session, size, modified, inode, parent, archived FROM sessions
                 WHERE origin = 1 AND agent = ?1 AND size >= 0",
            )?;
            let mut rows = select.query([agent])?;
            let mut sources = HashMap::new();
            while let Some(row) = rows.next()? {
                let path = PathBuf::from(row.get::<_, String>(0)?);
                // An id that is none any more is read again.
                let Ok(session) = AcpSessionId::new(row.get::<_, String>(1)?) else { continue };
                let parent = row.get::<_, Option<String>>(5)?.map(AcpSessionId::new).transpose();
                let Ok(parent) = parent else { continue };
                let (stamp, is_archived) = (stamp_of(row, 2)?, row.get(6)?);
                let source =
                    TranscriptSource { agent, session, path: path.clone(), stamp, parent, is_archived };
                sources.insert(path, source);
            }
            Ok(sources)
        })
    }

    /// Locks updates of the index; `None` if another process has the lock.
    pub(super) fn lock(&self) -> Option<File> {
        let mut path = self.path.as_os_str().to_owned();
        path.push(".lock");
        let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(path).ok()?;
        file.try_lock().ok()?;
        Some(file)
    }

    /// Reads the transcripts of a scan that have changed, newest first, until the deadline, and removes those of records
    /// that are deleted in `store`. This blocks.
    pub async fn update_transcripts(
        &mut self,
        store: Option<&dyn Store>,
        readers: &[Box<dyn TranscriptReader>],
        scan: &TranscriptScan,
        exclusions: &IndexExclusions,
        secrets: &Secrets,
        until: Option<Instant>,
    ) -> Result<IndexProgress, IndexError> {
        let mut progress = IndexProgress::default();
        let Some(_lock) = self.lock() else {
            progress.is_busy = true;
            return Ok(progress);
        };
        self.apply_exclusions(exclusions)?;
        let deletions = deleted_records(store).await?;
        let digest = scan.digest(exclusions, deletions);
        if self.complete_scan()? == Some(digest) {
            return Ok(progress);
        }
        let deleted = match store {
            Some(store) => scan.deleted(store).await?,
            None => HashSet::new(),
        };
        let changed = self.changed_transcripts(readers, scan, &deleted, exclusions)?;
        self.read_changed(readers, changed, exclusions, secrets, until, &mut progress)?;
        // The host may have deleted a session before its transcript was written here. The digest has the number from
        // before, so the next update compares all of them again.
        if let Some(store) = store
            && store.deleted_records().await? != deletions
        {
            let now = scan.deleted(store).await?;
            let since: Vec<&str> = now.difference(&deleted).map(AcpSessionId::as_str).collect();
            self.forget(&since)?;
        }
        let is_complete = progress.missing == 0 && progress.problems.is_empty();
        self.set_complete_scan(is_complete.then_some(digest))?;
        Ok(progress)
    }

    /// The digest of the last scan whose transcripts were all read.
    fn complete_scan(&self) -> Result<Option<i64>, IndexError> {
        self.run(|connection| {
            connection.query_row("SELECT digest FROM complete_scan", [], |row| row.get(0)).optional()
        })
    }

    fn set_complete_scan(&self, digest: Option<i64>) -> Result<(), IndexError> {
        self.run(|connection| {
            connection.execute("DELETE FROM complete_scan", [])?;
            if let Some(digest) = digest {
                connection.execute("INSERT INTO complete_scan VALUES (?1)", [digest])?;
            }
            Ok(())
        })
    }

    /// Compares transcripts with the index, removes those that are gone or deleted, and returns those that differ, the
    /// newest first. A transcript below a path that could not be listed stays.
    fn changed_transcripts<'a>(
        &mut self,
        readers: &[Box<dyn TranscriptReader>],
        scan: &'a TranscriptScan,
        deleted: &HashSet<AcpSessionId>,
        exclusions: &IndexExclusions,
    ) -> Result<Vec<ChangedTranscript<'a>>, IndexError> {
        let mut known = self.known_transcripts()?;
        let (mut changed, mut gone): (Vec<ChangedTranscript<'a>>, Vec<i64>) = (Vec::new(), Vec::new());
        for source in &scan.sources {
            let row = known.remove(&(source.path.clone(), source.session.as_str().to_owned()));
            match row {
                row if deleted.contains(owner_of(source)) => gone.extend(row.map(|row| row.key)),
                Some(row) if row.stamp == source.stamp => {}
                row => changed.push((source, row)),
            }
        }
        // A process whose environment moves an agent's directory reads other places, and removes nothing here.
        let places: Vec<PathBuf> =
            readers.iter().flat_map(|reader| reader.locations()).flat_map(names_of).collect();
        let unlisted: Vec<PathBuf> =
            scan.problems.iter().flat_map(|problem| names_of(problem.path.clone())).collect();
        let is_below = |path: &Path, places: &[PathBuf]| places.iter().any(|place| path.starts_with(place));
        let is_gone = |path: &Path| {
            let is_listed = !is_below(path, &unlisted);
            exclusions.excludes(path)
                || is_listed && (is_below(path, &places) || path.try_exists().is_ok_and(|exists| !exists))
        };
        gone.extend(known.iter().filter(|((path, _), _)| is_gone(path)).map(|(_, row)| row.key));
        self.forget_keys(gone.into_iter())?;
        changed.sort_by_key(|(source, _)| std::cmp::Reverse(source.stamp.modified));
        Ok(changed)
    }

    /// Reads transcripts that differ from the index.
    fn read_changed(
        &mut self,
        readers: &[Box<dyn TranscriptReader>],
        changed: Vec<ChangedTranscript<'_>>,
        exclusions: &IndexExclusions,
        secrets: &Secrets,
        until: Option<Instant>,
        progress: &mut IndexProgress,
    ) -> Result<(), IndexError> {
        let mut unread = Vec::new();
        for (source, row) in changed {
            let reader = readers.iter().find(|reader| reader.agent() == source.agent);
            let is_over = until.is_some_and(|until| Instant::now() >= until);
            // One conversation must not take the time of all others at each update.
            let is_later = is_over || row.as_ref().is_some_and(|row| needs_longer(row.unfinished, until));
            let Some(reader) = reader.filter(|_| !is_later) else {
                unread.extend(row.is_none().then_some(source));
                progress.note_missing(source, row.as_ref());
                continue;
            };
            let mut read = TranscriptRead { source, exclusions, secrets, until, begun: Instant::now() };
            match read.run(self, &**reader, row.as_ref())? {
                ReadEnd::Whole => progress.read += 1,
                ReadEnd::Deadline => progress.note_missing(source, row.as_ref()),
                ReadEnd::Failed(reason) => {
                    progress.problems.push(TranscriptProblem { path: source.path.clone(), reason });
                }
            }
        }
        self.note_unread(&unread)
    }

    /// Removes what is excluded since the last update, and what was excluded then, so that it is read again if it is
    /// not any more. Returns whether the exclusions have changed.
    fn apply_exclusions(&mut self, exclusions: &IndexExclusions) -> Result<bool, IndexError> {
        let digest = exclusions.digest();
        let applied: i32 =
            self.run(|connection| connection.query_row("PRAGMA application_id", [], |row| row.get(0)))?;
        if applied == digest {
            return Ok(false);
        }
        let rows: Vec<(i64, String, [Option<String>; 2], bool)> = self.run(|connection| {
            let mut select = connection.prepare(
                "SELECT key, agent, real_directory, path,
                 EXISTS (SELECT 1 FROM messages WHERE messages.session = sessions.key) FROM sessions",
            )?;
            let rows = select.query_map([], |row| {
                Ok((row.get(0)?, row.get(1)?, [row.get(2)?, row.get(3)?], row.get(4)?))
            })?;
            rows.collect()
        })?;
        let changed = rows.into_iter().filter(|(_, agent, places, has_messages)| {
            let mut places = places.iter().flatten();
            !has_messages
                || exclusions.agents.contains(agent)
                || places.any(|place| exclusions.excludes(Path::new(place)))
        });
        self.forget_keys(changed.map(|(key, ..)| key))?;
        self.run(|connection| connection.pragma_update(None, "application_id", digest))?;
        Ok(true)
    }

    fn known_transcripts(&self) -> Result<HashMap<(PathBuf, String), KnownTranscript>, IndexError> {
        self.run(|connection| {
            let mut select = connection.prepare_cached(
                "SELECT path, session, key, size, modified, inode, position, fingerprint, unfinished FROM sessions
                 WHERE origin = 1",
            )?;
            let rows = select.query_map([], |row| {
                let place = (PathBuf::from(row.get::<_, String>(0)?), row.get(1)?);
                let stamp = stamp_of(row, 3)?;
                let position = row.get::<_, Option<i64>>(6)?.map(i64::cast_unsigned);
                let unfinished = Duration::from_millis(row.get::<_, i64>(8)?.unsigned_abs());
                let (key, fingerprint) = (row.get(2)?, row.get(7)?);
                Ok((place, KnownTranscript { key, stamp, position, fingerprint, unfinished }))
            })?;
            rows.collect()
        })
    }

    /// Adds transcripts that are not read yet, so that a list shows them.
    fn note_unread(&mut self, sources: &[&TranscriptSource]) -> Result<(), IndexError> {
        self.run(|connection| {
            // One transaction: there may be very many of them.
            let transaction = connection.unchecked_transaction()?;
            for source in sources {
                let key = insert_transcript(connection, source)?;
                let at = source.stamp.modified / 1_000_000;
                connection
                    .prepare_cached("UPDATE sessions SET size = -1, updated_at = ?2 WHERE key = ?1")?
                    .execute(params![key, at])?;
            }
            transaction.commit()
        })
    }

    /// Removes sessions with their messages.
    pub(super) fn forget_keys(&mut self, keys: impl Iterator<Item = i64>) -> Result<(), IndexError> {
        for key in keys {
            self.run(|connection| {
                connection.prepare_cached("DELETE FROM messages WHERE session = ?1")?.execute([key])?;
                connection.prepare_cached("DELETE FROM sessions WHERE key = ?1")?.execute([key]).map(drop)
            })?;
        }
        Ok(())
    }

    /// Removes sessions by their ids, of records or transcripts, also from the log of the file. With a record go the
    /// transcripts of its sessions, and with a transcript those of its sub-agents.
    pub fn forget(&mut self, sessions: &[&str]) -> Result<(), IndexError> {
        let keys: Vec<i64> = self.run(|connection| {
            let mut select = connection.prepare_cached(
                "WITH own (id) AS (SELECT ?1 UNION SELECT acp_session FROM lineage JOIN sessions AS record
                     ON record.key = lineage.session WHERE record.origin = 0 AND record.session = ?1)
                 SELECT key FROM sessions WHERE session IN own OR parent IN own",
            )?;
            let mut keys = Vec::new();
            for session in sessions {
                let found = select.query_map([session], |row| row.get(0))?;
                keys.extend(found.collect::<Result<Vec<i64>, _>>()?);
            }
            Ok(keys)
        })?;
        self.forget_keys(keys.into_iter())?;
        // While another process reads, the log stays until the next checkpoint.
        self.run(|connection| connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())))
    }

    /// Reads the records that have changed, until the deadline; and removes deleted ones if `is_complete`.
    pub async fn update_records(
        &mut self,
        store: &dyn Store,
        exclusions: &IndexExclusions,
        until: Option<Instant>,
        is_complete: bool,
    ) -> Result<IndexProgress, IndexError> {
        let mut progress = IndexProgress::default();
        let Some(_lock) = self.lock() else {
            progress.is_busy = true;
            return Ok(progress);
        };
        let is_complete = self.apply_exclusions(exclusions)? || is_complete;
        // An update that stopped has left older records, behind pages that are unchanged now.
        let is_complete = is_complete || !self.has_all_records()?;
        let (mut after, mut seen) = (None, HashSet::new());
        loop {
            let page = store.records(RecordFilter::default(), after.take(), RECORD_PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some((last.updated_at, last.id.clone()));
            let mut has_changes = false;
            for record in page {
                if exclusions.excludes_record(&record) {
                    continue;
                }
                seen.insert(record.id.to_string());
                if !self.is_changed(&record)? {
                    continue;
                }
                has_changes = true;
                self.set_all_records(false)?;
                let is_over = until.is_some_and(|until| Instant::now() >= until);
                if is_over || needs_longer(self.unfinished_read(&record)?, until) {
                    progress.missing += 1;
                } else {
                    let is_whole = self.read_record(store, &record, until).await?;
                    *(if is_whole { &mut progress.read } else { &mut progress.missing }) += 1;
                    // The host may have deleted it before it was written here.
                    if store.record(record.id.clone()).await?.is_none_or(|now| now.lifecycle.is_deleted()) {
                        self.forget(&[record.id.as_str()])?;
                    }
                }
            }
            // Changed records come first.
            if !has_changes && !is_complete {
                self.set_all_records(progress.missing == 0)?;
                return Ok(progress);
            }
        }
        self.set_all_records(progress.missing == 0)?;
        let gone: Vec<i64> = self.run(|connection| {
            let mut select =
                connection.prepare_cached("SELECT key, session FROM sessions WHERE origin = 0")?;
            let rows: Vec<(i64, String)> =
                select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
            Ok(rows.into_iter().filter(|(_, id)| !seen.contains(id)).map(|(key, _)| key).collect())
        })?;
        self.forget_keys(gone.into_iter())?;
        Ok(progress)
    }

    /// Whether the last update has read every record that had changed.
    fn has_all_records(&self) -> Result<bool, IndexError> {
        self.run(|connection| {
            connection.query_row("SELECT EXISTS (SELECT 1 FROM complete_records)", [], |row| row.get(0))
        })
    }

    fn set_all_records(&self, is_complete: bool) -> Result<(), IndexError> {
        let statement = if is_complete {
            "INSERT OR IGNORE INTO complete_records VALUES (1)"
        } else {
            "DELETE FROM complete_records"
        };
        self.run(|connection| connection.execute(statement, []).map(drop))
    }

    fn is_changed(&self, record: &Record) -> Result<bool, IndexError> {
        let row: Option<(i64, i64, Option<String>)> = self.run(|connection| {
            connection
                .prepare_cached(
                    "SELECT size, modified, title FROM sessions WHERE origin = 0 AND session = ?1",
                )?
                .query_row([record.id.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .optional()
        })?;
        let last = record.last_seq.map_or(0, |seq| seq.0).cast_signed();
        let title = record.info.title().map(str::to_owned);
        Ok(row.is_none_or(|(size, lineage, known)| {
            size != last || lineage != lineage_stamp(record) || (title.is_some() && known != title)
        }))
    }

    /// How long the last read of a record took that came to no other prompt before its deadline.
    fn unfinished_read(&self, record: &Record) -> Result<Duration, IndexError> {
        let millis: Option<i64> = self.run(|connection| {
            connection
                .prepare_cached("SELECT unfinished FROM sessions WHERE origin = 0 AND session = ?1")?
                .query_row([record.id.as_str()], |row| row.get(0))
                .optional()
        })?;
        Ok(Duration::from_millis(millis.unwrap_or(0).unsigned_abs()))
    }

    /// Reads a record from its last indexed prompt on, until the deadline. Returns whether it came to the end.
    async fn read_record(
        &mut self,
        store: &dyn Store,
        record: &Record,
        until: Option<Instant>,
    ) -> Result<bool, IndexError> {
        let begun = Instant::now();
        let (key, first) = self.begin_record(record)?;
        let mut conversation = Conversation::new(record.id.clone());
        let (mut from, mut writer) = (first, MessageWriter::new(record.updated_at.as_millis()));
        self.run(|connection| connection.execute_batch("BEGIN IMMEDIATE"))?;
        let (mut done, mut end) = (Ok(()), RecordEnd { last: record.last_seq, ..RecordEnd::default() });
        'pages: loop {
            let page = match store.events(record.id.clone(), from, EVENT_PAGE).await {
                Ok(page) => page,
                Err(error) => {
                    done = Err(error.into());
                    break;
                }
            };
            let Some(last) = page.last() else { break };
            (from, end.last_at) = (last.seq.next(), Some(last.at));
            for event in &page {
                let content = acp::content(event);
                if is_prompt(&content) && conversation.entries().len() >= ENTRIES {
                    done = self.write_entries(key, &record.id, &mut conversation, &mut writer);
                    if done.is_err() {
                        break 'pages;
                    }
                }
                conversation.apply(event, content);
            }
            let has_more = record.last_seq.is_some_and(|end| last.seq < end);
            if has_more && until.is_some_and(|until| Instant::now() >= until) {
                end = RecordEnd { last: Some(last.seq), stopped: Some((first, begun.elapsed())), ..end };
                break;
            }
        }
        let is_whole = end.stopped.is_none();
        done = done.and_then(|()| self.write_entries(key, &record.id, &mut conversation, &mut writer));
        done = done.and_then(|()| self.end_record(key, record, &end));
        let statement = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
        self.run(|connection| connection.execute_batch(statement))?;
        done.map(|()| is_whole)
    }

    /// The row of a record, without its last exchange, and the event where reading begins.
    fn begin_record(&mut self, record: &Record) -> Result<(i64, Seq), IndexError> {
        self.run(|connection| {
            let key = insert_record(connection, record)?;
            let from = last_prompt(connection, key)?;
            connection
                .prepare_cached("DELETE FROM messages WHERE session = ?1 AND event >= ?2")?
                .execute([key, from])?;
            Ok((key, Seq(from.cast_unsigned())))
        })
    }

    fn write_entries(
        &mut self,
        key: i64,
        record: &RecordId,
        conversation: &mut Conversation,
        writer: &mut MessageWriter,
    ) -> Result<(), IndexError> {
        let written = std::mem::replace(conversation, Conversation::new(record.clone()));
        self.run(|connection| {
            for message in written.entries().iter().filter_map(IndexedMessage::of_entry) {
                writer.write(connection, key, &message)?;
            }
            Ok(())
        })
    }

    fn end_record(&mut self, key: i64, record: &Record, end: &RecordEnd) -> Result<(), IndexError> {
        self.run(|connection| {
            // The next read begins at the last prompt. If it is the same one again, that read needs more time.
            let unfinished = match end.stopped {
                Some((first, took)) if last_prompt(connection, key)? == first.0.cast_signed() => took,
                _ => Duration::ZERO,
            };
            let first: Option<String> = connection
                .prepare_cached(
                    "SELECT substr(text, 1, 1024) FROM messages WHERE session = ?1 AND role = 0 ORDER BY event, key LIMIT 1",
                )?
                .query_row([key], |row| row.get(0))
                .optional()?;
            let prompts: i64 = connection
                .prepare_cached("SELECT count(DISTINCT event) FROM messages WHERE session = ?1 AND role = 0")?
                .query_row([key], |row| row.get(0))?;
            connection
                .prepare_cached(
                    "UPDATE sessions SET size = ?2, modified = ?3, title = ?4, first_prompt = ?5, prompts = ?6,
                     directory = ?7, real_directory = ?8, created_at = ?9, updated_at = ?10, tokens = ?11,
                     last_event_at = ?12, unfinished = ?13 WHERE key = ?1",
                )?
                .execute(params![
                    key,
                    end.last.map_or(0, |seq| seq.0).cast_signed(),
                    lineage_stamp(record),
                    record.info.title(),
                    first,
                    prompts,
                    record.cwd.as_str(),
                    record.real_cwd.as_str(),
                    record.created_at.as_millis(),
                    record.updated_at.as_millis(),
                    record.info.usage.as_ref().map(|usage| usage.used.cast_signed()),
                    end.last_at.map(Timestamp::as_millis),
                    i64::try_from(unfinished.as_millis()).unwrap_or(i64::MAX),
                ])?;
            connection.prepare_cached("DELETE FROM lineage WHERE session = ?1")?.execute([key])?;
            let mut insert =
                connection.prepare_cached("INSERT OR IGNORE INTO lineage (session, acp_session) VALUES (?1, ?2)")?;
            for row in record.lineage.rows() {
                insert.execute(params![key, row.session.as_str()])?;
            }
            Ok(())
        })
    }
}

/// The stamp in three columns of a row: size, modified, inode.
fn stamp_of(row: &Row<'_>, first: usize) -> Result<SourceStamp, rusqlite::Error> {
    Ok(SourceStamp {
        size: row.get::<_, i64>(first)?.cast_unsigned(),
        modified: row.get(first + 1)?,
        inode: row.get::<_, i64>(first + 2)?.cast_unsigned(),
    })
}

/// Changes with the lineage and the directory of a record, which have no events.
fn lineage_stamp(record: &Record) -> i64 {
    let rows = record.lineage.rows();
    let directory = record
        .real_cwd
        .as_str()
        .bytes()
        .fold(0_i64, |sum, byte| sum.wrapping_mul(31).wrapping_add(i64::from(byte)));
    directory.wrapping_mul(31).wrapping_add(i64::try_from(rows.len()).unwrap_or(i64::MAX))
}

/// Whether a read until this time would again not reach the end, after one that took so long. It is tried again with
/// twice the time.
fn needs_longer(unfinished: Duration, until: Option<Instant>) -> bool {
    until.is_some_and(|until| until.saturating_duration_since(Instant::now()) < 2 * unfinished)
}

/// The event of the last prompt of a session; 1 if it has none.
fn last_prompt(connection: &Connection, session: i64) -> Result<i64, rusqlite::Error> {
    connection
        .prepare_cached("SELECT coalesce(max(event), 1) FROM messages WHERE session = ?1 AND role = 0")?
        .query_row([session], |row| row.get(0))
}

/// Whether an event begins an exchange: a prompt of ours, or one that the agent reports.
fn is_prompt(content: &Content) -> bool {
    let kind = match content {
        Content::Prompt { .. } => return true,
        Content::Update(Update::Chunk { kind, message_id: Some(_), .. } | Update::Message { kind, .. }) => {
            *kind
        }
        Content::Update(_) | Content::Fact(_) | Content::Nothing => return false,
    };
    kind == MessageKind::User
}

fn insert_record(connection: &Connection, record: &Record) -> Result<i64, rusqlite::Error> {
    let known: Option<i64> = connection
        .prepare_cached("SELECT key FROM sessions WHERE origin = 0 AND session = ?1")?
        .query_row([record.id.as_str()], |row| row.get(0))
        .optional()?;
    if let Some(key) = known {
        return Ok(key);
    }
    connection
        .prepare_cached(
            "INSERT INTO sessions (origin, agent, session, path, archived, size, modified, inode, events, prompts, unread)
             VALUES (0, ?1, ?2, '', 0, -1, 0, 0, 0, 0, 0)",
        )?
        .execute(params![record.agent.label(), record.id.as_str()])?;
    Ok(connection.last_insert_rowid())
}

fn insert_transcript(connection: &Connection, source: &TranscriptSource) -> Result<i64, rusqlite::Error> {
    connection
        .prepare_cached(
            "INSERT INTO sessions (origin, agent, session, path, parent, archived, size, modified, inode, events,
             prompts, unread) VALUES (1, ?1, ?2, ?3, ?4, ?5, -1, 0, 0, 0, 0, 0)
             ON CONFLICT DO UPDATE SET parent = excluded.parent, archived = excluded.archived
             RETURNING key",
        )?
        .query_row(
            params![
                source.agent,
                source.session.as_str(),
                source.path.to_string_lossy(),
                source.parent.as_ref().map(AcpSessionId::as_str),
                source.is_archived,
            ],
            |row| row.get(0),
        )
}

/// The tool of a call that an earlier read has written, if it is not too far back.
fn tool_of_call(
    connection: &Connection,
    session: i64,
    call: &str,
) -> Result<Option<String>, rusqlite::Error> {
    connection
        .prepare_cached(
            "SELECT tool FROM (SELECT id, tool FROM messages WHERE session = ?1 ORDER BY event DESC LIMIT ?3)
             WHERE id = ?2 AND tool IS NOT NULL LIMIT 1",
        )?
        .query_row(params![session, call, CALLS_BACK], |row| row.get(0))
        .optional()
}

/// How a read ended.
enum ReadEnd {
    Whole,
    Deadline,
    Failed(String),
}

/// Reads one transcript.
struct TranscriptRead<'a> {
    source: &'a TranscriptSource,
    exclusions: &'a IndexExclusions,
    secrets: &'a Secrets,
    until: Option<Instant>,
    begun: Instant,
}

impl TranscriptRead<'_> {
    fn run(
        &mut self,
        index: &mut SearchIndex,
        reader: &dyn TranscriptReader,
        known: Option<&KnownTranscript>,
    ) -> Result<ReadEnd, IndexError> {
        // A file that has only grown is read from where it ended.
        let stamp = self.source.stamp;
        let goes_on = known.and_then(|known| {
            let position = known.position.filter(|position| *position > 0 && *position <= stamp.size)?;
            let is_same = known.stamp.inode == stamp.inode
                && fingerprint(&self.source.path, position).ok() == Some(known.fingerprint);
            is_same.then_some(position)
        });
        let mut items = match reader.open(self.source, goes_on.unwrap_or(0)) {
            Ok(items) => items,
            Err(error) => return Ok(ReadEnd::Failed(error.to_string())),
        };
        if let Some(until) = self.until {
            items.stop_at(until);
        }
        index.run(|connection| connection.execute_batch("BEGIN IMMEDIATE"))?;
        let read = self.read(index, &mut *items, goes_on.is_some());
        match read {
            Ok(end) => {
                index.run(|connection| connection.execute_batch("COMMIT"))?;
                Ok(end)
            }
            Err(error) => {
                // The first error is reported.
                drop(index.run(|connection| connection.execute_batch("ROLLBACK")));
                Err(error)
            }
        }
    }

    fn read(
        &mut self,
        index: &SearchIndex,
        items: &mut dyn TranscriptItems,
        goes_on: bool,
    ) -> Result<ReadEnd, IndexError> {
        let mut row = index.run(|connection| self.begin(connection, goes_on))?;
        let (mut writer, mut tools) = (MessageWriter::new(self.modified_millis()), HashMap::new());
        let mut end = ReadEnd::Whole;
        loop {
            let is_over = self.until.is_some_and(|until| Instant::now() >= until);
            if is_over && items.is_at_position() {
                end = ReadEnd::Deadline;
                break;
            }
            let item = match items.next() {
                Ok(Some(item)) => item,
                Ok(None) => break,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    end = ReadEnd::Deadline;
                    break;
                }
                Err(error) => {
                    end = ReadEnd::Failed(error.to_string());
                    break;
                }
            };
            row.summary.add(&item);
            if let Some(mut message) = IndexedMessage::of_item(&item, row.events + 1) {
                message.text = self.secrets.redact_text(&message.text).into_owned();
                if let (Some(id), Some(tool)) = (&message.id, &message.tool) {
                    tools.insert(id.clone(), tool.clone());
                } else if let (MessageRole::Tool, Some(id)) = (message.role, &message.id) {
                    message.tool = match tools.get(id) {
                        Some(tool) => Some(tool.clone()),
                        None => index.run(|connection| tool_of_call(connection, row.key, id))?,
                    };
                }
                index.run(|connection| writer.write(connection, row.key, &message))?;
            }
            row.events += item.updates_count();
            if writer.bytes > COMMIT_BYTES && items.position().is_some() && items.is_at_position() {
                self.save(index, &row, items, false)?;
                index.run(|connection| connection.execute_batch("COMMIT; BEGIN IMMEDIATE"))?;
                writer.bytes = 0;
            }
        }
        let Unread { is_torn, .. } = items.unread();
        row.unread += items.unread().total() - u64::from(is_torn);
        self.save(index, &row, items, matches!(end, ReadEnd::Whole))?;
        index.run(|connection| self.save_end(connection, row.key, &end, items))?;
        Ok(end)
    }

    /// Stores whether the last line was incomplete, and the time of a read that has to begin again.
    fn save_end(
        &self,
        connection: &Connection,
        key: i64,
        end: &ReadEnd,
        items: &dyn TranscriptItems,
    ) -> Result<(), rusqlite::Error> {
        let begins_again = matches!(end, ReadEnd::Deadline) && items.position().is_none();
        let time =
            self.until.filter(|_| begins_again).map(|until| until.saturating_duration_since(self.begun));
        let unfinished = time.map_or(0, |time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
        connection
            .prepare_cached("UPDATE sessions SET torn = ?2, unfinished = ?3 WHERE key = ?1")?
            .execute(params![key, items.unread().is_torn, unfinished])
            .map(drop)
    }

    /// When the transcript was written last, in milliseconds.
    fn modified_millis(&self) -> i64 {
        self.source.stamp.modified / 1_000_000
    }

    /// The row of the transcript, empty if it is read from the beginning.
    fn begin(&self, connection: &Connection, goes_on: bool) -> Result<TranscriptRow, rusqlite::Error> {
        let key = insert_transcript(connection, self.source)?;
        if !goes_on {
            connection.prepare_cached("DELETE FROM messages WHERE session = ?1")?.execute([key])?;
            return Ok(TranscriptRow { key, events: 0, summary: TranscriptSummary::default(), unread: 0 });
        }
        connection
            .prepare_cached(
                "SELECT events, title, first_prompt, directory, created_at, updated_at, prompts, tokens, fork_of,
                 unread FROM sessions WHERE key = ?1",
            )?
            .query_row([key], |row| {
                let time = |millis: Option<i64>| Timestamp::from_millis(millis?).ok();
                let summary = TranscriptSummary {
                    title: row.get(1)?,
                    first_prompt: row.get(2)?,
                    directory: row.get(3)?,
                    created_at: time(row.get(4)?),
                    updated_at: time(row.get(5)?),
                    prompts: row.get::<_, i64>(6)?.cast_unsigned(),
                    tokens: row.get::<_, Option<i64>>(7)?.map(i64::cast_unsigned),
                    fork_of: row.get::<_, Option<String>>(8)?.and_then(|id| AcpSessionId::new(id).ok()),
                };
                let events = row.get::<_, i64>(0)?.cast_unsigned();
                Ok(TranscriptRow { key, events, summary, unread: row.get::<_, i64>(9)?.cast_unsigned() })
            })
    }

    /// Stores how far the transcript was read. Until it is whole, its size is unknown, so it is read on the next time.
    fn save(
        &self,
        index: &SearchIndex,
        row: &TranscriptRow,
        items: &dyn TranscriptItems,
        is_whole: bool,
    ) -> Result<(), IndexError> {
        let TranscriptRow { key, events, summary, unread } = row;
        let stamp = self.source.stamp;
        let real = summary.directory.as_ref().map(|directory| {
            Path::new(directory).canonicalize().unwrap_or_else(|_| PathBuf::from(directory))
        });
        let mut summary = summary.clone();
        if real.as_ref().is_some_and(|real| self.exclusions.excludes(real)) {
            index.run(|connection| {
                connection.prepare_cached("DELETE FROM messages WHERE session = ?1")?.execute([key]).map(drop)
            })?;
            // A transcript without prompts is in no list.
            summary = TranscriptSummary { directory: summary.directory, ..TranscriptSummary::default() };
        }
        let millis = |at: Option<Timestamp>| at.map(Timestamp::as_millis);
        let masked = |text: &str| self.secrets.redact_text(text).into_owned();
        let read_so_far = items.position().and_then(|position| fingerprint(&self.source.path, position).ok());
        // The file's own time stands in for missing ones.
        let updated_at = millis(summary.updated_at).unwrap_or_else(|| self.modified_millis());
        index.run(|connection| {
            connection
                .prepare_cached(
                    "UPDATE sessions SET size = ?2, modified = ?3, inode = ?4, position = ?5, events = ?6,
                     directory = ?7, real_directory = ?8, title = ?9, first_prompt = ?10, created_at = ?11,
                     updated_at = ?12, prompts = ?13, tokens = ?14, fork_of = ?15, unread = ?16, fingerprint = ?17
                     WHERE key = ?1",
                )?
                .execute(params![
                    key,
                    if is_whole { stamp.size.cast_signed() } else { -1 },
                    if is_whole { stamp.modified } else { 0 },
                    stamp.inode.cast_signed(),
                    items.position().map(u64::cast_signed),
                    events.cast_signed(),
                    summary.directory,
                    real.map(|real| real.to_string_lossy().into_owned()),
                    summary.title.as_deref().map(masked),
                    summary.first_prompt.as_deref().map(masked),
                    millis(summary.created_at),
                    updated_at,
                    summary.prompts.cast_signed(),
                    summary.tokens.map(u64::cast_signed),
                    summary.fork_of.as_ref().map(AcpSessionId::as_str),
                    unread.cast_signed(),
                    read_so_far.unwrap_or_default(),
                ])
                .map(drop)
        })
    }
}

/// A digest of the first bytes of a file and of those before a position.
fn fingerprint(path: &Path, position: u64) -> io::Result<i64> {
    let file = open_regular_file(path)?;
    let (mut first, mut last) = ([0; 1024], [0; 64]);
    let first = &mut first[..usize::try_from(position.min(1024)).unwrap_or(0)];
    let last = &mut last[..usize::try_from(position.min(64)).unwrap_or(0)];
    file.read_exact_at(first, 0)?;
    file.read_exact_at(last, position - last.len() as u64)?;
    let mut hasher = DefaultHasher::new();
    (first, last).hash(&mut hasher);
    Ok(hasher.finish().cast_signed())
}

impl IndexProgress {
    fn note_missing(&mut self, source: &TranscriptSource, row: Option<&KnownTranscript>) {
        let read = row.and_then(|row| row.position).unwrap_or(0);
        self.missing += 1;
        self.missing_bytes += source.stamp.size.saturating_sub(read);
    }

    /// Adds the progress of another part.
    pub fn add(&mut self, other: Self) {
        self.read += other.read;
        self.missing += other.missing;
        self.missing_bytes += other.missing_bytes;
        self.is_busy |= other.is_busy;
        self.problems.extend(other.problems);
    }
}
