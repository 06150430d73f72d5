//! Confirms what a command did to a session: created, found, closed, deleted, moved, cancelled or queued.

use std::io::{self, Write};
use std::path::Path;

use acpx_core::model::{AcpSessionId, LineageReason, RecordId, RequestId, SessionIdentity};
use serde::Serialize;

use super::sanitize::line;
use super::{Console, json_line};
use crate::cli::Format;

/// A session that was created or found.
#[derive(Debug, Clone)]
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
    action: &'static str,
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
pub(crate) fn ensured(session: &EnsureResult<'_>, console: &mut Console<'_>) -> io::Result<()> {
    let (record, out) = (&session.identity.record, &mut *console.out);
    match console.mode.format {
        Format::Quiet => writeln!(out, "{record}"),
        Format::Text => match session.how {
            EnsureOrigin::New { replaced: None } => writeln!(out, "{record}"),
            EnsureOrigin::New { replaced: Some(other) } => writeln!(out, "{record}\t(replaced {other})"),
            EnsureOrigin::Created => writeln!(out, "{record}\t(created)"),
            EnsureOrigin::Existing { .. } => writeln!(out, "{record}\t(existing)"),
        },
        Format::Json => {
            let (created, replaced_record_id, not_applied) = match session.how {
                EnsureOrigin::New { replaced } => (true, replaced, &[][..]),
                EnsureOrigin::Created => (true, None, &[][..]),
                EnsureOrigin::Existing { not_applied } => (false, None, not_applied),
            };
            let (identity, name) = (session.identity, session.name);
            let action = "session_ensured";
            let object = EnsuredObject { action, created, identity, name, replaced_record_id, not_applied };
            json_line(&object, out)
        }
    }?;
    console.flush()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionEndObject<'a> {
    action: &'static str,
    #[serde(flatten)]
    identity: &'a SessionIdentity,
}

/// Writes that a session was closed.
pub(crate) fn closed(identity: &SessionIdentity, console: &mut Console<'_>) -> io::Result<()> {
    match console.mode.format {
        Format::Quiet => {}
        Format::Text => writeln!(console.out, "{}", identity.record)?,
        Format::Json => {
            json_line(&SessionEndObject { action: "session_closed", identity }, &mut *console.out)?;
        }
    }
    console.flush()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeletedObject<'a> {
    action: &'static str,
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
    match console.mode.format {
        Format::Quiet => writeln!(console.out, "{}", identity.record)?,
        Format::Text => {
            writeln!(console.out, "{}\t(deleted)", identity.record)?;
            if let Some(why) = kept_by_agent {
                console.say(&format!("it is deleted here; the agent may still have its own of it: {why}"));
            }
        }
        Format::Json => {
            let object = DeletedObject { action: "session_deleted", identity, kept_by_agent };
            json_line(&object, &mut *console.out)?;
        }
    }
    console.flush()
}

/// A session that was moved to another directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionMove<'a> {
    /// Its ids.
    pub(crate) identity: &'a SessionIdentity,
    /// The old directory.
    pub(crate) from: &'a Path,
    /// The new directory.
    pub(crate) to: &'a Path,
    /// Additional directories that were outside the old one.
    pub(crate) staying: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MovedObject<'a> {
    action: &'static str,
    #[serde(flatten)]
    identity: &'a SessionIdentity,
    from: &'a Path,
    cwd: &'a Path,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    staying_directories: &'a [String],
}

/// Writes that a session was moved.
pub(crate) fn moved(moved: &SessionMove<'_>, console: &mut Console<'_>) -> io::Result<()> {
    let SessionMove { identity, from, to: cwd, staying } = *moved;
    match console.mode.format {
        Format::Quiet => {}
        Format::Text => {
            let record = &identity.record;
            if from == cwd {
                writeln!(console.out, "{record}\t(works in {} already)", cwd.display())?;
            } else {
                let (from, to) = (from.display(), cwd.display());
                writeln!(console.out, "{record}\t(moved from {from} to {to})")?;
            }
            for directory in staying {
                console.say(&format!("the session still has {directory}, which is not in the old directory"));
            }
        }
        Format::Json => {
            let object =
                MovedObject { action: "session_moved", identity, from, cwd, staying_directories: staying };
            json_line(&object, &mut *console.out)?;
        }
    }
    console.flush()
}

/// A session that changed to another ACP session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionChange<'a> {
    /// Its ids now.
    pub(crate) identity: &'a SessionIdentity,
    /// The previous ACP session.
    pub(crate) from: &'a AcpSessionId,
    /// Why it changed.
    pub(crate) reason: LineageReason,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionChangeObject<'a> {
    action: &'static str,
    #[serde(flatten)]
    identity: &'a SessionIdentity,
    from_acpx_session_id: &'a AcpSessionId,
    reason: LineageReason,
}

/// Writes that a session was reset or returned to an earlier ACP session.
pub(crate) fn session_changed(change: &SessionChange<'_>, console: &mut Console<'_>) -> io::Result<()> {
    let SessionChange { identity, from, reason } = *change;
    let is_return = reason == LineageReason::Returned;
    match console.mode.format {
        Format::Quiet => writeln!(console.out, "{}", identity.record)?,
        Format::Text => {
            if *from == identity.session {
                return writeln!(console.out, "{}\t(is in {from} already)", identity.record);
            }
            let what = if is_return { "returned to" } else { "reset to" };
            line(
                &mut *console.out,
                format_args!("{}\t({what} {}, was {from})", identity.record, identity.session),
            )?;
        }
        Format::Json => {
            let action = if is_return { "session_returned" } else { "session_reset" };
            let object = SessionChangeObject { action, identity, from_acpx_session_id: from, reason };
            json_line(&object, &mut *console.out)?;
        }
    }
    console.flush()
}

#[derive(Serialize)]
struct CancelResult<'a> {
    action: &'static str,
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
    match console.mode.format {
        Format::Json => {
            json_line(&CancelResult { action: "cancel_result", cancelled, identity }, &mut *console.out)?;
        }
        Format::Text | Format::Quiet => {
            writeln!(console.out, "{}", if cancelled { "cancel requested" } else { "nothing to cancel" })?;
        }
    }
    console.flush()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct QueuedPromptObject<'a> {
    action: &'static str,
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
    match console.mode.format {
        Format::Quiet => {}
        Format::Text => writeln!(console.out, "[queued] {request_id}")?,
        Format::Json => {
            json_line(
                &QueuedPromptObject { action: "prompt_queued", identity, request_id },
                &mut *console.out,
            )?;
        }
    }
    console.flush()
}
