//! `_meta` and unknown params of client requests, held in memory until they are forwarded to the agent. They belong to
//! the client that sent them and may be confidential, so they are never stored.

use std::collections::HashMap;

use crate::acp::ExtraParams;
use crate::model::{RequestId, TurnId};

/// The extra params of pending client requests.
#[derive(Debug, Default)]
pub(crate) struct ForwardedParams {
    /// Of prompts that are not accepted yet.
    asked: HashMap<RequestId, ExtraParams>,
    /// Of turns that have not ended.
    open: HashMap<TurnId, ExtraParams>,
    /// Of a cancel, while it is executed.
    pub(crate) cancelling: Option<ExtraParams>,
    /// Of a delete request.
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

    /// The extra params of a turn. They stay until its end, because its prompt may be sent a second time.
    pub(crate) fn of(&self, turn: TurnId) -> Option<&ExtraParams> {
        self.open.get(&turn)
    }

    pub(crate) fn over(&mut self, turn: TurnId) {
        self.open.remove(&turn);
    }
}
