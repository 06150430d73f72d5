//! One session with everything that is known of it.

use std::fmt::Display;
use std::io::{self, Write};

use acpx_core::model::{Record, Timestamp};

use super::record::{WholeRecord, closed_at, command, on_one_line, shown_name};
use super::{Console, json_line};
use crate::cli::Format;

/// Writes a session. When its last prompt was made, the record itself does not know.
pub(crate) fn show(
    record: &Record,
    last_prompt: Option<Timestamp>,
    console: &mut Console<'_>,
) -> io::Result<()> {
    match console.mode.format {
        Format::Quiet => writeln!(console.out, "{}", record.id),
        Format::Json => json_line(&WholeRecord::new(record, last_prompt), &mut *console.out),
        Format::Text => text(record, last_prompt, &mut *console.out),
    }?;
    console.flush()
}

fn text(record: &Record, last_prompt: Option<Timestamp>, out: &mut dyn Write) -> io::Result<()> {
    let current = record.lineage.current();
    let run = record.agent_run.as_ref();
    let ended = run.and_then(|run| run.ended.as_ref());
    let closed = closed_at(record);
    writeln!(out, "acpxRecordId: {}", record.id)?;
    writeln!(out, "acpxSessionId: {}", current.session)?;
    if let Some(inner) = &current.agent_session {
        writeln!(out, "agentSessionId: {inner}")?;
    }
    if let Some(name) = &record.agent.name {
        writeln!(out, "agentName: {name}")?;
    }
    writeln!(out, "agent: {}", command(&record.agent))?;
    writeln!(out, "cwd: {}", record.cwd)?;
    writeln!(out, "name: {}", shown_name(record))?;
    writeln!(out, "title: {}", or_dash(record.title.as_deref().map(on_one_line)))?;
    writeln!(out, "created: {}", record.created_at)?;
    writeln!(out, "lastActivity: {}", record.updated_at)?;
    writeln!(out, "lastPrompt: {}", or_dash(last_prompt))?;
    writeln!(out, "closed: {}", if closed.is_some() { "yes" } else { "no" })?;
    writeln!(out, "closedAt: {}", or_dash(closed))?;
    writeln!(out, "pid: {}", or_dash(run.filter(|run| run.ended.is_none()).map(|run| run.process.pid)))?;
    writeln!(out, "agentStartedAt: {}", or_dash(run.map(|run| run.since)))?;
    writeln!(out, "lastExit: {}", or_dash(ended.map(|exit| &exit.how)))?;
    writeln!(out, "lastExitAt: {}", or_dash(ended.map(|exit| exit.at)))?;
    writeln!(out, "turns: {}", record.last_turn.map_or(0, |turn| turn.0))?;
    writeln!(out, "lineage:")?;
    for row in record.lineage.rows() {
        let inner = row.agent_session.as_ref().map_or_else(String::new, |inner| format!("  {inner}"));
        let to = row.to.map_or_else(|| "now".to_owned(), |to| to.to_string());
        writeln!(out, "  {}  {}{inner}  {} to {to}", row.reason.as_str(), row.session, row.from)?;
    }
    Ok(())
}

fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
