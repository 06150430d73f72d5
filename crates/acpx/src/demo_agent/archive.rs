//! The demo agent's archive: one file of JSON lines per session.
//!
//! Files are append-only. A prompt is written before its turn begins and the turn's updates in one write at its end, so
//! a killed process loses at most the current turn. A truncated last line is dropped; any other damage is an error and
//! never looks like an empty conversation.

use std::cmp::Reverse;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use acpx_core::acp::agent::{
    ListCall, Meta, NotAnUpdate, ParamProblem, SessionPage, SessionSummary, UpdateBody,
};
use acpx_core::model::{AbsolutePath, AcpSessionId, InvalidTimestamp, PathProblem, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The sessions stored in a directory.
#[derive(Debug)]
pub(super) struct Archive {
    directory: PathBuf,
}

/// One stored session.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ArchiveSession {
    pub(super) session: AcpSessionId,
    pub(super) cwd: AbsolutePath,
    /// The last mode, if it ever changed.
    pub(super) mode: Option<String>,
    pub(super) turns: Vec<ArchiveTurn>,
    pub(super) updated_at: Timestamp,
}

/// A prompt and the updates of its turn; only the prompt if the turn never ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ArchiveTurn {
    pub(super) text: String,
    /// The prompt as updates, followed by the turn's own updates.
    pub(super) updates: Vec<UpdateBody>,
}

/// Why an archive operation failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArchiveError {
    #[error("cannot use {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is damaged in line {line}: {problem}", path.display())]
    Damaged { path: PathBuf, line: usize, problem: String },
}

/// One line of a file: an object with one key, so that updates can be stored as raw JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum ArchiveLine {
    Session {
        cwd: String,
        at: String,
    },
    Prompt {
        at: String,
        text: String,
        blocks: Vec<Box<RawValue>>,
        /// The id of the user's message. Older files lack it; then it is derived from the position.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
    },
    Update(Box<RawValue>),
    Mode {
        mode: String,
        at: String,
    },
    End {
        at: String,
        stop_reason: Option<String>,
    },
}

impl Archive {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Appends lines in one write; a new file starts with the session line.
    pub(super) fn append(
        &self,
        session: &AcpSessionId,
        cwd: &AbsolutePath,
        at: Timestamp,
        lines: &[ArchiveLine],
    ) -> Result<(), ArchiveError> {
        let Some(path) = self.path(session) else { return Ok(()) };
        let failed = |source| ArchiveError::Io { path: path.clone(), source };
        fs::create_dir_all(&self.directory).map_err(failed)?;
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        let mut text = String::new();
        if repaired_length(&mut file).map_err(failed)? == 0 {
            text += &line(&ArchiveLine::Session { cwd: cwd.as_str().into(), at: at.to_string() });
        }
        text.extend(lines.iter().map(line));
        file.write_all(text.as_bytes()).map_err(failed)
    }

    /// Reads a session; `None` if it was never stored.
    pub(super) fn read(&self, session: &AcpSessionId) -> Result<Option<ArchiveSession>, ArchiveError> {
        let Some(path) = self.path(session) else { return Ok(None) };
        match fs::read_to_string(&path) {
            Ok(text) => read(session, &path, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ArchiveError::Io { path, source }),
        }
    }

    /// Reads all sessions, in no particular order.
    pub(super) fn all(&self) -> Result<Vec<ArchiveSession>, ArchiveError> {
        let failed = |source| ArchiveError::Io { path: self.directory.clone(), source };
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(failed(source)),
        };
        let mut archived = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jsonl"));
            let Some(session) = name.and_then(|name| AcpSessionId::new(name).ok()) else { continue };
            archived.extend(self.read(&session)?);
        }
        Ok(archived)
    }

    /// Deletes a session permanently.
    pub(super) fn remove(&self, session: &AcpSessionId) -> Result<(), ArchiveError> {
        let Some(path) = self.path(session) else { return Ok(()) };
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(ArchiveError::Io { path, source }),
            _ => Ok(()),
        }
    }

    /// The session's file. An id with other characters than ours cannot name a file.
    fn path(&self, session: &AcpSessionId) -> Option<PathBuf> {
        let ours = session.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        ours.then(|| self.directory.join(format!("{session}.jsonl")))
    }
}

/// The id of the user's message after this many others.
pub(super) fn user_message(before: usize) -> String {
    format!("user-{}", before + 1)
}

fn line(line: &ArchiveLine) -> String {
    serde_json::to_string(line).expect("a line has only text and JSON") + "\n"
}

/// Truncates an incomplete last line of a killed process, so that the next line starts cleanly. Returns the length.
fn repaired_length(file: &mut File) -> io::Result<u64> {
    let length = file.seek(SeekFrom::End(0))?;
    if length == 0 {
        return Ok(0);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    if last == *b"\n" {
        return Ok(length);
    }
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end as u64 + 1);
    file.set_len(whole)?;
    Ok(whole)
}

/// `None` for a file without a complete line, in which nothing was stored.
fn read(session: &AcpSessionId, path: &Path, text: &str) -> Result<Option<ArchiveSession>, ArchiveError> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut archived: Option<ArchiveSession> = None;
    for (index, line) in whole.lines().enumerate() {
        let damaged =
            |problem: String| ArchiveError::Damaged { path: path.to_owned(), line: index + 1, problem };
        let line: ArchiveLine = serde_json::from_str(line).map_err(|error| damaged(error.to_string()))?;
        match &mut archived {
            None => archived = Some(begin(session, line).map_err(|problem| damaged(problem.to_string()))?),
            Some(archived) => archived.take(line).map_err(|problem| damaged(problem.to_string()))?,
        }
    }
    Ok(archived)
}

/// Errors of a line beyond its JSON.
#[derive(Debug, thiserror::Error)]
enum ArchiveLineError {
    #[error(transparent)]
    Time(#[from] InvalidTimestamp),
    #[error(transparent)]
    Path(#[from] PathProblem),
    #[error(transparent)]
    Update(#[from] NotAnUpdate),
    #[error("the line is out of place")]
    OutOfPlace,
}

fn begin(session: &AcpSessionId, line: ArchiveLine) -> Result<ArchiveSession, ArchiveLineError> {
    let ArchiveLine::Session { cwd, at } = line else { return Err(ArchiveLineError::OutOfPlace) };
    Ok(ArchiveSession {
        session: session.clone(),
        cwd: AbsolutePath::new(cwd)?,
        mode: None,
        turns: Vec::new(),
        updated_at: Timestamp::parse(&at)?,
    })
}

impl ArchiveSession {
    fn take(&mut self, line: ArchiveLine) -> Result<(), ArchiveLineError> {
        match line {
            ArchiveLine::Session { .. } => return Err(ArchiveLineError::OutOfPlace),
            ArchiveLine::Prompt { at, text, blocks, message_id } => {
                self.updated_at = Timestamp::parse(&at)?;
                let message = message_id.unwrap_or_else(|| user_message(self.turns.len()));
                let blocks = blocks.iter().map(|block| UpdateBody::user_block(block.get()));
                let updates = blocks.map(|block| block.map(|update| update.in_message(&message)));
                self.turns.push(ArchiveTurn { text, updates: updates.collect::<Result<_, _>>()? });
            }
            ArchiveLine::Update(update) => {
                let turn = self.turns.last_mut().ok_or(ArchiveLineError::OutOfPlace)?;
                turn.updates.push(UpdateBody::from_json(update.get())?);
            }
            ArchiveLine::Mode { mode, at } => {
                self.updated_at = Timestamp::parse(&at)?;
                self.mode = Some(mode);
            }
            ArchiveLine::End { at, .. } => self.updated_at = Timestamp::parse(&at)?,
        }
        Ok(())
    }
}

/// Maximum length of a title; longer ones are cut.
const TITLE_CHARS: usize = 100;

/// One page of the stored sessions. A cursor names the last row of the previous page, so added or removed rows do not
/// shift the rest.
pub(super) fn page(
    archived: Vec<ArchiveSession>,
    call: &ListCall,
    size: usize,
) -> Result<SessionPage, ParamProblem> {
    let after = call.cursor.as_deref().map(read_cursor).transpose()?;
    let mut rows: Vec<ArchiveSession> =
        archived.into_iter().filter(|row| call.cwd.as_ref().is_none_or(|cwd| *cwd == row.cwd)).collect();
    rows.sort_by_key(list_position);
    rows.retain(|row| after.as_ref().is_none_or(|after| list_position(row) > *after));
    let more = rows.len() > size;
    rows.truncate(size);
    let next_cursor = rows.last().filter(|_| more).map(write_cursor);
    Ok(SessionPage { sessions: rows.into_iter().map(summary).collect(), next_cursor, meta: Meta::new() })
}

type DemoListPosition = (Reverse<Timestamp>, AcpSessionId);

fn list_position(row: &ArchiveSession) -> DemoListPosition {
    (Reverse(row.updated_at), row.session.clone())
}

fn write_cursor(row: &ArchiveSession) -> String {
    format!("{}.{}", row.updated_at.as_millis(), row.session)
}

fn read_cursor(cursor: &str) -> Result<DemoListPosition, ParamProblem> {
    let read = || {
        let (millis, session) = cursor.split_once('.')?;
        let at = Timestamp::from_millis(millis.parse().ok()?).ok()?;
        Some((Reverse(at), AcpSessionId::new(session).ok()?))
    };
    read().ok_or_else(|| ParamProblem::new("cursor", "is none that this agent gave"))
}

fn summary(row: ArchiveSession) -> SessionSummary {
    let title = row.turns.first().map(|turn| turn.text.chars().take(TITLE_CHARS).collect());
    SessionSummary {
        forwarded: None,
        session: row.session,
        cwd: row.cwd,
        additional_directories: Vec::new(),
        title,
        updated_at: Some(row.updated_at),
        meta: Meta::new(),
    }
}

#[cfg(test)]
mod tests;
