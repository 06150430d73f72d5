//! `session/list`: our records, newest first, and the agent's own sessions that are not records. The first page has the
//! first of both, sorted by time, so a client that reads one page sees both. After the agent's last row come its native
//! transcripts that it did not list; for an agent that lists no sessions, or fails, they take the place of its list.
//!
//! A page ends with a record, and the next begins after it. The order of records is stable, so a client that reads all
//! pages gets every record that existed at the start exactly once. The agent's remaining pages follow our last record.
//! If the agent fails, our records are still listed. A session that an ACP client created and never prompted is not
//! listed.

mod agent_rows;
mod cursor;
mod native_rows;

use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::Duration;

use self::cursor::{AgentListCursor, ListCursor};
use super::title::title;
use crate::acp::agent::{CallError, ListCall, Meta, SessionPage, SessionSummary};
use crate::engine::NewSession;
use crate::host::Host;
use crate::host::connection::Connection;
use crate::model::{AbsolutePath, AcpSessionId, Record, RecordId};
use crate::protocol::acpx_meta::{acpx_meta, client_session, problem};
use crate::protocol::meta::{ListMeta, NewMeta};
use crate::protocol::rpc_error;
use crate::store::RecordFilter;
use agent_rows::AgentRows;

/// The minimum number of records in a page of ours, if there are as many.
const PAGE: usize = 100;

/// How long the first page waits for the agent. A later reply goes to a later page.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// How long an agent may take to start and to list its sessions on a later page.
const LATER_WAIT: Duration = Duration::from_secs(10);

/// One page of `session/list`, for the sessions of one agent, or of all agents if the client names none.
pub(crate) async fn list(client: &Connection, call: ListCall) -> Result<SessionPage, CallError> {
    let agent = listed_agent(client, &call)?;
    let cursor = call.cursor.as_deref().map(|text| ListCursor::read(text).ok_or_else(unknown_cursor));
    match (cursor.transpose()?, agent) {
        (None, agent) => first_page(client, call.cwd, agent).await,
        (Some(ListCursor { began, after: Some(after), agent_list }), agent) => {
            // A deleted record still has its position.
            let record = client.host.store.record(after.clone()).await.map_err(rpc_error::not_kept)?;
            record.ok_or_else(unknown_cursor)?;
            let records = record_page(&client.host, Some(after), call.cwd, agent.as_ref()).await?;
            Ok(reply(records.rows, ListCursor { began, after: records.last, agent_list }, None))
        }
        (Some(ListCursor { began, after: None, agent_list: Some(agent_list) }), Some(agent)) => {
            let AgentRows { rows, next, problem } =
                agent_page(client, began.clone(), agent_list, call.cwd, agent, LATER_WAIT).await?;
            Ok(reply(rows, ListCursor { began, after: None, agent_list: next }, problem))
        }
        (Some(_), _) => Err(unknown_cursor()),
    }
}

/// The first page: the first of our records, and what the agent lists in time.
async fn first_page(
    client: &Connection,
    cwd: Option<AbsolutePath>,
    agent: Option<NewSession>,
) -> Result<SessionPage, CallError> {
    let RecordPage { mut rows, began, last } =
        record_page(&client.host, None, cwd.clone(), agent.as_ref()).await?;
    let (mut agent_list, mut problem) = (None, None);
    if let Some(agent) = &agent
        && !may_have_list(&client.host, agent.clone()).await?
    {
        rows.extend(native_rows::rows(client, &agent.agent, cwd.as_ref()).await?);
    } else if let Some(agent) = agent {
        let begin = AgentListCursor::default();
        let page = agent_page(client, began.clone(), begin, cwd, agent, FIRST_WAIT).await?;
        rows.extend(page.rows);
        (agent_list, problem) = (page.next, page.problem);
    }
    rows.sort_by_key(|row| Reverse(row.updated_at));
    Ok(reply(rows, ListCursor { began, after: last, agent_list }, problem))
}

/// A page of the agent's own sessions. The last one has the transcripts that the agent did not list, unless its list
/// was too long to remember.
async fn agent_page(
    client: &Connection,
    began: Option<RecordId>,
    agent_list: AgentListCursor,
    cwd: Option<AbsolutePath>,
    agent: NewSession,
    limit: Duration,
) -> Result<AgentRows, CallError> {
    let (spec, directory, before) = (agent.agent.clone(), cwd.clone(), agent_list.listed_before.clone());
    let mut page = agent_rows::page(client, began, agent_list, cwd, agent, limit).await?;
    if page.next.is_none() && !before.is_full() {
        let listed: HashSet<AcpSessionId> = page.rows.iter().map(|row| row.session.clone()).collect();
        let natives = native_rows::rows(client, &spec, directory.as_ref()).await?;
        let is_new = |row: &SessionSummary| !before.contains(&row.session) && !listed.contains(&row.session);
        page.rows.extend(natives.into_iter().filter(is_new));
    }
    Ok(page)
}

/// A page with the next cursor, and the reason if the agent's sessions are missing.
fn reply(sessions: Vec<SessionSummary>, next: ListCursor, problem: Option<String>) -> SessionPage {
    let next_cursor = (next.after.is_some() || next.agent_list.is_some()).then(|| next.text());
    let meta = problem.map_or_else(Meta::new, |why| acpx_meta(&ListMeta { remote_error: Some(why) }));
    SessionPage { sessions, next_cursor, meta }
}

/// The agent whose sessions are listed, with its start parameters; `None` for all agents.
fn listed_agent(client: &Connection, call: &ListCall) -> Result<Option<NewSession>, CallError> {
    let mut meta: NewMeta = client.access.authorized_meta(call.meta.as_deref())?;
    let Some(agent) = client.defaults.agent(meta.agent.take()) else { return Ok(None) };
    client.defaults.complete(&mut meta.start);
    let root = || AbsolutePath::new("/").expect("the root is an absolute path");
    let cwd = call.cwd.clone().or_else(|| client.defaults.cwd()).unwrap_or_else(root);
    let environment = meta.start.take_environment(&agent);
    Ok(Some(NewSession::new(agent, cwd, environment)))
}

/// A page of our records.
struct RecordPage {
    rows: Vec<SessionSummary>,
    /// The newest record that was read.
    began: Option<RecordId>,
    /// The last record that was read, if there may be more.
    last: Option<RecordId>,
}

/// The first page of our records, or the one after a record.
async fn record_page(
    host: &Host,
    mut after: Option<RecordId>,
    cwd: Option<AbsolutePath>,
    agent: Option<&NewSession>,
) -> Result<RecordPage, CallError> {
    let real_cwd = match cwd {
        // If the disk does not respond, the path is used as written.
        Some(cwd) => Some(host.engine.disk().real(&cwd).await.unwrap_or(cwd)),
        None => None,
    };
    let filter = RecordFilter { agent: agent.map(|new| new.agent.key()), real_cwd };
    let (mut rows, mut began) = (Vec::new(), None);
    loop {
        let records = host.store.records_by_creation(filter.clone(), after, PAGE).await;
        let records = records.map_err(rpc_error::not_kept)?;
        began = began.or_else(|| records.first().map(|record| record.id.clone()));
        let last = records.last().filter(|_| records.len() == PAGE).map(|record| record.id.clone());
        for record in records.into_iter().filter(|record| !record.is_unprompted()) {
            rows.push(row(host, record).await?);
        }
        if last.is_none() || rows.len() >= PAGE {
            return Ok(RecordPage { rows, began, last });
        }
        after = last;
    }
}

/// Whether an agent may have a list of its own.
async fn may_have_list(host: &Host, agent: NewSession) -> Result<bool, CallError> {
    let known = host.engine.known_capabilities(agent).await.map_err(|error| host.refused(&error))?;
    Ok(known.is_none_or(|known| known.sessions.list))
}

async fn row(host: &Host, record: Record) -> Result<SessionSummary, CallError> {
    let title = title(&*host.store, &record).await.map_err(rpc_error::not_kept)?;
    let (session, meta) = (client_session(&record.id), acpx_meta(&record.identity()));
    Ok(SessionSummary {
        session,
        cwd: record.cwd,
        additional_directories: record.additional_directories,
        title,
        updated_at: Some(record.updated_at),
        meta,
        forwarded: None,
    })
}

fn unknown_cursor() -> CallError {
    problem("cursor", "is none that session/list gave")
}
