//! The error of an agent as clients are told it: in the agent's own words, with what we say of it beside them. The answer
//! to a request says it, and in version 2 the state that ends a turn does; both are made here.

use crate::wire::RpcError;
use crate::wire::splice::{Step, locate, put, without};

/// The stable code of an error that wants a login.
pub(crate) const LOGIN_WANTED: &str = "AUTH_REQUIRED";

/// Where an error tells the ways to log in, as several agents do.
const LOGINS: &str = "authMethods";

/// The error object `acp` of an agent, with what we say of it, an object of JSON, under `acpx` in its data. What the
/// agent calls the session is nothing to a client, and data that is no object gives way to ours.
pub(crate) fn in_its_words(acp: &str, acpx: &str) -> RpcError {
    let RpcError { code, message, data } = RpcError::read(acp);
    let theirs = data.filter(|data| data.get().starts_with('{'));
    let theirs = theirs.as_deref().map_or("{}", serde_json::value::RawValue::get);
    let named = without(theirs, &["sessionId"]);
    let told = put(named.as_deref().unwrap_or(theirs), &["acpx"], acpx);
    RpcError::new(code, message).with_data(&told.unwrap_or_else(|| format!(r#"{{"acpx":{acpx}}}"#)))
}

/// An error that wants a login, as every client knows one: under its own number, and with the ways to log in, a list of
/// JSON, if the agent has not told them itself.
pub(crate) fn wanting_login(mut error: RpcError, ways: Option<&str>) -> RpcError {
    error.code = RpcError::AUTH_REQUIRED;
    let data = error.data.as_deref().map_or("{}", serde_json::value::RawValue::get);
    let is_told = locate(data, &[Step::Key(LOGINS)]).is_some();
    match ways.filter(|_| !is_told).and_then(|ways| put(data, &[LOGINS], ways)) {
        Some(told) => error.with_data(&told),
        None => error,
    }
}
