//! Goose: one database with the tables `sessions` and `messages`. The content of a message is a list of parts in JSON.

use std::io;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, from_slice, from_str};

use super::content::{image_block, in_tool_call, output, text_block};
use super::database::{
    AgentDatabase, DatabaseSession, RowItems, RowParser, bytes, limited, list_sessions, optional, text,
};
use super::item_queue::ItemQueue;
use super::placed_items::refuse_position;
use super::tool_call::arguments;
use super::written_time::{time_of_number, time_of_text};
use super::{
    ItemContent, TranscriptHome, TranscriptItems, TranscriptProblem, TranscriptReader, TranscriptSource,
};
use crate::model::Timestamp;

const AGENT: &str = "goose";
/// Kinds of parts without an item.
const OTHER_PARTS: &[&str] = &[
    "actionRequired",
    "contextLengthExceeded",
    "redactedThinking",
    "systemNotification",
    "toolConfirmationRequest",
];

/// Reads the transcripts of Goose.
pub(super) struct GooseReader {
    path: PathBuf,
}

impl GooseReader {
    pub(super) fn new(home: &TranscriptHome<'_>) -> Self {
        let root = (home.variable)("GOOSE_PATH_ROOT").map(PathBuf::from).filter(|root| root.is_absolute());
        let data = root.map(|root| root.join("data"));
        let data = data.unwrap_or_else(|| home.directory("XDG_DATA_HOME", ".local/share").join("goose"));
        Self { path: data.join("sessions").join("sessions.db") }
    }
}

impl TranscriptReader for GooseReader {
    fn agent(&self) -> &'static str {
        AGENT
    }

    fn locations(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    fn list(&self, each: &mut dyn FnMut(TranscriptSource)) -> Vec<TranscriptProblem> {
        list_sessions(AGENT, &self.path, |database| sessions(database, None), each)
    }

    fn find_each(&self, session: &str, each: &mut dyn FnMut(TranscriptSource)) -> Vec<TranscriptProblem> {
        list_sessions(AGENT, &self.path, |database| sessions(database, Some(session)), each)
    }

    fn open(&self, source: &TranscriptSource, from: u64) -> io::Result<Box<dyn TranscriptItems>> {
        refuse_position(from)?;
        let database = AgentDatabase::open(&source.path)?;
        let session = source.session.as_str();
        let columns = database.columns("sessions")?;
        let sql = format!(
            "SELECT working_dir, {}, {}, CAST({} AS INTEGER) FROM sessions WHERE id = ?1",
            optional(&columns, "name"),
            optional(&columns, "description"),
            optional(&columns, "accumulated_total_tokens"),
        );
        let read = |row: &rusqlite::Row<'_>| Ok((text(row, 0)?, text(row, 1)?, text(row, 2)?, row.get(3)?));
        let row: Option<(_, Option<String>, _, Option<i64>)> = database.first(&sql, [session], read)?;
        let (directory, name, description, tokens) =
            row.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the session does not exist"))?;
        let mut queue = ItemQueue::default();
        queue.directory(None, &directory.unwrap_or_default());
        let name = name.filter(|name| !name.is_empty()).or(description);
        queue.title(None, &name.unwrap_or_default());
        queue.tokens(None, tokens.and_then(|tokens| u64::try_from(tokens).ok()).unwrap_or_default());
        let columns = database.columns("messages")?;
        let (id, metadata) = (optional(&columns, "message_id"), optional(&columns, "metadata_json"));
        let parser = GooseParser { id, metadata };
        let sql = "SELECT id FROM messages WHERE session_id = ?1 ORDER BY id";
        let rows = database.all(sql, [session], |row| row.get(0))?.into();
        Ok(Box::new(RowItems { database, rows, parser, queue }))
    }

    fn resume_command(&self, session: &str) -> Option<Vec<String>> {
        Some(["goose", "session", "--resume", "--session-id", session].map(str::to_owned).into())
    }
}

/// The sessions, without those that goose has started for itself: they name no parent.
fn sessions(database: &AgentDatabase, id: Option<&str>) -> io::Result<Vec<DatabaseSession>> {
    let columns = database.columns("sessions")?;
    let sql = format!(
        "SELECT id, CAST(updated_at AS TEXT), {} IS NOT NULL, \
         (SELECT count(*) FROM messages WHERE messages.session_id = sessions.id) \
         FROM sessions WHERE octet_length(id) <= 1024 AND (?1 IS NULL OR id = ?1) \
         AND coalesce({}, '') NOT IN ('sub_agent', 'hidden')",
        optional(&columns, "archived_at"),
        optional(&columns, "session_type"),
    );
    database.all(&sql, [id], |row| {
        let updated =
            text(row, 1)?.and_then(|updated| time_of_text(&updated)).map_or(0, Timestamp::as_millis);
        let modified = updated.saturating_mul(1_000_000);
        Ok(DatabaseSession {
            id: row.get(0)?,
            parent: None,
            modified,
            is_archived: row.get(2)?,
            messages: row.get(3)?,
        })
    })
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct GooseMetadata {
    user_visible: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GoosePart<'a> {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    text: Option<String>,
    thinking: Option<String>,
    data: Option<String>,
    mime_type: Option<String>,
    #[serde(borrow)]
    tool_call: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_result: Option<&'a RawValue>,
}

/// A call or a result: a value, or an error as text.
#[derive(Deserialize)]
struct GooseOutcome<'a> {
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct GooseCall {
    name: String,
    #[serde(default, deserialize_with = "arguments")]
    arguments: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GooseResult {
    content: Vec<GooseContent>,
    is_error: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GooseContent {
    text: Option<String>,
    data: Option<String>,
    mime_type: Option<String>,
    resource: Option<GooseResource>,
}

#[derive(Deserialize)]
struct GooseResource {
    text: Option<String>,
}

/// Makes items of messages.
struct GooseParser {
    /// The column with the id of a message, which older databases do not have.
    id: &'static str,
    metadata: &'static str,
}

impl RowParser for GooseParser {
    fn read(&mut self, database: &AgentDatabase, row: i64, items: &mut ItemQueue) -> io::Result<()> {
        let sql = format!(
            "SELECT role, CAST(created_timestamp AS INTEGER), {}, {}, {} FROM messages WHERE id = ?1",
            self.id,
            self.metadata,
            limited("content_json")
        );
        let read = |row: &rusqlite::Row<'_>| {
            Ok((text(row, 0)?, row.get::<_, Option<i64>>(1)?, text(row, 2)?, text(row, 3)?, bytes(row, 4)?))
        };
        let Some((role, at, id, metadata, content)) = database.first(&sql, [row], read)? else {
            return Ok(());
        };
        let metadata: GooseMetadata =
            metadata.and_then(|metadata| from_str(&metadata).ok()).unwrap_or_default();
        if metadata.user_visible == Some(false) {
            return Ok(());
        }
        let Some(content) = content else {
            items.unread.too_long += 1;
            return Ok(());
        };
        let message = GooseMessage {
            id: id.unwrap_or_else(|| row.to_string()),
            at: at.and_then(time_of_number),
            is_prompt: role.as_deref() == Some("user"),
        };
        if message.read(&content, items).is_err() {
            items.unread.damaged += 1;
        }
        Ok(())
    }
}

struct GooseMessage {
    id: String,
    at: Option<Timestamp>,
    is_prompt: bool,
}

impl GooseMessage {
    fn read(&self, content: &[u8], items: &mut ItemQueue) -> Result<(), serde_json::Error> {
        let (mut prompt, id) = (Vec::new(), Some(self.id.clone()));
        for part in from_slice::<Vec<&RawValue>>(content)? {
            let Ok(part) = from_str::<GoosePart<'_>>(part.get()) else {
                items.unread.damaged += 1;
                continue;
            };
            match part.kind.as_str() {
                "text" if self.is_prompt => prompt.extend(part.text.as_deref().map(text_block)),
                "text" => items.reply(self.at, id.clone(), part.text.unwrap_or_default()),
                "image" if self.is_prompt => {
                    let data = part.data.as_deref();
                    prompt
                        .extend(data.map(|data| image_block(part.mime_type.as_deref().unwrap_or(""), data)));
                }
                "thinking" => items.thought(self.at, id.clone(), part.thinking.unwrap_or_default()),
                "toolRequest" | "frontendToolRequest" => self.read_call(part, items)?,
                "toolResponse" => self.read_result(part, items)?,
                "conversationCompacted" | "summarizationRequested" => {
                    items.push(self.at, ItemContent::Compaction { id: self.id.clone() });
                }
                kind if OTHER_PARTS.contains(&kind) => {}
                _ => items.unread.unknown += 1,
            }
        }
        items.prompt(self.at, id, prompt);
        Ok(())
    }

    fn read_call(&self, part: GoosePart<'_>, items: &mut ItemQueue) -> Result<(), serde_json::Error> {
        let id = part.id.unwrap_or_default();
        let outcome: GooseOutcome<'_> = from_str(part.tool_call.map_or("{}", RawValue::get))?;
        if let Some(value) = outcome.value {
            let call: GooseCall = from_str(value.get())?;
            items.tool_call(self.at, id, call.name, call.arguments, None);
        }
        Ok(())
    }

    fn read_result(&self, part: GoosePart<'_>, items: &mut ItemQueue) -> Result<(), serde_json::Error> {
        let id = part.id.unwrap_or_default();
        let outcome: GooseOutcome<'_> = from_str(part.tool_result.map_or("{}", RawValue::get))?;
        let Some(value) = outcome.value else {
            items.tool_result(self.at, id, true, output(&outcome.error.unwrap_or_default()));
            return Ok(());
        };
        // In older versions the value is the list of contents.
        let result = from_str(value.get()).map(|content| GooseResult { content, is_error: None });
        let result = result.or_else(|_| from_str(value.get()))?;
        let content = result.content.into_iter().flat_map(result_content).collect();
        items.tool_result(self.at, id, result.is_error == Some(true), content);
        Ok(())
    }
}

fn result_content(content: GooseContent) -> Vec<Value> {
    let text = content.text.or_else(|| content.resource.and_then(|resource| resource.text));
    match (text, content.data) {
        (Some(text), _) => output(&text),
        (None, Some(data)) => vec![in_tool_call(image_block(&content.mime_type.unwrap_or_default(), &data))],
        (None, None) => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
