//! The error that a client receives. Agents, the host and the bridge create errors with all data under `data.acpx`.
//! [`for_client`] alone reduces them to one sentence in `data.details`, which editors can show. It applies to error
//! replies, and in version 2 to the state that ends a turn.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::client::described;
use crate::model::ErrorCode;
use crate::wire::RpcError;
use crate::wire::encode::json_string;
use crate::wire::json;

/// The member of `data` with the login methods, as several agents use it.
const LOGINS: &str = "authMethods";

/// The member of `data` that editors show.
const DETAILS: &str = "details";

/// The members of `data` that [`for_client`] reads.
#[derive(Deserialize)]
struct ErrorDataView {
    acpx: Option<AcpxErrorData>,
    details: Option<Value>,
}

#[derive(Deserialize)]
struct AcpxErrorData {
    code: ErrorCode,
    hint: Option<String>,
    /// What happened, in acpx's words, if the error's message is the agent's.
    message: Option<String>,
    /// The agent's own error object.
    acp: Option<Box<RawValue>>,
}

/// The error as sent to the client. `data.details` is one sentence: what happened and what to do next, or the agent's
/// own message if it refused a request. The data of errors -32603 and -32000 contains nothing else, because editors
/// show the rest as JSON. A client that `wants_data` receives everything.
pub(crate) fn for_client(error: RpcError, wants_data: bool) -> RpcError {
    let data = error.data.as_deref().map_or("{}", RawValue::get);
    let data = if data.starts_with('{') { data } else { "{}" };
    let ErrorDataView { acpx, details } =
        serde_json::from_str(data).unwrap_or(ErrorDataView { acpx: None, details: None });
    let is_short = matches!(error.code, RpcError::INTERNAL | RpcError::AUTH_REQUIRED);
    let has_details = matches!(
        error.code,
        RpcError::INVALID_REQUEST
            | RpcError::METHOD_NOT_FOUND
            | RpcError::INVALID_PARAMS
            | RpcError::RESOURCE_NOT_FOUND
    );
    if acpx.is_none() && !is_short && !has_details {
        return error;
    }
    let own = details.as_ref().and_then(Value::as_str);
    let sentence = json_string(&sentence(&error, own, acpx.as_ref()));
    let with_data = match (wants_data, is_short) {
        (true, _) if own.is_some() => return error,
        (true, _) => json::set(data, &[DETAILS], &sentence),
        (false, true) => None,
        (false, false) => {
            let bare = json::remove(data, &["acpx"]);
            json::set(bare.as_deref().unwrap_or(data), &[DETAILS], &sentence)
        }
    };
    error.with_data(&with_data.unwrap_or_else(|| format!(r#"{{"{DETAILS}":{sentence}}}"#)))
}

/// Whether an error has data of ours.
pub(crate) fn has_ours(error: &RpcError) -> bool {
    error.data.as_deref().is_some_and(|data| json::get(data.get(), &["acpx"]).is_some())
}

/// The stable code in an error's data of ours.
pub(crate) fn code_of(error: &RpcError) -> Option<ErrorCode> {
    let data: ErrorDataView = serde_json::from_str(error.data.as_deref()?.get()).ok()?;
    Some(data.acpx?.code)
}

/// What happened and what to do next.
fn sentence(error: &RpcError, own: Option<&str>, ours: Option<&AcpxErrorData>) -> String {
    let Some(AcpxErrorData { code, hint, message, acp }) = ours else {
        return own.map_or_else(|| described(error), str::to_owned);
    };
    let words = || match (acp, own) {
        (Some(_), Some(own)) => own.to_owned(),
        (Some(acp), None) => described(&RpcError::read(acp.get())),
        (None, _) => message.clone().unwrap_or_else(|| error.message.clone()),
    };
    let what = match code {
        // The agent's message already contains what to do next.
        ErrorCode::AgentRefused => return words(),
        ErrorCode::AuthRequired => words(),
        _ => message.clone().unwrap_or_else(|| error.message.clone()),
    };
    match hint {
        Some(hint) => format!("{what}; {hint}"),
        None => what,
    }
}

/// The agent's error object `acp`, with the JSON object `acpx` added to its data. The agent's session id is removed,
/// because clients do not know it. Data that is not an object is replaced.
pub(crate) fn in_its_words(acp: &str, acpx: &str) -> RpcError {
    let RpcError { code, message, data } = RpcError::read(acp);
    let theirs = data.filter(|data| data.get().starts_with('{'));
    let theirs = theirs.as_deref().map_or("{}", RawValue::get);
    let named = json::remove(theirs, &["sessionId"]);
    let with_data = json::set(named.as_deref().unwrap_or(theirs), &["acpx"], acpx);
    RpcError::new(code, message).with_data(&with_data.unwrap_or_else(|| format!(r#"{{"acpx":{acpx}}}"#)))
}

/// Turns an error into the protocol's login error, with its own code. Adds the login methods, a JSON list, unless the
/// agent has sent them, and the hint for the client's user.
pub(crate) fn wanting_login(
    mut error: RpcError,
    login_methods: Option<&str>,
    hint: Option<&str>,
) -> RpcError {
    error.code = RpcError::AUTH_REQUIRED;
    let data = error.data.as_deref().map_or("{}", RawValue::get);
    let hinted = hint.and_then(|hint| json::set(data, &["acpx", "hint"], &json_string(hint)));
    let data = &hinted.unwrap_or_else(|| data.to_owned());
    let has_logins = json::get(data, &[LOGINS]).is_some();
    let with_data = login_methods
        .filter(|_| !has_logins)
        .and_then(|login_methods| json::set(data, &[LOGINS], login_methods));
    error.with_data(with_data.as_ref().unwrap_or(data))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn for_client_json(error: &Value, wants_data: bool) -> Value {
        serde_json::to_value(for_client(RpcError::read(&error.to_string()), wants_data)).unwrap()
    }

    #[test]
    fn internal_and_login_errors_have_only_details_in_their_data() {
        let refused =
            |acp: Value| json!({ "code": "AGENT_REFUSED", "hint": "h", "message": "m", "acp": acp });
        let table = [
            (json!({}), "no"),
            (json!("Missing provider"), "no: Missing provider"),
            (json!({ "details": "why" }), "why"),
            (json!({ "details": 7 }), "no"),
            (json!({ "acpx": { "code": "AGENT_DIED", "hint": "prompt again" } }), "no; prompt again"),
            (json!({ "acpx": { "code": "SHUT_DOWN" } }), "no"),
            (json!({ "details": "theirs", "acpx": refused(json!({})) }), "theirs"),
            (json!({ "acpx": refused(json!({ "code": 1, "message": "a", "data": "b" })) }), "a: b"),
            (
                json!({ "authMethods": [], "acpx": { "code": "AUTH_REQUIRED", "hint": "log in", "message": "m",
                    "acp": { "code": -32000, "message": "Authentication required" } } }),
                "Authentication required; log in",
            ),
            (
                json!({ "deep": [1], "acpx": { "code": "SESSION_NOT_RESTORED", "hint": "h", "message": "m", "acp": {} } }),
                "m; h",
            ),
        ];
        for (data, details) in table {
            for code in [-32603, -32000] {
                let error = json!({ "code": code, "message": "no", "data": data });
                let expected = json!({ "code": code, "message": "no", "data": { "details": details } });
                assert_eq!(for_client_json(&error, false), expected, "{data}");
            }
        }
    }

    #[test]
    fn other_errors_keep_their_data_and_get_details() {
        let hinted = json!({ "code": "C", "hint": "do it" });
        let table = [
            (
                -32602,
                json!({ "field": "cwd", "acpx": hinted }),
                json!({ "field": "cwd", "details": "no; do it" }),
            ),
            (-32602, json!({ "field": "cwd" }), json!({ "field": "cwd", "details": "no" })),
            (-32002, json!({ "sessionId": "s" }), json!({ "sessionId": "s", "details": "no" })),
            (-32600, json!({ "acpx": hinted }), json!({ "details": "no; do it" })),
            (4711, json!({ "deep": 1, "acpx": hinted }), json!({ "deep": 1, "details": "no; do it" })),
            (-32600, json!({}), json!({ "details": "no" })),
            (-32601, json!({ "method": "m" }), json!({ "method": "m", "details": "no" })),
            (-32601, json!({ "details": "why" }), json!({ "details": "why" })),
            (4711, json!("text"), json!("text")),
        ];
        for (code, data, expected) in table {
            let error = json!({ "code": code, "message": "no", "data": data });
            let expected = json!({ "code": code, "message": "no", "data": expected });
            assert_eq!(for_client_json(&error, false), expected, "{data}");
        }
    }

    #[test]
    fn a_client_that_wants_error_data_receives_all_of_it_and_details() {
        let data = json!({ "deep": 1, "acpx": { "code": "AGENT_DIED", "hint": "h" } });
        let error = json!({ "code": -32603, "message": "no", "data": data });
        let mut expected = error.clone();
        expected["data"]["details"] = json!("no; h");
        assert_eq!(for_client_json(&error, true), expected);
        expected["data"]["details"] = json!("theirs");
        assert_eq!(for_client_json(&expected, true), expected);
    }
}
