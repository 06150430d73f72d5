//! `session/list` over the store, last made first. A page ends with a row, and the next one begins after it. Records do
//! not change their places in this order, so whoever reads all pages has every record that was there when it began,
//! once, whatever happens meanwhile.

use crate::acp::agent::{CallError, ListCall, SessionPage, SessionSummary};
use crate::model::{AbsolutePath, AgentKey, Record, RecordId};
use crate::store::{RecordFilter, real_path_or_written};

use super::Host;
use super::connection::{client_session, problem};
use super::fault;

/// How many rows a page has.
const PAGE: usize = 100;

/// The page of a client whose sessions are with this agent; of all agents, if it has none.
pub(super) async fn page(
    host: &Host,
    call: ListCall,
    agent: Option<AgentKey>,
) -> Result<SessionPage, CallError> {
    let after = match &call.cursor {
        Some(cursor) => Some(read_cursor(host, cursor).await?),
        None => None,
    };
    let real_cwd = match call.cwd {
        Some(cwd) => Some(real(host, cwd).await),
        None => None,
    };
    let filter = RecordFilter { agent, real_cwd };
    let records = host.store.records_by_making(filter, after, PAGE).await.map_err(fault::not_kept)?;
    let next_cursor =
        (records.len() == PAGE).then(|| records.last().map(|last| last.id.to_string())).flatten();
    Ok(SessionPage { sessions: records.iter().map(row).collect(), next_cursor })
}

fn row(record: &Record) -> SessionSummary {
    SessionSummary {
        session: client_session(&record.id),
        cwd: record.cwd.clone(),
        title: record.title.clone(),
        updated_at: Some(record.updated_at),
    }
}

/// A directory that is gone, or whose disk does not answer, is looked for as it is written.
async fn real(host: &Host, cwd: AbsolutePath) -> AbsolutePath {
    let path = cwd.clone();
    host.engine.disk().ask(cwd.as_path(), move || real_path_or_written(path)).await.unwrap_or(cwd.clone())
}

/// A cursor is the record that the page before ended with. One that was deleted since still has its place.
async fn read_cursor(host: &Host, cursor: &str) -> Result<RecordId, CallError> {
    let unknown = || problem("cursor", "is none that session/list gave");
    let id = RecordId::new(cursor).map_err(|_| unknown())?;
    let record = host.store.record(id.clone()).await.map_err(fault::not_kept)?;
    record.map(|_| id).ok_or_else(unknown)
}
