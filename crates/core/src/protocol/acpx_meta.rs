//! Reads and writes the object under `_meta.acpx`, and converts between record ids and the session ids of clients.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::acp::agent::{CallError, ExtensionCall, Meta, ParamProblem};
use crate::model::{AcpSessionId, RecordId};

/// Converts a client's session id to a record id: to a client, our record is the session.
pub(crate) fn record_of(session: &AcpSessionId) -> RecordId {
    RecordId::new(session.as_str()).expect("a session id is not empty")
}

/// Converts a record id to a client's session id.
pub(crate) fn client_session(record: &RecordId) -> AcpSessionId {
    AcpSessionId::new(record.as_str()).expect("the id of a record is not empty")
}

/// Parses the params of one of our methods.
pub(crate) fn read_params<T: DeserializeOwned>(call: &ExtensionCall) -> Result<T, CallError> {
    let params = call.params.as_deref().unwrap_or("null");
    serde_json::from_str(params).map_err(|error| problem("params", error.to_string()))
}

/// Parses `_meta.acpx`; the default, if it is absent.
pub(crate) fn read_meta<T: DeserializeOwned + Default>(meta: Option<&str>) -> Result<T, CallError> {
    let Some(meta) = meta else { return Ok(T::default()) };
    let mut meta: Value = serde_json::from_str(meta).unwrap_or_default();
    match meta.get_mut("acpx").map(Value::take) {
        None | Some(Value::Null) => Ok(T::default()),
        Some(acpx) => T::deserialize(&acpx).map_err(|_| misread::<T>(acpx).into()),
    }
}

/// Finds the member of `_meta.acpx` that cannot be parsed: the one without which the rest can be.
fn misread<T: DeserializeOwned>(mut acpx: Value) -> ParamProblem {
    let is_read = |acpx: &Value| T::deserialize(acpx).is_ok();
    let mut path = Vec::new();
    while let Some(found) = culprit(&mut acpx, &path, &is_read) {
        path.push(found);
    }
    let wrong = path.iter().try_fold(&acpx, |at, name| at.get(name)).unwrap_or(&acpx);
    let kind = match wrong {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    let field: Vec<&str> = ["_meta", "acpx"].into_iter().chain(path.iter().map(String::as_str)).collect();
    ParamProblem::new(field.join("."), format!("has a value that it cannot have, {kind}"))
}

/// The member of the object at a path without which the whole can be parsed.
fn culprit(acpx: &mut Value, path: &[String], is_read: &dyn Fn(&Value) -> bool) -> Option<String> {
    let object = path.iter().try_fold(&*acpx, |at, name| at.get(name))?.as_object()?;
    let names: Vec<String> = object.keys().cloned().collect();
    names.into_iter().find(|name| {
        let object = path.iter().try_fold(&mut *acpx, |at, name| at.get_mut(name));
        let Some(object) = object.and_then(Value::as_object_mut) else { return false };
        let Some(taken) = object.remove(name) else { return false };
        let is_it = is_read(acpx);
        if let Some(Value::Object(object)) = path.iter().try_fold(&mut *acpx, |at, name| at.get_mut(name)) {
            object.insert(name.clone(), taken);
        }
        is_it
    })
}

/// A `_meta` object with ours under `acpx`.
pub(crate) fn acpx_meta(ours: &impl serde::Serialize) -> Meta {
    let ours = serde_json::to_value(ours).expect("what we say has only text, numbers and lists");
    Meta::from_iter([("acpx".to_owned(), ours)])
}

pub(crate) fn problem(field: &str, problem: impl Into<String>) -> CallError {
    ParamProblem::new(field, problem).into()
}
