//! Our own methods in addition to those of ACP. They are listed in `docs/reference/extensions.md`.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::acp::agent::{CallError, ClientLink, ExtensionCall};
use crate::engine::SessionError;
use crate::model::{AbsolutePath, RecordId, Scope, Seq, SessionName};

use crate::host::Host;
use crate::host::connection::Connection;
use crate::host::connection::access::UserAction;
use crate::host::permissions::pending;
use crate::host::session::{directories, history, prune, queue, rows};
use crate::protocol::PendingParams;
use crate::protocol::acpx_meta::{problem, read_params};
use crate::protocol::meta::{
    ForgottenMeta, MovedMeta, PROTOCOL, RenamedMeta, WaitReasonAnswer, WaitReasonMeta,
};
use crate::protocol::queue::{CancelledMeta, TurnCancelParams};
use crate::protocol::rpc_error;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfSession {
    session_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Move {
    session_id: String,
    /// The new working directory.
    cwd: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rename {
    session_id: String,
    /// The new name, or the new title of a record without a name.
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Forget {
    session_id: String,
    /// The option, by its id or by its category; absent, the mode.
    option: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StopParams {
    /// Whether to stop only if the host is idle.
    if_idle: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Watch {
    session_id: String,
    /// The first event to send; absent, the next new one.
    from: Option<u64>,
    /// Whether to report the numbers of clients and queued prompts.
    #[serde(default)]
    activity: bool,
}

/// Answers one of our methods.
pub(super) async fn call(
    client: &Connection,
    call: ExtensionCall,
    link: &ClientLink,
) -> Result<String, CallError> {
    client.access.check_method(&call.method)?;
    match call.method.as_str() {
        "_acpx/watch" => watch(client, read_params(&call)?, link).await,
        "_acpx/queue" => queue::list(client, optional_params(&call)?).await,
        "_acpx/queue/drop" => queue::drop_queued(client, read_params(&call)?).await,
        "_acpx/cancel" => cancel(client, read_params(&call)?).await,
        "_acpx/close" => close(client, read_params(&call)?).await,
        "_acpx/detach" => detach(client, &read_params(&call)?).await,
        "_acpx/move" => move_record(client, read_params(&call)?).await,
        "_acpx/rename" => rename(client, read_params(&call)?).await,
        "_acpx/forget" => forget_setting(client, read_params(&call)?).await,
        "_acpx/waiting" => wait_reason(client, read_params(&call)?).await,
        "_acpx/pending" => pending(client, optional_params(&call)?, link).await,
        "_acpx/sessions" => rows::list(client, optional_params(&call)?, link).await,
        "_acpx/history" => history::read(client, read_params(&call)?, link).await,
        "_acpx/agents" => directories::list(client).await,
        "_acpx/answer" => {
            client.access.check(UserAction::AnswerRequest)?;
            pending::answer(&client.host, read_params(&call)?).await
        }
        "_acpx/prune" => prune::prune(client, read_params(&call)?).await,
        "_acpx/host/shrink" => prune::shrink(client).await,
        "_acpx/host/status" => Ok(status(&client.host)),
        "_acpx/host/stop" => stop(client, optional_params(&call)?).await,
        "_acpx/import" => match &client.host.importer {
            Some(importer) => importer.import(&client.host.engine, &call, &client.access).await,
            None => Err(CallError::UnknownMethod(call.method)),
        },
        "_acpx/import_archive" => match &client.host.importer {
            Some(importer) => importer.import_archive(&call, &client.access).await,
            None => Err(CallError::UnknownMethod(call.method)),
        },
        _ => Err(CallError::UnknownMethod(call.method)),
    }
}

/// Lists the pending requests, and again after each change if the client subscribes.
async fn pending(client: &Connection, params: PendingParams, link: &ClientLink) -> Result<String, CallError> {
    // A change while the list is made is reported.
    let changed = client.host.responders.pending().watch();
    let listed = pending::list(&client.host, &params).await?;
    if params.subscribe {
        let report = pending::report(Arc::clone(&client.host), params, changed, link.clone());
        client.subscriptions.pending.start(report);
    }
    Ok(listed)
}

/// Streams every event of a record from a number on. It neither starts the agent nor keeps it from being parked. A
/// second watch of the same record replaces the first.
async fn watch(client: &Connection, watch: Watch, link: &ClientLink) -> Result<String, CallError> {
    let session = client.session(&record(&watch.session_id)?).await?;
    let next = session.last_seq().map_or(Seq::FIRST, Seq::next);
    let from = watch.from.map_or(next, Seq).max(Seq::FIRST);
    client.attachments.watch(session.record_id(), from, watch.activity, link);
    Ok(json!({ "from": from.0 }).to_string())
}

/// Cancels the running turn regardless of its owner, or the first queued one if none runs; with a request id, that
/// turn.
async fn cancel(client: &Connection, params: TurnCancelParams) -> Result<String, CallError> {
    client.check_record(UserAction::CancelTurns, &record(&params.session_id)?)?;
    let session = client.session(&record(&params.session_id)?).await?;
    let refused = |error: SessionError| client.refused(&error);
    let (turn, cancelled) = match &params.request_id {
        None => (None, session.status().has_work),
        Some(request) => {
            let open = session.open_turns().await.map_err(refused)?;
            let meant = open.into_iter().find(|turn| turn.request.as_str() == request).map(|turn| turn.id);
            (meant, meant.is_some())
        }
    };
    if cancelled || params.request_id.is_none() {
        session.cancel(turn).await.map_err(refused)?;
    }
    Ok(serde_json::to_string(&CancelledMeta { cancelled }).expect("a flag is JSON"))
}

/// Closes the record for all clients: cancels its turns, sends the agent a close and ends it.
async fn close(client: &Connection, of: OfSession) -> Result<String, CallError> {
    client.check_record(UserAction::CloseSession, &record(&of.session_id)?)?;
    let session = client.session(&record(&of.session_id)?).await?;
    let identity = session.identity().ok_or_else(|| rpc_error::unknown(session.record_id()))?;
    session.close().await.map_err(|error| client.refused(&error))?;
    client.attachments.detach(session.record_id()).await;
    Ok(serde_json::to_string(&identity).expect("ids are text"))
}

/// Ends the client's use of a record and its streams. Turns continue, and the agent is parked when it is idle.
async fn detach(client: &Connection, of: &OfSession) -> Result<String, CallError> {
    let was_attached = client.attachments.detach(&record(&of.session_id)?).await.is_some();
    Ok(json!({ "detached": was_attached }).to_string())
}

/// Changes the working directory of a record.
async fn move_record(client: &Connection, to: Move) -> Result<String, CallError> {
    client.access.check(UserAction::MoveSession)?;
    let cwd = AbsolutePath::new(to.cwd).map_err(|error| problem("cwd", error.to_string()))?;
    let real_cwd = client.host.engine.real_directory(&cwd).await.map_err(|error| client.refused(&error))?;
    let session = client.session(&record(&to.session_id)?).await?;
    let identity = session.identity().ok_or_else(|| rpc_error::unknown(session.record_id()))?;
    let staying = session.move_to(cwd, real_cwd).await.map_err(|error| client.refused(&error))?;
    let staying = staying.iter().map(ToString::to_string).collect();
    let moved = MovedMeta { ids: identity, staying_directories: staying };
    Ok(serde_json::to_string(&moved).expect("ids and paths are text"))
}

/// Changes the name of a record, or the title of one without a name.
async fn rename(client: &Connection, to: Rename) -> Result<String, CallError> {
    client.access.check(UserAction::RenameSession)?;
    let name = SessionName::new(&to.name).map_err(|error| problem("name", error.to_string()))?;
    let session = client.session(&record(&to.session_id)?).await?;
    let refused = |error: SessionError| client.refused(&error);
    let stored = client.host.engine.record(session.record_id()).await.map_err(refused)?;
    let stored = stored.ok_or_else(|| rpc_error::unknown(session.record_id()))?;
    let mut renamed = RenamedMeta { ids: stored.identity(), name: None, title: None };
    if let Some(Scope { agent, name: Some(_) }) = stored.scope {
        renamed.name = Some(name.to_string());
        session.set_scope(Scope { agent, name: Some(name) }).await.map_err(refused)?;
    } else {
        renamed.title = Some(name.to_string());
        session.set_title(name.to_string()).await.map_err(refused)?;
    }
    Ok(serde_json::to_string(&renamed).expect("ids and names are text"))
}

/// Removes a requested setting of a record. Its agent is not started.
async fn forget_setting(client: &Connection, of: Forget) -> Result<String, CallError> {
    client.access.check(UserAction::ChangeSettings)?;
    let session = client.session(&record(&of.session_id)?).await?;
    let identity = session.identity().ok_or_else(|| rpc_error::unknown(session.record_id()))?;
    let forgotten = session.forget_setting(of.option.as_deref()).await;
    let answer = ForgottenMeta::of(identity, forgotten.map_err(|error| client.refused(&error))?);
    Ok(serde_json::to_string(&answer).expect("ids and wishes are text"))
}

/// What the record's session waits for. A record without a running session waits for nothing, and is not started.
async fn wait_reason(client: &Connection, of: OfSession) -> Result<String, CallError> {
    let record = record(&of.session_id)?;
    client.check_visible(&record).await?;
    let refused = |error: SessionError| client.refused(&error);
    let waiting = if let Some(session) = client.host.engine.running(&record).await.map_err(refused)? {
        // A session that has just ended waits for nothing.
        session.waiting().await.ok().flatten()
    } else {
        let stored = client.host.engine.record(&record).await.map_err(refused)?;
        stored.map(|_| None).ok_or_else(|| rpc_error::unknown(&record))?
    };
    let mut waiting_for = waiting.map(WaitReasonMeta::from);
    if let Some(waiting) = &mut waiting_for {
        waiting.questions = client.host.responders.pending().ids_of(&record);
    }
    let answer = WaitReasonAnswer { waiting_for };
    Ok(serde_json::to_string(&answer).expect("what is waited for has only text and lists"))
}

/// Stops the host; with `if_idle`, only without other clients and live sessions. The accept loop decides, so that
/// no client connects in between.
async fn stop(client: &Connection, StopParams { if_idle }: StopParams) -> Result<String, CallError> {
    client.access.check(UserAction::StopHost)?;
    let stops = !if_idle || client.host.stop_if_idle().await;
    if stops {
        client.host.stop();
    }
    Ok(json!({ "stopping": stops }).to_string())
}

fn status(host: &Host) -> String {
    json!({
        "pid": std::process::id(),
        "version": host.version,
        "protocol": PROTOCOL,
        "startedAt": host.started_at.to_string(),
        "liveSessions": *host.engine.live().borrow(),
        "clients": *host.clients.borrow(),
    })
    .to_string()
}

fn record(id: &str) -> Result<RecordId, CallError> {
    RecordId::new(id).map_err(|error| problem("sessionId", error.to_string()))
}

/// The params of a call that may have none.
fn optional_params<T: DeserializeOwned + Default>(call: &ExtensionCall) -> Result<T, CallError> {
    if call.params.is_some() { read_params(call) } else { Ok(T::default()) }
}
