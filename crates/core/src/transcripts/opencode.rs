//! opencode and Kilo, which is a fork of it: one database with the tables `session`, `message` and `part`.
//!
//! A message has parts, which are its text, its thoughts and its tool calls. The columns `data` are JSON.

use std::io;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, from_slice, from_str};

use super::content::{diff, in_tool_call, output, text_block, url_block};
use super::database::{
    AgentDatabase, DatabaseSession, RowItems, RowParser, bytes, limited, list_sessions, optional, text,
};
use super::item_queue::ItemQueue;
use super::placed_items::refuse_position;
use super::tool_call::{arguments, diff_of_input};
use super::written_time::{time_of_number, written_time};
use super::{
    ItemContent, TranscriptHome, TranscriptItems, TranscriptProblem, TranscriptReader, TranscriptSource,
};
use crate::model::Timestamp;

/// Titles that begin like this are not made for the session.
const DEFAULT_TITLES: &[&str] = &["New session - ", "Child session - "];
/// Kinds of parts without an item.
const OTHER_PARTS: &[&str] = &["step-start", "step-finish", "snapshot", "patch", "agent", "retry", "subtask"];

/// Reads the transcripts of opencode or Kilo.
pub(super) struct OpencodeReader {
    agent: &'static str,
    program: &'static str,
    path: PathBuf,
}

impl OpencodeReader {
    pub(super) fn opencode(home: &TranscriptHome<'_>) -> Self {
        Self::new(home, "opencode", "opencode")
    }

    pub(super) fn kilo(home: &TranscriptHome<'_>) -> Self {
        Self::new(home, "kilocode", "kilo")
    }

    fn new(home: &TranscriptHome<'_>, agent: &'static str, program: &'static str) -> Self {
        let data = home.directory("XDG_DATA_HOME", ".local/share");
        Self { agent, program, path: data.join(program).join(format!("{program}.db")) }
    }
}

impl TranscriptReader for OpencodeReader {
    fn agent(&self) -> &'static str {
        self.agent
    }

    fn locations(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    fn list(&self, each: &mut dyn FnMut(TranscriptSource)) -> Vec<TranscriptProblem> {
        list_sessions(self.agent, &self.path, |database| sessions(database, None), each)
    }

    fn find_each(&self, session: &str, each: &mut dyn FnMut(TranscriptSource)) -> Vec<TranscriptProblem> {
        list_sessions(self.agent, &self.path, |database| sessions(database, Some(session)), each)
    }

    fn open(&self, source: &TranscriptSource, from: u64) -> io::Result<Box<dyn TranscriptItems>> {
        refuse_position(from)?;
        let database = AgentDatabase::open(&source.path)?;
        let session = source.session.as_str();
        let mut queue = ItemQueue::default();
        let sql = format!("SELECT {}, {} FROM session WHERE id = ?1", limited("title"), limited("directory"));
        let row = database.first(&sql, [session], |row| Ok((text(row, 0)?, text(row, 1)?)))?;
        let (title, directory) =
            row.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the session does not exist"))?;
        queue.directory(None, &directory.unwrap_or_default());
        let title = title.unwrap_or_default();
        if !DEFAULT_TITLES.iter().any(|default| title.starts_with(default)) {
            queue.title(None, &title);
        }
        let sql = "SELECT part.rowid FROM message JOIN part ON part.message_id = message.id \
                   WHERE message.session_id = ?1 ORDER BY message.time_created, message.id, part.id";
        let rows = database.all(sql, [session], |row| row.get(0))?.into();
        Ok(Box::new(RowItems { database, rows, parser: OpencodeParser::default(), queue }))
    }

    fn resume_command(&self, session: &str) -> Option<Vec<String>> {
        Some([self.program, "--session", session].map(str::to_owned).into())
    }
}

fn sessions(database: &AgentDatabase, id: Option<&str>) -> io::Result<Vec<DatabaseSession>> {
    let columns = database.columns("session")?;
    let sql = format!(
        "SELECT id, {}, CAST(time_updated AS INTEGER), {} IS NOT NULL, \
         (SELECT count(*) FROM message WHERE message.session_id = session.id) \
         FROM session WHERE octet_length(id) <= 1024 AND (?1 IS NULL OR id = ?1)",
        optional(&columns, "parent_id"),
        optional(&columns, "time_archived"),
    );
    database.all(&sql, [id], |row| {
        let updated: Option<i64> = row.get(2)?;
        Ok(DatabaseSession {
            id: row.get(0)?,
            parent: text(row, 1)?,
            modified: updated.unwrap_or_default().saturating_mul(1_000_000),
            is_archived: row.get(3)?,
            messages: row.get(4)?,
        })
    })
}

#[derive(Deserialize, Default)]
struct OpencodeMessage<'a> {
    role: String,
    tokens: Option<OpencodeTokens>,
    path: Option<OpencodePath>,
    /// For a message of the agent, whether it is the summary of a compaction.
    #[serde(borrow)]
    summary: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OpencodePath {
    cwd: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OpencodeTokens {
    total: Option<u64>,
    input: u64,
    output: u64,
    reasoning: u64,
    cache: OpencodeCache,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OpencodeCache {
    read: u64,
    write: u64,
}

#[derive(Deserialize)]
struct OpencodePart<'a> {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    synthetic: Option<bool>,
    ignored: Option<bool>,
    url: Option<String>,
    filename: Option<String>,
    tool: Option<String>,
    #[serde(rename = "callID")]
    call_id: Option<String>,
    #[serde(borrow)]
    state: Option<&'a RawValue>,
    time: Option<OpencodeTime>,
}

#[derive(Deserialize)]
struct OpencodeTime {
    #[serde(default, deserialize_with = "written_time")]
    start: Option<Timestamp>,
    #[serde(default, deserialize_with = "written_time")]
    end: Option<Timestamp>,
}

#[derive(Deserialize)]
struct OpencodeToolState<'a> {
    status: String,
    #[serde(default, deserialize_with = "arguments")]
    input: Value,
    output: Option<String>,
    error: Option<String>,
    title: Option<String>,
    time: Option<OpencodeTime>,
    attachments: Option<Vec<OpencodeFile>>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OpencodeFile {
    url: String,
    filename: Option<String>,
}

#[derive(Deserialize, Default)]
struct OpencodeToolMetadata {
    filediff: Option<OpencodeFileDiff>,
}

#[derive(Deserialize)]
struct OpencodeFileDiff {
    file: String,
    before: String,
    after: String,
}

/// Makes items of parts.
#[derive(Default)]
struct OpencodeParser {
    /// The message that the last part belongs to.
    message: String,
    at: Option<Timestamp>,
    role: OpencodeRole,
    /// The prompt so far.
    prompt: Vec<Value>,
    tokens: u64,
}

#[derive(Default, PartialEq)]
enum OpencodeRole {
    User,
    Assistant,
    /// Its parts are not shown.
    #[default]
    Hidden,
}

impl RowParser for OpencodeParser {
    fn read(&mut self, database: &AgentDatabase, row: i64, items: &mut ItemQueue) -> io::Result<()> {
        let sql = format!("SELECT id, message_id, {} FROM part WHERE rowid = ?1", limited("data"));
        let read = database.first(&sql, [row], |row| Ok((text(row, 0)?, text(row, 1)?, bytes(row, 2)?)))?;
        // The agent may have deleted it.
        let Some((Some(id), Some(message), data)) = read else { return Ok(()) };
        if message != self.message {
            self.finish(items);
            self.begin_message(database, message, items)?;
        }
        match data.as_deref().map(|data| self.read_part(id, data, items)) {
            Some(Ok(())) => {}
            Some(Err(_)) => items.unread.damaged += 1,
            None => items.unread.too_long += 1,
        }
        Ok(())
    }

    /// Ends the message.
    fn finish(&mut self, items: &mut ItemQueue) {
        items.prompt(self.at, Some(self.message.clone()), std::mem::take(&mut self.prompt));
        items.tokens(self.at, std::mem::take(&mut self.tokens));
    }
}

impl OpencodeParser {
    fn begin_message(
        &mut self,
        database: &AgentDatabase,
        message: String,
        items: &mut ItemQueue,
    ) -> io::Result<()> {
        let sql =
            format!("SELECT CAST(time_created AS INTEGER), {} FROM message WHERE id = ?1", limited("data"));
        let read =
            database.first(&sql, [&message], |row| Ok((row.get::<_, Option<i64>>(0)?, bytes(row, 1)?)))?;
        let (at, data) = read.unwrap_or_default();
        let data = data.unwrap_or_default();
        let data: OpencodeMessage<'_> = from_slice(&data).unwrap_or_else(|_| {
            items.unread.damaged += 1;
            OpencodeMessage::default()
        });
        self.message = message;
        self.at = at.and_then(time_of_number);
        self.role = match data.role.as_str() {
            "user" => OpencodeRole::User,
            "assistant" if data.summary.is_none_or(|summary| summary.get() != "true") => {
                OpencodeRole::Assistant
            }
            _ => OpencodeRole::Hidden,
        };
        items.directory(self.at, data.path.as_ref().map_or("", |path| &path.cwd));
        self.tokens = data.tokens.map_or(0, |tokens| {
            let parts =
                [tokens.input, tokens.output, tokens.reasoning, tokens.cache.read, tokens.cache.write];
            tokens.total.unwrap_or_else(|| parts.into_iter().fold(0, u64::saturating_add))
        });
        Ok(())
    }

    fn read_part(&mut self, id: String, data: &[u8], items: &mut ItemQueue) -> Result<(), serde_json::Error> {
        let part: OpencodePart<'_> = from_slice(data)?;
        let at = part.time.as_ref().and_then(|time| time.start).or(self.at);
        let is_hidden = part.synthetic == Some(true) || part.ignored == Some(true);
        match (part.kind.as_str(), &self.role) {
            ("compaction", _) => items.push(at, ItemContent::Compaction { id }),
            (_, OpencodeRole::Hidden) => {}
            ("text", _) if is_hidden => {}
            ("text", OpencodeRole::User) => self.prompt.extend(part.text.as_deref().map(text_block)),
            ("text", OpencodeRole::Assistant) => items.reply(at, Some(id), part.text.unwrap_or_default()),
            ("reasoning", _) => items.thought(at, Some(id), part.text.unwrap_or_default()),
            ("file", OpencodeRole::User) => {
                let block = part.url.as_deref().map(|url| url_block(url, part.filename.as_deref()));
                self.prompt.extend(block);
            }
            ("file", _) => {}
            ("tool", _) => {
                let state = from_str(part.state.map_or("null", RawValue::get))?;
                let call = part.call_id.unwrap_or(id);
                read_tool(at, call, part.tool.unwrap_or_default(), state, items);
            }
            (kind, _) if OTHER_PARTS.contains(&kind) => {}
            _ => items.unread.unknown += 1,
        }
        Ok(())
    }
}

fn read_tool(
    at: Option<Timestamp>,
    id: String,
    name: String,
    state: OpencodeToolState<'_>,
    items: &mut ItemQueue,
) {
    let times = state.time.as_ref();
    let (begin, end) = (times.and_then(|time| time.start).or(at), times.and_then(|time| time.end).or(at));
    let metadata: OpencodeToolMetadata =
        state.metadata.and_then(|metadata| from_str(metadata.get()).ok()).unwrap_or_default();
    let change = match metadata.filediff {
        Some(change) => Some(diff(&change.file, Some(&change.before), &change.after)),
        None => diff_of_input(&name, &state.input),
    };
    items.tool_call(begin, id.clone(), name, state.input, state.title.as_deref());
    match state.status.as_str() {
        "completed" => {
            let printed = || output(state.output.as_deref().unwrap_or_default());
            let mut content = change.map_or_else(printed, |change| vec![change]);
            let block = |file: &OpencodeFile| in_tool_call(url_block(&file.url, file.filename.as_deref()));
            content.extend(state.attachments.iter().flatten().map(block));
            items.tool_result(end, id, false, content);
        }
        "error" => items.tool_result(end, id, true, output(state.error.as_deref().unwrap_or_default())),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
