//! Why an agent could not restore a session, as far as its own transcript shows it.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use acpx_core::model::{AcpSessionId, Record};
use acpx_core::store::open_regular_file;
use acpx_core::transcripts::{TranscriptProblem, TranscriptReader, TranscriptSource, TranscriptSummary};
use serde::de::IgnoredAny;

use super::native::NativeSessions;
use super::settings::CommandSettings;
use crate::error::system_words;
use crate::output::TranscriptView;

/// How long a transcript is read for the cause of a failed restore.
const READ_LIMIT: Duration = Duration::from_secs(1);
/// How much of the end of a large transcript is read.
const TAIL: u64 = 64 * 1024;

/// What is wrong with the transcript of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RestoreCause {
    /// The agent writes it with the first prompt.
    NeverPrompted,
    /// It is in none of these places.
    Missing(Vec<PathBuf>),
    Empty(PathBuf),
    /// It ends in the middle of a line.
    Torn(PathBuf),
    /// The session was last used in another directory.
    OtherDirectory {
        path: PathBuf,
        directory: String,
    },
    /// Another process has it open.
    Held {
        path: PathBuf,
        pid: u32,
    },
    NotRead {
        path: PathBuf,
        reason: String,
    },
}

impl fmt::Display for RestoreCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverPrompted => {
                f.write_str("the agent has no transcript yet: it writes one with the first prompt")
            }
            Self::Missing(places) => {
                let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
                write!(f, "its transcript was deleted: none is in {}", places.join(" or "))
            }
            Self::Empty(path) => write!(f, "its transcript {} is empty", path.display()),
            Self::Torn(path) => {
                write!(f, "its transcript {} ends in the middle of a line", path.display())
            }
            Self::OtherDirectory { path, directory } => {
                write!(f, "its transcript {} belongs to the directory {directory}", path.display())
            }
            Self::Held { path, pid } => {
                write!(f, "process {pid} has its transcript {} open", path.display())
            }
            Self::NotRead { path, reason } => {
                write!(f, "its transcript {} cannot be read: {reason}", path.display())
            }
        }
    }
}

impl RestoreCause {
    /// What is wrong with the transcript of the session that the record is in; `None` if nothing is, or the agent's
    /// format is not known. This reads the transcript, a large one not to its end.
    pub(crate) fn of(record: &Record, settings: &CommandSettings) -> Option<Self> {
        let agent = record.agent.name.as_deref()?;
        let native = NativeSessions::of_all(settings);
        let reader = native.reader(agent)?;
        match newest(reader, record) {
            Ok(Some(source)) => Self::of_source(reader, &source, record),
            Ok(None) if record.last_turn.is_none() && !record.is_adopted() => Some(Self::NeverPrompted),
            Ok(None) => Some(Self::Missing(reader.locations())),
            Err(problem) => Some(problem.into()),
        }
    }

    /// The transcript of an answered session, if it was deleted or emptied. This reads no transcript.
    pub(crate) fn of_lost(record: &Record, settings: &CommandSettings) -> Option<Self> {
        let native = NativeSessions::of_all(settings);
        let reader = native.reader(record.agent.name.as_deref()?)?;
        match newest(reader, record) {
            _ if record.answered_turns == 0 && !record.is_adopted() => None,
            Ok(None) => Some(Self::Missing(reader.locations())),
            Ok(Some(source)) => source.is_empty().then_some(Self::Empty(source.path)),
            Err(_) => None,
        }
    }

    fn of_source(reader: &dyn TranscriptReader, source: &TranscriptSource, record: &Record) -> Option<Self> {
        let path = source.path.clone();
        if source.is_empty() {
            return Some(Self::Empty(path));
        }
        let (summary, is_torn) = match read(reader, source, READ_LIMIT) {
            Ok(read) => read,
            Err(error) => return Some(Self::NotRead { path, reason: system_words(&error) }),
        };
        let real = |directory: &str| Path::new(directory).canonicalize().unwrap_or_else(|_| directory.into());
        let other = summary.directory.filter(|directory| real(directory) != record.real_cwd.as_path());
        if let Some(directory) = other {
            return Some(Self::OtherDirectory { path, directory });
        }
        if is_torn {
            return Some(Self::Torn(path));
        }
        holder(&path, record).map(|pid| Self::Held { path, pid })
    }
}

impl From<TranscriptProblem> for RestoreCause {
    fn from(problem: TranscriptProblem) -> Self {
        Self::NotRead { path: problem.path, reason: problem.reason }
    }
}

/// The transcript of the session that the record is in. If there seems to be none, an error is the place that could not
/// be read and may have it.
fn newest(
    reader: &dyn TranscriptReader,
    record: &Record,
) -> Result<Option<TranscriptSource>, TranscriptProblem> {
    let (session, mut sources) = (record.lineage.current().session.as_str(), Vec::new());
    let problems = reader.find_each(session, &mut |source| sources.push(source));
    if let Some(source) = sources.into_iter().max_by_key(|source| source.stamp.modified) {
        return Ok(Some(source));
    }
    let places = reader.locations();
    let may_have_it = |path: &Path| {
        places.iter().any(|place| place == path) || path.is_dir() || path.to_string_lossy().contains(session)
    };
    problems.into_iter().find(|problem| may_have_it(&problem.path)).map_or(Ok(None), Err)
}

/// What a transcript says about its session, and whether its end is torn. Of one that is not read within the limit, the
/// directory is unknown and only the end is read.
fn read(
    reader: &dyn TranscriptReader,
    source: &TranscriptSource,
    limit: Duration,
) -> io::Result<(TranscriptSummary, bool)> {
    let mut items = reader.open(source, 0)?;
    items.stop_at(Instant::now() + limit);
    let mut summary = TranscriptSummary::default();
    loop {
        match items.next() {
            Ok(Some(item)) => summary.add(&item),
            Ok(None) => return Ok((summary, items.unread().is_torn)),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Ok((TranscriptSummary::default(), has_torn_end(&source.path)?));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether the last line of a file is neither ended nor a whole JSON value.
fn has_torn_end(path: &Path) -> io::Result<bool> {
    let mut file = open_regular_file(path)?;
    let begin = file.metadata()?.len().saturating_sub(TAIL);
    file.seek(SeekFrom::Start(begin))?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail)?;
    let last = tail.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(!last.is_empty() && serde_json::from_slice::<IgnoredAny>(last).is_err())
}

/// A process of this user, other than the record's own agent, that has the file open. Only Linux tells.
fn holder(path: &Path, record: &Record) -> Option<u32> {
    let real = path.canonicalize().ok()?;
    let own = record.agent_run.as_ref().filter(|run| run.ended.is_none()).map(|run| run.process.pid);
    let processes = std::fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| Some(*pid) != own && *pid != std::process::id()).find(|pid| {
        let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        files
            .filter_map(Result::ok)
            .any(|file| std::fs::read_link(file.path()).is_ok_and(|open| open == real))
    })
}

/// What is known of the transcript of the record's session. It is read only if the agent could not restore the session.
pub(crate) fn transcript_view(record: &Record, settings: &CommandSettings) -> TranscriptView {
    let failed = record.restore_error.as_ref();
    let problem = failed.and_then(|_| RestoreCause::of(record, settings));
    TranscriptView {
        resume_command: resume_command(record),
        problem: problem.as_ref().map(ToString::to_string),
        is_private: false,
        native_prompts: None,
    }
}

/// The command line that continues the record's session in the agent's own program, if the agent has a transcript of it.
fn resume_command(record: &Record) -> Option<Vec<String>> {
    let session: &AcpSessionId = &record.lineage.current().session;
    let is_prompted = record.answered_turns > 0 || record.is_adopted();
    acpx_core::transcripts::resume_command(record.agent.name.as_deref()?, session.as_str())
        .filter(|_| is_prompted)
}

#[cfg(test)]
mod tests {
    use acpx_core::transcripts::{TranscriptHome, transcript_reader};

    use super::*;

    #[test]
    fn cause_of_a_failed_restore_is_found_within_a_time_limit() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(".claude/projects/-w/aaaa.jsonl");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let line = r#"{"type":"user","uuid":"u","cwd":"/w","message":{"content":"hi"}}"#;
        let reader = transcript_reader("claude", &TranscriptHome { home: home.path(), variable: &|_| None });
        let reader = reader.unwrap();
        // More than is read between two looks at the time.
        let lines = format!("{line}\n").repeat(2 * 1024 * 1024 / line.len());
        for (text, is_torn) in
            [(lines.clone(), false), (lines.clone() + line, false), (lines + "{\"type", true)]
        {
            std::fs::write(&path, text).unwrap();
            let source = reader.find("aaaa").remove(0);
            let at_once = read(&*reader, &source, Duration::ZERO).unwrap();
            assert_eq!(at_once, (TranscriptSummary::default(), is_torn));
            let (whole, is_whole_torn) = read(&*reader, &source, Duration::from_mins(10)).unwrap();
            assert_eq!((whole.directory.as_deref(), is_whole_torn), (Some("/w"), is_torn));
        }
    }
}
