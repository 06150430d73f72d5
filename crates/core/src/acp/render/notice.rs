//! What we ourselves tell the person at a client, in the conversation: that the agent has forgotten what came before.
//!
//! Version 2 has a word for it, and so have clients of version 1 that show notices. To any other it is a message of
//! its own, which says that it is ours, so that nobody goes on as if the agent remembered.

use serde_json::json;

use crate::acp::agent::ClientFacts;
use crate::model::{Carried, Event, RecordId, run_message_id};

/// The update object that tells that a fresh ACP session took over.
pub(super) fn fresh_session(
    client: &ClientFacts,
    record: &RecordId,
    event: &Event,
    reason: &str,
    carried: Option<Carried>,
) -> String {
    let title = "The agent does not remember what came before this";
    let told = match carried {
        None => "",
        Some(Carried::Whole) => ", which is told what was said with its first prompt",
        Some(Carried::LastPart) => ", which is told the last part of what was said with its first prompt",
    };
    let detail = format!("It goes on in a fresh session ({reason}){told}.");
    let meta = json!({ "acpx": { "reset": reason } });
    let update = if client.notices {
        let what = "notice";
        json!({ "sessionUpdate": what, "severity": "warning", "title": title, "description": detail, "_meta": meta })
    } else {
        let content = json!({ "type": "text", "text": format!("[acpx] {title}. {detail}") });
        let message = run_message_id(record, event.seq);
        let what = "agent_message_chunk";
        json!({ "sessionUpdate": what, "messageId": message, "content": content, "_meta": meta })
    };
    update.to_string()
}
