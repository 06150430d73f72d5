//! A turn for those who want the answer alone: the agent's words on stdout once it is done, what it used and
//! what went wrong on stderr.

use std::fmt::Write as _;
use std::io;

use acpx_core::acp;
use acpx_core::model::{ChunkContent, Direction, MessageKind, Update};
use acpx_core::wire::Message;
use serde::Deserialize;
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
        } else if result.exit() == crate::error::Exit::PermissionDenied {
            console.say("error: PERMISSION_DENIED every permission that the agent asked for was denied");
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
    cached_read_tokens: Option<u64>,
    cached_write_tokens: Option<u64>,
}

/// The line about tokens, if the agent told any.
fn tokens(usage: &RawValue) -> Option<String> {
    let usage: Usage = serde_json::from_str(usage.get()).ok()?;
    let counts = [
        ("input", usage.input_tokens),
        ("output", usage.output_tokens),
        ("total", usage.total_tokens),
        ("cache_read", usage.cached_read_tokens),
        ("cache_write", usage.cached_write_tokens),
    ];
    let mut line = String::from("tokens:");
    for (name, count) in counts.into_iter().filter_map(|(name, count)| Some((name, count?))) {
        // Writing to a string cannot fail.
        let _ = write!(line, " {name}={count}");
    }
    line.contains('=').then_some(line)
}
