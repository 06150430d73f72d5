//! Reads the conversation back from the store, to compare it with a replay and to carry it into a fresh session.

use std::fmt::Write;
use std::sync::Arc;

use crate::acp;
use crate::machine::SessionMachine;
use crate::model::{
    AgentMemory, Content, Conversation, ConversationMessage, Entry, Event, Exchange, HistoryExtent,
    MessageKind, RecordId, Seq, Timestamp, TurnId,
};
use crate::store::{Store, StoreError};

/// How many events are folded at a time.
const PAGE: usize = 4096;
/// How many bytes of text a fresh session receives at most. The newest part is kept.
const CARRIED_CHARS: usize = 200_000;

/// The stored conversation, as a new agent needs it.
#[derive(Debug, Default)]
pub(crate) struct StoredHistory {
    /// The exchanges to compare a replay with.
    pub(crate) exchanges: Vec<Exchange>,
    /// The time of the last message.
    pub(crate) last_message_at: Option<Timestamp>,
    pub(crate) memory: AgentMemory,
    /// The conversation as text, if a fresh session receives it, and how much of it that is.
    pub(crate) transcript: Option<(String, HistoryExtent)>,
}

/// Reads a record's conversation. Every event goes to `on_event` too.
pub(crate) async fn read(
    store: &Arc<dyn Store>,
    record: &RecordId,
    machine: &SessionMachine,
    on_event: impl FnMut(&Event, &Content),
) -> Result<StoredHistory, StoreError> {
    let (conversation, transcript) = if machine.carries_history() {
        let whole = into(Conversation::new(record.clone()), store, record, on_event).await?;
        // A prompt that is sent again is not repeated in the transcript.
        let resent = machine.next_queued().filter(|turn| turn.is_sent()).map(|turn| turn.id);
        let transcript = transcript(&whole, resent);
        (whole, Some(transcript))
    } else {
        // As much as a replay is compared with, independent of the length.
        (into(Conversation::brief(record.clone()), store, record, on_event).await?, None)
    };
    let exchanges = match machine.returning() {
        Some(session) => conversation.exchanges_in(session),
        None => conversation.exchanges(),
    };
    let (memory, last_message_at) = (conversation.memory(), conversation.last_message_at());
    Ok(StoredHistory { exchanges, last_message_at, memory, transcript })
}

/// Folds a record's events.
pub(crate) async fn fold(store: &Arc<dyn Store>, record: &RecordId) -> Result<Conversation, StoreError> {
    into(Conversation::new(record.clone()), store, record, |_, _| {}).await
}

async fn into(
    mut conversation: Conversation,
    store: &Arc<dyn Store>,
    record: &RecordId,
    mut on_event: impl FnMut(&Event, &Content),
) -> Result<Conversation, StoreError> {
    let mut from = Seq::FIRST;
    loop {
        let events = store.events(record.clone(), from, PAGE).await?;
        let Some(last) = events.last() else { return Ok(conversation) };
        from = last.seq.next();
        for event in &events {
            let content = acp::content(event);
            on_event(event, &content);
            conversation.apply(event, content);
        }
    }
}

/// The conversation as text, for an agent that does not remember it, and how much of it that is.
fn transcript(conversation: &Conversation, without: Option<TurnId>) -> (String, HistoryExtent) {
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
    let (cut, carried) = match start {
        0 => ("", HistoryExtent::Whole),
        _ => ("(the beginning is left out)\n\n", HistoryExtent::LastPart),
    };
    let text = format!(
        "This session replaces one that was lost. The conversation so far, for your information:\n\n\
         {cut}{}\
         End of the conversation so far. What follows is the next prompt.",
        text.get(start..).unwrap_or_default()
    );
    (text, carried)
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
