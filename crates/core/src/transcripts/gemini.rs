//! Gemini CLI: `tmp/<project>/chats/session-<time>-<begin of the id>.jsonl`, with the project's directory in
//! `tmp/<project>/.project_root`. Sub-agents are in `chats/<id of the session>/`.
//!
//! A file is a log of changes: a message can come again, and then its last form counts; `$set` replaces members of the
//! whole, and `$rewindTo` deletes messages. So a file is read twice: once to find where the messages that count are, and
//! then message by message. Older versions wrote one JSON document with the messages, `session-<...>.json`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Deserializer, Value, from_slice, from_str};

use super::content::output;
use super::gemini_parts::{GeminiPart, parts, shown_diff};
use super::item_queue::ItemQueue;
use super::line_items::{LineParser, first_line};
use super::lines::{Line, LineReader};
use super::placed_items::{FilePlace, PlacedItems, refuse_position};
use super::tool_call::arguments;
use super::walk::{Walk, WalkEntry, open_within};
use super::written_time::written_time;
use super::{
    TranscriptHome, TranscriptItem, TranscriptItems, TranscriptProblem, TranscriptReader, TranscriptSource,
    Unread,
};
use crate::model::{AcpSessionId, Timestamp};

const AGENT: &str = "gemini";
/// The first message of every session.
const CONTEXT: &str = "<session_context>";
/// The name of a session is within so many bytes of a document.
const DOCUMENT_HEAD: u64 = 4096;
const MEMBER: &[u8] = b"\"sessionId\"";

/// Reads the transcripts of Gemini CLI.
pub(super) struct GeminiReader {
    tmp: PathBuf,
}

impl GeminiReader {
    pub(super) fn new(home: &TranscriptHome<'_>) -> Self {
        Self { tmp: home.directory("GEMINI_CLI_HOME", "").join(".gemini/tmp") }
    }

    fn source(walk: &mut Walk, entry: &WalkEntry, parent: Option<&str>) -> Option<TranscriptSource> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct FirstLine {
            session_id: AcpSessionId,
        }
        let is_document = entry.name.starts_with("session-") && is_document(&entry.path);
        if !entry.has_content() || !is_document && entry.name.strip_suffix(".jsonl").is_none() {
            return None;
        }
        let session = if is_document {
            session_of_document(&walk.root(), &entry.path)
        } else {
            let line = first_line(&walk.root(), &entry.path);
            line.map(|line| Some(from_slice::<FirstLine>(&line?).ok()?.session_id))
        };
        let session = match session {
            Ok(Some(session)) => session,
            Ok(None) => {
                let begin = if is_document { "beginning" } else { "first line" };
                walk.note(&entry.path, format!("its {begin} names no session"));
                return None;
            }
            Err(error) => {
                walk.note(&entry.path, error.to_string());
                return None;
            }
        };
        let parent = parent.and_then(|parent| AcpSessionId::new(parent).ok());
        Some(TranscriptSource { parent, ..TranscriptSource::of_file(AGENT, entry, session.as_str())? })
    }

    /// The directory of the project that a transcript belongs to.
    fn project_root(&self, path: &Path) -> Option<String> {
        let file = |directory: &Path| open_within(&self.tmp, &directory.join(".project_root")).ok();
        let file = path.ancestors().skip(2).take(2).find_map(file)?;
        let mut root = String::new();
        file.take(64 * 1024).read_to_string(&mut root).ok()?;
        Some(root.trim_end_matches('\n').to_owned())
    }
}

impl TranscriptReader for GeminiReader {
    fn agent(&self) -> &'static str {
        AGENT
    }

    fn locations(&self) -> Vec<PathBuf> {
        vec![self.tmp.clone()]
    }

    fn list(&self, each: &mut dyn FnMut(TranscriptSource)) -> Vec<TranscriptProblem> {
        let mut problems = Vec::new();
        let Some(mut walk) = Walk::new(&self.tmp, &mut problems) else { return problems };
        for project in walk.directories(&walk.root()) {
            for entry in walk.all(&project.path.join("chats")) {
                if entry.is_directory {
                    for file in walk.files(&entry.path) {
                        Self::source(&mut walk, &file, Some(&entry.name)).map(&mut *each);
                    }
                } else {
                    Self::source(&mut walk, &entry, None).map(&mut *each);
                }
            }
        }
        problems.append(&mut walk.problems);
        problems
    }

    fn open(&self, source: &TranscriptSource, from: u64) -> io::Result<Box<dyn TranscriptItems>> {
        refuse_position(from)?;
        let file = open_within(&self.tmp, &source.path)?;
        let mut queue = ItemQueue::default();
        queue.directory(None, &self.project_root(&source.path).unwrap_or_default());
        let is_document = is_document(&source.path);
        let lines = LineReader::new(Box::new(file.try_clone()?), 0);
        let log = (!is_document).then(|| Box::new((GeminiLog::default(), lines)));
        let places = if is_document { FilePlace::of_document(&file, &mut queue)? } else { Vec::new() };
        let items = PlacedItems { file, places: places.into(), parser: GeminiParser, queue };
        Ok(Box::new(GeminiItems { log, items }))
    }

    fn resume_command(&self, session: &str) -> Option<Vec<String>> {
        Some(["gemini", "--resume", session].map(str::to_owned).into())
    }
}

/// Whether a file is a JSON document, and no log.
fn is_document(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("json"))
}

/// The session that the beginning of a document names.
fn session_of_document(directory: &Path, path: &Path) -> io::Result<Option<AcpSessionId>> {
    let mut begin = Vec::new();
    open_within(directory, path)?.take(DOCUMENT_HEAD).read_to_end(&mut begin)?;
    let named = memchr::memmem::find(&begin, MEMBER).map(|found| &begin[found + MEMBER.len()..]);
    let value = named.and_then(|rest| rest.trim_ascii_start().strip_prefix(b":"));
    let values = value.map(|value| Deserializer::from_slice(value).into_iter::<AcpSessionId>());
    Ok(values.and_then(|mut values| values.next()?.ok()))
}

/// The items of a log. Its messages are looked for with the first item, so that the deadline is known by then.
struct GeminiItems {
    /// The log, until it was read.
    log: Option<Box<(GeminiLog, LineReader)>>,
    items: PlacedItems<GeminiParser>,
}

impl TranscriptItems for GeminiItems {
    fn next(&mut self) -> io::Result<Option<TranscriptItem>> {
        if let Some(reading) = &mut self.log {
            let (log, lines) = &mut **reading;
            log.read(lines, &mut self.items.queue)?;
            self.items.queue.title(None, &log.summary.take().unwrap_or_default());
            self.items.places = std::mem::take(&mut log.messages).into();
            self.log = None;
        }
        self.items.next()
    }

    fn position(&self) -> Option<u64> {
        None
    }

    fn unread(&self) -> Unread {
        self.items.unread()
    }

    fn stop_at(&mut self, until: Instant) {
        if let Some(reading) = &mut self.log {
            reading.1.stop_at(until);
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiLine<'a> {
    id: Option<String>,
    session_id: Option<String>,
    summary: Option<String>,
    #[serde(rename = "$rewindTo")]
    rewind_to: Option<String>,
    #[serde(rename = "$set", borrow)]
    set: Option<GeminiChange<'a>>,
}

#[derive(Deserialize)]
struct GeminiChange<'a> {
    #[serde(borrow)]
    messages: Option<Vec<&'a RawValue>>,
    summary: Option<String>,
}

/// The messages that count after all lines.
#[derive(Default)]
struct GeminiLog {
    /// In the order in which they came first.
    messages: Vec<FilePlace>,
    by_id: BTreeMap<String, usize>,
    summary: Option<String>,
}

impl GeminiLog {
    fn read(&mut self, lines: &mut LineReader, items: &mut ItemQueue) -> io::Result<()> {
        loop {
            match lines.next_with_begin()? {
                Some((begin, Line::Whole(line))) => {
                    let place = FilePlace { begin, length: line.len() };
                    let address = line.as_ptr().addr();
                    match from_slice::<GeminiLine<'_>>(line) {
                        Ok(line) => self.add(line, address, place, items),
                        Err(_) => items.unread.damaged += 1,
                    }
                }
                Some((_, Line::TooLong)) => items.unread.too_long += 1,
                None => break,
            }
        }
        items.unread.is_torn = lines.is_torn();
        Ok(())
    }

    /// Adds a line, whose first byte is at an address in memory and at a place in the file.
    fn add(&mut self, line: GeminiLine<'_>, address: usize, place: FilePlace, items: &mut ItemQueue) {
        if let Some(id) = line.rewind_to {
            self.rewind(&id);
        } else if let Some(id) = line.id {
            self.put(id, place);
        } else if let Some(set) = line.set {
            self.summary = set.summary.or(self.summary.take());
            let Some(messages) = set.messages else { return };
            self.messages.clear();
            self.by_id.clear();
            for message in messages {
                let inner = message.get().as_ptr().addr().saturating_sub(address);
                let place = FilePlace { begin: place.begin + inner as u64, length: message.get().len() };
                match from_str::<GeminiLine<'_>>(message.get()) {
                    Ok(GeminiLine { id: Some(id), .. }) => self.put(id, place),
                    Ok(_) | Err(_) => items.unread.damaged += 1,
                }
            }
        } else if line.session_id.is_some() {
            self.summary = line.summary.or(self.summary.take());
        } else {
            items.unread.unknown += 1;
        }
    }

    fn put(&mut self, id: String, place: FilePlace) {
        if let Some(known) = self.by_id.get(&id) {
            self.messages[*known] = place;
        } else {
            self.by_id.insert(id, self.messages.len());
            self.messages.push(place);
        }
    }

    /// Deletes a message and all after it, or all if it does not exist.
    fn rewind(&mut self, id: &str) {
        let first = self.by_id.get(id).copied().unwrap_or(0);
        self.messages.truncate(first);
        self.by_id.retain(|_, index| *index < first);
    }
}

/// Makes items of messages.
struct GeminiParser;

impl LineParser for GeminiParser {
    fn read(&mut self, message: &[u8], items: &mut ItemQueue) -> Result<(), serde_json::Error> {
        read_message(from_slice(message)?, items)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiMessage<'a> {
    id: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "written_time")]
    timestamp: Option<Timestamp>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    /// What the user has written, before files were added to it.
    #[serde(borrow)]
    display_content: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<&'a RawValue>>,
    thoughts: Option<Vec<GeminiThought>>,
    tokens: Option<GeminiTokens>,
}

#[derive(Deserialize)]
struct GeminiThought {
    subject: Option<String>,
    description: Option<String>,
}

#[derive(Deserialize)]
struct GeminiTokens {
    total: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiToolCall<'a> {
    id: String,
    name: String,
    #[serde(default, deserialize_with = "arguments")]
    args: Value,
    status: Option<String>,
    description: Option<String>,
    #[serde(default, deserialize_with = "written_time")]
    timestamp: Option<Timestamp>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    result_display: Option<&'a RawValue>,
}

fn read_message(message: GeminiMessage<'_>, items: &mut ItemQueue) -> Result<(), serde_json::Error> {
    let (at, id) = (message.timestamp, Some(message.id));
    let content = message.display_content.or(message.content).map_or(Ok(Vec::new()), parts)?;
    match message.kind.as_deref() {
        Some("user") => {
            let is_context =
                |part: &GeminiPart<'_>| part.text.as_ref().is_some_and(|text| text.starts_with(CONTEXT));
            // Tool results are also given to the model as messages of the user; they are no blocks of a prompt.
            let blocks = content.iter().filter(|part| !is_context(part)).filter_map(GeminiPart::prompt_block);
            items.prompt(at, id, blocks.collect());
        }
        Some("gemini") => {
            for thought in message.thoughts.into_iter().flatten() {
                let subject = thought.subject.map(|subject| format!("**{subject}**"));
                let text = [subject, thought.description].into_iter().flatten();
                items.thought(at, id.clone(), text.collect::<Vec<_>>().join("\n"));
            }
            items.reply(at, id, content.into_iter().filter_map(|part| part.text).collect());
            for call in message.tool_calls.into_iter().flatten() {
                match from_str(call.get()) {
                    Ok(call) => read_call(at, call, items),
                    Err(_) => items.unread.damaged += 1,
                }
            }
            items.tokens(at, message.tokens.and_then(|tokens| tokens.total).unwrap_or_default());
        }
        Some("info" | "error" | "warning") => {}
        _ => items.unread.unknown += 1,
    }
    Ok(())
}

fn read_call(at: Option<Timestamp>, call: GeminiToolCall<'_>, items: &mut ItemQueue) {
    let at = call.timestamp.or(at);
    items.tool_call(at, call.id.clone(), call.name, call.args, call.description.as_deref());
    let is_error = match call.status.as_deref() {
        Some("success") => false,
        Some("error" | "cancelled") => true,
        _ => return,
    };
    let content = match shown_diff(call.result_display).filter(|_| !is_error) {
        Some(diff) => vec![diff],
        None => call.result.map(response_content).unwrap_or_default(),
    };
    items.tool_result(at, call.id, is_error, content);
}

fn response_content(result: &RawValue) -> Vec<Value> {
    let content = |part: &GeminiPart<'_>| match part {
        GeminiPart { function_response: Some(response), .. } => response.content().1,
        GeminiPart { text: Some(text), .. } => output(text),
        _ => Vec::new(),
    };
    parts(result).unwrap_or_default().iter().flat_map(content).collect()
}

#[cfg(test)]
mod tests;
