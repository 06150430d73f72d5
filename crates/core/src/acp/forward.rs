//! Forwards agent requests to clients and extra params of clients to agents. All bytes stay unchanged, except the
//! session id, which differs per side, and the id of a tool call that an earlier ACP session of the record already
//! used.

use std::sync::Arc;

use serde_json::Value;

use crate::model::{ProtocolVersion, SetupOptions};
use crate::wire::encode::json_string;
use crate::wire::json;
use crate::wire::splice::Splice;

/// Paths to the tool call of a request: a version 1 permission, a version 2 permission, an elicitation.
const TOOL_CALLS: [&[&str]; 3] =
    [&["toolCall", "toolCallId"], &["subject", "toolCall", "toolCallId"], &["toolCallId"]];

/// Replaces the tool call ids for which `other` returns the id that clients know; ids are JSON.
pub(crate) fn with_client_call_ids(params: String, other: impl Fn(&str) -> Option<String>) -> String {
    let mut splice = Splice::new(&params);
    let mut is_changed = false;
    for place in TOOL_CALLS {
        if let Some(call) = json::get(&params, place)
            && let Some(id) = other(call)
        {
            is_changed |= splice.replace(json::range_in(&params, call), &id).is_ok();
        }
    }
    if is_changed { splice.finish() } else { params }
}

/// The `_meta` and unknown params of a client's request, to forward to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExtraParams {
    /// Its `_meta`, a JSON object.
    meta: Option<Arc<str>>,
    /// Unknown members, without the braces, and their protocol version.
    unknown: Option<(ProtocolVersion, Arc<str>)>,
}

impl ExtraParams {
    /// The `_meta` object of a request.
    pub fn meta(meta: impl Into<Arc<str>>) -> Self {
        Self { meta: Some(meta.into()), unknown: None }
    }

    /// The forwarded part of a request: its `_meta` without our own member, and its unknown members without the braces.
    /// `None` if both are empty. A `_meta` with two members of ours is dropped: it cannot be stripped.
    pub fn of(version: ProtocolVersion, meta: Option<&str>, unknown: Option<&str>) -> Option<Self> {
        let meta = meta.filter(|meta| !json::is_duplicated(meta, &["acpx"]));
        let meta = meta.map(|meta| json::remove(meta, &["acpx"]).unwrap_or_else(|| meta.to_owned()));
        let is_empty = |meta: &String| meta.trim_start_matches('{').trim_start().starts_with('}');
        let meta = meta.filter(|meta| !is_empty(meta)).map(Into::into);
        let unknown = unknown.map(|unknown| (version, unknown.into()));
        (meta.is_some() || unknown.is_some()).then_some(Self { meta, unknown })
    }

    /// Adds a member of ours under `_meta.acpx`, for an agent that is an acpx host. The value is JSON.
    pub(crate) fn with_ours(extra: Option<&Self>, name: &str, value: &str) -> Self {
        let Self { meta, unknown } = extra.cloned().unwrap_or_default();
        let merged = json::set(meta.as_deref().unwrap_or("{}"), &["acpx", name], value);
        Self { meta: merged.map(Into::into).or(meta), unknown }
    }

    /// Adds the options of the session's setup under `_meta`. A member of the client takes precedence.
    pub(crate) fn with_setup(extra: Option<&Self>, setup: &SetupOptions) -> Option<Self> {
        let mut merged = extra.cloned();
        for (path, value) in setup.meta_members() {
            let Self { meta, unknown } = merged.take().unwrap_or_default();
            let own = meta.as_deref().unwrap_or("{}");
            let set = if json::get(own, path).is_none() { json::set(own, path, &value) } else { None };
            merged = Some(Self { meta: set.map(Into::into).or(meta), unknown });
        }
        merged
    }

    /// All readable values.
    pub(crate) fn values(&self) -> Vec<Value> {
        let unknown = self.unknown.as_ref().map(|(_, members)| format!("{{{members}}}"));
        let merged = self.meta.iter().map(ToString::to_string).chain(unknown);
        merged.filter_map(|merged| serde_json::from_str(&merged).ok()).collect()
    }

    /// The members to append to the params for an agent of this version, each after a comma. Unknown members are
    /// forwarded only in the version they came in.
    pub(super) fn members(&self, version: ProtocolVersion) -> String {
        let unknown = self.unknown.as_ref().filter(|(sent_in, _)| *sent_in == version);
        let unknown = unknown.map(|(_, members)| format!(",{members}"));
        let meta = self.meta.as_ref().map(|meta| format!(r#","_meta":{meta}"#));
        [unknown, meta].into_iter().flatten().collect()
    }
}

/// The params of a request with the client's id for the session; `None` if they name no session.
pub(crate) fn pass_on_params(params: &str, session: &str) -> Option<String> {
    Some(json::replace(params, json::get(params, &["sessionId"])?, &json_string(session)))
}

/// The session that params or a result name.
pub fn session_of(json: &str) -> Option<String> {
    json::string(json::get(json, &["sessionId"])?).map(Into::into)
}

/// The params of a client's request with the agent's id for the session; `None` if they are not an object, or name two
/// sessions.
pub(super) fn with_session(params: &str, session: &str) -> Option<String> {
    let params = Some(params.trim_ascii()).filter(|params| params.starts_with('{'))?;
    json::set(params, &["sessionId"], &json_string(session))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_are_passed_on_with_another_session_id_and_every_other_byte() {
        let params = r#"{"n":1.0e2, "sessionId" : "s","toolCall":{"sessionId":"s"} }"#;
        let expected = params.replacen(r#""sessionId" : "s""#, r#""sessionId" : "r\"""#, 1);
        assert_eq!(pass_on_params(params, "r\"").as_deref(), Some(expected.as_str()));
        assert_eq!(pass_on_params(r#"{"sessionId":7}"#, "r").as_deref(), Some(r#"{"sessionId":"r"}"#));
        assert_eq!(pass_on_params("{}", "r"), None);
        assert_eq!(pass_on_params("no JSON", "r"), None);
    }

    #[test]
    fn tool_call_ids_of_requests_become_the_ids_that_clients_know() {
        let other = |id: &str| (id == r#""t1""#).then(|| r#""t1~2""#.to_owned());
        let cases = [
            (
                r#"{"toolCall":{"toolCallId" : "t1"},"n":1.0}"#,
                r#"{"toolCall":{"toolCallId" : "t1~2"},"n":1.0}"#,
            ),
            (
                r#"{"subject":{"toolCall":{"toolCallId":"t1"}}}"#,
                r#"{"subject":{"toolCall":{"toolCallId":"t1~2"}}}"#,
            ),
            (r#"{"toolCallId":"t1","message":"t1"}"#, r#"{"toolCallId":"t1~2","message":"t1"}"#),
            (r#"{"toolCall":{"toolCallId":"t2"}}"#, r#"{"toolCall":{"toolCallId":"t2"}}"#),
            (r#"{"toolCall":7}"#, r#"{"toolCall":7}"#),
        ];
        for (params, expected) in cases {
            assert_eq!(with_client_call_ids(params.to_owned(), other), expected);
        }
    }

    #[test]
    fn unknown_params_need_the_same_version_and_meta_does_not() {
        let (v1, v2) = (ProtocolVersion::V1, ProtocolVersion::V2);
        let all = ExtraParams::of(v1, Some(r#"{"acpx":{},"a" :1.0}"#), Some(r#""x":1e2,"y":[ ]"#)).unwrap();
        assert_eq!(all.members(v1), r#","x":1e2,"y":[ ],"_meta":{"a" :1.0}"#);
        assert_eq!(all.members(v2), r#","_meta":{"a" :1.0}"#);
        let duplicated = r#"{"acpx":{},"a":1,"acpx":{"agent":1}}"#;
        for ours in [None, Some("{}"), Some(r#"{ "acpx":{"agent":1} }"#), Some(duplicated)] {
            assert_eq!(ExtraParams::of(v2, ours, None), None, "{ours:?}");
        }
    }

    #[test]
    fn a_request_is_about_the_session_it_is_passed_on_for() {
        let cases = [
            ("{}", Some(r#"{"sessionId":"r"}"#)),
            ("{ }", Some(r#"{"sessionId":"r" }"#)),
            (r#" {"modeId":"m" } "#, Some(r#"{"sessionId":"r","modeId":"m" }"#)),
            (r#"{"modeId":"m","sessionId": "s"}"#, Some(r#"{"modeId":"m","sessionId": "r"}"#)),
            (r#"{"sessionId":"s","sessionId":"t"}"#, None),
            ("[]", None),
            ("null", None),
            ("{", None),
        ];
        for (params, expected) in cases {
            assert_eq!(with_session(params, "r").as_deref(), expected, "{params}");
        }
        assert_eq!(with_session(r#"{"sessionId":null}"#, "r").as_deref(), Some(r#"{"sessionId":"r"}"#));
    }
}
