//! What is known of a session apart from its turns: its usage, and what its agent remembers.

use std::io::{self, Write};

use acpx_core::model::{AgentMemory, Record, RestoreError, SessionUsage};
use acpx_core::protocol::meta::MemoryMeta;
use serde::Serialize;

use super::sanitize::line;

/// The same for programs, where there is anything to report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RememberedObject {
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<SessionUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryMeta>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_restore_error: Option<RestoreError>,
}

impl RememberedObject {
    pub(super) fn of(record: &Record, usage: Option<&SessionUsage>) -> Self {
        Self {
            usage: usage.cloned(),
            memory: MemoryMeta::of(record.memory),
            last_restore_error: record.restore_error.clone(),
        }
    }
}

/// The line with a session's usage.
pub(super) fn usage(usage: &SessionUsage, out: &mut dyn Write) -> io::Result<()> {
    let SessionUsage { used, size, cost } = usage;
    let cost = cost.as_ref().map(|cost| format!(", {} {}", cost.amount, cost.currency)).unwrap_or_default();
    line(out, format_args!("context: {used} of {size} tokens{cost}"))
}

/// The line with why the session was not restored, if the last attempt failed.
pub(super) fn restore_error(record: &Record, out: &mut dyn Write) -> io::Result<()> {
    match &record.restore_error {
        Some(error) => line(out, format_args!("lastRestoreError: {error} at {}", error.at)),
        None => Ok(()),
    }
}

/// How much of a conversation an agent remembers, in words, if that is not all of it.
pub(crate) fn memory_words(memory: AgentMemory) -> Option<String> {
    Some(match memory {
        AgentMemory::Whole => return None,
        AgentMemory::Since { from, reason } => {
            let why = reason.map_or_else(String::new, |reason| format!(" ({})", reason.as_str()));
            format!("the agent began afresh{why} and knows nothing that came before event {from}")
        }
        AgentMemory::Compacted => {
            "the agent made its memory shorter: it has a summary of what came before".to_owned()
        }
        AgentMemory::Part => "the agent remembers only part of the conversation".to_owned(),
        AgentMemory::Another => {
            "the agent remembers another conversation than the one that is kept".to_owned()
        }
    })
}
