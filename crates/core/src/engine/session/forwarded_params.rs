//! What clients say with prompts, and with the end of a turn or a session, beside that itself, until it is sent. It lives in memory alone: it is of the
//! client that said it, and may hold what nobody else is to keep.

use std::collections::HashMap;

use crate::acp::ExtraParams;
use crate::model::{RequestId, TurnId};

/// What prompts that wait carry for the agent.
#[derive(Debug, Default)]
pub(crate) struct ForwardedParams {
    /// Of prompts that are not accepted yet.
    asked: HashMap<RequestId, ExtraParams>,
    /// Of turns that are not over.
    open: HashMap<TurnId, ExtraParams>,
    /// Of whoever cancels, as long as that is done.
    pub(crate) cancelling: Option<ExtraParams>,
    /// Of whoever deletes the session.
    pub(crate) deleting: Option<ExtraParams>,
}

impl ForwardedParams {
    pub(crate) fn asked(&mut self, request: &RequestId, meta: Option<ExtraParams>) {
        self.asked.extend(meta.map(|meta| (request.clone(), meta)));
    }

    pub(crate) fn accepted(&mut self, request: &RequestId, turn: TurnId) {
        self.open.extend(self.asked.remove(request).map(|meta| (turn, meta)));
    }

    pub(crate) fn refused(&mut self, request: &RequestId) {
        self.asked.remove(request);
    }

    /// What a turn carries. Its prompt may be sent a second time.
    pub(crate) fn of(&self, turn: TurnId) -> Option<&ExtraParams> {
        self.open.get(&turn)
    }

    pub(crate) fn over(&mut self, turn: TurnId) {
        self.open.remove(&turn);
    }
}
