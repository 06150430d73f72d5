//! Reads the transcripts that agents keep themselves, in their own formats, without starting an agent.
//!
//! One file for each agent implements [`TranscriptReader`]: it lists the transcripts without reading them, and reads one
//! as a stream of [`TranscriptItem`]s. [`TranscriptEvents`] makes events of the items, as a record has them.
//!
//! Transcripts belong to the user and to other programs, so they are untrusted and never changed. A reader opens regular
//! files only, follows no link out of the agent's directory, decodes no directory name, holds one line in memory, and
//! counts what it cannot read instead of failing. A file that grows while it is read ends at its last whole line.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Value;

use crate::model::{AcpSessionId, Timestamp};

mod archive;
mod claude;
mod cline;
mod codex;
mod content;
mod conversation;
mod copilot;
mod database;
mod gemini;
mod gemini_parts;
mod goose;
mod item_queue;
mod kimi;
mod line_items;
mod lines;
mod opencode;
mod pi;
mod placed_items;
mod qwen;
mod tool_call;
mod walk;
mod written_time;

pub use archive::{TranscriptArchive, archive_file};
pub use conversation::{TranscriptEvents, TranscriptSummary};

/// Where a reader looks: the user's home, and the variables that move an agent's directory.
pub struct TranscriptHome<'a> {
    /// The user's home directory.
    pub home: &'a Path,
    /// The value of a variable in the agent's environment.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
}

impl TranscriptHome<'_> {
    /// The directory that a variable names, or else this one below the home. A relative value counts as unset.
    pub(crate) fn directory(&self, variable: &str, below_home: &str) -> PathBuf {
        let named = (self.variable)(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        named.unwrap_or_else(|| self.home.join(below_home))
    }
}

/// Reads the transcripts of one agent.
pub trait TranscriptReader: Send + Sync {
    /// The agent's name in acpx.
    fn agent(&self) -> &'static str;

    /// The directories and databases that it reads, whether they exist or not.
    fn locations(&self) -> Vec<PathBuf>;

    /// Calls `each` with every transcript, in any order, without reading more of one than its id needs. What cannot be
    /// read is in the result.
    fn list(&self, each: &mut dyn FnMut(TranscriptSource)) -> Vec<TranscriptProblem>;

    /// The same as [`list`](Self::list), for a caller that may know a transcript by its path and its stamp: what has not
    /// changed is not opened.
    fn list_changed(
        &self,
        known: &dyn Fn(&Path, SourceStamp) -> Option<TranscriptSource>,
        each: &mut dyn FnMut(TranscriptSource),
    ) -> Vec<TranscriptProblem> {
        let _ = known;
        self.list(each)
    }

    /// Calls `each` with the transcripts of one session: none, one, or several files of the same session. Empty files
    /// count too. What cannot be read is in the result, and may be one of them.
    fn find_each(&self, session: &str, each: &mut dyn FnMut(TranscriptSource)) -> Vec<TranscriptProblem> {
        self.list(&mut |source| {
            if source.session.as_str() == session {
                each(source);
            }
        })
    }

    /// The transcripts of one session that can be read.
    fn find(&self, session: &str) -> Vec<TranscriptSource> {
        let mut found = Vec::new();
        self.find_each(session, &mut |source| found.push(source));
        found
    }

    /// Opens a transcript. A `from` that is not 0 is a [position](TranscriptItems::position) of an earlier read of the
    /// same file, and only what was appended since then is read.
    fn open(&self, source: &TranscriptSource, from: u64) -> io::Result<Box<dyn TranscriptItems>>;

    /// The command line that continues a session in the agent's own program.
    fn resume_command(&self, session: &str) -> Option<Vec<String>>;
}

/// A transcript that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptSource {
    /// The agent's name in acpx.
    pub agent: &'static str,
    /// The id that the agent gave the session, which is its ACP session id.
    pub session: AcpSessionId,
    /// The file, or the database that contains it.
    pub path: PathBuf,
    /// Whether the content has changed.
    pub stamp: SourceStamp,
    /// The session that started this one as a sub-agent. Such transcripts are not listed on their own.
    pub parent: Option<AcpSessionId>,
    /// Whether the user has archived or deleted it in the agent's own program.
    pub is_archived: bool,
}

impl TranscriptSource {
    /// Whether it is a file without content.
    pub fn is_empty(&self) -> bool {
        self.stamp.size == 0 && self.stamp.inode != 0
    }
}

/// Changes with the content of a transcript. Equal stamps mean equal content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SourceStamp {
    /// The size in bytes; the number of messages for a session in a database.
    pub size: u64,
    /// The time of the last change, in nanoseconds since 1970.
    pub modified: i64,
    /// The file's inode; 0 for a session in a database.
    pub inode: u64,
}

/// A place that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptProblem {
    /// The file or directory.
    pub path: PathBuf,
    /// Why, as text.
    pub reason: String,
}

/// The items of one transcript, in the order of the file.
pub trait TranscriptItems: Send {
    /// The next item; `None` at the end. This blocks.
    fn next(&mut self) -> io::Result<Option<TranscriptItem>>;

    /// The position after the last whole line that was read, for a later [`TranscriptReader::open`]; `None` if the
    /// format has to be read from the beginning again.
    fn position(&self) -> Option<u64>;

    /// Whether all items before the position were given. A line may have several, and a reader that stops between them
    /// would lose the rest.
    fn is_at_position(&self) -> bool {
        true
    }

    /// How many lines or rows could not be read so far.
    fn unread(&self) -> Unread;

    /// From this time on, a read within a long line may fail with [`io::ErrorKind::TimedOut`]. The items so far and their
    /// position stay valid.
    fn stop_at(&mut self, until: Instant) {
        let _ = until;
    }
}

/// What a reader could not read of one transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unread {
    /// Lines or rows that are no JSON, or not of the expected shape.
    pub damaged: u64,
    /// Lines that are longer than the limit.
    pub too_long: u64,
    /// Lines or parts of an unknown kind.
    pub unknown: u64,
    /// Whether the last line is incomplete.
    pub is_torn: bool,
}

impl Unread {
    /// How many lines could not be read.
    pub fn total(self) -> u64 {
        self.damaged + self.too_long + self.unknown + u64::from(self.is_torn)
    }
}

/// One item of a transcript.
#[derive(Debug, Clone, PartialEq)]
pub struct TranscriptItem {
    /// When it was written, if the transcript says so.
    pub at: Option<Timestamp>,
    /// What it is.
    pub content: ItemContent,
}

/// What an item of a transcript is. Content blocks and tool contents have the form that ACP gives them.
#[derive(Debug, Clone, PartialEq)]
pub enum ItemContent {
    /// A prompt of the user, as content blocks.
    Prompt {
        /// The agent's id for the message.
        id: Option<String>,
        /// ACP content blocks.
        blocks: Vec<Value>,
    },
    /// Text of the agent.
    Reply {
        /// The agent's id for the message.
        id: Option<String>,
        /// Markdown.
        text: String,
    },
    /// A thought of the agent.
    Thought {
        /// The agent's id for the message.
        id: Option<String>,
        /// Its text.
        text: String,
    },
    /// A tool call begins.
    ToolCall {
        /// Its id.
        id: String,
        /// The tool's name.
        name: String,
        /// What it does, on one line.
        title: String,
        /// The ACP kind: `read`, `edit`, `delete`, `move`, `search`, `execute`, `think`, `fetch` or `other`.
        kind: &'static str,
        /// Its arguments.
        input: Value,
        /// The files it concerns.
        paths: Vec<String>,
    },
    /// A tool call has ended.
    ToolResult {
        /// The id of the call.
        id: String,
        /// Whether it failed.
        is_error: bool,
        /// ACP tool call contents: content blocks and diffs.
        content: Vec<Value>,
    },
    /// The agent's plan: entries with `content`, `priority` and `status`.
    Plan(Vec<Value>),
    /// From here on the agent remembers only a summary of what came before.
    Compaction {
        /// An id of the boundary.
        id: String,
    },
    /// The session's title.
    Title(String),
    /// The directory that the session works in from here on.
    Directory(String),
    /// Tokens that the agent has used since the last such item.
    Tokens(u64),
    /// The session begins as a copy of another one. This comes before the messages that were copied.
    ForkOf(AcpSessionId),
}

/// The agents whose transcripts can be read. Those of fast-agent are in the projects and not in the home, and those of
/// Vibe are chunks of a store whose format is not public.
pub const TRANSCRIPT_AGENTS: &[&str] =
    &["claude", "codex", "opencode", "kilocode", "goose", "gemini", "qwen", "copilot", "kimi", "pi", "cline"];

/// The reader of an agent's transcripts, if its format is known.
pub fn transcript_reader(agent: &str, home: &TranscriptHome<'_>) -> Option<Box<dyn TranscriptReader>> {
    Some(match agent {
        "claude" => Box::new(claude::ClaudeReader::new(home)),
        "codex" => Box::new(codex::CodexReader::new(home)),
        "opencode" => Box::new(opencode::OpencodeReader::opencode(home)),
        "kilocode" => Box::new(opencode::OpencodeReader::kilo(home)),
        "goose" => Box::new(goose::GooseReader::new(home)),
        "gemini" => Box::new(gemini::GeminiReader::new(home)),
        "qwen" => Box::new(qwen::QwenReader::new(home)),
        "copilot" => Box::new(copilot::CopilotReader::new(home)),
        "kimi" => Box::new(kimi::KimiReader::new(home)),
        "pi" => Box::new(pi::PiReader::new(home)),
        "cline" => Box::new(cline::ClineReader::new(home)),
        _ => return None,
    })
}

/// The command line that continues a session in the agent's own program, if it is known.
pub fn resume_command(agent: &str, session: &str) -> Option<Vec<String>> {
    let nowhere = TranscriptHome { home: Path::new("/"), variable: &|_| None };
    transcript_reader(agent, &nowhere)?.resume_command(session)
}

#[cfg(test)]
mod tests;
