//! Confirms what a command did to a session: created, found, closed, deleted, moved, cancelled or queued.

use std::io::{self, Write as _};
use std::path::Path;

use acpx_core::model::{AcpSessionId, LineageReason, Record, RecordId, RequestId, SessionIdentity};
use acpx_core::protocol::meta::RenamedMeta;
use serde::Serialize;

use super::Console;
use super::record::{name, shown_directory};
use super::sanitize::{BRIEF, ellipsize, on_one_line, one_line};
use crate::cli::Format;

/// A session that was created or found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EnsureResult<'a> {
    /// Its ids.
    pub(crate) identity: &'a SessionIdentity,
    /// Its name.
    pub(crate) name: Option<&'a str>,
    /// Whether it was created or found.
    pub(crate) how: EnsureOrigin<'a>,
}

/// How a command got its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnsureOrigin<'a> {
    /// `sessions new` created it, and may have closed another of its name.
    New {
        /// The one that was closed.
        replaced: Option<&'a RecordId>,
    },
    /// `sessions ensure` created it.
    Created,
    /// `sessions ensure` found it.
    Existing {
        /// The flags without effect, since its agent keeps what it has.
        not_applied: &'a [&'static str],
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EnsuredObject<'a> {
    created: bool,
    #[serde(flatten)]
    identity: &'a SessionIdentity,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced_record_id: Option<&'a RecordId>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    not_applied: &'a [&'static str],
}

/// Writes a created or found session.
pub(crate) fn ensured(session: EnsureResult<'_>, console: &mut Console<'_>) -> io::Result<()> {
    let EnsureResult { identity, name, how } = session;
    let record = identity.record.as_str();
    let mut object =
        EnsuredObject { created: true, identity, name, replaced_record_id: None, not_applied: &[] };
    let text = match how {
        EnsureOrigin::New { replaced: None } => record.to_owned(),
        EnsureOrigin::New { replaced: Some(other) } => {
            object.replaced_record_id = Some(other);
            format!("{record}\t(replaced {other})")
        }
        EnsureOrigin::Created => format!("{record}\t(created)"),
        EnsureOrigin::Existing { not_applied } => {
            (object.created, object.not_applied) = (false, not_applied);
            format!("{record}\t(existing)")
        }
    };
    console.result("session_ensured", &object, Some(&text), Some(record))
}

/// Writes that a session was closed.
pub(crate) fn closed(identity: &SessionIdentity, console: &mut Console<'_>) -> io::Result<()> {
    let record = identity.record.as_str();
    let text = if console.mode.is_terminal { format!("{record}  (closed)") } else { record.to_owned() };
    console.result("session_closed", identity, Some(&text), None)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeletedObject<'a> {
    #[serde(flatten)]
    identity: &'a SessionIdentity,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_by_agent: Option<&'a str>,
}

/// Writes that a session was deleted, and why its agent may still have it.
pub(crate) fn deleted(
    identity: &SessionIdentity,
    kept_by_agent: Option<&str>,
    console: &mut Console<'_>,
) -> io::Result<()> {
    if let (Format::Text, Some(why)) = (console.mode.format, kept_by_agent) {
        console.notice(&format!("it is deleted here; the agent may still have its own of it: {why}"));
    }
    let (object, record) = (DeletedObject { identity, kept_by_agent }, identity.record.as_str());
    console.result("session_deleted", &object, Some(&format!("{record}\t(deleted)")), Some(record))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DamagedDeletedObject<'a> {
    acpx_record_id: &'a RecordId,
    kept_by_agent: &'a str,
}

/// Writes that a record was deleted of which only the id could be read.
pub(crate) fn damaged_deleted(record: &RecordId, damage: &str, console: &mut Console<'_>) -> io::Result<()> {
    if console.mode.format == Format::Text {
        console.notice(&format!("it is deleted here; its agent is not known any more: {damage}"));
    }
    let object = DamagedDeletedObject { acpx_record_id: record, kept_by_agent: damage };
    let text = format!("{record}\t(deleted)");
    console.result("damaged_session_deleted", &object, Some(&text), Some(record.as_str()))
}

/// A session that was moved to another directory.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionMove<'a> {
    /// Its ids.
    #[serde(flatten)]
    pub(crate) identity: &'a SessionIdentity,
    /// The old directory.
    pub(crate) from: &'a Path,
    /// The new directory.
    pub(crate) cwd: &'a Path,
    /// Additional directories that were outside the old one.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) staying_directories: &'a [String],
}

/// Writes that a session was moved.
pub(crate) fn moved(moved: &SessionMove<'_>, console: &mut Console<'_>) -> io::Result<()> {
    let SessionMove { identity, from, cwd, staying_directories } = *moved;
    let (record, to) = (&identity.record, cwd.display());
    let text = if from == cwd {
        format!("{record}\t(works in {to} already)")
    } else {
        format!("{record}\t(moved from {} to {to})", from.display())
    };
    if console.mode.format == Format::Text {
        for directory in staying_directories {
            console.notice(&format!("the session still has {directory}, which is not in the old directory"));
        }
    }
    console.result("session_moved", moved, Some(&text), None)
}

/// Writes that a session was renamed.
pub(crate) fn renamed(renamed: &RenamedMeta, console: &mut Console<'_>) -> io::Result<()> {
    let shown = renamed.name.as_deref().or(renamed.title.as_deref()).unwrap_or_default();
    let text = format!("{}\t(renamed to {})", renamed.ids.record, on_one_line(shown));
    console.result("session_renamed", renamed, Some(&text), None)
}

/// Asks whether to delete a session with this title.
pub(crate) fn delete_question(record: &Record, title: Option<&str>) -> String {
    let agent = on_one_line(&record.agent.label());
    let name = name(record)
        .map(ToString::to_string)
        .or_else(|| title.map(|title| ellipsize(&on_one_line(title), 60)));
    let name = name.map_or_else(String::new, |name| format!(" {name:?}"));
    let turns = match record.last_turn.map_or(0, |turn| turn.0) {
        1 => "1 turn".to_owned(),
        turns => format!("{turns} turns"),
    };
    let directory = shown_directory(record);
    format!("Delete the session{name} of {agent} in {directory} with {turns}, for good? (y/N) ")
}

/// Writes that the person did not want a session to be deleted.
pub(crate) fn not_deleted(console: &mut Console<'_>) -> io::Result<()> {
    writeln!(console.out, "Nothing was deleted.")?;
    console.flush()
}

/// A session that changed to another ACP session.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct SessionChange<'a> {
    /// Its ids now.
    #[serde(flatten)]
    pub(crate) identity: &'a SessionIdentity,
    /// The previous ACP session.
    #[serde(rename = "fromAcpxSessionId")]
    pub(crate) from: &'a AcpSessionId,
    /// Why it changed.
    pub(crate) reason: LineageReason,
}

/// Writes that a session was reset or returned to an earlier ACP session.
pub(crate) fn session_changed(change: &SessionChange<'_>, console: &mut Console<'_>) -> io::Result<()> {
    let SessionChange { identity: SessionIdentity { record, session, .. }, from, reason } = *change;
    let (action, verb) = match reason {
        LineageReason::Returned => ("session_returned", "returned to"),
        _ => ("session_reset", "reset to"),
    };
    let text = if from == session {
        format!("{record}\t(is in {from} already)")
    } else {
        on_one_line(&format!("{record}\t({verb} {session}, was {from})"))
    };
    console.result(action, change, Some(&text), Some(record.as_str()))
}

#[derive(Serialize)]
struct CancelResult<'a> {
    cancelled: bool,
    #[serde(flatten)]
    identity: Option<&'a SessionIdentity>,
}

/// Writes whether there was anything to cancel; without a session there was not.
pub(crate) fn cancelled(
    identity: Option<&SessionIdentity>,
    cancelled: bool,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let text = Some(if cancelled { "cancel requested" } else { "nothing to cancel" });
    console.result("cancel_result", &CancelResult { cancelled, identity }, text, text)
}

/// Asked before a new session closes one that has work.
pub(crate) const REPLACE_QUESTION: &str =
    "The session of this directory has a running or queued prompt. Close it and begin a new one? (y/N) ";

/// Reports that a new session has closed the one of its directory.
pub(crate) fn replaced(record: &str, agent: &str, console: &mut Console<'_>) {
    console.notice(&format!("closed the session that was here; to continue it: acpx {agent} -s {record}"));
}

/// Reports prompts that the host had not confirmed when their client left.
pub(crate) fn unsent_prompts<'a>(texts: impl Iterator<Item = &'a str>, console: &mut Console<'_>) {
    for text in texts {
        let text = one_line(text, BRIEF);
        console.notice(&format!("the host did not confirm this prompt, so send it again: {text}"));
    }
}

/// The state in which a session is no longer waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub(crate) enum WaitedState {
    /// No turn runs or is queued.
    Idle,
    /// Requests of its agent wait for an answer.
    Waiting {
        /// Their ids.
        questions: Vec<String>,
    },
    /// Prompts are queued that only the next prompt starts.
    Queued,
    /// It is closed or deleted.
    Closed,
}

#[derive(Serialize)]
struct WaitedObject<'a> {
    #[serde(flatten)]
    identity: &'a SessionIdentity,
    #[serde(flatten)]
    state: &'a WaitedState,
}

/// Writes how a session is that was waited for.
pub(crate) fn waited(
    identity: &SessionIdentity,
    state: &WaitedState,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let (record, shown) = (
        &identity.record,
        match state {
            WaitedState::Idle => "idle",
            WaitedState::Waiting { .. } => "waiting",
            WaitedState::Queued => "queued",
            WaitedState::Closed => "closed",
        },
    );
    match (console.mode.format, state) {
        (Format::Text, WaitedState::Waiting { .. }) => {
            console.notice("it waits for an answer: acpx pending lists the requests");
        }
        (Format::Text, WaitedState::Queued) => {
            console.notice("no host runs its queued prompts; the next prompt starts them");
        }
        _ => {}
    }
    let text = format!("{record}\t{shown}");
    console.result("wait_result", &WaitedObject { identity, state }, Some(&text), Some(shown))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct QueuedPromptObject<'a> {
    #[serde(flatten)]
    identity: &'a SessionIdentity,
    request_id: &'a RequestId,
}

/// Writes that a prompt is queued.
pub(crate) fn queued(
    identity: &SessionIdentity,
    request_id: &RequestId,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let text = if console.mode.is_terminal {
        format!("Accepted as {request_id}; acpx queue list shows it while it waits")
    } else {
        format!("[queued] {request_id}")
    };
    console.result("prompt_queued", &QueuedPromptObject { identity, request_id }, Some(&text), None)
}
