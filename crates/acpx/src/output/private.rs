//! Which sessions are private.

use std::io::{self, Write};

use serde::Serialize;

use super::sanitize::on_one_line;
use super::{Console, json_line};
use crate::cli::Format;
use crate::config::private::PrivateMark;

/// What became of a mark.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PrivateChange<'a> {
    /// The record; `None` for a session that only its agent keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) acpx_record_id: Option<&'a str>,
    /// The agent's id of the session; of a session that is gone, the id that was marked.
    pub(crate) acpx_session_id: &'a str,
    /// Its agent.
    pub(crate) agent: &'a str,
    /// Whether it is private now.
    pub(crate) private: bool,
}

#[derive(Serialize)]
struct PrivateSessionsObject<'a> {
    action: &'static str,
    sessions: &'a [PrivateMark],
}

/// Writes whether a session is private now.
pub(crate) fn private_changed(change: &PrivateChange<'_>, console: &mut Console<'_>) -> io::Result<()> {
    let state = if change.private { "is private" } else { "is not private" };
    let session = on_one_line(change.acpx_record_id.unwrap_or(change.acpx_session_id));
    console.result("session_private", change, Some(&format!("{session} {state}")), Some(&session))
}

/// Writes the private sessions.
pub(crate) fn private_sessions(marks: &[PrivateMark], console: &mut Console<'_>) -> io::Result<()> {
    let out = &mut console.out;
    match console.mode.format {
        Format::Json => {
            json_line(&PrivateSessionsObject { action: "private_sessions", sessions: marks }, out)?;
        }
        Format::Quiet => marks.iter().try_for_each(|mark| writeln!(out, "{}", on_one_line(&mark.session)))?,
        Format::Text => {
            for mark in marks {
                let (session, agent) = (on_one_line(&mark.session), on_one_line(&mark.agent));
                writeln!(out, "{session}\t{agent}\t{}", on_one_line(&mark.marked_at))?;
            }
            if marks.is_empty() {
                console.banner("no session is private");
            }
        }
    }
    console.flush()
}
