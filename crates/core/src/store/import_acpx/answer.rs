//! Parses responses in a journal: those of the agent about turns and sessions, and those to its permission requests.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::direction::JournalRequest;
use crate::model::{AgentSessionId, ErrorCode, PermissionCount, StopReason, TurnError};

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
pub(super) fn created_session(result: &RawValue) -> Option<(String, Option<AgentSessionId>)> {
    #[derive(Deserialize)]
    struct CreatedSession {
        #[serde(rename = "sessionId")]
        session: String,
        #[serde(default, rename = "_meta")]
        meta: serde_json::Value,
    }
    let CreatedSession { session, meta } = serde_json::from_str(result.get()).ok()?;
    let inner = meta.get("agentSessionId").and_then(serde_json::Value::as_str);
    Some((session, inner.and_then(AgentSessionId::from_agent)))
}

/// The failure of a turn, with the known details.
pub(super) fn failure(code: Option<String>, message: Option<String>, acp: Option<Arc<str>>) -> TurnError {
    let code = code.map_or(ErrorCode::Runtime, Into::into);
    let message = message.unwrap_or_else(|| "npm acpx kept no reason".to_owned());
    TurnError { code, message: message.into(), acp }
}

/// Counts an answered permission request. Any response that does not select an allowing option is a rejection.
pub(super) fn count_permission(
    count: &mut PermissionCount,
    request: &JournalRequest,
    result: Option<&RawValue>,
) {
    let sum =
        if is_allowed(request, result).unwrap_or(false) { &mut count.approved } else { &mut count.rejected };
    *sum = sum.saturating_add(1);
}

fn is_allowed(request: &JournalRequest, result: Option<&RawValue>) -> Option<bool> {
    #[derive(Deserialize)]
    struct Question<'a> {
        #[serde(borrow)]
        options: Vec<Choice<'a>>,
    }
    #[derive(Deserialize)]
    struct Choice<'a> {
        #[serde(borrow, rename = "optionId")]
        id: Cow<'a, str>,
        #[serde(borrow)]
        kind: Cow<'a, str>,
    }
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        outcome: Outcome<'a>,
    }
    #[derive(Deserialize)]
    struct Outcome<'a> {
        #[serde(borrow, rename = "optionId")]
        chosen: Cow<'a, str>,
    }
    let question: Question<'_> = serde_json::from_str(request.params.as_deref()?).ok()?;
    let answer: Answer<'_> = serde_json::from_str(result?.get()).ok()?;
    let chosen = question.options.into_iter().find(|choice| choice.id == answer.outcome.chosen)?;
    Some(chosen.kind.starts_with("allow"))
}
