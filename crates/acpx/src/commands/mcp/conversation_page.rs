//! A page of a conversation: messages and the titles of tool calls, from a cursor on, up to a size.
//!
//! It folds only as many events as the page needs. An entry that is larger than a page continues on the next one.

use acpx_core::acp;
use acpx_core::model::{Conversation, Entry, Event, MessageKind, RecordId, Seq, Timestamp};
use acpx_core::store::{SqliteStore, Store};
use acpx_core::transcripts::TranscriptEvents;
use serde_json::{Value, json};

use super::arguments::EntryCursor;
use super::result_page::{ResultPage, block, line, quoted};
use crate::error::{CliError, system_words};

/// How many events of a record are read at a time.
const EVENT_PAGE: usize = 512;
/// So much text surely fills a page.
const FULL: usize = 32 * 1024;

/// Where the events of a conversation come from.
pub(super) enum EventSource<'a> {
    Record { store: &'a SqliteStore, record: RecordId, next: Seq },
    Transcript(TranscriptEvents),
}

/// What the caller wants of a conversation.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConversationRange {
    pub(super) from: EntryCursor,
    pub(super) entries: usize,
    pub(super) characters: usize,
}

/// An entry as it is shown.
struct ShownEntry {
    seq: u64,
    role: &'static str,
    at: Option<Timestamp>,
    /// The status of a tool call.
    status: Option<String>,
    text: String,
}

impl EventSource<'_> {
    /// The next events; none at the end.
    async fn next(&mut self) -> Result<Vec<Event>, CliError> {
        match self {
            Self::Record { store, record, next } => {
                let events = store.events(record.clone(), *next, EVENT_PAGE).await?;
                *next = events.last().map_or(*next, |event| event.seq.next());
                Ok(events)
            }
            Self::Transcript(events) => {
                let batch = events.next_batch().map_err(|error| CliError::System {
                    doing: format!("read the transcript: {}", system_words(&error)),
                    source: error,
                })?;
                Ok(batch.unwrap_or_default())
            }
        }
    }
}

/// Adds the entries from the cursor on; the cursor of the next page, if there is more.
pub(super) async fn fill(
    page: &mut ResultPage,
    mut source: EventSource<'_>,
    request: ConversationRange,
) -> Result<Option<EntryCursor>, CliError> {
    let entries = shown_entries(&mut source, request).await?;
    let (mut skip, mut characters) = (request.from.skip, request.characters);
    for entry in entries {
        let begin = std::mem::take(&mut skip);
        let text = after(&entry.text, begin);
        if text.is_empty() {
            continue;
        }
        let next = EntryCursor { seq: entry.seq, skip: begin };
        if page.len() == request.entries || characters == 0 {
            return Ok(Some(next));
        }
        let length = text.chars().count();
        if length <= characters && push(page, &entry, begin, text) {
            characters -= length;
            continue;
        }
        if !page.is_empty() {
            return Ok(Some(next));
        }
        // The first entry alone is too large: its beginning.
        let taken = push_part(page, &entry, begin, text, characters);
        return Ok(Some(EntryCursor { seq: entry.seq, skip: begin + taken }));
    }
    Ok(None)
}

/// The entries from the cursor on, as many as may fit.
async fn shown_entries(
    source: &mut EventSource<'_>,
    request: ConversationRange,
) -> Result<Vec<ShownEntry>, CliError> {
    let record = RecordId::new("recall").expect("the text is not empty");
    let mut conversation = Conversation::new(record);
    let mut is_full = false;
    loop {
        let events = source.next().await?;
        if events.is_empty() {
            break;
        }
        for event in events.iter().filter(|event| event.seq.0 >= request.from.seq) {
            conversation.apply(event, acp::content(event));
        }
        // One more round: the last entries may continue.
        if std::mem::replace(&mut is_full, fills_page(&conversation, request)) {
            break;
        }
    }
    Ok(conversation.entries().iter().filter_map(ShownEntry::of).collect())
}

fn fills_page(conversation: &Conversation, request: ConversationRange) -> bool {
    let mut size = 0;
    let mut count = 0;
    for entry in conversation.entries() {
        match entry {
            Entry::Message(message) if message.kind != MessageKind::Thought => size += message.text.len(),
            Entry::Tool(_) => {}
            _ => continue,
        }
        count += 1;
    }
    count > request.entries || size > FULL.saturating_add(request.from.skip.saturating_mul(4))
}

impl ShownEntry {
    /// An entry with words; thoughts, plans and boundaries are left out.
    fn of(entry: &Entry) -> Option<Self> {
        match entry {
            Entry::Message(message) => {
                let role = match message.kind {
                    MessageKind::User => "user",
                    MessageKind::Agent => "agent",
                    MessageKind::Thought => return None,
                };
                let mut text = block(&message.text);
                if !message.blocks.is_empty() {
                    text = format!("{text}\n[{} attached]", message.blocks.len());
                }
                Some(Self { seq: message.first.0, role, at: Some(message.at), status: None, text })
            }
            Entry::Tool(tool) => {
                let field = |name: &str| tool.fields.get(name).and_then(Value::as_str);
                // An update of a call that began before the cursor has no title.
                let text = line(field("title")?);
                let status = field("status").map(line);
                Some(Self { seq: tool.first.0, role: "tool", at: None, status, text })
            }
            Entry::Plan { .. } | Entry::TurnEnd { .. } | Entry::Reset { .. } => None,
        }
    }
}

fn push(page: &mut ResultPage, entry: &ShownEntry, begin: usize, text: &str) -> bool {
    let cursor = EntryCursor { seq: entry.seq, skip: begin };
    let mut item = json!({ "cursor": cursor.to_string(), "role": entry.role, "text": text });
    let mut head = format!("\n[{cursor}] {}", entry.role);
    if let Some(at) = entry.at {
        item["at"] = at.to_string().into();
        head = format!("{head}, {at}");
    }
    if let Some(status) = &entry.status {
        item["status"] = status.as_str().into();
        head = format!("{head}, {status}");
    }
    page.push(item, &format!("{head}\n{}", quoted(text)))
}

/// Adds as much of a text as fits; how many characters.
fn push_part(
    page: &mut ResultPage,
    entry: &ShownEntry,
    begin: usize,
    text: &str,
    characters: usize,
) -> usize {
    let mut taken = text.chars().count().min(characters).min(FULL);
    while taken > 0 {
        if push(page, entry, begin, before(text, taken)) {
            return taken;
        }
        taken = taken * 3 / 4;
    }
    // Not even one character fits: it is skipped, so that reading goes on.
    1
}

/// A text without its first characters.
fn after(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or("", |(begin, _)| &text[begin..])
}

/// The first characters of a text.
fn before(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or(text, |(end, _)| &text[..end])
}
