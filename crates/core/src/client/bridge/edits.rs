//! The changes a bridge makes to a line, as pure functions over messages.
//!
//! Every other byte passes unchanged. A line that does not have the protocol's shape is passed unchanged too: its
//! receiver rejects it better than a bridge could.

use std::borrow::Cow;

use crate::acp::Cursor;
use crate::acp::client_error::for_client;
use crate::model::Seq;
use crate::wire::json::{self, RawObject};
use crate::wire::splice::Splice;
use crate::wire::{RpcError, RpcId, RpcMessage, encode};

/// An `initialize` with the bridge's description of its client, replacing one by the client itself.
pub(super) fn with_client(message: &RpcMessage, client: &str) -> Option<String> {
    let params = json::set(message.params()?, &["_meta", "acpx", "client"], client)?;
    let wanting = json::set(&params, &error_data(message), "true");
    with_params(message, wanting.as_deref().unwrap_or(&params))
}

/// An `initialize` that requests event numbers and the state of other clients' turns.
pub(super) fn with_numbers(message: &RpcMessage) -> Option<String> {
    let params = json::set(message.params()?, &["_meta", "acpx", "seq"], "true")?;
    with_params(message, &json::set(&params, &["_meta", "acpx", "states"], "true")?)
}

/// An `initialize` that requests all data of an error: the bridge reads from it where a failed turn ended.
pub(super) fn with_error_data(message: &RpcMessage) -> Option<String> {
    with_params(message, &json::set(message.params()?, &error_data(message), "true")?)
}

/// Whether the initializing client requests all data of an error.
pub(super) fn wants_error_data(message: &RpcMessage) -> bool {
    let params = message.params().unwrap_or_default();
    json::get(params, &error_data(message)).is_some_and(|json| json == "true")
}

/// The path of that capability, in the client's version of the protocol.
fn error_data(message: &RpcMessage) -> [&'static str; 4] {
    let params = message.params().unwrap_or_default();
    let version = json::get(params, &["protocolVersion"]);
    let version = version.and_then(|version| serde_json::from_str::<f64>(version).ok());
    let is_v1 = version.is_some_and(|version| version < 2.0);
    let capabilities = if is_v1 { "clientCapabilities" } else { "capabilities" };
    [capabilities, "_meta", "acpx", "errorData"]
}

/// A response or an update that ends a turn, with its error reduced for a client that did not request all data.
pub(super) fn with_error_for_client(message: &RpcMessage) -> Option<String> {
    let params = ["params", "update", "error"];
    let path = if message.error().is_some() { &params[2..] } else { &params[..] };
    let error = json::get(message.line(), path)?;
    let reduced = for_client(RpcError::read(error), false);
    Some(json::replace(message.line(), error, &serde_json::to_string(&reduced).ok()?))
}

/// Whether the initializing client requests event numbers.
pub(super) fn wants_seq(message: &RpcMessage) -> bool {
    let path = ["_meta", "acpx", "seq"];
    let params = message.params().unwrap_or_default();
    json::get(params, &path).is_some_and(|json| json == "true")
}

/// A prompt with this request id, if it has none.
pub(super) fn with_request_id(message: &RpcMessage, request_id: &str) -> Option<String> {
    let params = message.params()?;
    let path = ["_meta", "acpx", "requestId"];
    if json::get(params, &path).is_some_and(|json| json != "null") {
        return None;
    }
    with_params(message, &json::set(params, &path, &encode::json_string(request_id))?)
}

/// The request id of a prompt, if it has one.
pub(super) fn request_id_of(message: &RpcMessage) -> Option<String> {
    let params = message.params()?;
    serde_json::from_str(json::get(params, &["_meta", "acpx", "requestId"])?).ok()
}

/// The same message with another id.
pub(super) fn with_id(message: &RpcMessage, id: &RpcId) -> Option<String> {
    replaced(message, message.id_range()?, id.as_str())
}

/// Whether a version 2 update reports that the session is idle.
pub(super) fn ends_turn(message: &RpcMessage) -> bool {
    let params = message.params().unwrap_or_default();
    let is = |name: &str, value: &str| {
        let path = ["update", name];
        json::get(params, &path).is_some_and(|json| json == value)
    };
    memchr::memmem::find(params.as_bytes(), b"state_update").is_some()
        && is("sessionUpdate", r#""state_update""#)
        && is("state", r#""idle""#)
}

/// Whether a request is answered after a replay of the conversation.
pub(super) fn replays(method: &str, message: &RpcMessage) -> bool {
    let params = message.params().unwrap_or_default();
    let says = |path: &[&str]| json::get(params, path).is_some_and(|json| json != "null");
    let says_from = || says(&["replayFrom"]) || says(&["_meta", "acpx", "replayFrom"]);
    method == "session/load" || method == "session/resume" && says_from()
}

/// The request that a cancellation names.
pub(super) fn withdrawn(message: &RpcMessage) -> Option<RpcId> {
    let params = message.params()?;
    RpcId::from_raw(json::get(params, &["requestId"])?)
}

/// The parts of an update that a bridge reads.
pub(super) struct UpdateHead<'a> {
    message: &'a RpcMessage,
    params: RawObject<'a>,
    pub(super) session: Cow<'a, str>,
    /// Its event number, if it has one.
    pub(super) seq: Option<u64>,
    /// The request id of the prompt it echoes, if it is a version 1 user message chunk.
    pub(super) echoed_request: Option<Cow<'a, str>>,
}

impl<'a> UpdateHead<'a> {
    /// Parses an update.
    pub(super) fn read(message: &'a RpcMessage) -> Option<Self> {
        let params = RawObject::parse(message.params()?)?;
        let session = json::string(params.get_single("sessionId")?)?;
        let acpx = params.get_single("_meta").and_then(|meta| json::get(meta, &["acpx"]));
        let member = |name| acpx.and_then(|acpx| json::get(acpx, &[name]));
        let seq = member("seq").and_then(|seq| serde_json::from_str(seq).ok());
        let is_chunk = || {
            let kind = params.get_single("update").and_then(|update| json::get(update, &["sessionUpdate"]));
            kind == Some(r#""user_message_chunk""#)
        };
        let echoed_request = member("requestId").filter(|_| is_chunk()).and_then(json::string);
        Some(Self { message, params, session, seq, echoed_request })
    }

    /// The update without its event number. A replayed update keeps its time; a live one does not need it.
    pub(super) fn without_seq(&self, is_replay: bool) -> Option<String> {
        let names: &[&str] = if is_replay { &["seq"] } else { &["seq", "at"] };
        let line = self.message.line();
        let mut splice = Splice::new(line);
        for cut in self.params.removal(line, &["_meta", "acpx"], names)? {
            splice.replace(cut, "").ok()?;
        }
        Some(splice.finish())
    }
}

/// The params of a `session/resume` after the client's last event, made from the params that set the session up.
/// Without an event number nothing is replayed.
pub(super) fn resume_params(setup: &str, session: &str, last: Option<u64>, later: bool) -> Option<String> {
    let mut params = json::set(setup, &["sessionId"], &encode::json_string(session))?;
    if json::get(&params, &["replayFrom"]).is_some() {
        params = json::set(&params, &["replayFrom"], "null")?;
    }
    let from = match last {
        Some(last) => Cursor::json_from(Seq(last.saturating_add(1))),
        None => "null".to_owned(),
    };
    params = json::set(&params, &["_meta", "acpx", "replayFrom"], &from)?;
    if later { json::set(&params, &["_meta", "acpx", "later"], "true") } else { Some(params) }
}

fn with_params(message: &RpcMessage, params: &str) -> Option<String> {
    replaced(message, message.params_range()?, params)
}

fn replaced(message: &RpcMessage, range: std::ops::Range<usize>, with: &str) -> Option<String> {
    let mut splice = Splice::new(message.line());
    splice.replace(range, with).ok()?;
    Some(splice.finish())
}
