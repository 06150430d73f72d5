//! An agent's memory as a column: a JSON object, or null where the agent remembers everything.

use serde::{Deserialize, Serialize};

use crate::model::{AgentMemory, LineageReason, Seq};

#[derive(Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "kebab-case", deny_unknown_fields)]
enum MemoryColumn {
    Fresh {
        from: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    Compacted,
    Shorter,
    Different,
}

/// A memory as a column value.
pub(in super::super) fn memory_text(memory: AgentMemory) -> Option<String> {
    let stored = match memory {
        AgentMemory::Whole => return None,
        AgentMemory::Since { from, reason } => {
            MemoryColumn::Fresh { from: from.0, reason: reason.map(|reason| reason.as_str().to_owned()) }
        }
        AgentMemory::Compacted => MemoryColumn::Compacted,
        AgentMemory::Part => MemoryColumn::Shorter,
        AgentMemory::Another => MemoryColumn::Different,
    };
    Some(serde_json::to_string(&stored).expect("numbers and texts can be written"))
}

/// The memory in a column.
pub(super) fn memory(text: &str) -> Option<AgentMemory> {
    Some(match serde_json::from_str(text).ok()? {
        MemoryColumn::Fresh { from, reason } => {
            let reason = match reason {
                Some(reason) => Some(LineageReason::parse(&reason)?),
                None => None,
            };
            AgentMemory::Since { from: Seq(from), reason }
        }
        MemoryColumn::Compacted => AgentMemory::Compacted,
        MemoryColumn::Shorter => AgentMemory::Part,
        MemoryColumn::Different => AgentMemory::Another,
    })
}
