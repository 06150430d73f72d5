//! Shows one session with everything that is known of it.

use std::fmt::Display;
use std::io::{self, Write};

use acpx_core::model::{Record, SessionUsage, Timestamp};

use super::banner::brief_path;
use super::elapsed::{ago, now};
use super::fields::Fields;
use super::record::{
    TranscriptView, WholeRecord, closed_at, command, memory_words, restore_lines, shown_name, usage,
};
use super::sanitize::line;
use super::style::{Style, StyledWriter};
use super::{Console, json_line};
use crate::cli::Format;

/// Writes a session. The record itself has neither the time of its last prompt nor its usage, nor whether it is private.
pub(crate) fn show(
    record: &Record,
    last_prompt: Option<Timestamp>,
    used: Option<&SessionUsage>,
    transcript: &TranscriptView,
    console: &mut Console<'_>,
) -> io::Result<()> {
    match console.mode.format {
        Format::Quiet => writeln!(console.out, "{}", record.id),
        Format::Json => json_line(&WholeRecord::new(record, last_prompt, used, transcript), &mut console.out),
        Format::Text if console.mode.is_terminal => {
            terminal(record, last_prompt, used, transcript, &mut console.out)
        }
        Format::Text => text(record, last_prompt, used, transcript, &mut console.out),
    }?;
    console.flush()
}

fn text(
    record: &Record,
    last_prompt: Option<Timestamp>,
    used: Option<&SessionUsage>,
    transcript: &TranscriptView,
    out: &mut dyn Write,
) -> io::Result<()> {
    let current = record.lineage.current();
    let run = record.agent_run.as_ref();
    let ended = run.and_then(|run| run.ended.as_ref());
    let closed = closed_at(record);
    line(out, format_args!("acpxRecordId: {}", record.id))?;
    line(out, format_args!("acpxSessionId: {}", current.session))?;
    if let Some(inner) = &current.agent_session {
        line(out, format_args!("agentSessionId: {inner}"))?;
    }
    if let Some(name) = &record.agent.name {
        line(out, format_args!("agentName: {name}"))?;
    }
    line(out, format_args!("agent: {}", command(&record.agent)))?;
    line(out, format_args!("cwd: {}", record.cwd))?;
    for directory in &record.additional_directories {
        line(out, format_args!("additionalDirectory: {directory}"))?;
    }
    line(out, format_args!("name: {}", shown_name(record)))?;
    line(out, format_args!("title: {}", or_dash(record.info.title())))?;
    line(out, format_args!("created: {}", record.created_at))?;
    line(out, format_args!("lastActivity: {}", record.updated_at))?;
    line(out, format_args!("lastPrompt: {}", or_dash(last_prompt)))?;
    line(out, format_args!("closed: {}", if closed.is_some() { "yes" } else { "no" }))?;
    line(out, format_args!("closedAt: {}", or_dash(closed)))?;
    line(
        out,
        format_args!("pid: {}", or_dash(run.filter(|run| run.ended.is_none()).map(|run| run.process.pid))),
    )?;
    line(out, format_args!("agentStartedAt: {}", or_dash(run.map(|run| run.since))))?;
    line(out, format_args!("lastExit: {}", or_dash(ended.map(|exit| &exit.how))))?;
    line(out, format_args!("lastExitAt: {}", or_dash(ended.map(|exit| exit.at))))?;
    line(out, format_args!("turns: {}", transcript.turns(record)))?;
    if transcript.is_private {
        line(out, format_args!("private: yes"))?;
    }
    if let Some(used) = used {
        usage(used, out)?;
    }
    if let Some(memory) = memory_words(record.memory) {
        line(out, format_args!("memory: {memory}"))?;
    }
    restore_lines(record, transcript, out)?;
    line(out, format_args!("lineage:"))?;
    for row in record.lineage.rows() {
        let inner = row.agent_session.as_ref().map_or_else(String::new, |inner| format!("  {inner}"));
        let to = row.to.map_or_else(|| "now".to_owned(), |to| to.to_string());
        let reason = transcript.reason(row);
        line(out, format_args!("  {reason}  {}{inner}  {} to {to}", row.session, row.from))?;
        if let Some(error) = &row.error {
            line(out, format_args!("    {error}"))?;
        }
    }
    Ok(())
}

/// The same on a terminal, with times relative to now.
fn terminal(
    record: &Record,
    last_prompt: Option<Timestamp>,
    used: Option<&SessionUsage>,
    transcript: &TranscriptView,
    out: &mut StyledWriter<'_>,
) -> io::Result<()> {
    let now = now();
    let ago = |at: Timestamp| ago(at, now);
    let run = record.agent_run.as_ref();
    let ended = run.and_then(|run| run.ended.as_ref());
    let mut fields = Fields::default();
    fields.add("session", Some(&record.id));
    fields.add("name", Some(shown_name(record)));
    fields.add("title", record.info.title());
    fields.add("agent", Some(command(&record.agent)));
    fields.add("directory", Some(brief_path(record.cwd.as_path())));
    record.additional_directories.iter().for_each(|path| fields.add("also", Some(path)));
    fields.add("created", Some(ago(record.created_at)));
    fields.add("last activity", Some(ago(record.updated_at)));
    fields.add("last prompt", last_prompt.map(ago));
    fields.add("closed", closed_at(record).map(ago));
    let process = run.filter(|run| run.ended.is_none());
    fields.add("process", process.map(|run| format!("{}, started {}", run.process.pid, ago(run.since))));
    fields.add("last exit", ended.map(|exit| format!("{}, {}", exit.how, ago(exit.at))));
    fields.add("turns", Some(transcript.turns(record)));
    fields.add("private", transcript.is_private.then_some("yes"));
    fields.add_usage(used);
    fields.add("memory", memory_words(record.memory));
    fields.add(
        "last restore",
        record.restore_error.as_ref().map(|error| format!("{error}, {}", ago(error.at))),
    );
    fields.add("transcript", transcript.problem.as_ref());
    fields.add("continue with", transcript.resume_line());
    fields.write(out)?;
    out.styled(Style::Dim, "\nsessions of the agent, newest last\n")?;
    for row in record.lineage.rows() {
        let inner = row.agent_session.as_ref().map_or_else(String::new, |inner| format!(" ({inner})"));
        let (reason, session) = (transcript.reason(row), &row.session);
        line(out, format_args!("  {session}{inner}  {reason}, {}", ago(row.from)))?;
        row.error.iter().try_for_each(|error| line(out, format_args!("    {error}")))?;
    }
    Ok(())
}

fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
