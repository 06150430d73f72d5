//! A prompt as a client sends it, and the handle to its turn.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::sync::oneshot;

use crate::acp::ExtraParams;
use crate::engine::api::error::ExitReasonCell;
use crate::engine::{PromptProblem, RestoreSession, SessionError};
use crate::model::{ClientName, PermissionPolicy, RecordId, RequestId, Seq, Turn, TurnId, TurnLimits};

/// Content for the agent, with the permissions and limits of its turn.
#[derive(Debug, Clone)]
pub struct Prompt {
    pub(crate) blocks: Arc<str>,
    pub(crate) policy: PermissionPolicy,
    pub(crate) request: RequestId,
    pub(crate) restore: RestoreSession,
    pub(crate) client: Option<ClientName>,
    pub(crate) extra_params: Option<ExtraParams>,
    pub(crate) limits: TurnLimits,
    /// How much of the turn's time limit had passed when the prompt arrived.
    pub(crate) spent: Duration,
}

/// The members that every content block has.
#[derive(Deserialize)]
struct BlockHead {
    #[serde(rename = "type")]
    _kind: String,
}

impl Prompt {
    /// A prompt of plain text.
    pub fn text(text: &str) -> Result<Self, PromptProblem> {
        if text.trim().is_empty() {
            return Err(PromptProblem::Empty);
        }
        Self::blocks(json!([{"type": "text", "text": text}]).to_string())
    }

    /// A prompt of content blocks: a JSON array, sent as it is.
    pub fn blocks(json: impl Into<Arc<str>>) -> Result<Self, PromptProblem> {
        let blocks = json.into();
        let list: Vec<BlockHead> = serde_json::from_str(&blocks).map_err(|_| PromptProblem::NoBlocks)?;
        if list.is_empty() {
            return Err(PromptProblem::Empty);
        }
        let request = RequestId::new(crate::wire::new_uuid().to_string()).expect("a UUID is not empty");
        let (policy, restore) = (PermissionPolicy::default(), RestoreSession::unchanged());
        let (limits, spent) = (TurnLimits::default(), Duration::ZERO);
        Ok(Self { blocks, policy, request, restore, client: None, extra_params: None, limits, spent })
    }

    /// Sets how long the turn may take.
    #[must_use]
    pub fn with_limits(mut self, limits: TurnLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how much of the turn's time limit the client had spent before its request. The limit is stored as it was
    /// given, and this is not: a prompt that was queued when its host died has its full time from its acceptance.
    #[must_use]
    pub fn after(mut self, spent: Duration) -> Self {
        self.spent = spent;
        self
    }

    /// Sets the permission policy.
    #[must_use]
    pub fn with_policy(mut self, policy: impl Into<PermissionPolicy>) -> Self {
        self.policy = policy.into();
        self
    }

    /// Sets how the session is restored and its agent started, if this prompt makes it start.
    #[must_use]
    pub fn with_restore(mut self, restore: RestoreSession) -> Self {
        self.restore = restore;
        self
    }

    /// Sets the client's name, for other clients of the session.
    #[must_use]
    pub(crate) fn with_client(mut self, client: Option<ClientName>) -> Self {
        self.client = client;
        self
    }

    /// Its request id.
    pub fn request(&self) -> &RequestId {
        &self.request
    }

    /// Sets the client's extra params, which are forwarded unchanged. They live in memory: a prompt that was queued
    /// when its host died is sent without them.
    #[must_use]
    pub fn with_extra_params(mut self, extra_params: Option<ExtraParams>) -> Self {
        self.extra_params = extra_params;
        self
    }

    /// Sets a request id chosen by the client.
    #[must_use]
    pub fn with_request(mut self, request: RequestId) -> Self {
        self.request = request;
        self
    }
}

/// An accepted prompt: it is persisted and will be sent.
#[derive(Debug)]
pub struct TurnHandle {
    /// Its turn.
    pub turn: TurnId,
    /// The client's request id.
    pub request: RequestId,
    pub(crate) inserted: oneshot::Receiver<TurnInsertion>,
    pub(crate) ended: oneshot::Receiver<TurnEnd>,
    pub(crate) record: RecordId,
    pub(crate) exit_reason: ExitReasonCell,
}

/// A prompt that is part of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct TurnInsertion {
    /// The full result of `session/prompt` of a version 2 agent, unchanged.
    pub answer: Option<Arc<str>>,
}

/// A turn that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEnd {
    /// The stored turn.
    pub turn: Turn,
    /// The event that ended it, if it is known.
    pub seq: Option<Seq>,
    /// The agent's full result of `session/prompt`, unchanged, if the agent just returned one.
    pub answer: Option<Arc<str>>,
    /// The `_meta` object of the state update by which a version 2 agent ended the turn.
    pub meta: Option<Arc<str>>,
    /// How many lines of the agent were dropped during the turn because they were too long.
    pub dropped_lines: u64,
}

impl TurnEnd {
    /// The end of a stored turn, with the event that ended it.
    pub fn kept(turn: Turn, seq: Option<Seq>) -> Self {
        Self { turn, seq, answer: None, meta: None, dropped_lines: 0 }
    }
}

impl TurnHandle {
    /// Waits until the prompt is part of the conversation: it is being sent, and a version 2 agent has accepted it.
    /// `None` if it never is, because it failed or was cancelled first.
    pub(crate) async fn inserted(&mut self) -> Option<TurnInsertion> {
        (&mut self.inserted).await.ok()
    }

    /// Waits for the turn to end. Dropping this does not end the turn.
    pub async fn finished(self) -> Result<Turn, SessionError> {
        self.end().await.map(|end| end.turn)
    }

    /// Waits for the turn to end, and returns the event that ended it and the agent's full result too.
    pub async fn end(self) -> Result<TurnEnd, SessionError> {
        self.ended.await.map_err(|_| self.exit_reason.error(&self.record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_that_is_no_list_of_blocks_is_refused() {
        assert_eq!(Prompt::text(" \n").unwrap_err(), PromptProblem::Empty);
        assert_eq!(Prompt::blocks("[]").unwrap_err(), PromptProblem::Empty);
        for text in ["", "{}", "\"hello\"", "[1,", "[1]", "[{}]", r#"[{"type":1}]"#] {
            assert_eq!(Prompt::blocks(text).unwrap_err(), PromptProblem::NoBlocks, "{text}");
        }
    }

    #[test]
    fn prompt_blocks_are_sent_unchanged() {
        let text = r#"[{"type":"text" ,"text":"a","_meta":{"x":1e3}}]"#;
        assert_eq!(&*Prompt::blocks(text).unwrap().blocks, text);
    }
}
