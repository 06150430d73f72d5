//! A turn as it is shown while it runs: events come one by one, and a result at the end.
//!
//! Text is for people, JSON is the very lines exchanged with the agent, quiet is the agent's words alone. That
//! a session was lost is said in every format: on stderr, and in JSON on stdout too.

mod quiet;
mod result;
mod text;
mod tool;

use std::io::{self, Write};

use acpx_core::model::{Direction, Fact, RecordId};
use serde::Serialize;

pub(crate) use self::result::{PromptResult, ResultError, ResultIds, TurnStatus};

pub(super) use self::text::cut;

use self::quiet::QuietView;
use self::text::TextView;
use super::{Console, WatchedEvent, json_line};
use crate::cli::Format;

/// Shows one turn.
#[derive(Debug)]
pub(crate) struct TurnView {
    /// The record it is in; `exec` has none.
    record: Option<RecordId>,
    view: View,
}

#[derive(Debug)]
enum View {
    Text(Box<TextView>),
    Json,
    Quiet(QuietView),
}

impl TurnView {
    /// A view of a turn that has not begun.
    pub(crate) fn new(format: Format, record: Option<RecordId>) -> Self {
        let view = match format {
            Format::Text => View::Text(Box::default()),
            Format::Json => View::Json,
            Format::Quiet => View::Quiet(QuietView::default()),
        };
        Self { record, view }
    }

    /// Shows the next event. Whoever calls this flushes the console when nothing more is waiting.
    pub(crate) fn event(&mut self, event: &WatchedEvent, console: &mut Console<'_>) -> io::Result<()> {
        if event.direction == Direction::Ours {
            return self.fact(event, console);
        }
        match &mut self.view {
            View::Text(view) => view.message(event, &mut *console.out),
            View::Json => {
                console.out.write_all(event.message.get().as_bytes())?;
                console.out.write_all(b"\n")
            }
            View::Quiet(view) => {
                view.message(event);
                Ok(())
            }
        }
    }

    /// Shows how the turn ended.
    pub(crate) fn finish(self, result: &PromptResult, console: &mut Console<'_>) -> io::Result<()> {
        match self.view {
            View::Text(view) => view.finish(result, &mut *console.out),
            View::Json => json_line(result, &mut *console.out),
            View::Quiet(view) => view.finish(result, console),
        }?;
        console.flush()
    }

    /// A fact of ours is no line of the agent's. Those that change what a person may expect are said.
    fn fact(&mut self, event: &WatchedEvent, console: &mut Console<'_>) -> io::Result<()> {
        match Fact::from_body(event.message.get()) {
            Some(Fact::SessionReset { reason, from_acpx_session_id, acpx_session_id, announced }) => {
                if announced {
                    console.flush()?;
                    console.say(&format!(
                        "the agent could not restore the session ({reason}); this is a fresh one, which does not remember what came before"
                    ));
                }
                if !matches!(self.view, View::Json) {
                    return Ok(());
                }
                let reset = SessionReset {
                    action: "session_reset",
                    acpx_record_id: self.record.as_ref(),
                    acpx_session_id,
                    from_acpx_session_id,
                    reason,
                    announced,
                };
                json_line(&reset, &mut *console.out)
            }
            Some(Fact::McpServersLeftOut { names, reason }) => {
                console.flush()?;
                let why = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
                console.say(&format!(
                    "left out, since their values are not known any more{why}: the MCP servers {}",
                    names.join(", ")
                ));
                Ok(())
            }
            fact => {
                fact.as_ref().and_then(detail).iter().for_each(|text| console.detail(text));
                Ok(())
            }
        }
    }
}

/// A fact that is of interest only to those who want to know what is being done.
fn detail(fact: &Fact) -> Option<String> {
    match fact {
        Fact::TurnStarted { turn, request_id } => Some(format!("turn {turn} is sent (request {request_id})")),
        Fact::Restored { by, .. } => Some(format!("the session is restored by {by}")),
        Fact::AgentEnded { how } => Some(format!("the agent ended: {how}")),
        _ => None,
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionReset<'a> {
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    acpx_record_id: Option<&'a RecordId>,
    acpx_session_id: String,
    from_acpx_session_id: String,
    reason: String,
    announced: bool,
}

#[cfg(test)]
mod tests;
