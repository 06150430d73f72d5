//! Restores a stored session for a client (`session/load`, `session/resume`).
//!
//! Everything that can be refused is checked before anything changes: the session must be a record or adoptable from the
//! agent, and must work in the client's directory. Then the client is attached with its start parameters, and the
//! conversation is replayed while the agent is restored.

use std::sync::Arc;

use tokio::time::Instant;

use crate::acp::Cursor;
use crate::acp::agent::{CallError, ClientLink, NewCall, RestoreCall, SessionSetup};
use crate::acp::render::{Bounds, ClientState};
use crate::engine::{RestoreSession, Session, SessionError};
use crate::machine::WakeOutcome;
use crate::model::{
    AcpSessionId, AgentError, Fallback, LineageReason, ProtocolVersion, Record, RecordId, Seq,
};
use crate::wire::WireError;

use super::create::{OpenedSession, SetupMismatch};
use super::mcp_servers::recover_servers;
use super::native::adopt_transcript;
use super::set_config;
use crate::host::attach::foreign_turns::{ForeignTurns, wants_states};
use crate::host::attach::replay::{CursorError, RecordEvents, ReplayReader, state_before};
use crate::host::attach::stream::{PausedStream, send_lines};
use crate::host::connection::Connection;
use crate::host::connection::access::UserAction;
use crate::protocol::acpx_meta::{client_session, problem, record_of};
use crate::protocol::meta::{KeptMeta, ReplayMeta, RestoreMeta};
use crate::protocol::rpc_error;

/// The field of a version 2 client's replay cursor.
const STANDARD_FIELD: &str = "replayFrom";
/// The field of a version 1 client's replay cursor.
const OUR_FIELD: &str = "_meta.acpx.replayFrom";

/// Where a client's replay begins, and the field that says so.
type CursorField<'a> = (&'a Cursor, &'a str);

/// Restores a session. If the client wants a replay, it starts at the client's cursor or at `default_cursor`, and runs
/// while the agent is restored.
pub(crate) async fn load(
    client: &Connection,
    mut call: RestoreCall,
    link: &ClientLink,
    default_cursor: Option<Cursor>,
) -> Result<SessionSetup, CallError> {
    call.mcp_servers = client.access.restored_servers(call.mcp_servers);
    let mut meta: RestoreMeta = client.access.authorized_meta(call.meta.as_deref())?;
    if !meta.start.settings.is_empty() {
        client.access.check(UserAction::ChangeSettings)?;
    }
    if meta.wishes.fallback == Some(Fallback::Reset) || meta.return_to.is_some() {
        client.check_record(UserAction::ResetSession, &record_of(&call.session))?;
    }
    client.defaults.complete(&mut meta.start);
    let cursor = match (&call.replay_from, meta.replay_from.take()) {
        (Some(standard), _) => Cursor::read(standard, STANDARD_FIELD)?,
        (None, Some(wanted)) => Cursor::of_value(&wanted, OUR_FIELD)?,
        (None, None) => default_cursor,
    };
    let field = if call.replay_from.is_some() { STANDARD_FIELD } else { OUR_FIELD };
    client.check_directories(&call.additional_directories).await?;
    let cursor_field = cursor.as_ref().zip(Some(field));
    let resolved = resolve_record(client, &call, cursor_field, link.client().protocol).await?;
    let (session, created) = (call.session.clone(), resolved != ResolvedRecord::Stored);
    let adopted = resolved.into_wake();
    let (opened, start) = attach_and_prepare(client, call, &mut meta, cursor_field, link).await?;
    let record = opened.session.record_id().clone();
    tracing::info!(record = record.as_str(), "session loaded");
    tracing::debug!(record = record.as_str(), ?cursor, ?start, "replay");
    let (Some(cursor), Some(start)) = (cursor, start) else {
        let wake = adopted.or(wake(client, &opened, &meta).await?);
        // A running update stream continues after the reply, at its current position.
        let paused = client.attachments.pause_updates(&record).await;
        let from = paused.as_ref().map_or(opened.from, PausedStream::next);
        send_state(client, &record, from, None, link).await?;
        let reply = OpenedSession { created, wake, from, ..opened }.into_reply(client, session, link);
        drop(paused);
        return Ok(reply);
    };
    // Pause until the reply is decided. If a step fails, the stream continues.
    let paused = client.attachments.pause_updates(&record).await;
    let events = stored_events(client, &opened.session);
    let from = events.end();
    // A client that asks for the last turns has nothing of the conversation yet.
    let client_state = if cursor == Cursor::Start { ClientState::Empty } else { ClientState::Earlier };
    let replay = replay(client, events, (start, client_state), meta.replay, link);
    let (replayed, wake) = tokio::join!(replay, wake(client, &opened, &meta));
    let wake = adopted.or(wake?);
    replayed?.map_err(|source| CallError::NotSent { session: session.clone(), source })?;
    // A client that continues after a known event may have missed the end of a turn.
    let missed = Some(start).filter(|_| matches!(cursor, Cursor::Seq(_)));
    send_state(client, &record, from, missed, link).await?;
    Ok(OpenedSession { created, wake, from, paused, ..opened }.into_reply(client, session, link))
}

/// A record that can be loaded.
#[derive(Debug, PartialEq)]
enum ResolvedRecord {
    /// It was there.
    Stored,
    /// It was made of the agent's transcript.
    Imported,
    /// The agent had the session and has restored it.
    Adopted(WakeOutcome),
}

impl ResolvedRecord {
    fn into_wake(self) -> Option<WakeOutcome> {
        match self {
            Self::Stored | Self::Imported => None,
            Self::Adopted(wake) => Some(wake),
        }
    }
}

/// Returns an error unless the session is a record in the client's directory. An unknown session is adopted if the
/// connection's agent has it.
async fn resolve_record(
    client: &Connection,
    call: &RestoreCall,
    cursor: Option<CursorField<'_>>,
    version: ProtocolVersion,
) -> Result<ResolvedRecord, CallError> {
    let record = record_of(&call.session);
    client.access.check_mcp_servers(call.mcp_servers.as_deref().unwrap_or_default())?;
    // A deleted id stays reserved.
    let stored = client.host.store.record(record.clone()).await.map_err(rpc_error::not_kept)?;
    let Some(stored) = stored else { return adopt(client, &record, call, cursor, version).await };
    if stored.lifecycle.is_deleted() || !client.can_see(&stored) {
        return Err(rpc_error::unknown(&record));
    }
    let checked = Box::pin(client.host.engine.check_directory(&stored, &call.cwd)).await;
    checked.map(|()| ResolvedRecord::Stored).map_err(|error| client.refused(&error))
}

async fn adopt(
    client: &Connection,
    record: &RecordId,
    call: &RestoreCall,
    cursor: Option<CursorField<'_>>,
    version: ProtocolVersion,
) -> Result<ResolvedRecord, CallError> {
    let Some(agent) = client.defaults.agent(None) else { return Err(rpc_error::unknown(record)) };
    let owners = client.host.store.owners(agent.clone(), vec![call.session.clone()]).await;
    if !owners.map_err(rpc_error::not_kept)?.is_empty() {
        // A record already has this session, and a second record would write to it at the same time.
        return Err(rpc_error::unknown(record));
    }
    if adopt_transcript(client, &agent, call).await? {
        return Ok(ResolvedRecord::Imported);
    }
    // Nothing is stored yet, so no other cursor can be valid.
    if let Some((_, field)) = cursor.filter(|(cursor, _)| **cursor != Cursor::Start) {
        return Err(problem(field, "names a place that is not there: nothing is kept of this session yet"));
    }
    let mut meta: RestoreMeta = client.access.authorized_meta(call.meta.as_deref())?;
    let RestoreCall { session, cwd, additional_directories, mcp_servers, meta: call_meta, unknown, .. } =
        call.clone();
    let mcp_servers = mcp_servers.unwrap_or_default();
    let call = NewCall { cwd, additional_directories, mcp_servers, meta: call_meta, unknown };
    let new = client.new_session(agent, call, &mut meta.start, version)?;
    let permit = client.reserve_slot(None).await?;
    match client.host.engine.adopt(new, session).await {
        Ok((_, wake)) => {
            permit.commit(record);
            Ok(ResolvedRecord::Adopted(wake))
        }
        // The agent does not have the session, or restores none.
        Err(SessionError::Agent(AgentError::NotRestored { reason, cause, .. }))
            if cause.is_none() || reason == LineageReason::AgentLost.as_str() =>
        {
            Err(rpc_error::unknown(record))
        }
        Err(error) => Err(rpc_error::without_session(client.refused(&error))),
    }
}

/// Attaches to a stored session with this client's start parameters, and resolves the replay cursor. It starts no agent,
/// and fails on an invalid cursor before it parks one.
async fn attach_and_prepare(
    client: &Connection,
    call: RestoreCall,
    meta: &mut RestoreMeta,
    cursor: Option<CursorField<'_>>,
    link: &ClientLink,
) -> Result<(OpenedSession, Option<Seq>), CallError> {
    let record = record_of(&call.session);
    let names_servers = call.mcp_servers.is_some();
    let stored = client.host.engine.record(&record).await.map_err(|error| client.refused(&error))?;
    let stored = stored.ok_or_else(|| rpc_error::unknown(&record))?;
    let restore = restore_params(client, call, stored, meta, link).await?;
    let session = client.host.engine.attach(&record, &restore).await;
    let opened = OpenedSession::existing(session.map_err(|error| client.refused(&error))?, restore);
    let start = match cursor {
        Some(cursor) => {
            Some(resolve_cursor(&stored_events(client, &opened.session), cursor, meta.replay).await?)
        }
        None => None,
    };
    let opened = OpenedSession { responder: client.register_responder(&record, &meta.start, link), ..opened };
    // Requests of turns without their own client go to the record's responders from now on.
    let fallback = opened.session.set_fallback_responder(client.host.route_requests(&record, None)).await;
    fallback.map_err(|error| client.refused(&error))?;
    client.set_idle_time(&opened.session, &meta.start).await?;
    let mismatch = restart_if_config_changed(client, &opened, names_servers).await?;
    let (updates, with_seq) = (!meta.start.without_updates, meta.start.with_seq);
    Ok((OpenedSession { mismatch, updates, with_seq, ..opened }, start))
}

/// The parameters to restore a session with. If the client names no MCP servers, they are read from their source file.
async fn restore_params(
    client: &Connection,
    call: RestoreCall,
    stored: Record,
    meta: &mut RestoreMeta,
    link: &ClientLink,
) -> Result<RestoreSession, CallError> {
    let version = link.client().protocol;
    let directories = Some(call.additional_directories)
        .filter(|directories| !(meta.same_directories && directories.is_empty()));
    let is_creator = client.attachments.has_created(&stored.id);
    let additional_directories = client.access.directories(&stored, is_creator, directories)?;
    let environment = meta.start.take_environment(&stored.agent);
    let agent = client.agent_for(&stored, meta.agent.take());
    let known = agent.as_ref().filter(|agent| agent.key() == stored.agent.key()).unwrap_or(&stored.agent);
    let start_wait = client.access.start_wait(&meta.start, known);
    let mcp_servers = match call.mcp_servers {
        Some(list) => Some(client.mcp_servers(list, &meta.start)?),
        None => recover_servers(&client.host, stored.mcp_servers, &stored.cwd, environment.get("PATH")).await,
    };
    Ok(RestoreSession {
        options: meta.wishes.into(),
        agent,
        cwd: Some(call.cwd),
        environment,
        extra_params: client.access.extra_params(version, call.meta.as_deref(), call.unknown.as_deref()),
        login: meta.start.launch.login.unwrap_or_default(),
        logged_in: client.login.clone(),
        capabilities: client.capabilities(),
        mcp_servers,
        additional_directories,
        setup: client.access.setup(&mut meta.start)?,
        start_wait,
    })
}

/// Parks the agent if its MCP servers, directories or setup options differ from the client's, it is idle, it can be restored, and no
/// other client could answer its requests. Returns what still differs.
async fn restart_if_config_changed(
    client: &Connection,
    opened: &OpenedSession,
    names_servers: bool,
) -> Result<SetupMismatch, CallError> {
    let session = &opened.session;
    let mismatch = setup_mismatch(client, opened, names_servers).await?;
    if mismatch == SetupMismatch::default()
        || client.host.responders.has_others(session.record_id(), client.id)
    {
        return Ok(mismatch);
    }
    // A busy session keeps its agent and setup.
    drop(session.park_if_restorable().await);
    setup_mismatch(client, opened, names_servers).await
}

/// Where the agent's setup differs from what the client named.
async fn setup_mismatch(
    client: &Connection,
    opened: &OpenedSession,
    names_servers: bool,
) -> Result<SetupMismatch, CallError> {
    let (session, mut mismatch) = (&opened.session, SetupMismatch::default());
    if let Some(servers) = opened.restore.mcp_servers.as_ref().filter(|_| names_servers) {
        let has = session.has_servers(&servers.list).await.map_err(|error| client.refused(&error))?;
        mismatch.servers = (!has).then_some(KeptMeta::Kept);
    }
    if let Some(directories) = &opened.restore.additional_directories {
        let has = session.has_directories(directories).await.map_err(|error| client.refused(&error))?;
        mismatch.directories = (!has).then_some(KeptMeta::Kept);
    }
    if !opened.restore.setup.is_empty() {
        let has = session.has_setup(&opened.restore.setup).await.map_err(|error| client.refused(&error))?;
        mismatch.setup = (!has).then_some(KeptMeta::Kept);
    }
    Ok(mismatch)
}

/// Restores the session in the agent and applies the client's settings, unless that can wait for the next prompt.
async fn wake(
    client: &Connection,
    opened: &OpenedSession,
    meta: &RestoreMeta,
) -> Result<Option<WakeOutcome>, CallError> {
    let settings = &meta.start.settings;
    if meta.later && settings.is_empty() {
        return Ok(None);
    }
    let begun = Instant::now();
    let permit = client.reserve_slot(Some(opened.session.record_id())).await?;
    let wake = match &meta.return_to {
        None => opened.session.wake(opened.restore.clone()).await,
        Some(id) => {
            let session = AcpSessionId::new(id.as_str());
            let session = session.map_err(|error| problem("_meta.acpx.returnTo", error.to_string()))?;
            opened.session.return_to(session, opened.restore.clone()).await
        }
    };
    let wake = wake.map_err(|error| client.refused(&error))?;
    permit.commit(opened.session.record_id());
    let restore = opened.restore.clone().without_reset();
    set_config::apply(&client.host, &opened.session, &restore, settings, begun).await?;
    Ok(Some(wake))
}

/// The session's events stored so far.
fn stored_events(client: &Connection, session: &Session) -> RecordEvents {
    RecordEvents::new(Arc::clone(&client.host.store), session.record_id().clone(), session.last_seq())
}

/// The event at which a client's replay begins.
async fn resolve_cursor(
    events: &RecordEvents,
    (cursor, field): CursorField<'_>,
    limits: ReplayMeta,
) -> Result<Seq, CallError> {
    let start = events.find(cursor).await.map_err(|error| match error {
        CursorError::Store(error) => rpc_error::not_kept(error),
        missing => problem(field, format!("names a place that is not there: {missing}")),
    })?;
    let bound = match limits.turns {
        None => Seq::FIRST,
        Some(turns) => events.last_turns(turns).await.map_err(rpc_error::not_kept)?,
    };
    Ok(start.max(bound))
}

/// Sends the stored conversation from an event on. The inner error is that of the client's connection.
async fn replay(
    client: &Connection,
    events: RecordEvents,
    (start, client_state): (Seq, ClientState),
    limits: ReplayMeta,
    link: &ClientLink,
) -> Result<Result<(), WireError>, CallError> {
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let bounds = Bounds { tool_output_bytes: limits.tool_output_bytes.map(bytes) };
    let sessions = client.attachments.session_ids();
    let reader = ReplayReader::open(events, link.client(), sessions, start, client_state, bounds).await;
    let mut reader = reader.map_err(rpc_error::not_kept)?;
    while let Some(lines) = reader.next_page().await.map_err(rpc_error::not_kept)? {
        if let Err(error) = send_lines(lines, link).await {
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}

/// Sends the session's state before its next event to a version 2 client, with the last end of work if the client missed
/// it. A version 1 client that asks for other turns gets the running turn.
async fn send_state(
    client: &Connection,
    record: &RecordId,
    from: Seq,
    missed: Option<Seq>,
    link: &ClientLink,
) -> Result<(), CallError> {
    let facts = link.client();
    if facts.protocol == ProtocolVersion::V1 && !wants_states(&facts) {
        return Ok(());
    }
    let state = state_before(&client.host.store, record, &facts, from, missed).await;
    let state = state.map_err(rpc_error::not_kept)?;
    let state = match facts.protocol {
        ProtocolVersion::V1 => ForeignTurns::running_turn_line(record, &state),
        ProtocolVersion::V2 => Some(state.standing_line(record, missed)),
    };
    let Some(state) = state else { return Ok(()) };
    let sent = link.pass_on(state).await;
    sent.map_err(|source| CallError::NotSent { session: client_session(record), source })
}
