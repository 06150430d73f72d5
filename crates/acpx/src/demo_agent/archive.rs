//! The demo agent's own memory: one file of JSON lines for each session.
//!
//! Lines are only ever appended, whole turns in one write, so a killed process loses at most the turn it was in;
//! its prompt is kept before the turn begins. A last line that was cut off is dropped, anything else that
//! cannot be read is an error: damage is never taken for an empty conversation.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use acpx_core::acp::agent::{NotAnUpdate, UpdateBody};
use acpx_core::model::{AbsolutePath, AcpSessionId, InvalidTimestamp, PathProblem, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The sessions kept in a directory.
#[derive(Debug)]
pub(super) struct Archive {
    directory: PathBuf,
}

/// One session, read back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ArchiveSession {
    pub(super) session: AcpSessionId,
    pub(super) cwd: AbsolutePath,
    /// The mode it was last in, if it ever changed.
    pub(super) mode: Option<String>,
    pub(super) turns: Vec<ArchiveTurn>,
    pub(super) updated_at: Timestamp,
}

/// One prompt and what was said in its turn; nothing if the turn never ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ArchiveTurn {
    pub(super) text: String,
    /// The prompt again as updates, then the turn's own.
    pub(super) updates: Vec<UpdateBody>,
}

/// Why the archive could not be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArchiveError {
    #[error("cannot use {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is damaged in line {line}: {problem}", path.display())]
    Damaged { path: PathBuf, line: usize, problem: String },
}

/// One line of a file. Each is an object with one key, so that updates can be kept as raw JSON.
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
        /// The id of the user's message. Older files have none, and it is made from its place.
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

    /// Appends lines in one write; a new file begins with the session itself.
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

    /// Reads a session back; `None` if it was never kept.
    pub(super) fn read(&self, session: &AcpSessionId) -> Result<Option<ArchiveSession>, ArchiveError> {
        let Some(path) = self.path(session) else { return Ok(None) };
        match fs::read_to_string(&path) {
            Ok(text) => read(session, &path, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ArchiveError::Io { path, source }),
        }
    }

    /// Reads every session there is, in no order.
    pub(super) fn all(&self) -> Result<Vec<ArchiveSession>, ArchiveError> {
        let failed = |source| ArchiveError::Io { path: self.directory.clone(), source };
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(failed(source)),
        };
        let mut kept = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jsonl"));
            let Some(session) = name.and_then(|name| AcpSessionId::new(name).ok()) else { continue };
            kept.extend(self.read(&session)?);
        }
        Ok(kept)
    }

    /// Forgets a session for good.
    pub(super) fn remove(&self, session: &AcpSessionId) -> Result<(), ArchiveError> {
        let Some(path) = self.path(session) else { return Ok(()) };
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(ArchiveError::Io { path, source }),
            _ => Ok(()),
        }
    }

    /// The session's file. An id that we did not make is no file of ours, whatever it spells.
    fn path(&self, session: &AcpSessionId) -> Option<PathBuf> {
        let ours = session.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        ours.then(|| self.directory.join(format!("{session}.jsonl")))
    }
}

/// The id of the user's message that comes after this many others.
pub(super) fn user_message(before: usize) -> String {
    format!("user-{}", before + 1)
}

fn line(line: &ArchiveLine) -> String {
    serde_json::to_string(line).expect("a line has only text and JSON") + "\n"
}

/// Cuts off a last line that a killed process left unfinished, so that the next one stands alone.
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

/// `None` for a file whose first line was cut off: nothing was ever kept in it.
fn read(session: &AcpSessionId, path: &Path, text: &str) -> Result<Option<ArchiveSession>, ArchiveError> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut kept: Option<ArchiveSession> = None;
    for (index, line) in whole.lines().enumerate() {
        let damaged =
            |problem: String| ArchiveError::Damaged { path: path.to_owned(), line: index + 1, problem };
        let line: ArchiveLine = serde_json::from_str(line).map_err(|error| damaged(error.to_string()))?;
        match &mut kept {
            None => kept = Some(begin(session, line).map_err(|problem| damaged(problem.to_string()))?),
            Some(kept) => kept.take(line).map_err(|problem| damaged(problem.to_string()))?,
        }
    }
    Ok(kept)
}

/// What a line can be wrong in beyond its JSON.
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

#[cfg(test)]
mod tests;
