//! Confirms what a command did to a session: created, found, closed, deleted, moved, cancelled or queued.

use std::io;
use std::path::Path;

use acpx_core::model::{AcpSessionId, LineageReason, RecordId, RequestId, SessionIdentity};
use serde::Serialize;

use super::Console;
use super::sanitize::on_one_line;
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
    console.result("session_closed", identity, Some(identity.record.as_str()), None)
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
    let text = format!("[queued] {request_id}");
    console.result("prompt_queued", &QueuedPromptObject { identity, request_id }, Some(&text), None)
}
