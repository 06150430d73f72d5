//! The params and results of `_acpx/queue`, `_acpx/queue/drop` and `_acpx/cancel`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::acp::prompt_words;
use crate::model::{Record, SessionIdentity, Turn, TurnState};

/// How many characters of a prompt are listed.
const TEXT: usize = 200;

/// The params of `_acpx/queue`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueParams {
    /// The record whose queued prompts are listed; absent for all records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Whether the prompts are listed with their content.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub full: bool,
}

/// The result of `_acpx/queue`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueMeta {
    /// The queued prompts, by session and position.
    pub prompts: Vec<QueuedPromptMeta>,
}

/// A queued prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuedPromptMeta {
    /// Its request id, unique within the record.
    pub request_id: String,
    /// Its place in the queue of the session, from 1.
    pub position: usize,
    /// The record.
    #[serde(flatten)]
    pub ids: SessionIdentity,
    /// The session's name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The agent, by its name or its command line.
    pub agent: String,
    /// The session's working directory.
    pub cwd: String,
    /// When it was accepted.
    pub queued_at: String,
    /// The first line of its text, at most 200 characters.
    pub text: String,
    /// Its content blocks, if they were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
}

impl QueuedPromptMeta {
    /// The queued prompts among the open turns of a record.
    pub fn of_record(record: &Record, open: &[Turn]) -> Vec<Self> {
        let queued = open.iter().filter(|turn| turn.state == TurnState::Queued);
        let name = record.scope.as_ref().and_then(|scope| scope.name.as_ref());
        let prompt = |(position, turn): (usize, &Turn)| Self {
            request_id: turn.request.to_string(),
            position,
            ids: record.identity(),
            name: name.map(ToString::to_string),
            agent: record.agent.label().into_owned(),
            cwd: record.cwd.to_string(),
            queued_at: turn.queued_at.to_string(),
            text: first_line(&prompt_words(&turn.prompt)),
            content: None,
        };
        (1..).zip(queued).map(prompt).collect()
    }

    /// Adds its content blocks.
    pub(crate) fn add_content(&mut self, turn: &Turn) {
        self.content = serde_json::from_str(&turn.prompt).ok();
    }
}

fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let shown: String = line.trim().chars().take(TEXT).collect();
    if shown.len() < line.trim().len() || text.trim_end().lines().count() > 1 { shown + "…" } else { shown }
}

/// The params of `_acpx/queue/drop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueDropParams {
    /// The record.
    pub session_id: String,
    /// The request ids of the prompts to drop.
    pub request_ids: Vec<String>,
}

/// The result of `_acpx/queue/drop`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueDropMeta {
    /// The prompts that were queued and are dropped.
    pub dropped: Vec<String>,
}

/// The params of `_acpx/cancel`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnCancelParams {
    /// The record.
    pub session_id: String,
    /// The prompt, running or queued; absent, the running one, or else the first queued one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// The result of `_acpx/cancel`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelledMeta {
    /// Whether there was a turn to cancel.
    pub cancelled: bool,
}
