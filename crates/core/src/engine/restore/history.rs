//! Reads what a new agent needs of the stored conversation: the exchanges to compare a replay with, and text to carry
//! into a fresh session. It reads the events since the last checkpoint of the exchanges, not the whole record.

use std::fmt::Write;
use std::sync::Arc;

use crate::acp;
use crate::machine::SessionMachine;
use crate::model::{
    AgentMemory, Content, Conversation, ConversationMessage, Direction, Entry, Event, EventKind, Exchange,
    ExchangeCheckpoint, ExchangeFold, HistoryExtent, MessageKind, RecordId, Seq, StoredExchange, Timestamp,
    TurnId,
};
use crate::store::{Store, StoreError};

/// How many events are folded at a time.
const PAGE: usize = 4096;
/// How many exchanges are recent.
const RECENT: usize = 32;
/// How many bytes of text a fresh session receives at most. The newest part is kept.
const CARRIED_CHARS: usize = 200_000;

/// The stored conversation, as a new agent needs it.
#[derive(Debug, Default)]
pub(crate) struct StoredHistory {
    /// The exchanges to compare a replay with.
    pub(crate) exchanges: Vec<Exchange>,
    /// The time of the last message.
    pub(crate) last_message_at: Option<Timestamp>,
    /// What the agent remembers according to all events; `None` if the record has it.
    pub(crate) memory: Option<AgentMemory>,
    /// The first event of the recent exchanges; `None` if all exchanges are recent.
    pub(crate) recent: Option<Seq>,
    /// The conversation as text, if a fresh session receives it, and how much of it that is.
    pub(crate) transcript: Option<(String, HistoryExtent)>,
}

/// Reads a record's conversation, and the fold of its exchanges to continue with.
pub(crate) async fn read(
    store: &Arc<dyn Store>,
    record: &RecordId,
    machine: &SessionMachine,
) -> Result<(StoredHistory, ExchangeFold), StoreError> {
    let stored = store.exchanges(record.clone()).await?;
    // Records that were imported, or written before exchanges were stored, are read once.
    let mut memory = stored.is_none().then(AgentMemory::default);
    let mut fold = stored.as_ref().map_or_else(ExchangeFold::new, ExchangeFold::resume);
    visit(store, record, fold.next(), |event| match &mut memory {
        None => apply(&mut fold, event),
        Some(memory) => {
            let content = acp::content(event);
            match &content {
                Content::Update(update) => memory.apply_update(update),
                Content::Fact(fact) => memory.apply(event.seq, fact),
                Content::Prompt { .. } | Content::Nothing => {}
            }
            fold.apply(event, &content);
        }
    })
    .await?;
    let stored = with_rest(stored, &fold);
    let last_message_at = fold.last_message_at();
    let transcript =
        if machine.carries_history() { Some(carried(store, record, machine, &stored).await?) } else { None };
    let recent = stored.len().checked_sub(RECENT + 1).map(|last_old| stored[last_old + 1].first);
    let branch = fold.branch(machine.returning());
    let in_branch = stored.into_iter().filter(|exchange| Some(exchange.branch) == branch);
    let exchanges = in_branch.map(|stored| stored.exchange).collect();
    Ok((StoredHistory { exchanges, last_message_at, memory, recent, transcript }, fold))
}

/// All exchanges: the stored ones, and those that the fold has found since.
fn with_rest(stored: Option<ExchangeCheckpoint>, fold: &ExchangeFold) -> Vec<StoredExchange> {
    match (stored, fold.clone().take_checkpoint()) {
        (Some(mut stored), Some(rest)) => {
            stored.add(rest);
            stored.exchanges
        }
        (Some(all), None) | (None, Some(all)) => all.exchanges,
        (None, None) => Vec::new(),
    }
}

/// Applies an event to the exchanges. Most updates contribute nothing, and their lines are not parsed.
pub(crate) fn apply(fold: &mut ExchangeFold, event: &Event) {
    let may_be_message = |body: &str| memchr::memmem::find(body.as_bytes(), b"_message").is_some();
    match (event.direction, event.kind) {
        (Direction::FromAgent, EventKind::Update)
            if !fold.has_open_message() && !may_be_message(&event.body) =>
        {
            fold.apply_other_update(event);
        }
        _ => fold.apply(event, &acp::content(event)),
    }
}

/// Folds a record's events.
pub(crate) async fn fold(store: &Arc<dyn Store>, record: &RecordId) -> Result<Conversation, StoreError> {
    fold_from(store, record, Seq::FIRST).await
}

async fn fold_from(store: &Arc<dyn Store>, record: &RecordId, from: Seq) -> Result<Conversation, StoreError> {
    let mut conversation = Conversation::new(record.clone());
    visit(store, record, from, |event| conversation.apply(event, acp::content(event))).await?;
    Ok(conversation)
}

/// Visits a record's events from one on, page by page.
pub(crate) async fn visit(
    store: &Arc<dyn Store>,
    record: &RecordId,
    mut from: Seq,
    mut look: impl FnMut(&Event),
) -> Result<(), StoreError> {
    loop {
        let events = store.events(record.clone(), from, PAGE).await?;
        let Some(last) = events.last() else { return Ok(()) };
        from = last.seq.next();
        events.iter().for_each(&mut look);
    }
}

/// The conversation as text for a fresh session. Only as many of the last exchanges are read as the text has room for.
async fn carried(
    store: &Arc<dyn Store>,
    record: &RecordId,
    machine: &SessionMachine,
    exchanges: &[StoredExchange],
) -> Result<(String, HistoryExtent), StoreError> {
    // A prompt that is sent again is not repeated in the transcript.
    let resent = machine.next_queued().filter(|turn| turn.is_sent()).map(|turn| turn.id);
    let mut bytes = 0;
    let start = exchanges.iter().rev().skip(usize::from(resent.is_some())).find(|stored| {
        bytes += stored.exchange.bytes();
        bytes > CARRIED_CHARS
    });
    let from = start.map_or(Seq::FIRST, |stored| stored.first);
    let extent = if from == Seq::FIRST { HistoryExtent::Whole } else { HistoryExtent::LastPart };
    Ok(transcript(&fold_from(store, record, from).await?, resent, extent))
}

/// The conversation as text, for an agent that does not remember it, and how much of it that is.
fn transcript(
    conversation: &Conversation,
    without: Option<TurnId>,
    extent: HistoryExtent,
) -> (String, HistoryExtent) {
    let mut text = String::new();
    let is_left_out = |entry: &Entry| matches!(entry, Entry::Message(message) if without.is_some() && message.turn == without);
    for entry in conversation.entries().iter().filter(|entry| !is_left_out(entry)) {
        // Writing to a string cannot fail.
        let _ = match entry {
            Entry::Message(message) if message.kind == MessageKind::User => {
                write!(text, "User: {}\n\n", whole(message))
            }
            Entry::Message(message) if message.kind == MessageKind::Agent => {
                write!(text, "You: {}\n\n", whole(message))
            }
            Entry::Tool(tool) => {
                let field = |name: &str| tool.fields.get(name).and_then(serde_json::Value::as_str);
                let title = field("title").unwrap_or("a tool");
                write!(text, "You used {title} ({}).\n\n", field("status").unwrap_or("unknown"))
            }
            Entry::Message(_) | Entry::Plan { .. } | Entry::TurnEnd { .. } | Entry::Reset { .. } => Ok(()),
        };
    }
    let excess = text.len().saturating_sub(CARRIED_CHARS);
    let start = (excess..=text.len()).find(|&index| text.is_char_boundary(index)).unwrap_or(text.len());
    let extent = if start > 0 { HistoryExtent::LastPart } else { extent };
    let cut = match extent {
        HistoryExtent::Whole => "",
        HistoryExtent::LastPart => "(the beginning is left out)\n\n",
    };
    let text = format!(
        "This session replaces one that was lost. The conversation so far, for your information:\n\n\
         {cut}{}\
         End of the conversation so far. What follows is the next prompt.",
        text.get(start..).unwrap_or_default()
    );
    (text, extent)
}

/// A message's text with its other content blocks.
fn whole(message: &ConversationMessage) -> String {
    let text = Some(message.text.clone()).filter(|text| !text.is_empty());
    let along = message.blocks.iter().filter_map(|block| acp::carried_words(block));
    text.into_iter().chain(along).collect::<Vec<_>>().join("\n")
}

/// Puts the history before a prompt, marked as not written by the user.
pub(crate) fn with_history(blocks: &str, history: &str) -> String {
    match blocks.trim_start().strip_prefix('[') {
        Some(rest) => format!("[{},{rest}", acp::carried_block(history)),
        None => blocks.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carried_history_precedes_the_unchanged_prompt_blocks() {
        let blocks = r#" [ {"type":"text","text":"x", "n":1e3} ]"#;
        let carried = with_history(blocks, "old");
        let expected = format!(r#"[{}, {{"type":"text","text":"x", "n":1e3}} ]"#, acp::carried_block("old"));
        assert_eq!(carried, expected);
        assert_eq!(acp::prompt_text(&carried), "x");
    }
}
