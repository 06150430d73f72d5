//! Handle to an accepted prompt: reports when it becomes part of the conversation, and the end of its turn. Dropping it
//! leaves the turn running.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::model::{RecordId, RequestId, Seq, Turn, TurnId};

use crate::engine::SessionError;
use crate::engine::session::exit_reason::ExitReasonCell;

/// An accepted prompt: it is persisted and will be sent.
#[derive(Debug)]
pub struct TurnTicket {
    /// Its turn.
    pub turn: TurnId,
    /// The client's request id.
    pub request: RequestId,
    pub(crate) inserted: oneshot::Receiver<TurnInsertion>,
    pub(crate) over: oneshot::Receiver<TurnEnd>,
    pub(crate) record: RecordId,
    pub(crate) exit_reason: ExitReasonCell,
}

/// A prompt that is part of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurnInsertion {
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

impl TurnTicket {
    /// Waits until the prompt is part of the conversation: it is being sent, and a version 2 agent has accepted it.
    /// `None` if it never is, because it failed or was cancelled first.
    pub async fn inserted(&mut self) -> Option<TurnInsertion> {
        (&mut self.inserted).await.ok()
    }

    /// Waits for the turn to end. Dropping this does not end the turn.
    pub async fn over(self) -> Result<Turn, SessionError> {
        self.end().await.map(|end| end.turn)
    }

    /// Waits for the turn to end, and returns the event that ended it and the agent's full result too.
    pub async fn end(self) -> Result<TurnEnd, SessionError> {
        self.over.await.map_err(|_| self.exit_reason.error(&self.record))
    }
}
