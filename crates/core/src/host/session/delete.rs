//! Deletes sessions: our records, and sessions that only the agent has.
//!
//! A record is deleted here even if its agent fails to delete the session. If the agent may still have it, the reply
//! contains the reason.

use std::error::Error;
use std::time::Duration;

use tokio::time::timeout;

use crate::acp::agent::{CallError, CallExtras, Meta, with_causes};
use crate::engine::{AtAgent, ListLookup, NewSession, RestoreSession, SessionError};
use crate::model::{AcpSessionId, AgentError, RecordId};

use super::search_index;
use crate::host::connection::Connection;
use crate::host::connection::access::UserAction;
use crate::protocol::acpx_meta::{acpx_meta, record_of};
use crate::protocol::meta::{DeletedMeta, StartMeta};
use crate::protocol::rpc_error;
use crate::store::StoreError;

/// How long an agent may take to start and to delete a session.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Deletes a session (`session/delete`).
pub(crate) async fn delete(
    client: &Connection,
    session: &AcpSessionId,
    extras: &CallExtras,
) -> Result<Meta, CallError> {
    let record = record_of(session);
    let stored = client.host.store.record(record.clone()).await;
    client.check_record(UserAction::DeleteSession, &record)?;
    client.agent_page.forget();
    let stored = match stored {
        Err(StoreError::Corrupt { .. })
            if client.access.can_see_all(client.defaults.agent(None).as_ref()) =>
        {
            let meta = delete_record(client, &record, extras).await?;
            search_index::forget(&client.host, vec![session.to_string()]).await;
            return Ok(meta);
        }
        stored => stored.map_err(rpc_error::not_kept)?,
    };
    match stored {
        None => {
            let meta = delete_at_agent(client, session, extras).await?;
            search_index::forget(&client.host, vec![session.to_string()]).await;
            Ok(meta)
        }
        Some(stored) if client.can_see(&stored) => {
            let meta = delete_record(client, &record, extras).await?;
            search_index::forget(&client.host, search_index::ids_of(&stored)).await;
            Ok(meta)
        }
        // For this client the record does not exist, and deleting a missing record succeeds.
        Some(_) => Ok(Meta::new()),
    }
}

/// Deletes a record, and has its agent delete the session. Other clients that use it get an unknown-session error.
async fn delete_record(
    client: &Connection,
    record: &RecordId,
    extras: &CallExtras,
) -> Result<Meta, CallError> {
    let restore = match client.attachments.detach(record).await {
        Some(restore) => restore,
        None => default_restore(client, record).await?,
    };
    let restore = RestoreSession { extra_params: client.access.extra_params_of(extras), ..restore };
    let deleted = Box::pin(client.host.engine.delete_everywhere(record, restore, TIMEOUT)).await;
    let at_agent = deleted.map_err(|error| client.refused(&error))?;
    client.host.confined_records.remove(record);
    Ok(match at_agent {
        AtAgent::Deleted => Meta::new(),
        AtAgent::Kept(why) => kept_by_agent(&why),
    })
}

/// The start parameters for a client that does not use the session.
async fn default_restore(client: &Connection, record: &RecordId) -> Result<RestoreSession, CallError> {
    let stored = match client.host.store.record(record.clone()).await {
        // A damaged record is deleted without its agent.
        Err(StoreError::Corrupt { .. }) => None,
        stored => stored.map_err(rpc_error::not_kept)?,
    };
    let mut start = StartMeta::default();
    client.defaults.complete(&mut start);
    let environment = stored.map(|stored| start.take_environment(&stored.agent)).unwrap_or_default();
    Ok(RestoreSession {
        agent: client.defaults.agent(None),
        capabilities: client.capabilities(),
        logged_in: client.login.clone(),
        ..RestoreSession::new(environment)
    })
}

/// Deletes a session that only the connection's agent has. If the agent cannot delete it, it is hidden here.
async fn delete_at_agent(
    client: &Connection,
    session: &AcpSessionId,
    extras: &CallExtras,
) -> Result<Meta, CallError> {
    let Some(agent) = client.agent_alone(&client.defaults.client())? else { return Ok(Meta::new()) };
    let owners = client.host.store.owners(agent.agent.clone(), vec![session.clone()]).await;
    if !owners.map_err(rpc_error::not_kept)?.is_empty() {
        // The session belongs to a record, and is deleted by the record's id.
        return Ok(Meta::new());
    }
    let agent = NewSession { extra_params: client.access.extra_params_of(extras), ..agent };
    let label = agent.agent.label().into_owned();
    let deleted = timeout(TIMEOUT, delete_or_hide(client, agent, session)).await;
    deleted.unwrap_or_else(|_| {
        let method = "session/delete".to_owned();
        Err(client.refused(&AgentError::Unresponsive { agent: label, method }.into()))
    })
}

async fn delete_or_hide(
    client: &Connection,
    agent: NewSession,
    session: &AcpSessionId,
) -> Result<Meta, CallError> {
    let (engine, refused) = (&client.host.engine, |error: SessionError| client.refused(&error));
    let known = engine.known_capabilities(agent.clone()).await.map_err(refused)?;
    if known.as_ref().is_none_or(|known| known.sessions.delete)
        && engine.delete_remote(agent.clone(), session).await.map_err(refused)?
    {
        return Ok(Meta::new());
    }
    if known.is_some_and(|known| !known.sessions.list) {
        return Ok(Meta::new());
    }
    let cwd = match engine.find_agent_session(&agent, session).await.map_err(refused)? {
        ListLookup::Listed(row) => row.cwd,
        // It may be on a page that was not read.
        ListLookup::Unread => None,
        ListLookup::NotListed | ListLookup::NoList => return Ok(Meta::new()),
    };
    let (label, method) = (agent.agent.label().into_owned(), "session/delete".to_owned());
    engine.disown(agent, session.clone(), cwd).await.map_err(refused)?;
    Ok(kept_by_agent(&AgentError::NotOffered { agent: label, method }))
}

/// The `_meta` of a reply that contains why an agent may still have a session.
fn kept_by_agent(why: &dyn Error) -> Meta {
    acpx_meta(&DeletedMeta { kept_by_agent: with_causes(why) })
}
