//! `_acpx/agents`: the agents and the directories that a client may choose for a new session.

use std::collections::HashSet;

use crate::acp::agent::CallError;
use crate::host::connection::Connection;
use crate::protocol::rpc_error;
use crate::protocol::sessions::{AgentChoiceMeta, AgentsMeta, UsedDirectoryMeta};
use crate::store::RecordFilter;

/// How many directories are listed at most.
const DIRECTORIES: usize = 200;
/// How many records are read at a time, and how many of these pages.
const PAGE: usize = 500;
const PAGES: usize = 4;

/// Lists the agents that can be started, and the directories of records, last used first. A client that is not the page
/// starts any agent by its command; it gets the agents of records.
pub(crate) async fn list(client: &Connection) -> Result<String, CallError> {
    let mut known = AgentsMeta::default();
    let (mut seen, mut agents, mut after) = (HashSet::new(), Vec::new(), None);
    for _ in 0..PAGES {
        let page = client.host.store.records(RecordFilter::default(), after, PAGE).await;
        let page = page.map_err(rpc_error::not_kept)?;
        after = page.last().filter(|_| page.len() == PAGE).map(|last| (last.updated_at, last.id.clone()));
        for record in page.into_iter().filter(|record| client.can_see(record)) {
            if let Some(name) = &record.agent.name
                && !agents.contains(name)
            {
                agents.push(name.clone());
            }
            if known.directories.len() < DIRECTORIES && seen.insert(record.cwd.clone()) {
                known.directories.push(UsedDirectoryMeta {
                    cwd: record.cwd.to_string(),
                    agent: record.agent.label().into_owned(),
                    updated_at: record.updated_at.to_string(),
                });
            }
        }
        if after.is_none() {
            break;
        }
    }
    let last_used = agents.first().cloned();
    if let Some(page) = client.access.page() {
        agents = page.agents.iter().filter_map(|agent| agent.name.clone()).collect();
    }
    let choice = |name: String| AgentChoiceMeta { last_used: last_used.as_ref() == Some(&name), name };
    known.agents = agents.into_iter().map(choice).collect();
    Ok(serde_json::to_string(&known).expect("names and paths are text"))
}
