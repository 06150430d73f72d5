//! Notices that acpx adds to the conversation: the agent lost its context, or is back in an earlier session.
//!
//! Version 2 clients, and version 1 clients that support notices, receive a notice update. Any other client receives
//! a message that begins with `[acpx]`, so that its user knows what the agent does not remember.

use serde_json::{Value, json};

use crate::acp::agent::ClientFacts;
use crate::model::{Event, HistoryExtent, RecordId, RestoreError, run_message_id};

/// A notice.
pub(super) struct Notice {
    title: &'static str,
    detail: String,
    meta: Value,
}

impl Notice {
    /// A fresh ACP session took over, perhaps because a restore failed.
    pub(super) fn fresh_session(
        reason: &str,
        carried: Option<HistoryExtent>,
        error: Option<&RestoreError>,
    ) -> Self {
        let history = match carried {
            None => "",
            Some(HistoryExtent::Whole) => ", which receives the conversation with its first prompt",
            Some(HistoryExtent::LastPart) => {
                ", which receives the last part of the conversation with its first prompt"
            }
        };
        let why = error.map(|error| format!(" {error}.")).unwrap_or_default();
        Self {
            title: "The agent does not remember what came before this",
            detail: format!("It goes on in a fresh session ({reason}){history}.{why}"),
            meta: json!({ "acpx": { "reset": reason } }),
        }
    }

    /// The record is back in an earlier ACP session.
    pub(super) fn returned(session: &str) -> Self {
        Self {
            title: "The agent is back in an earlier session",
            detail: format!("It remembers what was said in {session}, and not what was said since."),
            meta: json!({ "acpx": { "returned": session } }),
        }
    }

    /// The update object that shows it.
    pub(super) fn update(&self, client: &ClientFacts, record: &RecordId, event: &Event) -> String {
        let Self { title, detail, meta } = self;
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
}
