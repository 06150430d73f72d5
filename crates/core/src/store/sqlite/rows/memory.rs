//! What a record's agent remembers as one column holds it: a JSON object, and null where it remembers all.

use serde::{Deserialize, Serialize};

use crate::model::{LineageReason, Memory, Seq};

#[derive(Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "kebab-case", deny_unknown_fields)]
enum Stored {
    Fresh {
        from: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    Compacted,
    Shorter,
    Different,
}

/// A memory as its column holds it.
pub(in super::super) fn memory_text(memory: Memory) -> Option<String> {
    let stored = match memory {
        Memory::Whole => return None,
        Memory::Since { from, reason } => {
            Stored::Fresh { from: from.0, reason: reason.map(|reason| reason.as_str().to_owned()) }
        }
        Memory::Compacted => Stored::Compacted,
        Memory::Part => Stored::Shorter,
        Memory::Another => Stored::Different,
    };
    Some(serde_json::to_string(&stored).expect("numbers and texts can be written"))
}

/// The memory that a column holds.
pub(super) fn memory(text: &str) -> Option<Memory> {
    Some(match serde_json::from_str(text).ok()? {
        Stored::Fresh { from, reason } => {
            let reason = match reason {
                Some(reason) => Some(LineageReason::parse(&reason)?),
                None => None,
            };
            Memory::Since { from: Seq(from), reason }
        }
        Stored::Compacted => Memory::Compacted,
        Stored::Shorter => Memory::Part,
        Stored::Different => Memory::Another,
    })
}
