//! What a client has of a prompt that was accepted: the word that it is part of the conversation, and the end of its turn.
//! Whoever lets go of it leaves the turn running.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::model::{RecordId, RequestId, Seq, Turn, TurnId};

use crate::engine::SessionError;
use crate::engine::session::exit_reason::{ExitReasonCell, gone};

/// A prompt that was accepted: it is on the disk and will be sent.
#[derive(Debug)]
pub struct TurnTicket {
    /// Its turn.
    pub turn: TurnId,
    /// The client's name for it.
    pub request: RequestId,
    pub(crate) inserted: oneshot::Receiver<TurnInsertion>,
    pub(crate) over: oneshot::Receiver<TurnEnd>,
    pub(crate) record: RecordId,
    pub(crate) fate: ExitReasonCell,
}

/// A prompt that is part of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurnInsertion {
    /// The whole answer of an agent of version 2: the result of `session/prompt` as it wrote it.
    pub answer: Option<Arc<str>>,
}

/// A turn that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEnd {
    /// The turn as it is kept.
    pub turn: Turn,
    /// The event that told its end, if that is known.
    pub seq: Option<Seq>,
    /// The agent's whole answer, where it has just given one: the result of `session/prompt` as it wrote it.
    pub answer: Option<Arc<str>>,
    /// What an agent of version 2 said beside that in the state that ended it: a `_meta` object.
    pub meta: Option<Arc<str>>,
    /// How many lines of the agent were too long to be taken meanwhile.
    pub dropped_lines: u64,
}

impl TurnEnd {
    /// The end of a turn as it is kept, with the event that told it.
    pub fn kept(turn: Turn, seq: Option<Seq>) -> Self {
        Self { turn, seq, answer: None, meta: None, dropped_lines: 0 }
    }
}

impl TurnTicket {
    /// Waits until the prompt is part of the conversation: it is on its way to the agent, and one of version 2 has taken
    /// it in. `None` if it never is: it may have failed or been cancelled first.
    pub async fn inserted(&mut self) -> Option<TurnInsertion> {
        (&mut self.inserted).await.ok()
    }

    /// Waits for the turn to end. Not waiting does not end it.
    pub async fn over(self) -> Result<Turn, SessionError> {
        self.end().await.map(|end| end.turn)
    }

    /// Waits likewise, and tells which event was its end and what the agent answered beside what is kept.
    pub async fn end(self) -> Result<TurnEnd, SessionError> {
        self.over.await.map_err(|_| gone(&self.fate, &self.record))
    }
}
