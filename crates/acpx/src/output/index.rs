//! The state of the search index, for `acpx index`.

use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use acpx_core::index::{IndexProgress, IndexStatus};
use serde::Serialize;

use super::byte_size::byte_size;
use super::elapsed::elapsed;
use super::fields::Fields;
use super::turn::thousands;
use super::{Console, on_one_line};
use crate::cli::Format;

/// How many places that cannot be read are named.
const NAMED_PROBLEMS: usize = 5;

/// The index, and how far it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexReport<'a> {
    pub(crate) path: &'a Path,
    pub(crate) status: &'a IndexStatus,
    pub(crate) progress: &'a IndexProgress,
    /// How long the command has read.
    pub(crate) took: Duration,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct IndexObject<'a> {
    path: &'a Path,
    bytes: u64,
    records: u64,
    transcripts: u64,
    messages: u64,
    agents: Vec<IndexedAgentObject<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    pending: PendingObject,
    updating: bool,
    problems: Vec<IndexProblemObject<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct IndexedAgentObject<'a> {
    agent_name: &'a str,
    transcripts: u64,
    unread_lines: u64,
}

#[derive(Serialize)]
struct PendingObject {
    sessions: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct IndexProblemObject<'a> {
    path: &'a Path,
    reason: &'a str,
}

impl<'a> IndexObject<'a> {
    fn of(report: &IndexReport<'a>) -> Self {
        let IndexStatus { records, transcripts, messages, bytes, agents, .. } = report.status;
        let agent = |(agent_name, transcripts, unread_lines): &'a (String, u64, u64)| IndexedAgentObject {
            agent_name,
            transcripts: *transcripts,
            unread_lines: *unread_lines,
        };
        let problems = report.progress.problems.iter();
        Self {
            path: report.path,
            bytes: *bytes,
            records: *records,
            transcripts: *transcripts,
            messages: *messages,
            agents: agents.iter().map(agent).collect(),
            read: None,
            duration_ms: None,
            pending: PendingObject {
                sessions: report.progress.missing,
                bytes: report.progress.missing_bytes,
            },
            updating: report.progress.is_busy,
            problems: problems
                .map(|problem| IndexProblemObject { path: &problem.path, reason: &problem.reason })
                .collect(),
        }
    }
}

/// What is still to be read, in words.
pub(crate) fn left_to_read(sessions: u64, bytes: u64) -> String {
    format!("reading; left: {}", conversations(sessions, bytes))
}

/// A number of conversations, with the size of their transcripts. Records have no file of their own.
pub(super) fn conversations(count: u64, bytes: u64) -> String {
    let size = if bytes == 0 { String::new() } else { format!(" ({})", byte_size(bytes)) };
    let noun = if count == 1 { "conversation" } else { "conversations" };
    format!("{} {noun}{size}", thousands(count))
}

/// Writes the state of the index.
pub(crate) fn index_status(report: &IndexReport<'_>, console: &mut Console<'_>) -> io::Result<()> {
    let object = IndexObject::of(report);
    match console.mode.format {
        Format::Json => return console.result("index_status", &object, None, None),
        Format::Text if console.mode.is_terminal => fields(&object, report).write(&mut console.out)?,
        Format::Text => lines(&object, console)?,
        Format::Quiet => writeln!(console.out, "{}", object.messages)?,
    }
    console.flush()
}

fn fields(object: &IndexObject<'_>, report: &IndexReport<'_>) -> Fields {
    let mut fields = Fields::default();
    fields.add("file", Some(format!("{} ({})", report.path.display(), byte_size(object.bytes))));
    fields.add("messages", Some(thousands(object.messages)));
    fields.add("sessions of acpx", Some(thousands(object.records)));
    for IndexedAgentObject { agent_name, transcripts, unread_lines } in &object.agents {
        let unread = match unread_lines {
            0 => String::new(),
            lines => format!(", {} lines could not be read", thousands(*lines)),
        };
        fields.add(
            format!("transcripts of {agent_name}"),
            Some(format!("{}{unread}", thousands(*transcripts))),
        );
    }
    let PendingObject { sessions, bytes } = object.pending;
    let to_read = match sessions {
        _ if object.updating => "unknown: another process is updating the index".to_owned(),
        0 => "nothing".to_owned(),
        sessions => conversations(sessions, bytes),
    };
    fields.add("still to read", Some(to_read));
    for problem in object.problems.iter().take(NAMED_PROBLEMS) {
        fields.add("cannot be read", Some(format!("{}: {}", problem.path.display(), problem.reason)));
    }
    let more = object.problems.len().saturating_sub(NAMED_PROBLEMS);
    fields.add("cannot be read", (more > 0).then(|| format!("{more} more")));
    fields
}

/// One value on each line, after its name and a tab.
fn lines(object: &IndexObject<'_>, console: &mut Console<'_>) -> io::Result<()> {
    let path = object.path.display().to_string();
    let numbers = [
        ("bytes", object.bytes),
        ("records", object.records),
        ("transcripts", object.transcripts),
        ("messages", object.messages),
        ("pending", object.pending.sessions),
        ("pendingBytes", object.pending.bytes),
    ];
    writeln!(console.out, "path\t{}", on_one_line(&path))?;
    for (name, value) in numbers {
        writeln!(console.out, "{name}\t{value}")?;
    }
    for agent in &object.agents {
        let name = on_one_line(agent.agent_name);
        writeln!(console.out, "agent\t{name}\t{}\t{}", agent.transcripts, agent.unread_lines)?;
    }
    for problem in &object.problems {
        let path = on_one_line(&problem.path.display().to_string());
        writeln!(console.out, "problem\t{path}\t{}", on_one_line(problem.reason))?;
    }
    Ok(())
}

/// Writes what was read.
pub(crate) fn index_updated(
    action: &'static str,
    report: &IndexReport<'_>,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let read = report.progress.read;
    let milliseconds = u64::try_from(report.took.as_millis()).unwrap_or(u64::MAX);
    let object = IndexObject { read: Some(read), duration_ms: Some(milliseconds), ..IndexObject::of(report) };
    let text = format!(
        "Read {} in {}; the index has {} messages ({})",
        conversations(read, 0),
        elapsed(report.took),
        thousands(object.messages),
        byte_size(object.bytes)
    );
    console.result(action, &object, Some(&text), Some(&object.messages.to_string()))?;
    if !object.problems.is_empty() {
        console.notice(&format!(
            "{} places cannot be read: acpx index status names them",
            object.problems.len()
        ));
    }
    Ok(())
}
