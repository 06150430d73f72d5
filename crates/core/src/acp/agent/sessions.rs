//! The active sessions of a connection, and their turns.
//!
//! A session is active from the reply to new, load, resume or fork until it is closed or deleted. Its prompts start in
//! the order in which they were sent. Each waits for the end of the previous turn or, if the service queues prompts
//! itself, until the previous prompt is queued. A close waits for the turn's [`EndSignal`], which follows the reply.

use std::collections::HashMap;
use std::sync::Arc;

use super::call::{CallExtras, PromptCall};
use super::turn::{CancelCause, CancelSignal, Cancellation, EndGuard, EndSignal};
use crate::model::AcpSessionId;
use crate::sync::Lock;
use crate::wire::json;

/// The active sessions of one connection.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    active: Lock<HashMap<AcpSessionId, Vec<TurnSlot>>>,
}

/// A turn that has not ended, as other requests see it.
#[derive(Debug)]
struct TurnSlot {
    /// The client's id for its prompt, if it gave one.
    name: Option<String>,
    signal: Arc<CancelSignal>,
    inserted: EndSignal,
    ended: EndSignal,
}

/// A turn, from the acceptance of its prompt to its end.
#[derive(Debug)]
pub(super) struct ActiveTurn {
    pub(super) cancellation: Cancellation,
    pub(super) signal: Arc<CancelSignal>,
    /// It starts when this has ended.
    pub(super) before: EndSignal,
    /// Dropped when the prompt is inserted, or queued by the service.
    pub(super) insertion: Option<EndGuard>,
    /// Dropped with the turn, which signals its end.
    _end: EndGuard,
}

impl Sessions {
    pub(super) fn activate(&self, session: &AcpSessionId) {
        self.active.lock().entry(session.clone()).or_default();
    }

    pub(super) fn is_active(&self, session: &AcpSessionId) -> bool {
        self.active.lock().contains_key(session)
    }

    /// Removes the session and cancels its turns; `None` if it was not active.
    pub(super) fn deactivate(&self, session: &AcpSessionId) -> Option<Vec<EndSignal>> {
        let turns = self.active.lock().remove(session)?;
        let stop = |turn: TurnSlot| {
            turn.signal.give(CancelCause::Asked);
            turn.ended
        };
        Some(turns.into_iter().map(stop).collect())
    }

    /// Creates a turn; `None` if the session is not active. It waits for the end of the previous turn, or only until
    /// that turn's prompt is queued if the service queues prompts itself.
    pub(super) fn begin_turn(&self, call: &PromptCall, service_queues: bool) -> Option<ActiveTurn> {
        let mut active = self.active.lock();
        let turns = active.get_mut(&call.session)?;
        turns.retain(|turn| !turn.ended.is_over());
        let last = turns.last().map(|turn| if service_queues { &turn.inserted } else { &turn.ended });
        let before = last.cloned().unwrap_or(EndSignal::already());
        let (signal, cancellation) = CancelSignal::new();
        let signal = Arc::new(signal);
        let (insertion, inserted) = EndSignal::later();
        let (end, ended) = EndSignal::later();
        let name = prompt_name(call.meta.as_deref());
        turns.push(TurnSlot { name, signal: Arc::clone(&signal), inserted, ended });
        Some(ActiveTurn { cancellation, signal, before, insertion: Some(insertion), _end: end })
    }

    /// Whether an inserted prompt of the session has a turn that has not ended.
    pub(super) fn has_work(&self, session: &AcpSessionId) -> bool {
        let works = |turn: &TurnSlot| turn.inserted.is_over() && !turn.ended.is_over();
        self.active.lock().get(session).is_some_and(|turns| turns.iter().any(works))
    }

    /// Cancels the session's turns on this connection, or only the named one. Returns whether the session is active.
    pub(super) fn cancel(&self, session: &AcpSessionId, extras: &CallExtras) -> bool {
        let named = prompt_name(extras.meta.as_deref());
        let mut active = self.active.lock();
        let Some(turns) = active.get_mut(session) else { return false };
        turns.retain(|turn| !turn.ended.is_over());
        for turn in turns.iter().filter(|turn| named.is_none() || turn.name == named) {
            turn.signal.give_with(CancelCause::Asked, extras);
        }
        true
    }

    /// The client disconnected.
    pub(super) fn disconnected(&self) {
        for turn in self.active.lock().values().flatten() {
            turn.signal.give(CancelCause::Disconnected);
        }
    }
}

/// The prompt's id in the `_meta` of a request or of a cancel, if it has one.
fn prompt_name(meta: Option<&str>) -> Option<String> {
    let meta = meta?;
    json::string(json::get(meta, &["acpx", "requestId"])?).map(Into::into)
}
