//! An agent that is a host of ours, on another machine: what it says beside the protocol.
//!
//! It numbers what it tells, so whoever has lost it goes on after the last number that is kept, and it knows prompts by
//! the names that they were given, so whoever comes back knows which are its own.

use crate::model::{Direction, Event, EventKind, RecordId};
use crate::wire::RpcMessage;
use crate::wire::splice::{PathStep, locate, text_of};

/// The notification by which a host tells a client of version 1 of turns that are not the client's. Its params are those
/// of a `session/update` of version 2.
pub(crate) const STATE: &str = "_acpx/state";

/// The notifications by which whoever passes lines between a host and an agent on another machine says that the way there
/// is gone, and is looked for, and that it is there again.
pub(crate) const AWAY: &str = "_acpx/away";
pub(crate) const BACK: &str = "_acpx/back";

/// Whether the answer to `initialize` is that of a host of ours.
pub(crate) fn is_host(answer: &str) -> bool {
    locate(answer, &["_meta", "acpx", "protocol"].map(PathStep::Key)).is_some()
}

/// The number of the last event that an answer tells of. The answer to a turn that failed tells it too.
pub(crate) fn seq_of_answer(answer: &RpcMessage) -> Option<u64> {
    let (told, path): (_, &[PathStep<'_>]) = match (answer.result(), answer.error()) {
        (Some(result), _) => (result, &["_meta", "acpx", "seq"].map(PathStep::Key)),
        (None, error) => (error?, &["data", "acpx", "turn", "seq"].map(PathStep::Key)),
    };
    serde_json::from_str(&told[locate(told, path)?]).ok()
}

/// The number of the last event that a kept line tells of.
pub(crate) fn seq_of(event: &Event) -> Option<u64> {
    if event.direction != Direction::FromAgent
        || memchr::memmem::find(event.body.as_bytes(), b"seq").is_none()
    {
        return None;
    }
    let message = RpcMessage::parse(event.body.clone()).ok()?;
    match event.kind {
        // One of another session is kept as a notification, and has that one's numbers.
        EventKind::Update => {
            let params = message.params()?;
            let range = locate(params, &["_meta", "acpx", "seq"].map(PathStep::Key))?;
            serde_json::from_str(&params[range]).ok()
        }
        EventKind::Response => seq_of_answer(&message),
        EventKind::Notification | EventKind::Request | EventKind::Fact => None,
    }
}

/// The prompt that params of a notification are about, by its name.
pub(crate) fn prompt_of(params: &str) -> Option<String> {
    let range = locate(params, &["_meta", "acpx", "requestId"].map(PathStep::Key))?;
    text_of(&params[range]).map(Into::into)
}

/// How a host is told the name of a prompt of a record. No other record's prompts have it.
pub(crate) fn name_of(record: &RecordId, request: &str) -> String {
    format!("{record}/{request}")
}

/// The prompt of a record that has this name, if it is one of its.
pub(crate) fn request_of<'n>(record: &RecordId, name: &'n str) -> Option<&'n str> {
    name.strip_prefix(record.as_str())?.strip_prefix('/')
}
