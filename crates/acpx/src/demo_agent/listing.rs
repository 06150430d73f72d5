//! `session/list`: newest first, in pages. Pure.

use std::cmp::Reverse;

use acpx_core::acp::agent::{ListCall, Meta, ParamProblem, SessionPage, SessionSummary};
use acpx_core::model::{AcpSessionId, Timestamp};

use super::archive::ArchiveSession;

/// Maximum length of a title; longer ones are cut.
const TITLE_CHARS: usize = 100;

/// One page of the stored sessions. A cursor names the last row of the previous page, so added or removed rows do not
/// shift the rest.
pub(super) fn page(
    kept: Vec<ArchiveSession>,
    call: &ListCall,
    size: usize,
) -> Result<SessionPage, ParamProblem> {
    let after = call.cursor.as_deref().map(read_cursor).transpose()?;
    let mut rows: Vec<ArchiveSession> =
        kept.into_iter().filter(|row| call.cwd.as_ref().is_none_or(|cwd| *cwd == row.cwd)).collect();
    rows.sort_by_key(place);
    rows.retain(|row| after.as_ref().is_none_or(|after| place(row) > *after));
    let more = rows.len() > size;
    rows.truncate(size);
    let next_cursor = rows.last().filter(|_| more).map(write_cursor);
    Ok(SessionPage { sessions: rows.into_iter().map(summary).collect(), next_cursor, meta: Meta::new() })
}

type DemoListPosition = (Reverse<Timestamp>, AcpSessionId);

fn place(row: &ArchiveSession) -> DemoListPosition {
    (Reverse(row.updated_at), row.session.clone())
}

fn write_cursor(row: &ArchiveSession) -> String {
    format!("{}.{}", row.updated_at.as_millis(), row.session)
}

fn read_cursor(cursor: &str) -> Result<DemoListPosition, ParamProblem> {
    let read = || {
        let (millis, session) = cursor.split_once('.')?;
        let at = Timestamp::from_millis(millis.parse().ok()?).ok()?;
        Some((Reverse(at), AcpSessionId::new(session).ok()?))
    };
    read().ok_or_else(|| ParamProblem::new("cursor", "is none that this agent gave"))
}

fn summary(row: ArchiveSession) -> SessionSummary {
    let title = row.turns.first().map(|turn| turn.text.chars().take(TITLE_CHARS).collect());
    SessionSummary {
        passed_on: None,
        session: row.session,
        cwd: row.cwd,
        additional_directories: Vec::new(),
        title,
        updated_at: Some(row.updated_at),
        meta: Meta::new(),
    }
}
