//! The extensions of the protocol that a remote acpx host uses when it acts as an agent.
//!
//! It numbers its events, so a client that reconnects continues after the last stored number. It knows prompts by the
//! request ids they were given, so the client recognises its own.

use crate::model::{Direction, Event, EventKind, RecordId};
use crate::wire::RpcMessage;
use crate::wire::json;

/// The notification with which a host reports other clients' turns to a version 1 client. Its params are those of a
/// version 2 `session/update`.
pub(crate) const STATE: &str = "_acpx/state";

/// The notifications with which the transport to a remote agent reports that the connection was lost and a reconnect is
/// in progress, and that it was restored.
pub(crate) const AWAY: &str = "_acpx/away";
pub(crate) const BACK: &str = "_acpx/back";

/// Whether the reply to `initialize` comes from an acpx host.
pub(crate) fn is_host(answer: &str) -> bool {
    json::get(answer, &["_meta", "acpx", "protocol"]).is_some()
}

/// The number of the last event before a response; errors of failed turns have it too.
pub(crate) fn seq_of_answer(answer: &RpcMessage) -> Option<u64> {
    let (response, path): (_, &[&str]) = match (answer.result(), answer.error()) {
        (Some(result), _) => (result, &["_meta", "acpx", "seq"]),
        (None, error) => (error?, &["data", "acpx", "turn", "seq"]),
    };
    serde_json::from_str(json::get(response, path)?).ok()
}

/// The number of the last event that a stored line contains.
pub(crate) fn seq_of(event: &Event) -> Option<u64> {
    if event.direction != Direction::FromAgent
        || memchr::memmem::find(event.body.as_bytes(), b"seq").is_none()
    {
        return None;
    }
    let message = RpcMessage::parse(event.body.clone()).ok()?;
    match event.kind {
        // An update of another session is stored as a notification and has that session's numbers.
        EventKind::Update => {
            let params = message.params()?;
            serde_json::from_str(json::get(params, &["_meta", "acpx", "seq"])?).ok()
        }
        EventKind::Response => seq_of_answer(&message),
        EventKind::Notification | EventKind::Request | EventKind::Fact => None,
    }
}

/// The request id of the prompt that a notification is about.
pub(crate) fn prompt_of(params: &str) -> Option<String> {
    json::string(json::get(params, &["_meta", "acpx", "requestId"])?).map(Into::into)
}

/// The request id that a host receives for a prompt of a record; unique across records.
pub(crate) fn name_of(record: &RecordId, request: &str) -> String {
    format!("{record}/{request}")
}

/// The record's own request id, if this name belongs to the record.
pub(crate) fn request_of<'n>(record: &RecordId, name: &'n str) -> Option<&'n str> {
    name.strip_prefix(record.as_str())?.strip_prefix('/')
}
