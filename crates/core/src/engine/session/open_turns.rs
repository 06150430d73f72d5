//! The open turns of a session, and cancelling several of them in one step.
//!
//! They are cancelled from the last queued one to the running one, so that no prompt that is to be cancelled is
//! dispatched first. A cancel ends in bounded time, and so does the wait for it.

use std::collections::HashSet;

use tokio::sync::oneshot;

use crate::acp::ExtraParams;
use crate::model::{RequestId, Seq, Turn, TurnId};

use super::commands::SessionCommand;
use super::replies::tell;
use super::task::SessionTask;
use crate::engine::SessionError;
use crate::engine::api::session_handle::Session;
use crate::engine::api::turn_handle::TurnEnd;

/// A running or queued turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenTurnRef {
    /// Its id.
    pub(crate) id: TurnId,
    /// The request id of its prompt.
    pub(crate) request: RequestId,
}

/// A client that waits for turns to end.
pub(crate) struct EndWaiter {
    left: HashSet<TurnId>,
    last: Option<Seq>,
    reply: oneshot::Sender<Option<Seq>>,
}

impl EndWaiter {
    /// Notes the end of a turn. Returns whether the client still waits for others.
    pub(crate) fn note(&mut self, end: &TurnEnd) -> bool {
        if self.left.remove(&end.turn.id) {
            self.last = self.last.max(end.seq);
        }
        !self.left.is_empty()
    }

    /// Replies, once all of them are over.
    pub(crate) fn tell(self) {
        tell(self.reply, self.last);
    }
}

impl Session {
    /// The open turns: the running one first, then the queued ones in order.
    pub(crate) async fn open_turns(&self) -> Result<Vec<OpenTurnRef>, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.ask(SessionCommand::OpenTurns(reply), answer).await
    }

    /// Cancels these turns, with the client's extra params, and waits until they are over. Returns the event of the
    /// last end. No effect on a turn that is already over.
    pub(crate) async fn cancel_turns(
        &self,
        turns: Vec<TurnId>,
        besides: Option<ExtraParams>,
    ) -> Result<Option<Seq>, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.ask(SessionCommand::CancelTurns(turns, besides, reply), answer).await
    }
}

impl SessionTask {
    pub(crate) fn open_turns(&self) -> Vec<OpenTurnRef> {
        let open = |turn: &Turn| OpenTurnRef { id: turn.id, request: turn.request.clone() };
        self.machine.open_turns().map(open).collect()
    }

    pub(crate) fn cancel_turns(
        &mut self,
        turns: &[TurnId],
        besides: Option<&ExtraParams>,
        reply: oneshot::Sender<Option<Seq>>,
    ) {
        let open: Vec<TurnId> =
            self.machine.open_turns().map(|turn| turn.id).filter(|id| turns.contains(id)).collect();
        for id in open.iter().rev() {
            self.cancel(Some(*id), besides.cloned());
        }
        let waiter = EndWaiter { left: open.into_iter().collect(), last: None, reply };
        if waiter.left.is_empty() { waiter.tell() } else { self.waiters.ends.push(waiter) }
    }
}
