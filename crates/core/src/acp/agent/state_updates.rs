//! The state updates of version 2, as `update` objects, for services that leave them to the dispatcher.

use serde::Serialize;
use serde_json::value::RawValue;

use super::error::CallError;
use super::setup::{Meta, PromptReply, to_json};
use crate::wire::RpcError;
use crate::wire::encode::json_string;

/// The session has a running turn.
pub(super) const RUNNING: &str = r#"{"sessionUpdate":"state_update","state":"running"}"#;
/// The session waits for its user.
pub(super) const REQUIRES_ACTION: &str = r#"{"sessionUpdate":"state_update","state":"requires_action"}"#;
/// The session has no running turn.
pub(super) const IDLE: &str = r#"{"sessionUpdate":"state_update","state":"idle"}"#;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct IdleUpdateBody<'a> {
    session_update: &'static str,
    state: &'static str,
    stop_reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<RpcError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a RawValue>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Meta>,
}

/// The idle state after a turn stopped.
pub(super) fn stopped(answer: &PromptReply) -> String {
    let meta = Some(&answer.meta).filter(|meta| !meta.is_empty());
    idle(answer.reason.as_str(), None, answer.usage(), meta)
}

/// The idle state after a turn failed; `wants_data` keeps all data of the error.
pub(super) fn failed(error: &CallError, wants_data: bool) -> String {
    idle("error", Some(error.for_client(wants_data)), None, None)
}

fn idle(reason: &str, error: Option<RpcError>, usage: Option<&RawValue>, meta: Option<&Meta>) -> String {
    let (session_update, state) = ("state_update", "idle");
    to_json(&IdleUpdateBody { session_update, state, stop_reason: reason, error, usage, meta })
}

/// The user's whole message, from its content blocks as received.
pub(super) fn user_message(message: &str, blocks: &[Box<str>]) -> String {
    let id = json_string(message);
    let blocks = blocks.join(",");
    format!(r#"{{"sessionUpdate":"user_message","messageId":{id},"content":[{blocks}]}}"#)
}
