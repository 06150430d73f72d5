//! What is known of a session beside its turns: what it has used, and what its agent remembers of it.

use std::io::{self, Write};

use acpx_core::host::meta::MemoryMeta;
use acpx_core::model::{Memory, Record, SessionUsage};
use serde::Serialize;

use super::clean::line;

/// The same as programs get it, where there is anything to say.
#[derive(Debug, Serialize)]
pub(super) struct RememberedObject {
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<SessionUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryMeta>,
}

impl RememberedObject {
    pub(super) fn of(record: &Record, usage: Option<&SessionUsage>) -> Self {
        Self { usage: usage.cloned(), memory: MemoryMeta::of(record.memory) }
    }
}

/// The line with what a session has used.
pub(super) fn usage(usage: &SessionUsage, out: &mut dyn Write) -> io::Result<()> {
    let SessionUsage { used, size, cost } = usage;
    let cost = cost.as_ref().map(|cost| format!(", {} {}", cost.amount, cost.currency)).unwrap_or_default();
    line(out, format_args!("context: {used} of {size} tokens{cost}"))
}

/// What an agent remembers of a conversation, in words, where that is less than all of it.
pub(crate) fn memory_words(memory: Memory) -> Option<String> {
    Some(match memory {
        Memory::Whole => return None,
        Memory::Since { from, reason } => {
            let why = reason.map_or_else(String::new, |reason| format!(" ({})", reason.as_str()));
            format!("the agent began afresh{why} and knows nothing that came before event {from}")
        }
        Memory::Compacted => {
            "the agent made its memory shorter: it has a summary of what came before".to_owned()
        }
        Memory::Part => "the agent remembers only part of the conversation".to_owned(),
        Memory::Another => "the agent remembers another conversation than the one that is kept".to_owned(),
    })
}
