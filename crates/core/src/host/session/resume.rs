//! Gives a client a session that the agent has by its id (`--resume-session`): the record that has the session, or a
//! new record that adopts it. No fresh session ever takes its place.

use crate::acp::agent::CallError;
use crate::engine::{NewSession, RestoreSession, SessionError};
use crate::model::{AcpSessionId, AgentError, Fallback, LineageReason, Record, RecordId, WakeOptions};

use super::create::{OpenedSession, restore_params};
use crate::host::Host;
use crate::host::connection::access::{ClientAccess, UserAction};
use crate::protocol::acpx_meta::{problem, record_of};
use crate::protocol::rpc_error;

/// Opens the session with this id of the agent of `new`. The id may also be that of a record.
pub(super) async fn open(
    host: &Host,
    new: NewSession,
    id: &str,
    access: &ClientAccess,
) -> Result<OpenedSession, CallError> {
    let session = AcpSessionId::new(id);
    let session = session.map_err(|error| problem("_meta.acpx.resumeSession", error.to_string()))?;
    let restore = restore_params(&new);
    let Some(record) = owner(host, &new, &session).await? else {
        let adopted = host.engine.adopt(new, session.clone()).await;
        let (live, wake) = adopted.map_err(|error| not_resumed(host, &session, &error))?;
        let opened = OpenedSession::existing(live, restore);
        return Ok(OpenedSession { created: true, wake: Some(wake), ..opened });
    };
    access.check_record(UserAction::RenameSession, host.confined_records.contains(&record.id))?;
    let refused = |error: SessionError| host.refused(&error);
    Box::pin(host.engine.check_directory(&record, &new.cwd)).await.map_err(refused)?;
    let restore = RestoreSession { cwd: Some(record.real_cwd.clone()), ..restore };
    let live = host.engine.attach(&record.id, &restore).await.map_err(refused)?;
    let options = WakeOptions { fallback: Fallback::Never, carry_history: false };
    let this_one = RestoreSession { options, ..restore.clone() };
    let is_earlier = record.lineage.rows().iter().any(|row| row.session == session)
        && record.lineage.current().session != session;
    let wake =
        if is_earlier { live.return_to(session.clone(), this_one).await } else { live.wake(this_one).await };
    let wake = wake.map_err(|error| not_resumed(host, &session, &error))?;
    Ok(OpenedSession { wake: Some(wake), ..OpenedSession::existing(live, restore) })
}

/// The record that has the session, or this id.
async fn owner(host: &Host, new: &NewSession, session: &AcpSessionId) -> Result<Option<Record>, CallError> {
    let owners = host.store.owners(new.agent.clone(), vec![session.clone()]).await;
    let owners = owners.map_err(rpc_error::not_kept)?;
    let id: RecordId = owners.into_iter().next().map_or_else(|| record_of(session), |owner| owner.record);
    let record = host.store.record(id).await.map_err(rpc_error::not_kept)?;
    match record.filter(|record| record.agent.is_same_as(&new.agent)) {
        // A deleted id stays reserved.
        Some(record) if record.lifecycle.is_deleted() => Err(rpc_error::unknown(&record.id)),
        record => Ok(record),
    }
}

/// The error for a session that the agent did not restore: it does not have it, it restores none, or it refuses.
fn not_resumed(host: &Host, session: &AcpSessionId, error: &SessionError) -> CallError {
    match error {
        SessionError::Agent(AgentError::NotRestored { reason, .. })
            if *reason == LineageReason::AgentLost.as_str() =>
        {
            rpc_error::unknown(&record_of(session))
        }
        SessionError::Agent(AgentError::NotRestored { agent, reason, .. })
            if *reason == LineageReason::CannotRestore.as_str() =>
        {
            let method = "session/load or session/resume".to_owned();
            let error = AgentError::NotOffered { agent: agent.clone(), method };
            rpc_error::without_session(host.refused(&SessionError::Agent(error)))
        }
        error => rpc_error::without_session(host.refused(error)),
    }
}
