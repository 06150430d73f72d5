//! Renders only the answer: the agent's words on stdout once the turn is done, usage and errors on stderr.

use std::io::{self, Write};

use acpx_core::model::{Cost, Update};
use acpx_core::wire::RpcMessage;

use super::answer::Answer;
use super::result::UsageTracker;
use super::{PromptResult, TurnStatus, UpdateReader};
use crate::output::error::quiet_words;
use crate::output::{Console, WatchedEvent};

/// The agent's words so far.
#[derive(Debug, Default)]
pub(super) struct QuietView {
    answer: Answer,
    updates: UpdateReader,
    usage: UsageTracker,
}

impl QuietView {
    pub(super) fn message(&mut self, event: &WatchedEvent, message: &RpcMessage) {
        for update in self.updates.read(event, message) {
            match update {
                Update::Usage { usage, cost_stands } => self.usage.update(usage, cost_stands),
                update => self.answer.add(&update, usize::MAX),
            }
        }
    }

    /// Takes what the session had cost before the turn.
    pub(super) fn begin_with(&mut self, cost: Option<&Cost>) {
        self.usage.begin_with(cost);
    }

    pub(super) fn finish(self, result: &PromptResult, console: &mut Console<'_>) -> io::Result<()> {
        let failed = matches!(result.status, TurnStatus::Failed | TurnStatus::Interrupted);
        if !(failed && self.answer.text.is_empty()) {
            writeln!(console.out, "{}", self.answer.text)?;
            console.flush()?;
        }
        if console.mode.is_terminal {
            return console.turn_error(result);
        }
        self.usage.print(result, console);
        if let Some(error) = &result.error {
            console.notice(&format!("error: {}", quiet_words(error)));
            error.hint.iter().for_each(|hint| console.notice(&format!("hint: {hint}")));
        }
        Ok(())
    }
}
