//! `session/list`: our records, last made first, and after them the sessions that the agent itself has and that are no
//! records of ours.
//!
//! A page ends with a row, and the next one begins after it. Records do not change their places in this order, so
//! whoever reads all pages has every record that was there when it began, once, whatever happens meanwhile. The agent
//! is asked only by whoever reads on after the last record, for a bounded time; one that fails costs nobody our records.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::acp::agent::{CallError, ListCall, Meta, SessionPage, SessionSummary};
use crate::acp::client::ListedSession;
use crate::engine::{NewSession, SessionError};
use crate::model::{AbsolutePath, AgentError, DirectoryNames, Named, Record, RecordId};
use crate::store::RecordFilter;
use crate::wire::RpcError;

use super::Host;
use super::connection::{Connection, acpx_meta, client_session, problem};
use super::fault;
use super::meta::{IdsMeta, ListMeta, NewMeta};
use super::title;

/// How many rows a page of ours has.
const PAGE: usize = 100;
/// How long an agent may take to start and to tell what it has.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where a page begins. A client sees a text that only we can read.
#[derive(Debug, PartialEq, Eq)]
enum Cursor {
    /// After this record of ours, or at the first.
    Ours(Option<RecordId>),
    /// At this cursor of the agent's, or at its first page, of the sessions whose directory it knows by this name.
    Theirs(Named, Option<String>),
}

/// The page of a client whose sessions are with this agent, which would be started so; of all agents, if it has none.
pub(super) async fn page(
    host: &Host,
    call: ListCall,
    agent: Option<NewSession>,
) -> Result<SessionPage, CallError> {
    let cursor = call.cursor.as_deref().map_or(Some(Cursor::Ours(None)), Cursor::read);
    match (cursor, agent) {
        (Some(Cursor::Ours(after)), agent) => ours(host, after, call.cwd, agent).await,
        (Some(Cursor::Theirs(named, cursor)), Some(agent)) => {
            theirs(host, (named, cursor), call.cwd, agent).await
        }
        (Some(Cursor::Theirs(..)), None) | (None, _) => Err(unknown_cursor()),
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

async fn ours(
    host: &Host,
    after: Option<RecordId>,
    cwd: Option<AbsolutePath>,
    agent: Option<NewSession>,
) -> Result<SessionPage, CallError> {
    if let Some(after) = &after {
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
    let records = host.store.records_by_making(filter, after, PAGE).await.map_err(fault::not_kept)?;
    let next = match records.last() {
        Some(last) if records.len() == PAGE => Some(Cursor::Ours(Some(last.id.clone()))),
        _ => may_list(host, agent).await?.then_some(Cursor::Theirs(Named::Really, None)),
    };
    let mut sessions = Vec::with_capacity(records.len());
    for record in records {
        sessions.push(row(host, record).await?);
    }
    Ok(SessionPage { sessions, next_cursor: next.map(|next| next.text()), meta: Meta::new() })
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

/// A page of what the agent has and we do not know.
async fn theirs(
    host: &Host,
    (named, cursor): (Named, Option<String>),
    cwd: Option<AbsolutePath>,
    agent: NewSession,
) -> Result<SessionPage, CallError> {
    let spec = agent.agent.clone();
    let directory = match &cwd {
        // One whose disk does not answer is looked for as it is written.
        Some(cwd) => Some(DirectoryNames::new(cwd, host.engine.disk().real(cwd).await.ok())),
        None => None,
    };
    let asked =
        host.engine.remote_sessions(agent, directory.as_ref().map(|it| it.get(named)), cursor.as_deref());
    let page = match timeout(PATIENCE, asked).await {
        Ok(Ok(Some(page))) => page,
        Ok(Ok(None)) => {
            return Ok(SessionPage { sessions: Vec::new(), next_cursor: None, meta: Meta::new() });
        }
        Ok(Err(SessionError::Agent(AgentError::Refused { code: RpcError::INVALID_PARAMS, .. })))
            if cursor.is_some() =>
        {
            return Err(unknown_cursor());
        }
        Ok(Err(error)) => return Ok(unheard(error.to_string())),
        Err(_) => return Ok(unheard(format!("the agent took longer than {} s", PATIENCE.as_secs()))),
    };
    let is_here =
        |row: &SessionSummary| directory.as_ref().is_none_or(|directory| directory.lists(named, &row.cwd));
    let rows = page.sessions.into_iter().filter_map(their_row).filter(is_here).collect();
    let rows = in_directory(host, rows, cwd).await;
    let ids = rows.iter().map(|row: &SessionSummary| row.session.clone()).collect();
    let owned = host.store.owners(spec, ids).await.map_err(fault::not_kept)?;
    let owned: HashSet<_> = owned.into_iter().map(|owner| owner.session).collect();
    let sessions = rows.into_iter().filter(|row| !owned.contains(&row.session)).collect();
    // An agent that gives the same cursor again would be asked for ever.
    let next = page.next.filter(|next| Some(next) != cursor.as_ref());
    let has_other = named == Named::Really && directory.as_ref().is_some_and(DirectoryNames::are_two);
    let next = match next {
        Some(next) => Some(Cursor::Theirs(named, Some(next))),
        None if has_other => Some(Cursor::Theirs(Named::AsWritten, None)),
        None => None,
    };
    Ok(SessionPage { sessions, next_cursor: next.map(|next| next.text()), meta: Meta::new() })
}

/// A session that does not say where it works cannot be brought back by anybody.
fn their_row(row: ListedSession) -> Option<SessionSummary> {
    let ListedSession { session, updated_at, title, cwd, row } = row;
    let cwd = AbsolutePath::new(cwd?).ok()?;
    let (additional_directories, meta) = (Vec::new(), Meta::new());
    Some(SessionSummary {
        session,
        cwd,
        additional_directories,
        title,
        updated_at,
        meta,
        passed_on: Some(row),
    })
}

/// Those that work in this directory, however they write it. Where a disk does not answer, what is written counts.
async fn in_directory(
    host: &Host,
    rows: Vec<SessionSummary>,
    cwd: Option<AbsolutePath>,
) -> Vec<SessionSummary> {
    let Some(cwd) = cwd else { return rows };
    let written: HashSet<AbsolutePath> =
        rows.iter().map(|row| row.cwd.clone()).chain([cwd.clone()]).collect();
    let mut looking = JoinSet::new();
    for path in written {
        let disk = host.engine.disk().clone();
        looking.spawn(async move { (disk.real(&path).await.unwrap_or_else(|_| path.clone()), path) });
    }
    let real: HashMap<_, _> = looking.join_all().await.into_iter().map(|(real, path)| (path, real)).collect();
    rows.into_iter().filter(|row| real.get(&row.cwd) == real.get(&cwd)).collect()
}

/// The page without the agent's sessions, and why.
fn unheard(why: String) -> SessionPage {
    let meta = acpx_meta(&ListMeta { remote_error: Some(why) });
    SessionPage { sessions: Vec::new(), next_cursor: None, meta }
}

fn unknown_cursor() -> CallError {
    problem("cursor", "is none that session/list gave")
}

impl Cursor {
    fn text(&self) -> String {
        match self {
            Self::Ours(record) => format!("ours:{}", record.as_ref().map_or("", RecordId::as_str)),
            Self::Theirs(named, None) => word(*named).to_owned(),
            Self::Theirs(named, Some(cursor)) => format!("{}:{cursor}", word(*named)),
        }
    }

    /// Reads a text; `None` if it is none of ours.
    fn read(text: &str) -> Option<Self> {
        match text.split_once(':') {
            Some(("ours", record)) => Some(Self::Ours(Some(RecordId::new(record).ok()?))),
            Some((word, cursor)) => Some(Self::Theirs(named(word)?, Some(cursor.to_owned()))),
            None => Some(Self::Theirs(named(text)?, None)),
        }
    }
}

/// The word for a name in a cursor.
fn word(named: Named) -> &'static str {
    match named {
        Named::Really => "theirs",
        Named::AsWritten => "written",
    }
}

fn named(text: &str) -> Option<Named> {
    [Named::Really, Named::AsWritten].into_iter().find(|named| word(*named) == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written_and_nothing_else_is_one() {
        let record = RecordId::new("a:b").unwrap();
        for cursor in [
            Cursor::Ours(Some(record)),
            Cursor::Theirs(Named::Really, None),
            Cursor::Theirs(Named::AsWritten, None),
            Cursor::Theirs(Named::Really, Some(String::new())),
            Cursor::Theirs(Named::AsWritten, Some("x:\u{1f}".to_owned())),
        ] {
            assert_eq!(Cursor::read(&cursor.text()), Some(cursor));
        }
        for text in ["", "ours", "ours:", "their", "0190-record", "Theirs:x"] {
            assert_eq!(Cursor::read(text), None, "{text}");
        }
    }
}
