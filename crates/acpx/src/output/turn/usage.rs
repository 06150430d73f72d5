//! Reports on stderr what a turn used: npm acpx's lines for tokens and cost, and how full the agent's context is.

use std::fmt::Write as _;

use acpx_core::model::SessionUsage;
use serde_json::value::RawValue;

use super::PromptResult;
use crate::cli::Format;
use crate::output::Console;
use crate::output::sanitize::agent_text;

/// The usage that the agent reported in the turn.
#[derive(Debug, Default)]
pub(super) struct UsageTracker(Option<SessionUsage>);

impl UsageTracker {
    /// Takes the session's usage so far.
    pub(super) fn update(&mut self, usage: SessionUsage, cost_stands: bool) {
        let before = self.0.take().and_then(|before| before.cost).filter(|_| cost_stands);
        self.0 = Some(SessionUsage { cost: usage.cost.or(before), ..usage });
    }

    /// Prints the usage. Quiet output prints only what npm acpx prints.
    pub(super) fn print(&self, result: &PromptResult, console: &mut Console<'_>) {
        if console.mode.format == Format::Json {
            return;
        }
        result.usage.as_deref().and_then(tokens).iter().for_each(|tokens| console.notice(tokens));
        let Some(SessionUsage { used, size, cost }) = &self.0 else { return };
        console.banner(&format!("context: {used} of {size} tokens"));
        if let Some(cost) = cost {
            console.notice(&format!("cost: {} {}", cost.amount, agent_text(&cost.currency)));
        }
    }
}

/// The printed counts, by their names in the protocol.
const COUNTS: [(&str, &str); 5] = [
    ("inputTokens", "input"),
    ("outputTokens", "output"),
    ("totalTokens", "total"),
    ("cachedReadTokens", "cache_read"),
    ("cachedWriteTokens", "cache_write"),
];

/// The line about tokens, if the agent reported any.
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
