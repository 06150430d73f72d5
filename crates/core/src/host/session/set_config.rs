//! Settings of a session: mode, model and config options, set by a request of a client or together with a session.
//! Translates between clients and agents of different protocol versions.

use tokio::time::Instant;

use crate::acp::agent::{CallError, ClientLink, SetCall, SetChoice, StopCall, UpdateBody};
use crate::acp::config_options::{OfferTranslator, SettingRequest, UnknownSetting};
use crate::acp::settings;
use crate::acp::translate::TranslationError;
use crate::engine::{RestoreSession, Session, SessionError};
use crate::model::{ProtocolVersion, RecordId};
use crate::wire::encode::json_string;
use crate::wire::json;

use crate::host::Host;
use crate::host::connection::access::UserAction;
use crate::host::connection::{Connection, SessionInUse};
use crate::protocol::acpx_meta::{client_session, problem, record_of};
use crate::protocol::meta::SettingMeta;

/// Sets a mode, model or option if the session offers it, and returns the agent's reply.
pub(crate) async fn set(client: &Connection, call: &SetCall, link: &ClientLink) -> Result<String, CallError> {
    client.access.check(UserAction::ChangeSettings)?;
    let (used, agent) = session_and_version(client, &record_of(&call.session)).await?;
    let (offered, facts) = (used.session.offered(), link.client());
    let offers = OfferTranslator { offered: &offered, agent, client: &facts };
    let request = match call.choice {
        SetChoice::Mode(_) => offers.set_mode(&call.params),
        // A model of an agent that has models separate from its options.
        SetChoice::Model(_) => Ok(SettingRequest::of_model(&call.params)),
        SetChoice::Option { .. } => offers.set_option(&call.params),
    };
    let request = request.map_err(|error| not_translated(&error))?;
    offers.check(&request).map_err(|wrong| unknown_choice(&call.choice, wrong))?;
    let result = forward(client, request.method, &request.params, used).await?;
    Ok(match call.choice {
        SetChoice::Mode(_) | SetChoice::Model(_) => offers.mode_answer(&result),
        // The reply contains all options.
        SetChoice::Option { .. } => offers.options_answer(&request, &result),
    })
}

/// The error for a setting or value that the session does not have.
fn unknown_choice(choice: &SetChoice, wrong: UnknownSetting) -> CallError {
    let (field, words, valid) = match (choice, wrong) {
        (SetChoice::Mode(mode), UnknownSetting::Option(valid) | UnknownSetting::Value(valid)) => {
            ("modeId", format!("is {mode:?}, which is no mode of this session"), valid)
        }
        (SetChoice::Model(model), UnknownSetting::Option(valid) | UnknownSetting::Value(valid)) => {
            ("modelId", format!("is {model:?}, which is no model of this session"), valid)
        }
        (SetChoice::Option { id, .. }, UnknownSetting::Option(valid)) => {
            ("configId", format!("is {id:?}, which this session does not have"), valid)
        }
        (SetChoice::Option { .. }, UnknownSetting::Value(valid)) => {
            ("value", "is none that this option can have".to_owned(), valid)
        }
    };
    let known = if valid.is_empty() { String::new() } else { format!("; there are {}", valid.join(", ")) };
    problem(field, format!("{words}{known}"))
}

/// Applies the settings that a client requests together with a session, one by one, since each may change what is
/// offered next. The client has waited since `begun`; the limit for the agent's start covers all of them.
pub(crate) async fn apply(
    host: &Host,
    session: &Session,
    restore: &RestoreSession,
    wanted: &[SettingMeta],
    begun: Instant,
) -> Result<(), CallError> {
    let refused = |error: SessionError| host.refused(&error);
    for SettingMeta { option, value } in wanted {
        let version = session.agent_version().unwrap_or_default();
        let offered = settings::offered(&session.offered(), version);
        let chosen = offered.choose(option.as_deref(), value).map_err(|error| refused(error.into()))?;
        let (method, params) = settings::request(&chosen, &client_session(session.record_id()), version);
        let request = session.request_after(begun.elapsed(), method, &params, restore.clone());
        request.await.map_err(refused)?;
    }
    Ok(())
}

/// Stops a tool call or terminal of a version 2 agent. Version 1 has no such method.
pub(crate) async fn stop_tool(client: &Connection, call: StopCall) -> Result<String, CallError> {
    let record = record_of(&call.session);
    let (used, agent) = session_and_version(client, &record).await?;
    if agent == ProtocolVersion::V1 {
        return Err(CallError::UnknownMethod(call.method.to_owned()));
    }
    let stored = client.host.engine.record(&record).await.map_err(|error| client.refused(&error))?;
    // An id that an earlier ACP session used has the lineage row as a suffix.
    let row = stored.map(|stored| format!("~{}", stored.lineage.current_index()));
    let own = row.and_then(|row| call.target.strip_suffix(&row));
    let name = if call.method == "terminal/cancel" { "terminalId" } else { "toolCallId" };
    let params = own.and_then(|own| json::set(&call.params, &[name], &json_string(own)));
    let params = params.as_deref().unwrap_or(&call.params);
    let result = forward(client, call.method, params, used).await?;
    // A result is an object, never null.
    Ok(if result.starts_with('{') { result } else { "{}".to_owned() })
}

/// A session that this client uses, and its agent's protocol version. An agent that has not run yet is started, since its
/// version is unknown.
async fn session_and_version(
    client: &Connection,
    record: &RecordId,
) -> Result<(SessionInUse, ProtocolVersion), CallError> {
    let used = client.session_in_use(record).await?;
    if used.session.agent_version().is_none() {
        used.session.wake(used.restore.clone()).await.map_err(|error| client.refused(&error))?;
    }
    let version = used.session.agent_version().unwrap_or_default();
    Ok((used, version))
}

/// Forwards a request to the agent.
async fn forward(
    client: &Connection,
    method: &str,
    params: &str,
    used: SessionInUse,
) -> Result<String, CallError> {
    let SessionInUse { session, restore, permit } = used;
    let params = client.access.forwarded_params(params)?;
    let answer = session.request(method, &params, restore).await;
    permit.commit(session.record_id());
    answer.map(|answer| answer.to_string()).map_err(|error| client.refused(&error))
}

/// What a session offers, for the reply that introduces it, and the update to send after that.
pub(crate) fn offered(session: &Session, link: &ClientLink) -> (String, Option<UpdateBody>) {
    let (offered, client) = (session.offered(), link.client());
    let agent = session.agent_version().unwrap_or_default();
    OfferTranslator { offered: &offered, agent, client: &client }.setup()
}

/// The error for a parameter that the agent's version cannot express.
fn not_translated(error: &TranslationError) -> CallError {
    let field = error.field();
    problem(field.as_deref().unwrap_or("method"), format!("cannot be passed on: {error}"))
}
