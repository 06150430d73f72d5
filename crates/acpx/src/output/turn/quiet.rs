//! A turn for those who want the answer alone: the agent's words on stdout once it is done, what it used and
//! what went wrong on stderr.

use std::fmt::Write as _;
use std::io;

use acpx_core::model::{ChunkContent, MessageKind, Update};
use serde_json::value::RawValue;

use super::updates::Updates;
use super::{PromptResult, TurnStatus};
use crate::error::ErrorClass;
use crate::output::{Console, WatchedEvent};

/// The agent's words so far.
#[derive(Debug, Default)]
pub(super) struct QuietView {
    words: String,
    updates: Updates,
}

impl QuietView {
    pub(super) fn message(&mut self, event: &WatchedEvent) {
        for update in self.updates.read(event) {
            self.words.extend(words(update));
        }
    }

    pub(super) fn finish(self, result: &PromptResult, console: &mut Console<'_>) -> io::Result<()> {
        let failed = matches!(result.status, TurnStatus::Failed | TurnStatus::Interrupted);
        if !(failed && self.words.is_empty()) {
            writeln!(console.out, "{}", self.words)?;
            console.flush()?;
        }
        if let Some(tokens) = result.usage.as_deref().and_then(tokens) {
            console.say(&tokens);
        }
        if let Some(error) = &result.error {
            let class = ErrorClass::of(&error.code);
            console.say(&format!("error: {} [{}] {}", class.code(), error.code, error.message));
            error.hint.iter().for_each(|hint| console.say(&format!("hint: {hint}")));
        }
        Ok(())
    }
}

/// The agent's words, if an update is that.
pub(super) fn words(update: Update) -> Option<Box<str>> {
    match update {
        Update::Chunk { kind: MessageKind::Agent, content: ChunkContent::Text(text), .. } => Some(text),
        _ => None,
    }
}

/// The counts that are told, by their names in the protocol.
const COUNTS: [(&str, &str); 5] = [
    ("inputTokens", "input"),
    ("outputTokens", "output"),
    ("totalTokens", "total"),
    ("cachedReadTokens", "cache_read"),
    ("cachedWriteTokens", "cache_write"),
];

/// The line about tokens, if the agent told any.
fn tokens(usage: &RawValue) -> Option<String> {
    let usage: serde_json::Value = serde_json::from_str(usage.get()).ok()?;
    let mut line = String::from("tokens:");
    for (key, name) in COUNTS {
        if let Some(count) = usage.get(key).and_then(serde_json::Value::as_u64) {
            // Writing to a string cannot fail.
            let _ = write!(line, " {name}={count}");
        }
    }
    line.contains('=').then_some(line)
}
