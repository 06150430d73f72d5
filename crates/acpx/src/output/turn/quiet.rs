//! Renders only the answer: the agent's words on stdout once the turn is done, usage and errors on stderr.

use std::io;

use acpx_core::model::{ChunkContent, MessageKind, Update};
use acpx_core::wire::RpcMessage;

use super::result::UsageTracker;
use super::{PromptResult, TurnStatus, UpdateReader};
use crate::output::{Console, WatchedEvent};

/// The agent's words so far.
#[derive(Debug, Default)]
pub(super) struct QuietView {
    words: String,
    updates: UpdateReader,
    usage: UsageTracker,
}

impl QuietView {
    pub(super) fn message(&mut self, event: &WatchedEvent, message: &RpcMessage) {
        for update in self.updates.read(event, message) {
            match update {
                Update::Usage { usage, cost_stands } => self.usage.update(usage, cost_stands),
                update => self.words.extend(words(update)),
            }
        }
    }

    pub(super) fn finish(self, result: &PromptResult, console: &mut Console<'_>) -> io::Result<()> {
        let failed = matches!(result.status, TurnStatus::Failed | TurnStatus::Interrupted);
        if !(failed && self.words.is_empty()) {
            writeln!(console.out, "{}", self.words)?;
            console.flush()?;
        }
        self.usage.print(result, console);
        if let Some(error) = &result.error {
            console.notice(&format!(
                "error: {} [{}] {}",
                error.code.class().as_str(),
                error.code,
                error.message
            ));
            error.hint.iter().for_each(|hint| console.notice(&format!("hint: {hint}")));
        }
        Ok(())
    }
}

/// The agent's words in an update, if it has any.
fn words(update: Update) -> Option<Box<str>> {
    match update {
        Update::Chunk { kind: MessageKind::Agent, content: ChunkContent::Text(text), .. } => Some(text),
        _ => None,
    }
}
