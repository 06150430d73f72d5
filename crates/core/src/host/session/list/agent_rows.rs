//! The agent's own sessions, for `session/list`.
//!
//! Sessions already listed as our records are left out. A record created since the listing began, or with a differently
//! named agent, was not listed yet: it appears here, under its record id.

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
use crate::wire::json;

use super::cursor::AgentListCursor;
use super::{Host, LATER_WAIT, row, unknown_cursor};
use crate::host::connection::Connection;
use crate::protocol::rpc_error;

/// A page of the agent's own sessions.
pub(super) struct AgentRows {
    pub(super) rows: Vec<SessionSummary>,
    /// The next page's cursor, if there may be more.
    pub(super) next: Option<AgentListCursor>,
    /// Why the agent's list is missing, if it failed.
    pub(super) problem: Option<String>,
}

/// The agent and directory of a listing.
struct ListQuery {
    agent: AgentSpec,
    /// The directory as the client wrote it.
    cwd: Option<AbsolutePath>,
    directory: Option<DirectoryNames>,
    /// The newest record when the listing began.
    began: Option<RecordId>,
}

/// A page of the agent's sessions. If the agent takes longer than `limit`, the next request for the page gets its
/// reply.
pub(super) async fn page(
    client: &Connection,
    began: Option<RecordId>,
    agent_list: AgentListCursor,
    cwd: Option<AbsolutePath>,
    agent: NewSession,
    limit: Duration,
) -> Result<AgentRows, CallError> {
    let (host, AgentListCursor { named, cursor, mut listed_before }) = (&client.host, agent_list);
    let failed = |why| AgentRows { rows: Vec::new(), next: None, problem: Some(why) };
    let directory = match &cwd {
        // If the disk does not respond, the path is used as written.
        Some(cwd) => Some(DirectoryNames::new(cwd, host.engine.disk().real(cwd).await.ok())),
        None => None,
    };
    let query = ListQuery { agent: agent.agent.clone(), cwd, directory, began };
    let wanted = query.directory.as_ref().map(|it| it.get(named));
    let requested = client.agent_page.get(&host.engine, agent, wanted.cloned(), cursor.clone(), limit);
    let page = match requested.await {
        Some(Ok(Some(page))) => page,
        Some(Ok(None)) => return Ok(AgentRows { rows: Vec::new(), next: None, problem: None }),
        Some(Err(SessionError::Agent(AgentError::Refused { code: RpcError::INVALID_PARAMS, .. })))
            if cursor.is_some() =>
        {
            return Err(unknown_cursor());
        }
        Some(Err(error)) => return Ok(failed(error.to_string())),
        None if limit < LATER_WAIT => {
            return Ok(AgentRows {
                rows: Vec::new(),
                next: Some(AgentListCursor { named, cursor, listed_before }),
                problem: None,
            });
        }
        None => return Ok(failed(format!("the agent took longer than {} s", limit.as_secs()))),
    };
    let is_here = |row: &SessionSummary| {
        query.directory.as_ref().is_none_or(|directory| directory.lists(named, &row.cwd))
    };
    let rows = page.sessions.into_iter().filter_map(agent_row).filter(is_here).collect();
    let mut sessions = Vec::new();
    for (session, row) in query.rows(client, rows).await? {
        // Drop repeated sessions: new sessions push older ones onto the agent's next page.
        if listed_before.add(&session) {
            sessions.push(row);
        }
    }
    // An agent that repeats its cursor would be asked forever.
    let next = page.next.filter(|next| Some(next) != cursor.as_ref());
    let has_other =
        named == DirectoryNameKind::Really && query.directory.as_ref().is_some_and(DirectoryNames::are_two);
    let next = match next {
        Some(next) => Some(AgentListCursor { named, cursor: Some(next), listed_before }),
        None if has_other => {
            Some(AgentListCursor { named: DirectoryNameKind::AsWritten, cursor: None, listed_before })
        }
        None => None,
    };
    Ok(AgentRows { rows: sessions, next, problem: None })
}

impl ListQuery {
    /// The rows to list, each with its ACP session id.
    async fn rows(
        &self,
        client: &Connection,
        rows: Vec<SessionSummary>,
    ) -> Result<Vec<(AcpSessionId, SessionSummary)>, CallError> {
        let rows = in_directory(&client.host, rows, self.cwd.as_ref()).await;
        let sessions = rows.iter().map(|row| row.session.clone()).collect();
        let owners =
            client.host.store.owners(self.agent.clone(), sessions).await.map_err(rpc_error::not_kept)?;
        let since = self.created_since(&client.host, &owners).await?;
        let mut owned: HashMap<AcpSessionId, Vec<SessionOwner>> = HashMap::new();
        for owner in owners {
            owned.entry(owner.session.clone()).or_default().push(owner);
        }
        let (key, mut listed) = (self.agent.key(), Vec::new());
        for row in rows {
            let session = row.session.clone();
            let Some(owners) = owned.get(&session) else {
                listed.push((session, row));
                continue;
            };
            for owner in owners.iter().filter(|owner| owner.agent != key || since.contains(&owner.record)) {
                if let Some(row) = self.record(client, owner).await? {
                    listed.push((session.clone(), row));
                }
            }
        }
        Ok(listed)
    }

    /// The records that were created since the listing began.
    async fn created_since(
        &self,
        host: &Host,
        owners: &[SessionOwner],
    ) -> Result<HashSet<RecordId>, CallError> {
        let records = owners.iter().map(|owner| owner.record.clone());
        let Some(began) = &self.began else { return Ok(records.collect()) };
        let created = host.store.created_after(began.clone(), records.collect()).await;
        Ok(created.map_err(rpc_error::not_kept)?.into_iter().collect())
    }

    /// The row of a session's record, if the session is its current one and the client may see the record.
    async fn record(
        &self,
        client: &Connection,
        owner: &SessionOwner,
    ) -> Result<Option<SessionSummary>, CallError> {
        let stored = client.host.engine.record(&owner.record).await;
        let Some(stored) = stored.map_err(|error| client.host.refused(&error))? else { return Ok(None) };
        let is_current = |lineage: &Lineage| lineage.current().session == owner.session;
        let is_here = self
            .directory
            .as_ref()
            .is_none_or(|directory| stored.real_cwd == *directory.get(DirectoryNameKind::Really));
        if is_here && is_current(&stored.lineage) && client.can_see(&stored) && !stored.is_unprompted() {
            return row(&client.host, stored).await.map(Some);
        }
        Ok(None)
    }
}

/// Converts a row of the agent. A session without a directory is dropped, since it cannot be restored. The row stays as
/// the agent wrote it, except that its title is trimmed.
fn agent_row(row: ListedSession) -> Option<SessionSummary> {
    let ListedSession { session, updated_at, title, cwd, mut row } = row;
    let cwd = AbsolutePath::new(cwd?).ok()?;
    let trimmed = title.as_deref().map(str::trim).filter(|trimmed| Some(*trimmed) != title.as_deref());
    if let Some(trimmed_row) = trimmed.and_then(|trimmed| json::set(&row, &["title"], &json_string(trimmed)))
    {
        row = trimmed_row.into();
    }
    let (additional_directories, meta) = (Vec::new(), Meta::new());
    Some(SessionSummary {
        session,
        cwd,
        additional_directories,
        title,
        updated_at,
        meta,
        forwarded: Some(row),
    })
}

/// The rows in this directory, compared by real path, or as written if a disk does not respond.
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
