//! Parses an agent's responses about turns and sessions in a journal.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::{AgentSessionId, ErrorCode, StopReason, TurnError};

/// An agent's response to a prompt.
#[derive(Debug)]
pub(super) enum JournalAnswer {
    Stopped { reason: StopReason, usage: Option<Arc<str>> },
    Refused { acp: Arc<str> },
}

impl JournalAnswer {
    pub(super) fn read(result: Option<&RawValue>, error: Option<&RawValue>) -> Option<Self> {
        #[derive(Deserialize)]
        struct Stopped<'a> {
            #[serde(rename = "stopReason")]
            reason: String,
            #[serde(borrow, default)]
            usage: Option<&'a RawValue>,
        }
        if let Some(error) = error {
            return Some(Self::Refused { acp: error.get().into() });
        }
        let stopped: Stopped<'_> = serde_json::from_str(result?.get()).ok()?;
        let usage = stopped.usage.map(|usage| usage.get().into());
        Some(Self::Stopped { reason: StopReason::new(stopped.reason), usage })
    }
}

/// The session that an agent created, and its inner id if the agent sent it.
pub(super) fn made_session(result: &RawValue) -> Option<(String, Option<AgentSessionId>)> {
    #[derive(Deserialize)]
    struct Made {
        #[serde(rename = "sessionId")]
        session: String,
        #[serde(default, rename = "_meta")]
        meta: serde_json::Value,
    }
    let Made { session, meta } = serde_json::from_str(result.get()).ok()?;
    let inner = meta.get("agentSessionId").and_then(serde_json::Value::as_str);
    Some((session, inner.and_then(AgentSessionId::from_agent)))
}

/// The failure of a turn, with the known details.
pub(super) fn failure(code: Option<String>, message: Option<String>, acp: Option<Arc<str>>) -> TurnError {
    let code = code.map_or(ErrorCode::Runtime, Into::into);
    let message = message.unwrap_or_else(|| "npm acpx kept no reason".to_owned());
    TurnError { code, message: message.into(), acp }
}
