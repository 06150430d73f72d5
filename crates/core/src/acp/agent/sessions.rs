//! Which sessions are active on a connection, and the turns each one has.
//!
//! A session is active from the answer to new, load or resume until it is closed or deleted. Its prompts come one
//! after the other, in the order they were sent: the next one when the turn before it has ended or, for a service
//! that queues them itself, when that has the prompt before it. Whoever must come after the answer itself (a close)
//! waits for the turn's [`EndSignal`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::call::{CallExtras, PromptCall};
use super::ended::{EndGuard, EndSignal};
use super::turn::{CancelCause, CancelSignal, Cancellation};
use crate::model::AcpSessionId;
use crate::wire::splice::{PathStep, locate, text_of};

/// The active sessions of one connection.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    active: Mutex<HashMap<AcpSessionId, Vec<TurnSlot>>>,
}

/// A turn that has not ended, as others see it.
#[derive(Debug)]
struct TurnSlot {
    /// The client's name for its prompt, if it gave one.
    name: Option<String>,
    signal: Arc<CancelSignal>,
    inserted: EndSignal,
    ended: EndSignal,
}

/// A turn, from the acceptance of its prompt until it is over.
#[derive(Debug)]
pub(super) struct ActiveTurn {
    pub(super) cancellation: Cancellation,
    pub(super) signal: Arc<CancelSignal>,
    /// What it begins after.
    pub(super) before: EndSignal,
    /// Dropped when its prompt is inserted, or queued by a service that does that.
    pub(super) insertion: Option<EndGuard>,
    /// Dropped with the turn, which is how others learn of its end.
    _end: EndGuard,
}

impl Sessions {
    pub(super) fn activate(&self, session: &AcpSessionId) {
        self.active().entry(session.clone()).or_default();
    }

    pub(super) fn is_active(&self, session: &AcpSessionId) -> bool {
        self.active().contains_key(session)
    }

    /// Takes the session out and tells its turns to stop; `None` if it was not active.
    pub(super) fn deactivate(&self, session: &AcpSessionId) -> Option<Vec<EndSignal>> {
        let turns = self.active().remove(session)?;
        let stop = |turn: TurnSlot| {
            turn.signal.give(CancelCause::Asked);
            turn.ended
        };
        Some(turns.into_iter().map(stop).collect())
    }

    /// Begins a turn if the session is active; `None` if it is not. It waits for the turn before it, or only until that one's prompt is
    /// queued if the service queues prompts itself.
    pub(super) fn begin_turn(&self, call: &PromptCall, service_queues: bool) -> Option<ActiveTurn> {
        let mut active = self.active();
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

    /// Whether a prompt of the session is inserted and its turn has not ended.
    pub(super) fn has_work(&self, session: &AcpSessionId) -> bool {
        let works = |turn: &TurnSlot| turn.inserted.is_over() && !turn.ended.is_over();
        self.active().get(session).is_some_and(|turns| turns.iter().any(works))
    }

    /// Tells the session's turns on this connection to stop, or the one that the client names; whether it is active.
    pub(super) fn cancel(&self, session: &AcpSessionId, aside: &CallExtras) -> bool {
        let named = prompt_name(aside.meta.as_deref());
        let mut active = self.active();
        let Some(turns) = active.get_mut(session) else { return false };
        turns.retain(|turn| !turn.ended.is_over());
        for turn in turns.iter().filter(|turn| named.is_none() || turn.name == named) {
            turn.signal.give_with(CancelCause::Asked, aside);
        }
        true
    }

    /// The client is gone.
    pub(super) fn disconnected(&self) {
        for turn in self.active().values().flatten() {
            turn.signal.give(CancelCause::Disconnected);
        }
    }

    fn active(&self) -> MutexGuard<'_, HashMap<AcpSessionId, Vec<TurnSlot>>> {
        // Nothing panics while it holds the lock, and every step leaves the map whole.
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of a prompt in the `_meta` of a request or of a cancel, if it has one.
fn prompt_name(meta: Option<&str>) -> Option<String> {
    let meta = meta?;
    let range = locate(meta, &["acpx", "requestId"].map(PathStep::Key))?;
    text_of(&meta[range]).map(Into::into)
}
