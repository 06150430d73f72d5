//! Converts errors to JSON-RPC errors whose data carries the stable code and the hint, so that a client shows the same
//! error as a process with its own engine.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::acp::agent::{CallError, with_causes};
use crate::acp::client_error;
use crate::engine::SessionError;
use crate::model::{AgentError, ErrorCode, RecordId, Turn, TurnError};
use crate::store::StoreError;
use crate::store::archive::ImportArchiveError;
use crate::store::import_acpx::ImportError;
use crate::wire::RpcError;
use crate::wire::encode::json_string;
use crate::wire::json;

use super::HostError;
use super::acpx_meta::client_session;
use super::meta::{AccessScope, TurnMeta};
use super::pending_requests::{AnswerProblem, OptionMeta};

/// The object under `acpx` in an error's data.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorMeta {
    code: ErrorCode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// The turn that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<TurnMeta>,
    /// The agent's own error object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    acp: Option<Box<RawValue>>,
    /// Our message, if the error's own message is the agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct RpcErrorData {
    /// The wrong parameter, if any, and what is wrong with it. An agent's own data may have other values here.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    acpx: ErrorMeta,
}

impl ErrorMeta {
    fn new(code: ErrorCode, hint: Option<impl Into<String>>) -> Self {
        Self { code, hint: hint.map(Into::into), turn: None, acp: None, message: None }
    }

    /// With the usual hint of the code.
    fn of_code(code: ErrorCode) -> Self {
        let hint = code.hint();
        Self::new(code, hint)
    }
}

/// An error response of a host, as a client reads it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct HostErrorResponse {
    /// Its JSON-RPC code.
    pub number: i64,
    message: String,
    fault: Box<ErrorMeta>,
}

impl HostErrorResponse {
    /// Parses an error response.
    pub(crate) fn read(error: &str) -> Self {
        let RpcError { code: number, message, data } = RpcError::read(error);
        let fault = data.and_then(|data| serde_json::from_str::<RpcErrorData>(data.get()).ok());
        let mut fault =
            fault.map_or_else(|| ErrorMeta::new(unnamed(number), None::<String>), |data| data.acpx);
        let message = fault.message.take().unwrap_or(message);
        Self { number, message, fault: Box::new(fault) }
    }

    /// Parses the output of a host that failed to start; `None` if it is not an error.
    pub(crate) fn of_startup_output(output: &str) -> Option<Self> {
        serde_json::from_str::<RpcErrorData>(RpcError::read(output).data?.get()).ok()?;
        Some(Self::read(output))
    }

    /// The stable code.
    pub fn code(&self) -> &ErrorCode {
        &self.fault.code
    }

    /// What the user can do next.
    pub fn hint(&self) -> Option<&str> {
        self.fault.hint.as_deref()
    }

    /// The turn that failed, if the error is a turn's.
    pub fn turn(&self) -> Option<&TurnMeta> {
        self.fault.turn.as_ref()
    }

    /// The agent's own error object, if the error is an agent's.
    pub fn acp(&self) -> Option<&str> {
        self.fault.acp.as_deref().map(RawValue::get)
    }
}

/// The output of a host that fails to start, so that the client shows the same error.
pub fn startup_error_line(code: ErrorCode, message: &str, hint: Option<&str>) -> String {
    let fault = ErrorMeta::new(code, hint);
    let error = rpc_error(RpcError::INTERNAL, message.to_owned(), fault);
    serde_json::to_string(&error).expect("an error has only text, numbers and raw JSON")
}

/// The error for a client whose bridge cannot connect to a host.
pub(crate) fn no_host(error: &HostError) -> RpcError {
    let number = match error {
        HostError::Refused(refusal) => refusal.number,
        HostError::TooLong { .. } => RpcError::INVALID_REQUEST,
        _ => RpcError::INTERNAL,
    };
    let fault = ErrorMeta::new(error.code(), error.hint());
    rpc_error(number, with_causes(error), fault)
}

/// The response to a request whose host disconnected and that is not re-sent.
pub(crate) fn unanswered(method: &str) -> RpcError {
    let fault = ErrorMeta::of_code(ErrorCode::HostLost);
    rpc_error(RpcError::INTERNAL, format!("the host went away before it answered {method}"), fault)
}

/// The code of an error without one, from the dispatcher itself.
fn unnamed(number: i64) -> ErrorCode {
    match number {
        RpcError::INVALID_PARAMS => ErrorCode::BadRequest,
        RpcError::RESOURCE_NOT_FOUND => ErrorCode::NoSession,
        _ => ErrorCode::HostRefused,
    }
}

/// The response to a request that failed in the session.
pub(crate) fn refused(error: &SessionError) -> CallError {
    if let SessionError::NoRecord(record) = error {
        return unknown(record);
    }
    let acp = match error {
        SessionError::Agent(AgentError::Refused { acp, .. }) => raw(acp),
        _ => None,
    };
    let fault = ErrorMeta { acp, ..ErrorMeta::new(error.code(), error.hint()) };
    let field = match error {
        SessionError::Directory { .. }
        | SessionError::WorksElsewhere { .. }
        | SessionError::Agent(AgentError::DirectoryMoved { .. } | AgentError::WorksElsewhere { .. }) => "cwd",
        SessionError::Agent(AgentError::DirectoriesUnsupported { .. }) => "additionalDirectories",
        SessionError::Agent(AgentError::McpUnsupported { index, .. }) => &format!("mcpServers[{index}]"),
        SessionError::Prompt(_) => "prompt",
        SessionError::Setting(_) => "_meta.acpx.settings",
        SessionError::Agent(AgentError::BadRequest { .. }) => {
            return forwarded(RpcError::INVALID_PARAMS, with_causes(error), fault);
        }
        SessionError::Agent(AgentError::NotOffered { .. }) => {
            return forwarded(RpcError::METHOD_NOT_FOUND, with_causes(error), fault);
        }
        _ => return of_agent(with_causes(error), fault),
    };
    wrong(field, with_causes(error), fault)
}

/// The same error for a request that failed to create a session: a hint that the conversation is kept would be wrong.
pub(crate) fn without_session(error: CallError) -> CallError {
    let CallError::PassedOn(error) = error else { return error };
    let put_hint = |data: &RawValue| {
        let code = serde_json::from_str::<RpcErrorData>(data.get()).ok()?.acpx.code;
        let hint = code.hint_without_record()?;
        json::set(data.get(), &["acpx", "hint"], &json_string(hint))
    };
    CallError::PassedOn(match error.data.as_deref().and_then(put_hint) {
        Some(data) => error.with_data(&data),
        None => error,
    })
}

/// An error about a wrong parameter.
fn wrong(field: &str, problem: String, acpx: ErrorMeta) -> CallError {
    let data = RpcErrorData { field: Some(field.to_owned()), problem: Some(problem.clone()), acpx };
    CallError::PassedOn(with_fault(RpcError::INVALID_PARAMS, problem, &data))
}

/// Why a record's stream of updates ended.
pub(crate) fn of_stream(error: &SessionError) -> RpcError {
    let fault = ErrorMeta::new(error.code(), error.hint());
    rpc_error(RpcError::INTERNAL, with_causes(error), fault)
}

pub(crate) fn not_kept(error: StoreError) -> CallError {
    refused(&error.into())
}

/// The response to a failed import.
pub(crate) fn not_imported(error: &ImportError) -> CallError {
    let fault = ErrorMeta::new(error.code(), error.hint());
    forwarded(RpcError::INTERNAL, with_causes(error), fault)
}

/// The response to an archive that was not imported.
pub(crate) fn archive_not_imported(error: ImportArchiveError) -> CallError {
    match error {
        ImportArchiveError::Store(error) => not_kept(error),
        other => {
            let fault = ErrorMeta::new(other.code(), other.hint());
            forwarded(RpcError::INVALID_PARAMS, with_causes(&other), fault)
        }
    }
}

/// To a client, our record is the session, so a missing record is an unknown session.
pub(crate) fn unknown(record: &RecordId) -> CallError {
    CallError::UnknownSession(client_session(record))
}

/// The session exists but is not loaded on this connection.
pub(crate) fn not_loaded(record: &RecordId) -> CallError {
    let fault = ErrorMeta::of_code(ErrorCode::SessionNotLoaded);
    let message = format!("the session {record} is not loaded on this connection");
    let error = rpc_error(RpcError::RESOURCE_NOT_FOUND, message, fault);
    let session = serde_json::to_string(record).expect("an id is text");
    let named = error.data.as_deref().and_then(|data| json::set(data.get(), &["sessionId"], &session));
    CallError::PassedOn(match named {
        Some(data) => error.with_data(&data),
        None => error,
    })
}

/// The response to a prompt whose turn failed; names the parameter that the agent cannot accept, if that is the cause.
pub(crate) fn failed(error: &TurnError, turn: TurnMeta, field: Option<&str>) -> CallError {
    let acp = error.acp.as_deref().and_then(raw);
    let fault = ErrorMeta { turn: Some(turn), acp, ..ErrorMeta::of_code(error.code.clone()) };
    match field {
        Some(field) => wrong(field, error.message.to_string(), fault),
        None => of_agent(error.message.to_string(), fault),
    }
}

/// The response to a prompt whose host stopped while its turn ran.
pub(crate) fn interrupted(turn: &Turn, meta: TurnMeta) -> CallError {
    let fault = ErrorMeta { turn: Some(meta), ..ErrorMeta::of_code(ErrorCode::Interrupted) };
    forwarded(RpcError::INTERNAL, format!("turn {} was interrupted: its host went away", turn.id), fault)
}

/// A client that an agent started requests what only the user may.
pub(crate) fn not_allowed(what: &str) -> CallError {
    let fault = ErrorMeta::of_code(ErrorCode::NotAllowed);
    forwarded(RpcError::INVALID_REQUEST, format!("a program that an agent started may not {what}"), fault)
}

/// A remote client requests what its scope does not include.
pub(crate) fn out_of_scope(scope: AccessScope) -> CallError {
    let may = match scope {
        AccessScope::Full => "use sessions",
        AccessScope::Answer => "read sessions and answer requests",
        AccessScope::Read => "read sessions",
    };
    let hint = "sign the device in again with a wider scope, or use another token";
    let fault = ErrorMeta::new(ErrorCode::NotAllowed, Some(hint));
    forwarded(RpcError::INVALID_REQUEST, format!("this client may only {may}"), fault)
}

/// No pending request has this id.
pub(crate) fn no_question(id: &str) -> CallError {
    let fault = ErrorMeta::of_code(ErrorCode::NoQuestion);
    forwarded(RpcError::RESOURCE_NOT_FOUND, format!("no request {id:?} is pending"), fault)
}

/// The answer does not fit its pending request.
pub(crate) fn no_option(id: &str, why: AnswerProblem, option: &str, offered: &[OptionMeta]) -> CallError {
    let listed = |(number, option): (usize, &OptionMeta)| {
        let kind = option.kind.as_ref().map(|kind| format!(" ({kind:?})")).unwrap_or_default();
        format!("{number} {:?}{kind}", option.option_id)
    };
    let offered: Vec<String> = (1..).zip(offered).map(listed).collect();
    let offered = offered.join(", ");
    let fault = match why {
        AnswerProblem::Unfilled => {
            let hint = "acpx approve asks for its fields on a terminal, and an editor that opens the session asks too; acpx deny declines it";
            ErrorMeta::new(ErrorCode::NoOption, Some(hint))
        }
        _ => ErrorMeta::of_code(ErrorCode::NoOption),
    };
    let what = match why {
        AnswerProblem::NoneApproves => format!("the request {id:?} has no option that is known to approve"),
        AnswerProblem::NotOne => format!("the request {id:?} has no single option {option:?}"),
        AnswerProblem::Refuses => format!("the option {option:?} of the request {id:?} does not approve"),
        AnswerProblem::Unfilled => format!("the request {id:?} is a form that has to be filled in"),
        AnswerProblem::MayApprove => {
            format!("the option {option:?} of the request {id:?} is not known to refuse")
        }
    };
    let message = if offered.is_empty() { what } else { format!("{what}; it has {offered}") };
    forwarded(RpcError::INVALID_PARAMS, message, fault)
}

/// A remote client has reached its limit of sessions.
pub(crate) fn too_many_sessions(most: usize) -> CallError {
    let fault = ErrorMeta::of_code(ErrorCode::TooManySessions);
    forwarded(RpcError::INVALID_REQUEST, format!("a remote client may have {most} working sessions"), fault)
}

/// An error that requires a login, in the standard form: with its own code, and with the login methods unless the agent
/// has included them. Any other error is unchanged.
pub(crate) fn wanting_login(error: CallError, login_methods: Option<&str>, hint: Option<&str>) -> CallError {
    let CallError::PassedOn(error) = error else { return error };
    let data = error.data.as_deref().and_then(|data| serde_json::from_str::<RpcErrorData>(data.get()).ok());
    let is_wanted = data.is_some_and(|data| data.acpx.code == ErrorCode::AuthRequired);
    CallError::PassedOn(if is_wanted {
        client_error::wanting_login(error, login_methods, hint)
    } else {
        error
    })
}

/// An error that may be an agent's: then the agent's error is passed on, with ours under `acpx`.
fn of_agent(message: String, fault: ErrorMeta) -> CallError {
    let Some(acp) = fault.acp.clone() else { return forwarded(RpcError::INTERNAL, message, fault) };
    let fault = ErrorMeta { message: Some(message), ..fault };
    let acpx = serde_json::to_string(&fault).expect("a fault has only text, numbers and raw JSON");
    CallError::PassedOn(client_error::in_its_words(acp.get(), &acpx))
}

fn forwarded(number: i64, message: String, acpx: ErrorMeta) -> CallError {
    CallError::PassedOn(rpc_error(number, message, acpx))
}

fn rpc_error(number: i64, message: String, acpx: ErrorMeta) -> RpcError {
    with_fault(number, message, &RpcErrorData { field: None, problem: None, acpx })
}

fn with_fault(number: i64, message: String, data: &RpcErrorData) -> RpcError {
    let data = serde_json::to_string(data).expect("a fault has only text, numbers and raw JSON");
    RpcError::new(number, message).with_data(&data)
}

fn raw(json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(json.to_owned()).ok()
}
