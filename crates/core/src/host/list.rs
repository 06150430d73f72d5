//! `session/list` over the store. A page ends with a row, and the next one begins after it: records that change
//! meanwhile move to the front, and none is left out.

use crate::acp::agent::{CallError, ListCall, SessionPage, SessionSummary};
use crate::model::{Record, RecordId, Timestamp};
use crate::store::{RecordFilter, real_path_or_written};

use super::Host;
use super::connection::{client_session, problem};
use super::fault;

/// How many rows a page has.
const PAGE: usize = 100;

pub(super) async fn page(host: &Host, call: ListCall) -> Result<SessionPage, CallError> {
    let after = call.cursor.as_deref().map(read_cursor).transpose()?;
    let real_cwd = call.cwd.map(real_path_or_written);
    let filter = RecordFilter { agent: None, real_cwd };
    let records = host.store.records(filter, after, PAGE).await.map_err(fault::not_kept)?;
    let next_cursor = (records.len() == PAGE).then(|| records.last().map(cursor)).flatten();
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

fn cursor(record: &Record) -> String {
    format!("{}:{}", record.updated_at.as_millis(), record.id)
}

fn read_cursor(cursor: &str) -> Result<(Timestamp, RecordId), CallError> {
    let read = || {
        let (at, id) = cursor.split_once(':')?;
        Some((Timestamp::from_millis(at.parse().ok()?).ok()?, RecordId::new(id).ok()?))
    };
    read().ok_or_else(|| problem("cursor", "is none that session/list gave"))
}
