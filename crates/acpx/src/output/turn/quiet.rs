//! A turn for those who want the answer alone: the agent's words on stdout once it is done, what it used and
//! what went wrong on stderr.

use std::fmt::Write as _;
use std::io;

use acpx_core::acp;
use acpx_core::model::{ChunkContent, Direction, MessageKind, Update};
use acpx_core::wire::Message;
use serde_json::value::RawValue;

use super::{PromptResult, TurnStatus};
use crate::error::ErrorClass;
use crate::output::{Console, WatchedEvent};

/// The agent's words so far.
#[derive(Debug, Default)]
pub(super) struct QuietView {
    words: String,
}

impl QuietView {
    pub(super) fn message(&mut self, event: &WatchedEvent) {
        if event.direction != Direction::FromAgent {
            return;
        }
        let Ok(message) = Message::parse(event.message.get()) else { return };
        if message.method() != Some("session/update") {
            return;
        }
        if let Update::Chunk { kind: MessageKind::Agent, content: ChunkContent::Text(text), .. } =
            acp::update(message.params().unwrap_or("null"))
        {
            self.words.push_str(&text);
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
            let message = error.message.replace('\n', " ");
            console.say(&format!("error: {} [{}] {message}", class.code(), error.code));
            error.hint.iter().for_each(|hint| console.say(&format!("hint: {hint}")));
        }
        Ok(())
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
