//! `session/list`: our records, last made first, and after them the sessions that the agent itself has and that are no
//! records of ours.
//!
//! A page ends with a row, and the next one begins after it. Records do not change their places in this order, so
//! whoever reads all pages has every record that was there when it began, once, whatever happens meanwhile. The agent
//! is asked only by whoever reads on after the last record, for a bounded time; one that fails costs nobody our records.

mod cursor;
mod theirs;

use self::cursor::{Cursor, Place, Theirs, Told};
use super::Host;
use super::connection::{Connection, acpx_meta, client_session, problem};
use super::fault;
use super::meta::{IdsMeta, NewMeta};
use super::title;
use crate::acp::agent::{CallError, ListCall, Meta, SessionPage, SessionSummary};
use crate::engine::NewSession;
use crate::model::{AbsolutePath, Named, Record, RecordId};
use crate::store::RecordFilter;

/// How many rows a page of ours has.
const PAGE: usize = 100;

/// The page of a client whose sessions are with this agent, which would be started so; of all agents, if it has none.
pub(super) async fn page(
    client: &Connection,
    call: ListCall,
    agent: Option<NewSession>,
) -> Result<SessionPage, CallError> {
    let cursor = call.cursor.as_deref().map(|text| Cursor::read(text).ok_or_else(unknown_cursor));
    match (cursor.transpose()?, agent) {
        (None, agent) => ours(&client.host, None, call.cwd, agent).await,
        (Some(Cursor { began, place: Place::Ours(after) }), agent) => {
            ours(&client.host, Some((began, after)), call.cwd, agent).await
        }
        (Some(Cursor { began, place: Place::Theirs(theirs) }), Some(agent)) => {
            theirs::page(client, began, theirs, call.cwd, agent).await
        }
        (Some(Cursor { place: Place::Theirs(_), .. }), None) => Err(unknown_cursor()),
    }
}

impl Connection {
    /// The agent whose sessions are listed, and how it would be started to be asked; `None` if all agents are meant.
    pub(super) fn listing(&self, call: &ListCall) -> Result<Option<NewSession>, CallError> {
        let mut meta: NewMeta = self.said(call.meta.as_deref())?;
        let Some(agent) = self.defaults.agent(meta.agent.take()) else { return Ok(None) };
        self.defaults.complete(&mut meta.start);
        let anywhere = || AbsolutePath::new("/").expect("the root is an absolute path");
        let cwd = call.cwd.clone().or_else(|| self.defaults.cwd()).unwrap_or_else(anywhere);
        let environment = meta.start.take_environment(&agent);
        Ok(Some(NewSession::new(agent, cwd, environment)))
    }
}

/// A page of our records: the first, or the one after a record, of a listing that began with another one.
async fn ours(
    host: &Host,
    on: Option<(Option<RecordId>, RecordId)>,
    cwd: Option<AbsolutePath>,
    agent: Option<NewSession>,
) -> Result<SessionPage, CallError> {
    if let Some((_, after)) = &on {
        // One that was deleted since still has its place.
        let record = host.store.record(after.clone()).await.map_err(fault::not_kept)?;
        record.ok_or_else(unknown_cursor)?;
    }
    let real_cwd = match cwd {
        // One whose disk does not answer is looked for as it is written.
        Some(cwd) => Some(host.engine.disk().real(&cwd).await.unwrap_or(cwd)),
        None => None,
    };
    let filter = RecordFilter { agent: agent.as_ref().map(|new| new.agent.key()), real_cwd };
    let (began, after) = on.map_or((None, None), |(began, after)| (began, Some(after)));
    let is_first = after.is_none();
    let records = host.store.records_by_making(filter, after, PAGE).await.map_err(fault::not_kept)?;
    let began = if is_first { records.first().map(|record| record.id.clone()) } else { began };
    let place = match records.last() {
        Some(last) if records.len() == PAGE => Some(Place::Ours(last.id.clone())),
        _ => may_list(host, agent)
            .await?
            .then(|| Place::Theirs(Theirs { named: Named::Really, cursor: None, told: Told::default() })),
    };
    let mut sessions = Vec::with_capacity(records.len());
    for record in records {
        sessions.push(row(host, record).await?);
    }
    let next_cursor = place.map(|place| Cursor { began, place }.text());
    Ok(SessionPage { sessions, next_cursor, meta: Meta::new() })
}

/// Whether there is an agent that has a list of its own, or may have one.
async fn may_list(host: &Host, agent: Option<NewSession>) -> Result<bool, CallError> {
    let Some(agent) = agent else { return Ok(false) };
    let known = host.engine.known_capabilities(agent).await.map_err(|error| host.refused(&error))?;
    Ok(known.is_none_or(|known| known.sessions.list))
}

async fn row(host: &Host, record: Record) -> Result<SessionSummary, CallError> {
    let title = title(&*host.store, &record).await.map_err(fault::not_kept)?;
    let row = record.lineage.current();
    let ids = IdsMeta {
        acpx_record_id: record.id.to_string(),
        acpx_session_id: row.session.to_string(),
        agent_session_id: row.agent_session.as_ref().map(|inner| inner.as_str().to_owned()),
    };
    Ok(SessionSummary {
        session: client_session(&record.id),
        cwd: record.cwd,
        additional_directories: record.additional_directories,
        title,
        updated_at: Some(record.updated_at),
        meta: acpx_meta(&ids),
        passed_on: None,
    })
}

fn unknown_cursor() -> CallError {
    problem("cursor", "is none that session/list gave")
}
