//! The sessions that the agent itself has, for `session/list`.
//!
//! Those that were told as records of ours are left out. A record that was made since the listing began, or whose agent
//! is called otherwise there, was not: it is told where the agent tells its session, under the id that it has here.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::acp::agent::{CallError, Meta, SessionSummary};
use crate::acp::client::ListedSession;
use crate::engine::{NewSession, SessionError};
use crate::model::{
    AbsolutePath, AcpSessionId, AgentError, AgentSpec, DirectoryNameKind, DirectoryNames, Lineage, RecordId,
};
use crate::store::SessionOwner;
use crate::wire::RpcError;
use crate::wire::encode::json_string;
use crate::wire::splice::put;

use super::cursor::AgentListCursor;
use super::{Host, PATIENCE, row, unknown_cursor};
use crate::host::connection::Connection;
use crate::protocol::rpc_error;

/// A page of the agent's own sessions.
pub(super) struct TheirPage {
    pub(super) rows: Vec<SessionSummary>,
    /// Where the next one begins, if there may be more.
    pub(super) next: Option<AgentListCursor>,
    /// Why the agent listed nothing, if it failed.
    pub(super) problem: Option<String>,
}

/// What is listed: with which agent, and where.
struct ListQuery {
    agent: AgentSpec,
    /// The directory as the client has written it.
    cwd: Option<AbsolutePath>,
    directory: Option<DirectoryNames>,
    /// The record that was made last when the listing began.
    began: Option<RecordId>,
}

/// A page of what the agent has. If the agent takes longer than `limit`, its answer is for the next page that asks.
pub(super) async fn page(
    client: &Connection,
    began: Option<RecordId>,
    theirs: AgentListCursor,
    cwd: Option<AbsolutePath>,
    agent: NewSession,
    limit: Duration,
) -> Result<TheirPage, CallError> {
    let (host, AgentListCursor { named, cursor, mut told }) = (&client.host, theirs);
    let failed = |why| TheirPage { rows: Vec::new(), next: None, problem: Some(why) };
    let directory = match &cwd {
        // One whose disk does not answer is looked for as it is written.
        Some(cwd) => Some(DirectoryNames::new(cwd, host.engine.disk().real(cwd).await.ok())),
        None => None,
    };
    let listed = ListQuery { agent: agent.agent.clone(), cwd, directory, began };
    let wanted = listed.directory.as_ref().map(|it| it.get(named));
    let asked = client.agent_page.get(&host.engine, agent, wanted.cloned(), cursor.clone(), limit);
    let page = match asked.await {
        Some(Ok(Some(page))) => page,
        Some(Ok(None)) => return Ok(TheirPage { rows: Vec::new(), next: None, problem: None }),
        Some(Err(SessionError::Agent(AgentError::Refused { code: RpcError::INVALID_PARAMS, .. })))
            if cursor.is_some() =>
        {
            return Err(unknown_cursor());
        }
        Some(Err(error)) => return Ok(failed(error.to_string())),
        None if limit < PATIENCE => {
            return Ok(TheirPage {
                rows: Vec::new(),
                next: Some(AgentListCursor { named, cursor, told }),
                problem: None,
            });
        }
        None => return Ok(failed(format!("the agent took longer than {} s", limit.as_secs()))),
    };
    let is_here = |row: &SessionSummary| {
        listed.directory.as_ref().is_none_or(|directory| directory.lists(named, &row.cwd))
    };
    let rows = page.sessions.into_iter().filter_map(their_row).filter(is_here).collect();
    let mut sessions = Vec::new();
    for (session, row) in listed.rows(client, rows).await? {
        // What an agent tells twice is told once: sessions that appear move the others on to its next page.
        if told.add(&session) {
            sessions.push(row);
        }
    }
    // An agent that gives the same cursor again would be asked for ever.
    let next = page.next.filter(|next| Some(next) != cursor.as_ref());
    let has_other =
        named == DirectoryNameKind::Really && listed.directory.as_ref().is_some_and(DirectoryNames::are_two);
    let next = match next {
        Some(next) => Some(AgentListCursor { named, cursor: Some(next), told }),
        None if has_other => {
            Some(AgentListCursor { named: DirectoryNameKind::AsWritten, cursor: None, told })
        }
        None => None,
    };
    Ok(TheirPage { rows: sessions, next, problem: None })
}

impl ListQuery {
    /// What is told of the agent's rows, each with the session that it is about.
    async fn rows(
        &self,
        client: &Connection,
        rows: Vec<SessionSummary>,
    ) -> Result<Vec<(AcpSessionId, SessionSummary)>, CallError> {
        let rows = in_directory(&client.host, rows, self.cwd.as_ref()).await;
        let sessions = rows.iter().map(|row| row.session.clone()).collect();
        let owners =
            client.host.store.owners(self.agent.clone(), sessions).await.map_err(rpc_error::not_kept)?;
        let since = self.made_since(&client.host, &owners).await?;
        let mut owned: HashMap<AcpSessionId, Vec<SessionOwner>> = HashMap::new();
        for owner in owners {
            owned.entry(owner.session.clone()).or_default().push(owner);
        }
        let (key, mut told) = (self.agent.key(), Vec::new());
        for row in rows {
            let session = row.session.clone();
            let Some(owners) = owned.get(&session) else {
                told.push((session, row));
                continue;
            };
            for owner in owners.iter().filter(|owner| owner.agent != key || since.contains(&owner.record)) {
                if let Some(row) = self.record(client, owner).await? {
                    told.push((session.clone(), row));
                }
            }
        }
        Ok(told)
    }

    /// Which of them were made since the listing began.
    async fn made_since(&self, host: &Host, owners: &[SessionOwner]) -> Result<HashSet<RecordId>, CallError> {
        let records = owners.iter().map(|owner| owner.record.clone());
        let Some(began) = &self.began else { return Ok(records.collect()) };
        let made = host.store.made_after(began.clone(), records.collect()).await;
        Ok(made.map_err(rpc_error::not_kept)?.into_iter().collect())
    }

    /// The row of a record that has a session, if it is in force there, and the record is there for this client.
    async fn record(
        &self,
        client: &Connection,
        owner: &SessionOwner,
    ) -> Result<Option<SessionSummary>, CallError> {
        let kept = client.host.engine.record(&owner.record).await;
        let Some(kept) = kept.map_err(|error| client.host.refused(&error))? else { return Ok(None) };
        let is_in_force = |lineage: &Lineage| lineage.current().session == owner.session;
        let is_here = self
            .directory
            .as_ref()
            .is_none_or(|directory| kept.real_cwd == *directory.get(DirectoryNameKind::Really));
        if is_here && is_in_force(&kept.lineage) && client.knows(&kept) && !kept.is_unprompted() {
            return row(&client.host, kept).await.map(Some);
        }
        Ok(None)
    }
}

/// A session that does not say where it works cannot be brought back by anybody. The row is as the agent wrote it, with
/// its title trimmed.
fn their_row(row: ListedSession) -> Option<SessionSummary> {
    let ListedSession { session, updated_at, title, cwd, mut row } = row;
    let cwd = AbsolutePath::new(cwd?).ok()?;
    let trimmed = title.as_deref().map(str::trim).filter(|trimmed| Some(*trimmed) != title.as_deref());
    if let Some(told) = trimmed.and_then(|trimmed| put(&row, &["title"], &json_string(trimmed))) {
        row = told.into();
    }
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
    cwd: Option<&AbsolutePath>,
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
    rows.into_iter().filter(|row| real.get(&row.cwd) == real.get(cwd)).collect()
}
